//! The commands of the client: the arguments and the function of each, one file for what belongs together.
//!
//! From top to bottom: `mod` → the commands → `deployments` (finds the deployment) → `sessions` (finds the session).

pub mod audit;
pub mod secrets;

mod analyze;
mod approvals;
mod claim;
mod deployments;
mod environments;
mod events;
mod login;
mod pipelines;
mod sessions;
mod tokens;

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

use super::api::{Connected, NoArgs};
use super::failure::{Failure, client_help};
use super::output::{Colour, Out};
use super::run::{Args as RunArgs, run as run_command};
use super::watch::watch;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the environments of a pipeline: who has them, since when, who waits
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper envs\n  lockkeeper envs --status unlocked --label size=large\n  \
         lockkeeper envs --pipeline web --json | jq -r '.[].envName'"
    ))]
    Envs(Connected<environments::ListArgs>),
    /// Show one environment: holder, queue, deployments, configuration
    #[command(after_help = client_help!("Examples:\n  lockkeeper env review-1\n  lockkeeper env web/review-1 --json"))]
    Env(Connected<sessions::EnvironmentArgs>),
    /// Take the lock of an environment, now or after waiting in its queue
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
    Deploy(Connected<deployments::DeployArgs>),
    /// Extend a session: its TTL begins from now
    #[command(after_help = client_help!("Examples:\n  lockkeeper extend review-1"))]
    Extend(Connected<sessions::ExtendArgs>),
    /// Release an environment, or leave its queue
    #[command(after_help = client_help!(
        "Exits with 79 if the session had been taken over or had expired before: since then you worked without the lock.\n\n\
         Examples:\n  lockkeeper release review-1\n  lockkeeper release review-1 --anyone"
    ))]
    Release(Connected<sessions::ReleaseArgs>),
    /// Show a session, or all that you have
    #[command(after_help = client_help!(
        "Of one session it exits with 0 if that has the lock, 75 if it waits, 79 if it has ended.\n\n\
         Examples:\n  lockkeeper status\n  lockkeeper status --all\n  lockkeeper status review-1 && echo 'still mine'"
    ))]
    Status(Connected<sessions::StatusArgs>),
    /// Show the sessions that wait for an environment
    #[command(after_help = client_help!("Examples:\n  lockkeeper queue review-1"))]
    Queue(Connected<sessions::EnvironmentArgs>),
    /// Show the past sessions of an environment
    #[command(after_help = client_help!("Examples:\n  lockkeeper history review-1\n  lockkeeper history review-1 --limit 100 --page 2 --json"))]
    History(Connected<environments::HistoryArgs>),
    /// List, create and revoke API tokens
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper tokens\n  lockkeeper tokens create ci --days 90 > token\n  lockkeeper tokens revoke tok_…"
    ))]
    Tokens(Connected<tokens::Args>),
    /// Watch all environments live: who has them, how long still, what is being deployed
    #[command(after_help = client_help!(
        "On a terminal it is a board; `q` or Ctrl-C ends it, the arrow keys scroll. Piped, it prints a line for every \
         environment, and then one for each change; with --json, the environment as a JSON value per line. It shows all \
         pipelines, or the one of --pipeline.\n\n\
         Examples:\n  lockkeeper watch\n  lockkeeper watch --pipeline web\n  \
         lockkeeper watch --json | jq --unbuffered -r 'select(.lockStatus == \"unlocked\") | .envName'"
    ))]
    Watch(Connected<NoArgs>),
    /// Print the log of a deployment; with -f until the deployment ends
    #[command(after_help = client_help!(
        "With -f the exit code is that of the deployment: 0 if it succeeds, 1 if it fails or is cancelled.\n\n\
         Examples:\n  lockkeeper logs review-1\n  lockkeeper logs -f web/review-1\n  \
         lockkeeper logs dep_01a1dcfadc8773e9b7e27794 --stage build --times"
    ))]
    Logs(Connected<deployments::LogsArgs>),
    /// Show why a deployment failed; with --fix, propose a fix as a pull request
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper analyze review-1\n  lockkeeper analyze dep_01a1dcfadc8773e9b7e27794 --fix --draft\n  \
         lockkeeper analyze review-1 --json | jq -r .suggestedFix.patch | git apply"
    ))]
    Analyze(Connected<analyze::Args>),
    /// List the pipelines: their stages, how many environments, whether they are stopped
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper pipelines\n  lockkeeper pipelines --json | jq -r '.[].id'"
    ))]
    Pipelines(Connected<NoArgs>),
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
    /// Approve a waiting stage, so that its deployment continues
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper approve apr_01a1dcfadc8773e9b7e27794 --comment 'looks good'\n  \
         lockkeeper approve shop/staging-1"
    ))]
    Approve(Connected<approvals::ApproveArgs>),
    /// Reject a waiting stage, so that its deployment fails
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
    /// Show the owner of the token: organization, user, role
    #[command(after_help = client_help!("Examples:\n  lockkeeper whoami\n  lockkeeper whoami --json | jq -r .role"))]
    Whoami(Connected<NoArgs>),
    /// Print the script that completes commands and options in a shell
    #[command(after_help = client_help!(
        "Examples:\n  lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper\n  \
         lockkeeper completions zsh > \"${fpath[1]}/_lockkeeper\"\n  \
         lockkeeper completions fish > ~/.config/fish/completions/lockkeeper.fish"
    ))]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write those of all commands into a directory
    #[command(after_help = client_help!("Examples:\n  lockkeeper man | man -l -\n  lockkeeper man ~/.local/share/man/man1"))]
    Man {
        /// Write a page for each command into this directory, created if missing, instead of printing the first page
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

pub async fn run(command: Command, program: clap::Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Envs(command) => command.run(environments::list).await,
        Command::Env(command) => command.run(environments::show).await,
        Command::Claim(command) => command.run(claim::claim).await,
        Command::ForceClaim(command) => command.run(claim::force_claim).await,
        Command::Deploy(command) => command.run(deployments::deploy).await,
        Command::Extend(command) => command.run(sessions::extend).await,
        Command::Release(command) => command.run(sessions::release).await,
        Command::Status(command) => command.run(sessions::status).await,
        Command::Queue(command) => command.run(environments::queue).await,
        Command::History(command) => command.run(environments::history).await,
        Command::Tokens(command) => command.run(tokens::run).await,
        Command::Watch(command) => command.run(async |_, api, out| watch(api, out).await).await,
        Command::Logs(command) => command.run(deployments::logs).await,
        Command::Analyze(command) => command.run(analyze::run).await,
        Command::Pipelines(command) => command.run(async |_, api, out| pipelines::list(api, out).await).await,
        Command::Stop(command) => command.run(pipelines::stop).await,
        Command::Resume(command) => command.run(pipelines::resume).await,
        Command::Approvals(command) => command.run(approvals::list).await,
        Command::Approve(command) => command.run(approvals::approve).await,
        Command::Reject(command) => command.run(approvals::reject).await,
        Command::Events(command) => command.run(events::run).await,
        Command::Secrets(command) => secrets::run(command).await,
        Command::Login(arguments) => login::login(arguments).await.map(done),
        Command::Logout(arguments) => login::logout(arguments).await.map(done),
        Command::Run(command) => command.run(run_command).await,
        Command::Whoami(command) => command.run(async |_, api, out| login::whoami(api, out).await).await,
        Command::Audit(command) => audit::run(command).await,
        Command::Completions { shell } => completions(shell, program).map(done),
        Command::Man { directory } => manual(directory, program).map(done),
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

// Completions and manual pages are generated from the description of the commands, so that they cannot differ from it.

fn completions(shell: Shell, mut program: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(shell, &mut program, name, &mut script);
    Out::new(false, Colour::Never).write(&String::from_utf8_lossy(&script))
}

fn manual(directory: Option<PathBuf>, program: clap::Command) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot write the manual pages: {error}"));
    if let Some(directory) = directory {
        std::fs::create_dir_all(&directory).map_err(failed)?;
        return clap_mangen::generate_to(program, directory).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(program).render(&mut page).map_err(failed)?;
    Out::new(false, Colour::Never).write(&String::from_utf8_lossy(&page))
}
