//! The program without the server: only the commands of the client.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{self, audit, secrets};

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
    command: Command,
}

#[derive(Subcommand)]
// There is a single value, which is read once.
#[allow(clippy::large_enum_variant)]
enum Command {
    #[command(flatten)]
    Plain(commands::Command),
    /// Manage the secrets of deployments: list, set, delete
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Verify the recorded events
    #[command(subcommand)]
    Audit(audit::Command),
}

pub fn run() -> ExitCode {
    // Internal commands.
    if let Some(code) = crate::hidden() {
        return code;
    }
    let command = match crate::eval::parse::<Arguments>().command {
        Command::Plain(command) => command,
        Command::Secrets(command) => commands::Command::Secrets(command),
        Command::Audit(command) => commands::Command::Audit(command),
    };
    crate::run(command, Arguments::command())
}
