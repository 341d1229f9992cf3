//! The dependencies of the environments: the clock, pipeline definitions, the executor of stages, and limits; and why a
//! command has no reply.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    DeploymentId, EnvironmentKey, Identifier, Now, PipelineKey, PipelineNow, Rejection, SessionId, StageOrder,
};
use shares::{Capacity, ShareError};
use store::StoreError;

/// Reads both clocks. A function, so that tests can control the time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Looks up a pipeline when a deployment could start. An unknown pipeline is stopped and has no stages.
pub trait Definitions: Send + Sync + 'static {
    fn now(&self, pipeline: &PipelineKey) -> PipelineNow;
}

/// Runs the stages of deployments. Called once the order is durable, in order per environment. Reports back through
/// [`Environments`](super::Environments). Must return quickly: the calling thread sends the answers.
pub trait Executor: Send + Sync + 'static {
    fn run_stage(&self, environment: &EnvironmentKey, order: StageOrder);

    /// Stops everything that a deployment runs; the runner reports the end.
    fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId);

    /// Cleans up processes left by a deployment of an earlier run of the server.
    fn sweep(&self, environment: &EnvironmentKey, deployment: DeploymentId);
}

/// In a cluster: this node, which keeps the output of stages that begin here.
pub trait LogKeeper: Send + Sync + 'static {
    /// The name of this node.
    fn node(&self) -> &str;

    /// Whether logs are uploaded to a store.
    fn uploads(&self) -> bool;

    /// Whether this node still has this part of a log.
    fn has(&self, organization: &Identifier, deployment: DeploymentId, number: u32) -> bool;
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Ended sessions kept in the history of each environment.
    pub history_retention: u64,
    /// Commands that may wait for one environment.
    pub mailbox: usize,
    /// Claims that may wait, on a connection or in a queue.
    pub waiting: Capacity,
    /// How many claims of one token may wait.
    pub waiting_per_token: usize,
    /// How long a caller waits for an answer. After that the outcome is unknown.
    pub answer_timeout: Duration,
    pub tickets: TicketLane,
}

/// The tickets of one shard of a cluster. No other shard uses them: records are found by their tickets, and the records
/// of all shards may later share one store.
#[derive(Debug, Clone, Copy)]
pub struct TicketLane {
    /// Below `of`.
    pub number: u64,
    pub of: NonZeroU64,
}

impl TicketLane {
    /// All tickets, for a store without other shards.
    pub const ONLY: TicketLane = TicketLane { number: 0, of: NonZeroU64::MIN };

    /// The first number of this lane that is not below `number`.
    pub fn first_from(self, number: u64) -> u64 {
        let of = self.of.get();
        number + (self.number + of - number % of) % of
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The claim was queued, but lost its place: the store refuses to record that its client knows the session.
    #[error("the place in the queue is given up: {error}")]
    PlaceGivenUp { session: SessionId, error: StoreError },
    #[error("too many commands are waiting for this environment")]
    Overloaded,
    #[error("too many claims are waiting: {0}")]
    Crowded(ShareError),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_number_is_in_one_lane() {
        let lane = |number| TicketLane { number, of: NonZeroU64::new(3).unwrap() };
        for number in 0..9 {
            let firsts = [0, 1, 2].map(|of| lane(of).first_from(number));
            let mut sorted = firsts;
            sorted.sort_unstable();
            assert_eq!(sorted, [number, number + 1, number + 2], "{firsts:?}");
            assert!((0..3).all(|of| firsts[usize::try_from(of).unwrap()] % 3 == of));
        }
        assert_eq!(TicketLane::ONLY.first_from(7), 7);
    }
}
