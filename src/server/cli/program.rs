//! The whole program: the server's commands, including `lockkeeper serve`, and those of the client.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand};

use super::check::{Check, Doctor, check, run_doctor};
use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, Failed, audit, backup, cluster, environment, say, secrets, start_logging};
use crate::app::{self, Start};
use crate::config::{self, Flags};
use accounts::auth::TokenText;
use delivery::runner;

#[derive(Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Hands out ephemeral environments to CI fleets: durable locks over HTTP",
    after_help = "Without a command it runs `serve`, with the options above. Exit codes: 0 stopped on request, 1 failed to \
                  start or to continue, 2 invalid usage, 74 disk failure, 75 another node \
                  has taken over, 78 invalid configuration; those of the client's \
                  commands stand in the help of each. SIGHUP never ends it: it reads its files again.\n\n\
                  Examples:\n  lockkeeper\n  lockkeeper --listen localhost:9000\n  \
                  lockkeeper serve --listen 0.0.0.0:8080 --data-dir /var/lib/lockkeeper\n  \
                  lockkeeper check config/acme.toml\n  \
                  LOCKKEEPER_TLS_CERTIFICATE=cert.pem LOCKKEEPER_TLS_KEY=key.pem lockkeeper serve --listen :8443\n  \
                  LOCKKEEPER_BOOTSTRAP_TOKEN=$(lockkeeper token) lockkeeper serve\n  \
                  lockkeeper envs --url https://lockkeeper.example --pipeline web",
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
// The size difference does not matter: there is one value, which is read once.
#[allow(clippy::large_enum_variant)]
enum Command {
    #[command(flatten)]
    Client(client::Command),
    #[command(flatten)]
    Server(ServerCommand),
}

#[derive(Subcommand)]
enum ServerCommand {
    /// Run the server until Ctrl-C or SIGTERM (the default)
    Serve(Serve),
    /// Check a settings file or an organization file, without starting the server
    #[command(after_help = "Exit codes: 0 valid, 1 the data directory cannot be read, 2 invalid usage, 78 faults.\n\n\
                      Examples:\n  lockkeeper check /etc/lockkeeper/settings.toml\n  \
                      lockkeeper check acme.toml --diff --data-dir /var/lib/lockkeeper")]
    Check(Check),
    /// Print the default settings, all keys with comments
    Config,
    /// Print a new token, for LOCKKEEPER_BOOTSTRAP_TOKEN of a server
    Token,
    /// Examine settings, data directory, disk, clock, limits, keys and programs, and say what to do
    #[command(
        after_help = "One line for each thing: ok, a warning, or a fault that keeps the server from starting or from keeping its \
                      promises. Nothing is changed, and it can run beside the server, as the server's user. If there is a \
                      client's configuration (--url, LOCKKEEPER_URL, a profile), it also looks at the connection, the token \
                      and the clock of that server.\n\n\
                      Exit codes: 0 no faults, 1 faults, 2 invalid usage.\n\n\
                      Examples:\n  lockkeeper doctor --config /etc/lockkeeper/settings.toml\n  \
                      lockkeeper doctor --data-dir /var/lib/lockkeeper --json | jq -r '.findings[] | select(.level == \"fault\")'"
    )]
    Doctor(Doctor),
    /// Manage the secrets of deployments, and the keys that encrypt them
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Verify the recorded events
    #[command(subcommand)]
    Audit(audit::Command),
    /// Look after a cluster of several nodes
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Write a backup of a server to a file, also while it runs
    #[command(
        after_help = "The backup has everything but the master key: keep that apart. It is the state at one moment, and the \
                      server works on meanwhile. It is checked while it is written, and gets its name only when it is complete.\n\n\
                      With --data-dir it is taken by the server's user or root, on its machine. Without, it is taken over the API by \
                      an admin, if the server has no other organization.\n\n\
                      Exit codes: 0 done, 1 failed, 2 invalid usage, 69 server out of reach, 77 denied, 78 invalid \
                      configuration.\n\n\
                      Examples:\n  lockkeeper backup /backups/monday --data-dir /var/lib/lockkeeper\n  \
                      lockkeeper backup - --data-dir /var/lib/lockkeeper | zstd > monday.zst\n  \
                      lockkeeper backup monday --url https://lockkeeper.example"
    )]
    Backup(backup::Backup),
    /// Make a data directory of a backup
    #[command(
        after_help = "Stop the server that the backup is of first, and do not start it again. A backup that is damaged, \
                      incomplete or of something else is refused, and nothing is left behind.\n\n\
                      Clients that were given locks after the backup was taken still have their fencing tokens. So that none is \
                      given twice, every environment skips as many tokens as --fencing-margin says.\n\n\
                      Exit codes: 0 done, 1 refused or failed, 2 invalid usage, 74 disk failure.\n\n\
                      Examples:\n  lockkeeper restore /backups/monday --data-dir /var/lib/lockkeeper\n  \
                      zstd -dc monday.zst | lockkeeper restore - --data-dir /var/lib/lockkeeper"
    )]
    Restore(backup::Restore),
}

pub fn run() -> ExitCode {
    if let Some(code) = run_hidden() {
        return code;
    }
    let arguments: Arguments = client::eval::parse();
    match arguments.command.unwrap_or(Command::Server(ServerCommand::Serve(arguments.serve))) {
        Command::Server(ServerCommand::Secrets(secrets::Command::Client(command))) => {
            client::run(client::Command::Secrets(*command), Arguments::command())
        }
        // Before the server's setup below: a command under `lockkeeper run` inherits environment and umask unchanged.
        Command::Client(command) => client::run(command, Arguments::command()),
        Command::Server(ServerCommand::Backup(arguments)) if arguments.is_remote() => backup::run_remote(&arguments),
        Command::Server(command) => run_server(command).unwrap_or_else(Failed::report),
    }
}

/// Internal commands. They must start quickly: each step of a deployment runs them.
fn run_hidden() -> Option<ExitCode> {
    if let Some(code) = client::hidden() {
        return Some(code);
    }
    match std::env::args_os().nth(1) {
        Some(command) if command == runner::SUPERVISE_COMMAND => return Some(runner::supervise()),
        Some(command) if command == runner::CONFINE_COMMAND => return Some(runner::confine()),
        Some(_) | None => {}
    }
    // Also internal: git's ssh runs it as its proxy command.
    let words: Vec<OsString> = std::env::args_os().skip(1).take(4).collect();
    if let [command, host, port] = &words[..]
        && command == outbound::TUNNEL_COMMAND
    {
        return Some(outbound::tunnel(&host.to_string_lossy(), &port.to_string_lossy()));
    }
    None
}

fn run_server(command: ServerCommand) -> Result<ExitCode, Failed> {
    if matches!(&command, ServerCommand::Serve(_)) {
        app::hold_hangups().map_err(|error| Failed::new(EXIT_FAILED, format!("cannot block SIGHUP: {error}")))?;
    }
    let asks_a_server = matches!(&command, ServerCommand::Doctor(_))
        || matches!(&command, ServerCommand::Audit(command) if command.asks_a_server());
    // A client looks for its token, which is a secret too, among the variables of the process.
    let variables = if asks_a_server { Ok(std::env::vars_os().collect()) } else { environment::protect() };
    let exposed = |error| Failed::new(EXIT_FAILED, format!("cannot keep its secrets from other processes: {error}"));
    let variables = variables.map_err(exposed)?;
    // Only the owner may read files of this process and of its git. Steps get the umask that the process was started
    // with.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077)).as_raw_mode();
    match command {
        ServerCommand::Serve(arguments) => serve(arguments, variables, umask),
        ServerCommand::Check(arguments) => check(&arguments),
        ServerCommand::Config => Ok(say(config::DEFAULT_TOML.trim_end())),
        ServerCommand::Token => Ok(say(TokenText::generate().reveal())),
        ServerCommand::Doctor(arguments) => Ok(run_doctor(arguments, variables)),
        ServerCommand::Secrets(command) => secrets::run(command, variables),
        ServerCommand::Audit(command) => audit::run(command, variables),
        ServerCommand::Cluster(command) => cluster::run(command, variables),
        ServerCommand::Backup(arguments) => backup::run(&arguments, variables),
        ServerCommand::Restore(arguments) => backup::restore(&arguments, &variables),
    }
}

#[derive(clap::Args)]
pub struct Serve {
    /// A settings file; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory; created with owner-only permissions if missing; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to listen on, like 127.0.0.1:8080 or localhost:8080; `:8080` and 0.0.0.0:8080 let other machines
    /// connect, over IPv4, [::]:8080 also over IPv6; port 0 picks a free one; also LOCKKEEPER_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Start without the damaged part of the log and everything after it, which is kept aside in the data directory
    #[arg(long)]
    discard_damaged_log: bool,
    /// Start although the master key of the data is lost for good: deletes all secrets and the signing secrets of
    /// webhooks, and seals events with a new key; does nothing while the key is there
    #[arg(long)]
    forget_master_key: bool,
}

fn serve(arguments: Serve, variables: Variables, step_umask: u32) -> Result<ExitCode, Failed> {
    let flags = Flags { config: arguments.config, data_dir: arguments.data_dir, listen: arguments.listen };
    let load = move || config::load_to_serve(&flags, variables.clone());
    let settings = load().map_err(|faults| Failed::new(EXIT_CONFIG, faults))?;
    start_logging(&settings.log)?;
    let Serve { discard_damaged_log, forget_master_key, .. } = arguments;
    app::serve(&settings, Arc::new(load), Start { discard_damaged_log, forget_master_key, step_umask })?;
    Ok(ExitCode::SUCCESS)
}
