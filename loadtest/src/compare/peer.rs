//! The interface of every compared system, so that all of them do the same work.

use crate::compare::resp::RespError;
use crate::wire::ExchangeError;
use crate::wire::etcd::EtcdError;

pub trait Peer: Clone + Send + Sync + 'static {
    type Client: Client;

    /// Opens one connection per client, like the jobs of a fleet.
    fn connect(&self, number: u32) -> impl Future<Output = Result<Self::Client, Fault>> + Send;
}

/// One client; holds at most one lock at a time.
pub trait Client: Send + 'static {
    /// Returns when the claim is durable or refused.
    fn claim(&mut self, name: u32) -> impl Future<Output = Result<Claim, Fault>> + Send;

    /// Releases the last claimed lock; returns when the release is durable.
    fn release(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Waits in the system's own queue. A system without one returns `Busy`, and the caller retries.
    fn claim_waiting(&mut self, name: u32) -> impl Future<Output = Result<Claim, Fault>> + Send {
        self.claim(name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The fencing token, if the system has one.
    Granted(Option<u64>),
    Busy,
}

/// Why a client ends. A request in flight may or may not have taken effect.
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
    Etcd(#[from] EtcdError),
    #[error("a name that nobody else claims was busy")]
    Busy,
    #[error("the lock was no longer ours when it was released")]
    NotHeld,
    #[error("no end within {0} s of the turn's end")]
    Stuck(u64),
}

/// Adds the server's message, which the error's own text omits.
fn with_source(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
