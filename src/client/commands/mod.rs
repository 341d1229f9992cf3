//! The commands of the client, one file per command or family: its arguments, and `run`.
//!
//! From top to bottom: `mod` → the commands → `session` (finds the session) → `connected`.

pub mod audit;
pub mod claim;
pub mod connected;
pub mod deploy;
pub mod env;
pub mod envs;
pub mod history;
pub mod login;
pub mod pages;
pub mod queue;
pub mod release;
pub mod session;
pub mod status;
pub mod tokens;

// The commands of `delivery`, with `deployment` (which finds the deployment) below.
mod analyze;
mod approvals;
mod delivery;
mod deployment;
mod events;
mod logs;
mod pipelines;
pub mod secrets;

use std::process::ExitCode;

use self::connected::Connected;
use super::failure::{Failure, client_help};
use super::run::{Args as RunArgs, run as run_command};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the environments of a pipeline: who has them, since when, who waits
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper envs\n  lockkeeper envs --status unlocked --label size=large\n  \
         lockkeeper envs --pipeline web --json | jq -r '.[].envName'"
    ))]
    Envs(Connected<envs::Args>),
    /// Show one environment: holder, queue, deployments, configuration
    #[command(after_help = client_help!("Examples:\n  lockkeeper env review-1\n  lockkeeper env web/review-1 --json"))]
    Env(Connected<env::Args>),
    /// Take the lock of an environment, at once or in its turn
    #[command(after_help = client_help!(
        "The session stays when this command has ended: extend it in time, and release it. `lockkeeper run` does both.\n\n\
         Examples:\n  lockkeeper claim review-1 --ttl 900 --context 'PR 412'\n  lockkeeper claim --label size=large --wait 600\n  \
         eval \"$(lockkeeper claim review-1 --shell)\" || exit; make test; lockkeeper release"
    ))]
    Claim(Connected<claim::ClaimArgs>),
    /// Take the lock of an environment from its holder, whose session ends
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper force-claim review-1 --context hotfix --ttl 600"
    ))]
    ForceClaim(Connected<claim::ForceClaimArgs>),
    /// Deploy a commit to an environment that you hold
    #[command(
        override_usage = "lockkeeper deploy [OPTIONS] [ENV] <COMMIT>",
        after_help = client_help!(
            "Exits with 1 if it waited and the deployment failed or was cancelled.\n\n\
             Examples:\n  lockkeeper deploy review-1 c0ffee1\n  lockkeeper deploy review-1 c0ffee1 --wait 600\n  \
             lockkeeper run review-1 -- sh -c 'lockkeeper deploy c0ffee1 --wait && make test'"
        )
    )]
    Deploy(Connected<deploy::Args>),
    /// Extend a session: its TTL begins from now
    #[command(after_help = client_help!("Examples:\n  lockkeeper extend review-1"))]
    Extend(Connected<release::ExtendArgs>),
    /// Release an environment, or leave its queue
    #[command(after_help = client_help!(
        "Exits with 79 if the session had been taken over or had expired before: since then you worked without the lock.\n\n\
         Examples:\n  lockkeeper release review-1\n  lockkeeper release review-1 --anyone"
    ))]
    Release(Connected<release::ReleaseArgs>),
    /// Show a session, or all that you have
    #[command(after_help = client_help!(
        "Of one session it exits with 0 if that has the lock, 75 if it waits, 79 if it has ended.\n\n\
         Examples:\n  lockkeeper status\n  lockkeeper status --all\n  lockkeeper status review-1 && echo 'still mine'"
    ))]
    Status(Connected<status::Args>),
    /// Show who waits for an environment
    #[command(after_help = client_help!("Examples:\n  lockkeeper queue review-1"))]
    Queue(Connected<queue::Args>),
    /// Show who had an environment before
    #[command(after_help = client_help!("Examples:\n  lockkeeper history review-1\n  lockkeeper history review-1 --limit 100 --page 2 --json"))]
    History(Connected<history::Args>),
    /// List, create and revoke API tokens
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper tokens\n  lockkeeper tokens create ci --days 90 > token\n  lockkeeper tokens revoke tok_…"
    ))]
    Tokens(Connected<tokens::Args>),
    #[command(flatten)]
    Delivery(delivery::Command),
    // The whole program extends these two commands, so each program defines them separately.
    #[command(skip)]
    Secrets(secrets::Command),
    #[command(skip)]
    Audit(audit::Command),
    /// Log in to a server: check a token and keep it in a profile
    #[command(after_help = client_help!(
        "The profile file is $XDG_CONFIG_HOME/lockkeeper/profiles.toml, or ~/.config/lockkeeper/profiles.toml, readable by you \
         alone. The profile that you logged in to last is used by all commands that name none.\n\n\
         Examples:\n  lockkeeper login --url https://lockkeeper.example --pipeline web\n  \
         lockkeeper login --profile staging --url https://staging.example --token-stdin < token"
    ))]
    Login(login::Login),
    /// Remove a profile with its token
    #[command(after_help = client_help!("Examples:\n  lockkeeper logout\n  lockkeeper logout --profile staging --revoke"))]
    Logout(login::Logout),
    /// Run a command while holding an environment: claims it, waits for it, keeps it, releases it
    #[command(after_help = client_help!(
        "The exit code is the command's own, 128 and the number of the signal that ended it, or one of those below. If the lock \
         is lost, the command is stopped.\n\nExamples:\n  lockkeeper run review-1 -- make test\n  \
         lockkeeper run --label size=large --wait 600 -- ./load-test.sh\n  \
         lockkeeper run web/review-1 --deploy \"$GIT_COMMIT\" -- sh -c 'curl \"https://$LOCKKEEPER_ENVIRONMENT.example\"'"
    ))]
    Run(Connected<RunArgs>),
    /// Tell whose token this is: organization, user, role
    #[command(after_help = client_help!("Examples:\n  lockkeeper whoami\n  lockkeeper whoami --json | jq -r .role"))]
    Whoami(Connected<login::Whoami>),
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
        Command::Env(command) => command.run(env::run).await,
        Command::Claim(command) => command.run(claim::claim).await,
        Command::ForceClaim(command) => command.run(claim::force_claim).await,
        Command::Deploy(command) => command.run(deploy::run).await,
        Command::Extend(command) => command.run(release::extend).await,
        Command::Release(command) => command.run(release::release).await,
        Command::Status(command) => command.run(status::run).await,
        Command::Queue(command) => command.run(queue::run).await,
        Command::History(command) => command.run(history::run).await,
        Command::Tokens(command) => command.run(tokens::run).await,
        Command::Delivery(command) => delivery::run(command).await,
        Command::Secrets(command) => secrets::run(command).await,
        Command::Login(arguments) => login::login(arguments).await.map(done),
        Command::Logout(arguments) => login::logout(arguments).await.map(done),
        Command::Run(command) => command.run(run_command).await,
        Command::Whoami(command) => command.run(login::whoami).await,
        Command::Audit(command) => audit::run(command).await,
        Command::Completions(arguments) => pages::completions(&arguments, program).map(done),
        Command::Man(arguments) => pages::manual(&arguments, program).map(done),
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
