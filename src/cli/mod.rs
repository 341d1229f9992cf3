//! The command line: commands, help and exit codes.

mod audit;
mod environment;
mod output;
mod secrets;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::environment::Variables;
use self::output::{EXIT_CONFIG, EXIT_FAILED, complain, say};
use crate::auth::TokenText;
use crate::config::{self, Flags};
use crate::{app, outbound, runner, telemetry};

#[derive(Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Hands out ephemeral environments to CI fleets: durable locks over HTTP",
    after_help = "Without a command it runs `serve`, with the options above. Exit codes: 0 stopped on request, 1 failed to \
                  start or to continue, 2 invalid usage, 74 disk failure, 78 invalid configuration.\n\n\
                  Examples:\n  lockkeeper\n  lockkeeper --listen localhost:9000\n  \
                  lockkeeper serve --listen 0.0.0.0:8080 --data-dir /var/lib/lockkeeper\n  \
                  lockkeeper check config/acme.toml\n  \
                  LOCKKEEPER_TLS_CERTIFICATE=cert.pem LOCKKEEPER_TLS_KEY=key.pem lockkeeper serve --listen :8443\n  \
                  LOCKKEEPER_BOOTSTRAP_TOKEN=$(lockkeeper token) lockkeeper serve",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Without a command.
    #[command(flatten)]
    serve: Serve,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server until Ctrl-C or SIGTERM (the default)
    Serve(Serve),
    /// Check a settings file or an organization file, without starting the server
    Check {
        /// The file; files that it names are checked too
        file: PathBuf,
    },
    /// Print the default settings, all keys with comments
    Config,
    /// Print a new token, for LOCKKEEPER_BOOTSTRAP_TOKEN of a server
    Token,
    /// Manage the keys that encrypt secrets
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Verify the recorded events
    #[command(subcommand)]
    Audit(audit::Command),
}

#[derive(clap::Args)]
struct Serve {
    /// A settings file; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory; created with owner-only permissions if missing; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to listen on, like 127.0.0.1:8080 or localhost:8080; `:8080` and 0.0.0.0:8080 let other machines connect,
    /// over IPv4, [::]:8080 also over IPv6; port 0 picks a free one; also LOCKKEEPER_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Start without the damaged part of the log and everything after it, which is kept aside in the data directory
    #[arg(long)]
    discard_damaged_log: bool,
}

pub fn run() -> ExitCode {
    // Not commands for users, and they must start quickly: each step of a deployment runs them.
    match std::env::args_os().nth(1) {
        Some(command) if command == runner::SUPERVISE_COMMAND => return runner::supervise(),
        Some(command) if command == runner::CONFINE_COMMAND => return runner::confine(),
        Some(_) | None => {}
    }
    // Nor this one: git's ssh runs it for its connection.
    let words: Vec<OsString> = std::env::args_os().skip(1).take(4).collect();
    if let [command, host, port] = &words[..]
        && command == outbound::TUNNEL_COMMAND
    {
        return outbound::tunnel(&host.to_string_lossy(), &port.to_string_lossy());
    }
    let variables = match environment::protect() {
        Ok(variables) => variables,
        Err(error) => return complain(EXIT_FAILED, &format!("cannot keep its secrets from other processes: {error}")),
    };
    // Files of this process and of its git are the owner's alone; steps get the mask that the process was started with.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077)).as_raw_mode();
    let arguments = Arguments::parse();
    match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Serve(arguments) => serve(arguments, variables, umask),
        Command::Check { file } => check(&file),
        Command::Config => say(config::DEFAULT_TOML.trim_end()),
        Command::Token => say(TokenText::generate().reveal()),
        Command::Secrets(command) => secrets::run(command, variables),
        Command::Audit(command) => audit::run(command, variables),
    }
}

fn serve(arguments: Serve, variables: Variables, step_umask: u32) -> ExitCode {
    let flags = Flags { config: arguments.config, data_dir: arguments.data_dir, listen: arguments.listen };
    let settings = match config::load_to_serve(&flags, variables) {
        Ok(settings) => settings,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    if let Err(fault) = telemetry::start_logging(&settings.log) {
        return complain(EXIT_CONFIG, &fault);
    }
    match app::serve(settings, arguments.discard_damaged_log, step_umask) {
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
