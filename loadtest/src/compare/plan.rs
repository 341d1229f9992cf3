//! The options of a comparison: which systems, how many clients, how long; and the names of the locks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};

use crate::server::Against;
use crate::wire::{Scope, Token};

/// The size of a full comparison; goals apply only to this or more.
const ROUNDS: u32 = 3;
const SECONDS: u64 = 3;
const CLIENTS: [u32; 3] = [1, 64, 256];
const HOT_CLIENTS: [u32; 2] = [64, 256];
const READ_CLIENTS: u32 = 64;

/// In display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum System {
    Lockkeeper,
    Redis,
    Postgres,
    Etcd,
    // actix-web without any lock: the upper limit for a lock over HTTP. Not a doc comment, because clap would show it
    // in the help and switch to the long layout.
    Bare,
    // Three nodes on three etcd members, and etcd's own locks on the same members.
    Cluster,
    EtcdCluster,
}

impl System {
    /// The systems compared by default.
    const USUAL: [Self; 5] = [Self::Lockkeeper, Self::Redis, Self::Postgres, Self::Etcd, Self::Bare];

    pub fn title(self) -> &'static str {
        match self {
            Self::Lockkeeper => "Lockkeeper",
            Self::Redis => "Redis, appendfsync always",
            Self::Postgres => "PostgreSQL",
            Self::Etcd => "etcd",
            Self::Bare => "bare actix-web",
            Self::Cluster => "Lockkeeper, three nodes",
            Self::EtcdCluster => "etcd, three members",
        }
    }

    pub fn locks(self) -> bool {
        self != Self::Bare
    }

    /// Whether the system runs on the members of a cluster.
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Self::Cluster | Self::EtcdCluster)
    }
}

#[derive(Args)]
pub struct Plan {
    #[command(flatten)]
    pub against: Against,
    /// The bare actix-web server's program; by default the one beside this program
    #[arg(long, value_name = "PATH")]
    pub bare: Option<PathBuf>,
    /// The systems to compare; Lockkeeper is always included
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::USUAL)]
    pub systems: Vec<System>,
    /// Where the servers keep their data during the run: determines which disk is measured
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How often the systems take turns
    #[arg(long, default_value_t = ROUNDS, value_parser = value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Length of each turn
    #[arg(long, default_value_t = SECONDS, value_parser = value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Number of names to cycle through; at least one for each client
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=100_000))]
    pub names: u32,
    /// Numbers of clients that claim and release separate names
    #[arg(long, value_delimiter = ',', default_values_t = CLIENTS, value_parser = value_parser!(u32).range(1..=1_000))]
    pub clients: Vec<u32>,
    /// Numbers of clients that compete for one hot lock
    #[arg(long, value_delimiter = ',', default_values_t = HOT_CLIENTS, value_parser = value_parser!(u32).range(2..=1_000))]
    pub hot_clients: Vec<u32>,
    /// Number of clients that read
    #[arg(long, default_value_t = READ_CLIENTS, value_parser = value_parser!(u32).range(1..=1_000))]
    pub read_clients: u32,
    /// Worker threads of Lockkeeper and of the bare server; 0 means one per processor
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=256))]
    pub workers: u32,
}

impl Plan {
    /// Sorts and deduplicates systems and numbers of clients, and adds Lockkeeper.
    pub fn ordered(mut self) -> Self {
        self.systems.push(System::Lockkeeper);
        self.systems.sort_unstable();
        self.systems.dedup();
        for numbers in [&mut self.clients, &mut self.hot_clients] {
            numbers.sort_unstable();
            numbers.dedup();
        }
        self
    }

    /// At least as long as the default, and with all its numbers of clients: goals apply only then.
    pub fn is_full(&self) -> bool {
        let has_all = |asked: &[u32], usual: &[u32]| usual.iter().all(|number| asked.contains(number));
        self.rounds >= ROUNDS
            && self.seconds >= SECONDS
            && self.read_clients >= READ_CLIENTS
            && has_all(&self.clients, &CLIENTS)
            && has_all(&self.hot_clients, &HOT_CLIENTS)
    }

    pub fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The maximum number of clients that each have separate names.
    pub fn most_with_own_name(&self) -> u32 {
        self.clients.iter().copied().fold(self.read_clients, u32::max)
    }

    pub fn directory(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    pub fn bare(&self) -> PathBuf {
        let beside_this_program = || std::env::current_exe().unwrap_or_default().with_file_name("bare-actix");
        self.bare.clone().unwrap_or_else(beside_this_program)
    }

    /// The number of clients at which latency and CPU are reported: 64 if it is measured, as it is by default.
    pub fn reference_clients(&self) -> u32 {
        if self.clients.contains(&64) { 64 } else { self.clients.last().copied().unwrap_or(64) }
    }

    pub fn scope(&self, authority: String, token: Token) -> Scope {
        let (organization, pipeline) = (self.against.organization.clone(), self.against.pipeline.clone());
        Scope { authority, organization, pipeline, prefix: PREFIX.to_owned(), token }
    }
}

/// A number of clients, as shown in the report.
pub fn counted(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// The prefix of every name in every system.
const PREFIX: &str = "compare-";

/// The name of a lock in the peers; in Lockkeeper it is part of the path.
pub fn name_of(number: u32) -> String {
    format!("{PREFIX}{number:06}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        plan: Plan,
    }

    fn parse(arguments: &[&str]) -> Result<Plan, clap::Error> {
        let all = std::iter::once("compare").chain(arguments.iter().copied());
        CommandLine::try_parse_from(all).map(|line| line.plan.ordered())
    }

    #[test]
    fn lockkeeper_comes_from_one_place_only() {
        assert!(parse(&["--server", "a", "--target", "http://127.0.0.1:1"]).is_err());
        assert!(parse(&["--server", "a", "--server-pid", "1"]).is_err());
        assert!(parse(&["--target", "http://127.0.0.1:1", "--server-pid", "1"]).is_ok());
    }

    #[test]
    fn only_a_comparison_of_at_least_the_usual_size_is_full() {
        for (arguments, full) in [
            (&[][..], true),
            (&["--rounds", "5", "--seconds", "10", "--clients", "1,8,64,256"], true),
            (&["--rounds", "1"], false),
            (&["--seconds", "1"], false),
            (&["--clients", "64"], false),
            (&["--hot-clients", "256"], false),
            (&["--read-clients", "8"], false),
        ] {
            assert_eq!(parse(arguments).expect("well-formed").is_full(), full, "{arguments:?}");
        }
    }

    #[test]
    fn lockkeeper_is_always_there_and_the_order_is_that_of_the_table() {
        let plan = parse(&["--systems", "bare,redis", "--clients", "64,1,64"]).expect("well-formed");
        assert_eq!(plan.systems, [System::Lockkeeper, System::Redis, System::Bare]);
        assert_eq!(plan.clients, [1, 64]);
    }

    #[test]
    fn latency_and_cpu_are_told_at_64_clients_or_at_the_most() {
        let reference = |clients| parse(&["--clients", clients]).expect("well-formed").reference_clients();
        assert_eq!((reference("1,64,256"), reference("1,8")), (64, 8));
    }
}
