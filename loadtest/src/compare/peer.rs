//! Owns what a comparison is to do, and what every system set side by side must be able to do, so that all of them do the
//! same work.

use std::path::PathBuf;
use std::time::Duration;

use crate::compare::resp::RespError;
use crate::wire::etcd::GrpcError;
use crate::wire::{ExchangeError, Scope, Token};

/// In the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum System {
    Lockkeeper,
    Redis,
    Postgres,
    Etcd,
    // actix-web with nothing behind it: no lock at all, but the limit of a lock over HTTP. No doc comment: the help would
    // show it, and turn from a table into pages.
    Bare,
    // Three nodes on three members, and etcd's own locks on the same members.
    Cluster,
    EtcdCluster,
}

impl System {
    /// In the order of their declaration.
    const TITLES: [(Self, &'static str); 7] = [
        (Self::Lockkeeper, "Lockkeeper"),
        (Self::Redis, "Redis, appendfsync always"),
        (Self::Postgres, "PostgreSQL"),
        (Self::Etcd, "etcd"),
        (Self::Bare, "bare actix-web"),
        (Self::Cluster, "Lockkeeper, three nodes"),
        (Self::EtcdCluster, "etcd, three members"),
    ];
    /// Unless others are asked for.
    pub const USUAL: [Self; 5] = [Self::Lockkeeper, Self::Redis, Self::Postgres, Self::Etcd, Self::Bare];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::TITLES.into_iter().map(|(system, _)| system)
    }

    pub fn title(self) -> &'static str {
        Self::TITLES[self as usize].1
    }

    pub fn locks(self) -> bool {
        self != Self::Bare
    }

    /// Whether it runs on the members of a cluster.
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Self::Cluster | Self::EtcdCluster)
    }
}

/// A running system, as its clients reach it.
pub trait Peer: Clone + Send + Sync + 'static {
    type Client: Client;

    /// A connection of its own for each client, as the jobs of a fleet have it.
    fn connect(&self, number: u32) -> impl Future<Output = Result<Self::Client, Fault>> + Send;
}

/// One client: holds at most one lock at a time.
pub trait Client: Send + 'static {
    /// Returns when the claim is durable or refused.
    fn claim(&mut self, name: u32) -> impl Future<Output = Result<Claim, Fault>> + Send;

    /// Gives back what was claimed last; returns when that is durable.
    fn release(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Waits for its turn in the system's own queue. One that has none says `Busy`, and its caller asks again.
    fn claim_waiting(&mut self, name: u32) -> impl Future<Output = Result<Claim, Fault>> + Send {
        self.claim(name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// With the fencing token, where there is a lock.
    Granted(Option<u64>),
    Busy,
}

/// Ends a client: what was under way may have happened or not.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Http(#[from] ExchangeError),
    #[error("answered {0} {1}")]
    Status(u16, String),
    #[error("the answer has no usable data.sessionId and data.fencingToken")]
    NoGrant,
    #[error(transparent)]
    Redis(#[from] RespError),
    #[error("{}", with_source(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("cannot read the password: {0}")]
    Password(std::io::Error),
    #[error(transparent)]
    Grpc(#[from] GrpcError),
    #[error("a name that nobody else claims was busy")]
    Busy,
    #[error("the lock was no longer ours when it was released")]
    NotHeld,
    #[error("no end within {0} s of the turn's end")]
    Stuck(u64),
}

/// This error keeps what the server said to itself.
fn with_source(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// For those who read.
pub fn counted(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// Of every name, in every system.
pub const PREFIX: &str = "compare-";

/// How a name is called in the peers; in Lockkeeper it is the same, in a path.
pub fn name_of(number: u32) -> String {
    format!("{PREFIX}{number:06}")
}

pub struct Plan {
    /// What is compared, for the report.
    pub target: String,
    pub organization: String,
    pub pipeline: String,
    pub bare: PathBuf,
    pub systems: Vec<System>,
    /// Where the servers keep their data while this runs.
    pub directory: PathBuf,
    pub rounds: u32,
    pub length: Duration,
    pub names: u32,
    pub clients: Vec<u32>,
    pub hot_clients: Vec<u32>,
    pub read_clients: u32,
    pub workers: u32,
    /// Whether it is as long and has as many clients as by default: goals are for that.
    pub is_full: bool,
}

impl Plan {
    pub fn scope(&self, authority: String, token: Token) -> Scope {
        let (organization, pipeline) = (self.organization.clone(), self.pipeline.clone());
        Scope { authority, organization, pipeline, prefix: PREFIX.to_owned(), token }
    }
}
