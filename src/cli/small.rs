//! The program without the server: the commands of the client alone.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::client;

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
    command: client::Command,
}

pub fn run() -> ExitCode {
    // Not commands for users.
    if let Some(code) = client::hidden() {
        return code;
    }
    client::run(Arguments::parse().command, Arguments::command())
}
