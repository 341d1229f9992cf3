//! Owns `loadtest run`: what must be right before the first request, then the run, then its report and exit code.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, value_parser};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::watch;

use crate::cli::{EXIT_CLEAN, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_WRONG, failed, said};
use crate::engine::bench::{Bench, Fault};
use crate::engine::progress::Progress;
use crate::report::{self, model::Run};
use crate::scenario::{self, Scenario, ScenarioError};
use crate::server::process::{self, Launch, Process, ProcessError};
use crate::server::target::{Target, TargetError};
use crate::server::token::{Token, TokenError};
use crate::server::{self, Server};
use crate::wire::request::Place;

/// The server's bound on identifiers in paths.
const MAX_IDENTIFIER: usize = 63;
/// Leaves room for the number behind the prefix.
const MAX_PREFIX: usize = MAX_IDENTIFIER - 7;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

#[derive(Args)]
#[command(
    after_help = "With --server the load test starts that program itself: on a free port of this machine, with a data \
    directory and a token of its own and without rate limit, and stops it at the end. Otherwise it loads the server at \
    --target with the token from LOCKKEEPER_TOKEN or --token-file, whose user must be a maintainer; that server must have \
    no rate limit (LOCKKEEPER_RATE_LIMIT=off) and room for the connections (ulimit -n, two for each).\n\n\
    Ctrl-C ends the load and reports what was seen; a second one quits at once.\n\n\
    Exit codes: 0 clean, 1 a rule was broken or something went wrong, 2 refused before the first request, 130 interrupted \
    but clean.\n\n\
    Examples:\n  \
    loadtest run cycle --server target/release/lockkeeper\n  \
    loadtest run restart --server target/release/lockkeeper --set kills=10 --html restart.html\n  \
    loadtest run hot --target http://127.0.0.1:8080 --server-pid $(pidof lockkeeper) --json hot.json\n  \
    loadtest run readers --server target/release/lockkeeper --set loop=open --set rate=5000\n  \
    loadtest show cycle > mine.toml; loadtest run mine.toml --short --server target/debug/lockkeeper"
)]
pub struct Options {
    /// One of `loadtest scenarios`, or a file like theirs
    #[arg(value_name = "SCENARIO|FILE")]
    scenario: String,
    /// As small as its [short] table says: to see it work, not to measure
    #[arg(long)]
    short: bool,
    /// Change a value of the scenario; as often as needed
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    changes: Vec<(String, String)>,
    /// Keep-alive connections, each with one request at a time
    #[arg(long, value_parser = value_parser!(u32).range(1..=20_000))]
    connections: Option<u32>,
    /// Length of each stretch of load
    #[arg(long, value_parser = value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// How often the phases take turns
    #[arg(long, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Threads that generate load
    #[arg(long, value_parser = value_parser!(u32).range(1..=64))]
    threads: Option<u32>,
    #[command(flatten)]
    against: Against,
    /// Write the report as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show neither progress nor report; the exit code and the files tell
    #[arg(long)]
    quiet: bool,
}

/// Which server, and where in it.
#[derive(Args)]
struct Against {
    /// A lockkeeper program to start and load
    #[arg(long, value_name = "PATH", conflicts_with_all = ["target", "server_pid", "token_file"])]
    server: Option<PathBuf>,
    /// One more argument for that program's `serve`; as often as needed
    #[arg(long, value_name = "ARG", requires = "server", allow_hyphen_values = true)]
    server_arg: Vec<String>,
    /// That server's data, kept afterwards; without it a temporary directory
    #[arg(long, value_name = "DIR", requires = "server")]
    data_dir: Option<PathBuf>,
    /// A running server to load, http://HOST[:PORT]; loopback only, unless --allow-remote
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    target: String,
    /// Load a server that is not on this machine
    #[arg(long)]
    allow_remote: bool,
    /// File that holds the token, instead of LOCKKEEPER_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Process of the running server, to report its CPU time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[arg(long, default_value = "acme")]
    organization: String,
    #[arg(long, default_value = "web")]
    pipeline: String,
    /// Environments are named PREFIX000001 and so on; they are made if missing and never deleted
    #[arg(long, default_value = "load-")]
    prefix: String,
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{0} needs a server of its own: give --server PATH instead of --target")]
    NeedsOwnServer(String),
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-', at most {2}, first a letter or digit")]
    Identifier(&'static str, String, usize),
    #[error("{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`")]
    TooFewFiles { connections: u32, limit: u64 },
    #[error("cannot read the CPU time or memory of the server's process {0}: {1}")]
    ServerPid(u32, std::io::Error),
    #[error("cannot write {0}: {1}")]
    Unwritable(PathBuf, std::io::Error),
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

pub fn run(options: &Options) -> u8 {
    let accepted = accept(options).and_then(|scenario| {
        // Opened now, so that a bad path does not come to light after the run.
        Ok((scenario, opened(options.json.as_deref())?, opened(options.html.as_deref())?))
    });
    let (scenario, json, html) = match accepted {
        Ok(accepted) => accepted,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    let ran = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Refusal::Start)
        .and_then(|runtime| runtime.block_on(perform(options, scenario)));
    let run = match ran {
        Ok(run) => run,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    if !options.quiet {
        said(&report::text(&run));
    }
    for (file, text) in [(json, report::json as fn(&Run) -> String), (html, one_page)] {
        if let Some(Err(error)) = file.map(|mut file| file.write_all(text(&run).as_bytes())) {
            return failed(&format!("cannot write the report: {error}"), EXIT_WRONG);
        }
    }
    exit_code(&run)
}

/// What can be judged without touching a server.
fn accept(options: &Options) -> Result<Scenario, Refusal> {
    let mut changes = options.changes.clone();
    for (key, value) in [
        ("connections", options.connections.map(u64::from)),
        ("seconds", options.seconds),
        ("rounds", options.rounds.map(u64::from)),
        ("threads", options.threads.map(u64::from)),
    ] {
        changes.extend(value.map(|value| (key.to_owned(), value.to_string())));
    }
    let scenario = scenario::load(&options.scenario, options.short, &changes)?;
    if scenario.workload.needs_own_server() && options.against.server.is_none() {
        return Err(Refusal::NeedsOwnServer(scenario.name));
    }
    identifier("organization", &options.against.organization, MAX_IDENTIFIER)?;
    identifier("pipeline", &options.against.pipeline, MAX_IDENTIFIER)?;
    identifier("prefix", &options.against.prefix, MAX_PREFIX)?;
    enough_files(scenario.workload.connections(&scenario.common))?;
    Ok(scenario)
}

async fn perform(options: &Options, scenario: Scenario) -> Result<Run, Refusal> {
    let (server, place) = reach(&options.against, &scenario).await?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(stop_on_interrupt(stop));
    let started_at = jiff::Timestamp::now().to_string();
    let progress = Progress::new(options.quiet);
    let mut bench = match Bench::start(scenario.common, server, place, progress, stopped) {
        Ok(bench) => bench,
        Err(Fault::NoThreads(error)) => return Err(Refusal::Start(error)),
        Err(fault) => return Err(Refusal::Start(std::io::Error::other(fault.to_string()))),
    };
    let fault = scenario.workload.run(&mut bench).await.err();
    Ok(bench.finish(fault, &scenario.name, started_at).await)
}

/// The server, started if it is ours to start.
async fn reach(against: &Against, scenario: &Scenario) -> Result<(Server, Place), Refusal> {
    let (server, token) = match &against.server {
        Some(program) => {
            let token = Token::random();
            let launch = Launch {
                program: program.clone(),
                arguments: against.server_arg.clone(),
                variables: scenario.common.server_variables(),
                data_dir: against.data_dir.clone(),
                token: token.clone(),
            };
            (Server::ours(Process::start(launch).await?), token)
        }
        None => {
            let token = Token::read(against.token_file.as_deref())?;
            let target = Target::parse(&against.target)?;
            let address = target.reach(against.allow_remote)?;
            if let Some(pid) = against.server_pid {
                server::cpu::read(pid).map_err(|error| Refusal::ServerPid(pid, error))?;
            }
            (Server::running_already(address, target.authority(), against.server_pid), token)
        }
    };
    let place = Place {
        authority: server.authority.clone(),
        organization: against.organization.clone(),
        pipeline: against.pipeline.clone(),
        prefix: against.prefix.clone(),
        token,
    };
    Ok((server, place))
}

async fn stop_on_interrupt(stop: watch::Sender<bool>) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    eprintln!("ending early, the report follows; Ctrl-C again quits at once");
    stop.send_replace(true);
    if tokio::signal::ctrl_c().await.is_ok() {
        process::kill_running();
        std::process::exit(EXIT_INTERRUPTED.into());
    }
}

fn exit_code(run: &Run) -> u8 {
    if !run.errors.is_empty() || run.checks.iter().any(|check| check.violation_count > 0) {
        EXIT_WRONG
    } else if run.interrupted {
        EXIT_INTERRUPTED
    } else {
        EXIT_CLEAN
    }
}

fn one_page(run: &Run) -> String {
    report::html(std::slice::from_ref(run))
}

fn opened(path: Option<&std::path::Path>) -> Result<Option<File>, Refusal> {
    let create =
        |path: &std::path::Path| File::create(path).map_err(|error| Refusal::Unwritable(path.to_owned(), error));
    path.map(create).transpose()
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it is of the form KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// What is not an identifier could end the request line and smuggle a second request.
fn identifier(option: &'static str, text: &str, longest: usize) -> Result<(), Refusal> {
    let fits = text.len() <= longest
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(Refusal::Identifier(option, text.to_owned(), longest)) }
}

/// Takes what the system lets us take; a server that we start has the same limit.
fn enough_files(connections: u32) -> Result<(), Refusal> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is not allowed, the limit stays as it is, and is judged next.
    _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => Err(Refusal::TooFewFiles { connections, limit }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_break_the_request_line_is_refused() {
        for name in ["", "-a", "a b", "a/b", "a\r\n", "ä"] {
            assert!(identifier("pipeline", name, MAX_IDENTIFIER).is_err(), "{name:?}");
        }
        assert!(identifier("pipeline", "web-2.x_y", MAX_IDENTIFIER).is_ok());
    }

    #[test]
    fn what_is_refused_before_the_first_request_exits_with_2() {
        for arguments in [
            &["run", "no-such"][..],
            &["run", "cycle", "--set", "colour=red"],
            &["run", "cycle", "--seconds", "0"],
            &["run", "cycle", "--target", "http://192.0.2.1:8080", "--token-file", "/dev/null"],
            &["run", "restart", "--target", "http://127.0.0.1:1"],
            &["run", "cycle", "--server", "/no/such/program"],
            &["run", "cycle", "--json", "/no/such/directory/run.json"],
            &["dance"],
        ] {
            let all = ["loadtest"].iter().chain(arguments);
            assert_eq!(crate::run_with(all), EXIT_REFUSED, "{arguments:?}");
        }
    }

    #[test]
    fn help_and_lists_are_no_failures() {
        for arguments in [&["--help"][..], &["run", "--help"], &["scenarios"], &["show", "cycle"]] {
            assert_eq!(crate::run_with(["loadtest"].iter().chain(arguments)), EXIT_CLEAN, "{arguments:?}");
        }
    }
}
