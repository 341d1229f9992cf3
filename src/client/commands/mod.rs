//! The commands of the client, one file per command or family: its arguments, and `run`.

pub mod connected;
pub mod envs;
pub mod pages;
pub mod whoami;

use std::process::ExitCode;

use self::connected::Connected;
use super::failure::{Failure, client_help};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the environments of a pipeline: who has them, since when, who waits
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper envs\n  lockkeeper envs --status unlocked --label size=large\n  \
         lockkeeper envs --pipeline web --json | jq -r '.[].envName'"
    ))]
    Envs(Connected<envs::Args>),
    /// Tell whose token this is: organization, user, role
    #[command(after_help = client_help!("Examples:\n  lockkeeper whoami\n  lockkeeper whoami --json | jq -r .role"))]
    Whoami(Connected<whoami::Args>),
    /// Print the script that completes commands and options in a shell
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper\n  \
         lockkeeper completions zsh > \"${fpath[1]}/_lockkeeper\"\n  \
         lockkeeper completions fish > ~/.config/fish/completions/lockkeeper.fish"
    ))]
    Completions(pages::Completions),
    /// Print the manual page, or write those of all commands into a directory
    #[command(after_help = client_help!("Examples:\n  lockkeeper man | man -l -\n  lockkeeper man ~/.local/share/man/man1"))]
    Man(pages::Manual),
}

pub async fn run(command: Command, program: clap::Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Envs(command) => command.run(envs::run).await,
        Command::Whoami(command) => command.run(whoami::run).await,
        Command::Completions(arguments) => pages::completions(&arguments, program).map(done),
        Command::Man(arguments) => pages::manual(&arguments, program).map(done),
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
