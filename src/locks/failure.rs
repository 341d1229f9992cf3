//! Why a command has no reply.

use domain::{Rejection, SessionId};
use shares::Refused;
use store::StoreError;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The claim was queued, and its place is given up again: the store does not take that its client knows of it.
    #[error("the place in the queue is given up: {error}")]
    PlaceGivenUp { session: SessionId, error: StoreError },
    #[error("too many commands are waiting for this environment")]
    Overloaded,
    #[error("too many claims are waiting: {0}")]
    Crowded(Refused),
    #[error("{most} claims of this token are waiting already, as many as one token may have")]
    TokenCrowded { most: usize },
    #[error("the environment's actor ended before it answered; it is unknown whether the command took effect")]
    Unavailable,
    #[error("the disk did not confirm the command in time; it is unknown whether it took effect")]
    TimedOut,
    #[error("the server is shutting down and ends all waiting")]
    ShuttingDown,
    #[error("the idempotency key was used before with a different request")]
    KeyReused,
}
