//! The commands around deployments: pipelines, logs, approvals, events, the board, and analyses of failures.

use std::process::ExitCode;

use super::connected::Connected;
use super::{analyze, approvals, events, logs, pipelines};
use crate::api::Api;
use crate::failure::{Failure, client_help};
use crate::output::Out;
use crate::watch;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Watch all environments live: who has them, how long still, what is being deployed
    #[command(after_help = client_help!(
        "On a terminal it is a board; `q` or Ctrl-C ends it, the arrow keys scroll. Piped, it prints a line for every \
         environment, and then one for each change; with --json, the environment as a JSON value per line. It shows all \
         pipelines, or the one of --pipeline.\n\n\
         Examples:\n  lockkeeper watch\n  lockkeeper watch --pipeline web\n  \
         lockkeeper watch --json | jq --unbuffered -r 'select(.lockStatus == \"unlocked\") | .envName'"
    ))]
    Watch(Connected<WatchArgs>),
    /// Print the log of a deployment; with -f until the deployment ends
    #[command(after_help = client_help!(
        "With -f the exit code is that of the deployment: 0 if it succeeds, 1 if it fails or is cancelled.\n\n\
         Examples:\n  lockkeeper logs review-1\n  lockkeeper logs -f web/review-1\n  \
         lockkeeper logs dep_01a1dcfadc8773e9b7e27794 --stage build --times"
    ))]
    Logs(Connected<logs::Args>),
    /// Tell why a deployment failed; with --fix, propose a fix as a pull request
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper analyze review-1\n  lockkeeper analyze dep_01a1dcfadc8773e9b7e27794 --fix --draft\n  \
         lockkeeper analyze review-1 --json | jq -r .suggestedFix.patch | git apply"
    ))]
    Analyze(Connected<analyze::Args>),
    /// List the pipelines: their stages, how many environments, whether they are stopped
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper pipelines\n  lockkeeper pipelines --json | jq -r '.[].id'"
    ))]
    Pipelines(Connected<pipelines::ListArgs>),
    /// Stop a pipeline: running deployments finish, new ones wait, claims still work
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper stop web --reason 'the database is being moved'"
    ))]
    Stop(Connected<pipelines::StopArgs>),
    /// Let a stopped pipeline deploy again
    #[command(after_help = client_help!("Examples:\n  lockkeeper resume web"))]
    Resume(Connected<pipelines::ResumeArgs>),
    /// List the stages that wait for an approval
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper approvals\n  lockkeeper approvals --status all --pipeline shop"
    ))]
    Approvals(Connected<approvals::ListArgs>),
    /// Approve a stage that waits, so that its deployment goes on
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper approve apr_01a1dcfadc8773e9b7e27794 --comment 'looks good'\n  \
         lockkeeper approve shop/staging-1"
    ))]
    Approve(Connected<approvals::ApproveArgs>),
    /// Reject a stage that waits, so that its deployment fails
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper reject shop/staging-1 --reason 'not before the weekend'"
    ))]
    Reject(Connected<approvals::RejectArgs>),
    /// List what happened, oldest first; with -f, also what happens from now on
    #[command(after_help = client_help!(
        "With -f it connects again after a restart of the server or of the network, and goes on after the last event. With \
         --json the list is the server's, newest first, and -f prints an event per line.\n\n\
         Examples:\n  lockkeeper events --since 2h --type 'session.*'\n  lockkeeper events -f --env web/review-1\n  \
         lockkeeper events -f --json --type deployment.failed"
    ))]
    Events(Connected<events::Args>),
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Watch(command) => command.run(watch).await,
        Command::Logs(command) => command.run(logs::run).await,
        Command::Analyze(command) => command.run(analyze::run).await,
        Command::Pipelines(command) => command.run(pipelines::list).await,
        Command::Stop(command) => command.run(pipelines::stop).await,
        Command::Resume(command) => command.run(pipelines::resume).await,
        Command::Approvals(command) => command.run(approvals::list).await,
        Command::Approve(command) => command.run(approvals::approve).await,
        Command::Reject(command) => command.run(approvals::reject).await,
        Command::Events(command) => command.run(events::run).await,
    }
}

#[derive(clap::Args)]
pub struct WatchArgs {}

async fn watch(_: WatchArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    watch::watch(api, out).await
}
