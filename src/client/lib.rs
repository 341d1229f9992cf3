//! The client: commands that use a server's HTTP API, and never its store. It depends on no code of the server, so that
//! a small program without the server can be built for CI images (`--no-default-features` of `lockkeeper`).
//!
//! From top to bottom: `commands` → `run`, `watch`, `logs` → `acquire`, `feed` → `api`, `eval` → `signals` →
//! `connection` → `retry` → `failure`, `steady`, `arguments` → `holders` → `output`.

pub mod api;
pub mod commands;
pub mod connection;
pub mod eval;
pub mod failure;
pub mod output;
pub mod retry;

mod acquire;
mod arguments;
mod feed;
mod holders;
mod logs;
mod run;
mod signals;
mod steady;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::commands::{audit, secrets};

pub use commands::Command;
pub use failure::Failure;
pub use run::hidden;

/// Runs a command of the client to its end. `program` describes the whole program, for completions and manual pages.
pub fn run(command: Command, program: clap::Command) -> ExitCode {
    // One thread is enough: a command nearly always waits for the network.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::Failed(format!("cannot start: {error}"))),
    };
    match runtime.block_on(eval::run(commands::run(command, program))) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Prints the reason on stderr.
pub fn report(failure: &Failure) -> ExitCode {
    eval::failed();
    if !matches!(failure, Failure::OutputClosed | Failure::Exit(_)) {
        output::note(&format!("lockkeeper: {failure}"));
    }
    ExitCode::from(failure.code())
}

#[derive(Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Claims ephemeral environments from a Lockkeeper server, and deploys to them",
    after_help = "This is the client alone. Examples:\n  lockkeeper login --url https://lockkeeper.example\n  \
                  lockkeeper envs --pipeline web"
)]
struct Arguments {
    #[command(subcommand)]
    command: AloneCommand,
}

#[derive(Subcommand)]
// There is only one value, which is read once.
#[allow(clippy::large_enum_variant)]
enum AloneCommand {
    #[command(flatten)]
    Plain(Command),
    /// Manage the secrets of deployments: list, set, delete
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Verify the recorded events
    #[command(subcommand)]
    Audit(audit::Command),
}

/// The program without the server.
pub fn run_alone() -> ExitCode {
    // Internal commands.
    if let Some(code) = hidden() {
        return code;
    }
    let command = match eval::parse::<Arguments>().command {
        AloneCommand::Plain(command) => command,
        AloneCommand::Secrets(command) => Command::Secrets(command),
        AloneCommand::Audit(command) => Command::Audit(command),
    };
    run(command, Arguments::command())
}
