//! Owns the command line: every option, its bound, and the checks that come before the first request.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, value_parser};

use crate::server_cpu;
use crate::server_memory;
use crate::target::{Target, TargetError};
use crate::token::{Token, TokenError};

/// The server's bound on identifiers in paths.
const MAX_IDENTIFIER: usize = 63;
/// Leaves room for the number behind the prefix.
const MAX_PREFIX: usize = MAX_IDENTIFIER - 7;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

#[derive(Parser)]
#[command(name = "loadtest", about = "Drives a Lockkeeper over HTTP as a black box and reports what it saw", version)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Compare /healthz, durable claim + release, and reads of an environment, side by side in one run
    Cycle(Options),
    /// Let many wait for one lock and hand it through all of them: memory a waiter, time from release to next grant
    LongQueue(QueueOptions),
}

#[derive(Args)]
#[command(
    after_help = "Each waiter joins the queue when the one before it is seen there, so their order is known and checked, as \
    are the fencing tokens. A hand-over is from sending a release to receiving the next grant; a short queue is run \
    through several times in a row, for at least 1,000 of them. What a waiter takes is told best by the first round on a \
    fresh server: later ones use again what it has kept.\n\
    The token is read from LOCKKEEPER_TOKEN or --token-file; its user must be a maintainer. The server must allow as \
    many connections (http.max_connections; ulimit -n, two for each) and have no rate limit \
    (LOCKKEEPER_RATE_LIMIT=off).\n\
    Exit codes: 0 clean, 1 errors or violations, 2 refused, 130 interrupted.\n\n\
    Example:\n  loadtest long-queue --waiters 10,1000,10000 --rounds 3 --server-pid $(pidof lockkeeper)"
)]
pub struct QueueOptions {
    /// Server to load, http://HOST[:PORT]; loopback only, unless --allow-remote
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    target: String,
    /// Load a server that is not on this machine
    #[arg(long)]
    allow_remote: bool,
    #[arg(long, default_value = "acme")]
    organization: String,
    #[arg(long, default_value = "web")]
    pipeline: String,
    /// The environment to wait for; it is made if missing, and never deleted
    #[arg(long, default_value = "load-queue")]
    environment: String,
    /// Lengths of the queue, one after the other in each round
    #[arg(long, default_value = "10,1000,10000", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=20_000))]
    waiters: Vec<u32>,
    /// Queued sessions behind the waiters: they lengthen the queue without a connection, and leave at the end
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=20_000))]
    queued: u32,
    /// How often the lengths take turns
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Process of the server, to report its memory for each waiter
    #[arg(long)]
    server_pid: Option<u32>,
    /// File that holds the token, instead of LOCKKEEPER_TOKEN
    #[arg(long)]
    token_file: Option<PathBuf>,
}

/// What is to be done with a queue, checked.
#[derive(Debug)]
pub struct QueuePlan {
    pub address: SocketAddr,
    pub authority: String,
    pub organization: String,
    pub pipeline: String,
    pub environment: String,
    pub token: Token,
    pub waiters: Vec<usize>,
    pub queued: usize,
    pub rounds: u32,
    pub server_pid: Option<u32>,
}

impl QueueOptions {
    pub fn into_plan(self) -> Result<QueuePlan, Refusal> {
        identifier("organization", &self.organization, MAX_IDENTIFIER)?;
        identifier("pipeline", &self.pipeline, MAX_IDENTIFIER)?;
        identifier("environment", &self.environment, MAX_IDENTIFIER)?;
        let connections = self.waiters.iter().copied().max().unwrap_or(0);
        enough_files(connections)?;
        let token = Token::read(self.token_file.as_deref())?;
        let target = Target::parse(&self.target)?;
        let address = target.reach(self.allow_remote)?;
        if let Some(pid) = self.server_pid {
            server_memory::read(pid).map_err(|error| Refusal::ServerPid(pid, error))?;
        }
        Ok(QueuePlan {
            address,
            authority: target.authority(),
            organization: self.organization,
            pipeline: self.pipeline,
            environment: self.environment,
            token,
            waiters: self.waiters.into_iter().map(|waiters| waiters as usize).collect(),
            queued: self.queued as usize,
            rounds: self.rounds,
            server_pid: self.server_pid,
        })
    }
}

#[derive(Args)]
#[command(after_help = "The token is read from LOCKKEEPER_TOKEN or --token-file; its user must be a maintainer.\n\
    Exit codes: 0 clean, 1 errors or fencing violations, 2 refused, 130 interrupted but clean.\n\n\
    Example:\n  loadtest cycle --connections 64 --environments 1000 --seconds 10 --rounds 3 --server-pid $(pidof lockkeeper)")]
pub struct Options {
    /// Server to load, http://HOST[:PORT]; loopback only, unless --allow-remote
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    target: String,
    /// Load a server that is not on this machine
    #[arg(long)]
    allow_remote: bool,
    #[arg(long, default_value = "acme")]
    organization: String,
    #[arg(long, default_value = "web")]
    pipeline: String,
    /// Environments are named PREFIX000001 and so on; they are made if missing and never deleted
    #[arg(long, default_value = "load-")]
    prefix: String,
    /// Keep-alive connections, each with one request at a time
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Environments to walk over; at least one for each connection
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    environments: u32,
    /// Length of each workload in each round
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often the three workloads take turns
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Threads that generate load, each with its own share of the connections
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Process of the server, to report its CPU time for each cycle and request
    #[arg(long)]
    server_pid: Option<u32>,
    /// Other clients claim these environments too: a fencing token may skip, but still must rise
    #[arg(long)]
    other_clients: bool,
    /// File that holds the token, instead of LOCKKEEPER_TOKEN
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Write the report as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is to be done, checked.
#[derive(Debug)]
pub struct Plan {
    pub address: SocketAddr,
    pub authority: String,
    pub organization: String,
    pub pipeline: String,
    pub prefix: String,
    pub token: Token,
    pub connections: u32,
    pub environments: u32,
    pub round_length: Duration,
    pub rounds: u32,
    pub threads: u32,
    pub server_pid: Option<u32>,
    pub other_clients: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-', at most {2}, first a letter or digit")]
    Identifier(&'static str, String, usize),
    #[error("{connections} connections need at least as many environments, not {environments}: no two share one")]
    TooFewEnvironments { connections: u32, environments: u32 },
    #[error("{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`")]
    TooFewFiles { connections: u32, limit: u64 },
    #[error("cannot read the CPU time or memory of the server's process {0}: {1}")]
    ServerPid(u32, std::io::Error),
    #[error("cannot write {0}: {1}")]
    Json(PathBuf, std::io::Error),
}

impl Options {
    /// The file for the JSON is opened here, so that a bad path does not come to light after the run.
    pub fn into_plan(self) -> Result<(Arc<Plan>, Option<File>), Refusal> {
        identifier("organization", &self.organization, MAX_IDENTIFIER)?;
        identifier("pipeline", &self.pipeline, MAX_IDENTIFIER)?;
        identifier("prefix", &self.prefix, MAX_PREFIX)?;
        let (connections, environments) = (self.connections, self.environments);
        if environments < connections {
            return Err(Refusal::TooFewEnvironments { connections, environments });
        }
        enough_files(connections)?;
        let token = Token::read(self.token_file.as_deref())?;
        let target = Target::parse(&self.target)?;
        let address = target.reach(self.allow_remote)?;
        if let Some(pid) = self.server_pid {
            server_cpu::read(pid).map_err(|error| Refusal::ServerPid(pid, error))?;
        }
        let json = match self.json {
            Some(path) => Some(File::create(&path).map_err(|error| Refusal::Json(path, error))?),
            None => None,
        };
        let plan = Plan {
            address,
            authority: target.authority(),
            organization: self.organization,
            pipeline: self.pipeline,
            prefix: self.prefix,
            token,
            connections,
            environments,
            round_length: Duration::from_secs(self.seconds),
            rounds: self.rounds,
            threads: self.threads.min(connections),
            server_pid: self.server_pid,
            other_clients: self.other_clients,
        };
        Ok((Arc::new(plan), json))
    }
}

/// What is not an identifier could end the request line and smuggle a second request.
fn identifier(option: &'static str, text: &str, longest: usize) -> Result<(), Refusal> {
    let fits = text.len() <= longest
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(Refusal::Identifier(option, text.to_owned(), longest)) }
}

fn enough_files(connections: u32) -> Result<(), Refusal> {
    match open_file_limit().filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => Err(Refusal::TooFewFiles { connections, limit }),
        None => Ok(()),
    }
}

/// The soft limit; none if it is unlimited or this is not Linux.
fn open_file_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Plan {
        /// For the tests of what works by a plan.
        pub fn sample() -> Self {
            Self {
                address: ([127, 0, 0, 1], 8080).into(),
                authority: "127.0.0.1:8080".to_owned(),
                organization: "acme".to_owned(),
                pipeline: "web".to_owned(),
                prefix: "load-".to_owned(),
                token: Token::parse("lk_x").expect("usable"),
                connections: 1,
                environments: 2,
                round_length: Duration::from_secs(1),
                rounds: 1,
                threads: 1,
                server_pid: None,
                other_clients: false,
            }
        }
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let all = ["loadtest", "cycle"].iter().chain(arguments);
        CommandLine::try_parse_from(all).map(|line| {
            let Command::Cycle(options) = line.command else { panic!("another command") };
            options
        })
    }

    #[test]
    fn every_quantity_is_bounded() {
        for arguments in [
            ["--seconds", "601"],
            ["--connections", "20001"],
            ["--environments", "1000001"],
            ["--rounds", "21"],
            ["--rounds", "0"],
            ["--threads", "65"],
        ] {
            assert!(parse(&arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn fewer_environments_than_connections_are_refused() {
        let options = parse(&["--connections", "10", "--environments", "9"]).expect("within bounds");
        assert!(matches!(options.into_plan(), Err(Refusal::TooFewEnvironments { .. })));
    }

    #[test]
    fn a_name_that_would_break_the_request_line_is_refused() {
        for name in ["", "-a", "a b", "a/b", "a\r\n", "ä"] {
            assert!(identifier("pipeline", name, MAX_IDENTIFIER).is_err(), "{name:?}");
        }
        assert!(identifier("pipeline", "web-2.x_y", MAX_IDENTIFIER).is_ok());
    }
}
