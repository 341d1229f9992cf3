//! Owns `loadtest run`: the checks before the first request, then the run, then its report.

use std::path::PathBuf;

use clap::{Args, value_parser};

use crate::cli::options::{
    FileOptions, Refusal, cannot_start, end_early, enough_files, has_etcd, refused, reported, runtime, said,
};
use crate::engine::{LoadTest, Progress};
use crate::interruption::Interruption;
use crate::report::Run;
use crate::scenario::Scenario;
use crate::server::{Against, MAX_IDENTIFIER, Server, Source, identifier};
use crate::wire::Scope;
use crate::{report, scenario};

const DEFAULT_TARGET: &str = "http://127.0.0.1:8080";
/// Leaves room for the number after the prefix.
const MAX_PREFIX: usize = MAX_IDENTIFIER - 7;

#[derive(Args)]
#[command(
    after_help = "With --server the load test starts that program itself: on a free port of this machine, with a data \
    directory and a token of its own and without rate limit, and stops it at the end. Otherwise it loads the server at \
    --target (http://127.0.0.1:8080 if not given) with the token from LOCKKEEPER_TOKEN or --token-file, whose user must be a \
    maintainer; that server must have no rate limit (LOCKKEEPER_RATE_LIMIT=off) and room for the connections (ulimit -n).\n\n\
    Ctrl-C ends the load and reports what was seen; a second one quits at once.\n\n\
    Exit codes: 0 clean, 1 a rule was broken or something went wrong, 2 refused before the first request, 130 interrupted \
    but clean.\n\n\
    Examples:\n  \
    loadtest run cycle --server target/dist/lockkeeper\n  \
    loadtest run restart --server target/dist/lockkeeper --set kills=10 --html restart.html\n  \
    loadtest run hot --target http://127.0.0.1:8080 --server-pid $(pidof lockkeeper) --json hot.json\n  \
    loadtest run readers --server target/dist/lockkeeper --set loop=open --set rate=5000\n  \
    loadtest show cycle > mine.toml; loadtest run mine.toml --short --server target/debug/lockkeeper"
)]
pub struct Options {
    /// One of `loadtest scenarios`, or a file of the same form
    #[arg(value_name = "SCENARIO|FILE")]
    scenario: String,
    /// Use the small values in the scenario's [short] table: to see it work, not to measure
    #[arg(long)]
    short: bool,
    /// Change a value of the scenario; may be repeated
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
    /// One more argument for the `serve` of the program at --server; may be repeated
    #[arg(long, value_name = "ARG", requires = "server", allow_hyphen_values = true)]
    server_arg: Vec<String>,
    /// The directory for that server's data, kept afterwards; without it a temporary one
    #[arg(long, value_name = "DIR", requires = "server")]
    data_dir: Option<PathBuf>,
    /// Environments are named PREFIX000001 and so on; missing ones are created, and none is deleted
    #[arg(long, default_value = "load-")]
    prefix: String,
    #[command(flatten)]
    files: FileOptions,
    /// Show neither progress nor report, only the exit code and the files
    #[arg(long)]
    quiet: bool,
}

pub fn run(options: &Options) -> Result<u8, Refusal> {
    let (scenario, source) = accept(options)?;
    let files = options.files.open()?;
    let run = runtime()?.block_on(perform(options, scenario, source))?;
    if !options.quiet {
        said(&report::text(&run));
    }
    Ok(reported(&run, files))
}

/// The checks that need no request.
fn accept(options: &Options) -> Result<(Scenario, Source), Refusal> {
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
    if scenario.workload.needs_own_server() && !options.against.is_ours() {
        let name = scenario.name;
        return refused(format!("{name} needs a server of its own: give --server PATH instead of --target"));
    }
    if scenario.workload.cluster().is_some() {
        has_etcd()?;
    }
    identifier("prefix", &options.prefix, MAX_PREFIX)?;
    enough_files(scenario.workload.connections(&scenario.common))?;
    Ok((scenario, options.against.source(Some(DEFAULT_TARGET))?))
}

async fn perform(options: &Options, scenario: Scenario, mut source: Source) -> Result<Run, Refusal> {
    let interruption = Interruption::new().map_err(cannot_start)?;
    if let Source::Program(launch) = &mut source {
        launch.arguments.clone_from(&options.server_arg);
        launch.data_dir.clone_from(&options.data_dir);
        launch.variables = scenario.common.server_variables();
    }
    let (server, token) = Server::open(source, scenario.workload.cluster()).await?;
    let scope = Scope {
        authority: server.authority.clone(),
        organization: options.against.organization.clone(),
        pipeline: options.against.pipeline.clone(),
        prefix: options.prefix.clone(),
        token,
    };
    let stopped = end_early(interruption, "ending early, the report follows");
    let started_at = report::now();
    let progress = Progress::new(options.quiet);
    let mut test = LoadTest::start(scenario.common, server, scope, progress, stopped).map_err(cannot_start)?;
    let fault = scenario.workload.run(&mut test).await.err();
    Ok(test.finish(fault, &scenario.name, started_at).await)
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it is of the form KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::cli::options::{EXIT_CLEAN, EXIT_REFUSED};

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
