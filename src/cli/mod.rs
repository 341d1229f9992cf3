//! The command line: what the program can be asked to do, its help and its exit codes.

mod audit;
mod secrets;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::auth::TokenText;
use crate::config::{self, Flags};
use crate::{app, runner, telemetry};

/// A fault in what we were told: usage, settings, files. What `sysexits.h` calls EX_CONFIG.
const EXIT_CONFIG: u8 = 78;
/// The server could not start, or stopped for a reason other than being asked to.
const EXIT_FAILED: u8 = 1;

#[derive(Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Hands out ephemeral environments to CI fleets: durable locks over HTTP",
    after_help = "Without a command it serves. Exit codes: 0 stopped as asked, 1 could not start or go on, \
                  2 bad usage, 74 the disk failed, 78 faults in the configuration.\n\n\
                  Examples:\n  lockkeeper\n  lockkeeper serve --listen 0.0.0.0:8080 --data-dir /var/lib/lockkeeper\n  \
                  lockkeeper check config/acme.toml\n  LOCKKEEPER_BOOTSTRAP_TOKEN=$(lockkeeper token) lockkeeper serve"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until Ctrl-C or SIGTERM (the default)
    Serve(Serve),
    /// Check a settings file, or a file that declares an organization, without starting anything
    Check {
        /// The file; those it names are checked too
        file: PathBuf,
    },
    /// Print the default settings, every key with its comment
    Config,
    /// Print a fresh token, to be given to a server as LOCKKEEPER_BOOTSTRAP_TOKEN
    Token,
    /// Look after the keys that secrets are sealed under
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Look into what has been recorded of all that happened
    #[command(subcommand)]
    Audit(audit::Command),
}

#[derive(clap::Args, Default)]
struct Serve {
    /// A settings file; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is stored; made with owner-only rights if it is not there; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to listen on, like 127.0.0.1:8080; port 0 takes a free one; also LOCKKEEPER_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Go on without what is damaged in the log and all that follows it; it is set aside in the data directory
    #[arg(long)]
    discard_damaged_log: bool,
}

pub fn run() -> ExitCode {
    // Not a command for people, and it has to start quickly: each step of a deployment starts one.
    if std::env::args_os().skip(1).eq([runner::SUPERVISE_COMMAND]) {
        return runner::supervise();
    }
    match Arguments::parse().command.unwrap_or_else(|| Command::Serve(Serve::default())) {
        Command::Serve(arguments) => serve(arguments),
        Command::Check { file } => check(&file),
        Command::Config => say(config::DEFAULT_TOML.trim_end()),
        Command::Token => say(TokenText::generate().reveal()),
        Command::Secrets(command) => secrets::run(command),
        Command::Audit(command) => audit::run(command),
    }
}

fn serve(arguments: Serve) -> ExitCode {
    let flags = Flags { config: arguments.config, data_dir: arguments.data_dir, listen: arguments.listen };
    let settings = match config::load(&flags, std::env::vars_os()) {
        Ok(settings) => settings,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    if let Err(fault) = telemetry::start_logging(&settings.log) {
        return complain(EXIT_CONFIG, &fault);
    }
    match app::serve(settings, arguments.discard_damaged_log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

fn check(file: &std::path::Path) -> ExitCode {
    match config::check_file(file) {
        Ok(summary) => say(&summary.to_string()),
        Err(faults) => complain(EXIT_CONFIG, &faults),
    }
}

/// What a command was asked for. Not `println`, which panics where nobody reads on.
fn say(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

fn complain(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    // Not `eprintln`, which panics where stderr is a full disk.
    writeln!(std::io::stderr(), "lockkeeper: {error}").ok();
    ExitCode::from(code)
}
