//! Owns the command line of the comparison, and the checks that come before anything is started.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::compare::disk;
use crate::compare::peer::System;
use crate::server::target::{Target, TargetError};
use crate::server::token::{Token, TokenError};

/// Open files that are not connections: the standard streams, the runtime's own, the report.
const SPARE_FILES: u64 = 100;

#[derive(Args)]
#[command(
    after_help = "Every system does the same work in turn, round by round, so that a ratio is of figures measured side by \
    side: claim and release of an exclusive lock with a fencing token, acknowledged only when durable. Redis, PostgreSQL \
    and etcd are started privately on loopback, if they are installed ('loadtest/peers install' on Debian); those that \
    are not are left out. Fencing tokens and mutual exclusion are checked for all of them.\n\
    Nothing is left behind, also after Ctrl-C.\n\
    Exit codes: 0 measured and clean (whether or not the goals are met), 1 errors or violations, 2 refused, \
    130 interrupted.\n\n\
    Examples:\n  loadtest compare --server target/release/lockkeeper --json compare.json\n  \
    loadtest compare --server target/release/lockkeeper --systems lockkeeper,redis --clients 64 --seconds 10"
)]
pub struct Options {
    /// Lockkeeper's program, to be started for this with a data directory of its own
    #[arg(long, value_name = "PATH", required_unless_present = "target", conflicts_with = "target")]
    server: Option<PathBuf>,
    /// Running Lockkeeper, http://HOST[:PORT], instead of --server; its token is read from LOCKKEEPER_TOKEN or
    /// --token-file. Environments compare-000000 and so on are made in it, and never deleted
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Load a server that is not on this machine
    #[arg(long, conflicts_with = "server")]
    allow_remote: bool,
    /// Process of the server at --target, to report its CPU time
    #[arg(long, conflicts_with = "server")]
    server_pid: Option<u32>,
    /// File that holds the token, instead of LOCKKEEPER_TOKEN
    #[arg(long, conflicts_with = "server", value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[arg(long, default_value = "acme")]
    organization: String,
    #[arg(long, default_value = "web")]
    pipeline: String,
    /// The bare actix-web server's program; by default the one beside this program
    #[arg(long, value_name = "PATH")]
    bare: Option<PathBuf>,
    /// What to set side by side; Lockkeeper is always there
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::ALL)]
    systems: Vec<System>,
    /// Where the servers keep their data while this runs: decides which disk is measured
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How often the systems take turns
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of each turn
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Names to walk over; at least one for each client
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=100_000))]
    names: u32,
    /// Numbers of clients that claim and release names of their own
    #[arg(long, value_delimiter = ',', default_value = "1,64,256", value_parser = value_parser!(u32).range(1..=1_000))]
    clients: Vec<u32>,
    /// Numbers of clients that want one hot lock
    #[arg(long, value_delimiter = ',', default_value = "64,256", value_parser = value_parser!(u32).range(2..=1_000))]
    hot_clients: Vec<u32>,
    /// Number of clients that read
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000))]
    read_clients: u32,
    /// Worker threads of Lockkeeper and of the bare server; 0 is one for each processor
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=256))]
    workers: u32,
    /// Write the report as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is to be done, checked.
pub struct Plan {
    pub lockkeeper: Source,
    /// Path of the environments.
    pub base: String,
    pub bare: PathBuf,
    pub systems: Vec<System>,
    pub directory: PathBuf,
    pub rounds: u32,
    pub length: Duration,
    pub names: u32,
    pub clients: Vec<u32>,
    pub hot_clients: Vec<u32>,
    pub read_clients: u32,
    pub workers: u32,
}

/// Where Lockkeeper comes from.
pub enum Source {
    Program(PathBuf),
    Running { target: Target, allow_remote: bool, token: Token, pid: Option<u32> },
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("there is no program at {0}: {1}")]
    NoProgram(PathBuf, &'static str),
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-'")]
    Identifier(&'static str, String),
    #[error("--names {0} is fewer than the {1} clients, each of which needs one")]
    FewNames(u32, u32),
    #[error("{0} clients need {1} open files, but this process may open {2} (ulimit -n)")]
    FewFiles(u32, u64, u64),
    #[error("{0} is in memory, where nothing is durable: give --dir on a disk")]
    InMemory(PathBuf),
    #[error("cannot use the directory {0}: {1}")]
    Directory(PathBuf, io::Error),
    #[error("cannot write {0}: {1}")]
    Json(PathBuf, io::Error),
}

impl Options {
    /// The JSON file is opened here, so that a path that cannot be written is told before the work and not after it.
    pub fn into_plan(self) -> Result<(Plan, Option<File>), Refusal> {
        identifier("organization", &self.organization)?;
        identifier("pipeline", &self.pipeline)?;
        let most = self.clients.iter().chain(&self.hot_clients).copied().fold(self.read_clients, u32::max);
        let with_own_name = self.clients.iter().copied().fold(self.read_clients, u32::max);
        if self.names < with_own_name {
            return Err(Refusal::FewNames(self.names, with_own_name));
        }
        enough_files(most)?;
        let lockkeeper = match (self.server, self.target) {
            (Some(program), _) => Source::Program(existing(program, "give --server the path of lockkeeper")?),
            (None, target) => Source::Running {
                target: Target::parse(&target.unwrap_or_default())?,
                allow_remote: self.allow_remote,
                token: Token::read(self.token_file.as_deref())?,
                pid: self.server_pid,
            },
        };
        let directory = self.dir.unwrap_or_else(std::env::temp_dir);
        let in_memory = disk::is_in_memory(&directory);
        if in_memory.map_err(|error| Refusal::Directory(directory.clone(), error))? {
            return Err(Refusal::InMemory(directory));
        }
        let json = match self.json {
            Some(path) => Some(File::create(&path).map_err(|error| Refusal::Json(path, error))?),
            None => None,
        };
        let plan = Plan {
            lockkeeper,
            base: format!(
                "/api/v1/organizations/{}/pipelines/{}/ephemeral-environments",
                self.organization, self.pipeline
            ),
            bare: self.bare.unwrap_or_else(beside_this_program),
            systems: with_lockkeeper(self.systems),
            directory,
            rounds: self.rounds,
            length: Duration::from_secs(self.seconds),
            names: self.names,
            clients: in_order(self.clients),
            hot_clients: in_order(self.hot_clients),
            read_clients: self.read_clients,
            workers: self.workers,
        };
        Ok((plan, json))
    }
}

fn beside_this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("bare-actix")
}

fn existing(program: PathBuf, what_to_do: &'static str) -> Result<PathBuf, Refusal> {
    if program.is_file() { Ok(program) } else { Err(Refusal::NoProgram(program, what_to_do)) }
}

fn with_lockkeeper(systems: Vec<System>) -> Vec<System> {
    System::ALL.into_iter().filter(|system| *system == System::Lockkeeper || systems.contains(system)).collect()
}

fn in_order(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn identifier(option: &'static str, text: &str) -> Result<(), Refusal> {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !text.is_empty() && text.bytes().all(usable) {
        return Ok(());
    }
    Err(Refusal::Identifier(option, text.to_owned()))
}

/// Raises the limit on open files as far as this process may.
fn enough_files(clients: u32) -> Result<(), Refusal> {
    let limit = getrlimit(Resource::Nofile);
    // Some systems refuse what they say is allowed; then it stays as it was.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).ok();
    let needed = u64::from(clients) + SPARE_FILES;
    match getrlimit(Resource::Nofile).current {
        Some(allowed) if allowed < needed => Err(Refusal::FewFiles(clients, needed, allowed)),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let all = std::iter::once("compare").chain(arguments.iter().copied());
        CommandLine::try_parse_from(all).map(|line| line.options)
    }

    #[test]
    fn lockkeeper_has_to_come_from_somewhere_and_from_one_place_only() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["--server", "a", "--target", "http://127.0.0.1:1"]).is_err());
        assert!(parse(&["--server", "a", "--server-pid", "1"]).is_err());
        assert!(parse(&["--target", "http://127.0.0.1:1", "--server-pid", "1"]).is_ok());
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_starts() {
        let refused = |arguments: &[&str]| {
            let options = parse(arguments).expect("well-formed");
            options.into_plan().err().expect("refused").to_string()
        };
        assert!(refused(&["--server", "/nowhere/lockkeeper"]).contains("/nowhere/lockkeeper"));
        assert!(refused(&["--server", "/bin/sh", "--names", "10"]).contains("256 clients"));
        assert!(refused(&["--server", "/bin/sh", "--pipeline", "a/b"]).contains("--pipeline"));
        assert!(refused(&["--server", "/bin/sh", "--dir", "/nowhere"]).contains("/nowhere"));
    }

    #[test]
    fn lockkeeper_is_always_there_and_the_order_is_that_of_the_table() {
        assert_eq!(
            with_lockkeeper(vec![System::Bare, System::Redis]),
            [System::Lockkeeper, System::Redis, System::Bare]
        );
        assert_eq!(in_order(vec![64, 1, 64]), [1, 64]);
    }
}
