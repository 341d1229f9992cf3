//! What the environments are opened with: the clock, pipeline definitions, the executor of stages, and limits.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{DeploymentId, EnvironmentKey, Identifier, Now, PipelineKey, PipelineNow, StageOrder};
use crate::shares::Capacity;

/// Reads both clocks. A function, so that tests can move the time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Looks up a pipeline when a deployment could start. An unknown pipeline is stopped and has no stages.
pub trait Definitions: Send + Sync + 'static {
    fn now(&self, pipeline: &PipelineKey) -> PipelineNow;
}

/// Runs the stages of deployments. It is called once the order is durable, in order per environment, and reports back
/// through [`Environments`](super::Environments). Must return quickly: it is called on the thread that sends the answers.
pub trait Executor: Send + Sync + 'static {
    fn run_stage(&self, environment: &EnvironmentKey, order: StageOrder);

    /// Stops everything a deployment runs; the runner reports the end.
    fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId);

    /// Cleans up what a deployment of an earlier run of the server left running.
    fn sweep(&self, environment: &EnvironmentKey, deployment: DeploymentId);
}

/// Where the output of stages lies that begin here, in a cluster.
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
    /// How many ended sessions the history of each environment keeps.
    pub history_retention: u64,
    /// How many commands may wait for one environment.
    pub mailbox: usize,
    /// How many claims may wait, on a connection or in a queue.
    pub waiting: Capacity,
    /// How many of them may be of one token.
    pub waiting_per_token: usize,
    /// How long a caller waits for an answer; after that the outcome is unknown.
    pub answer_timeout: Duration,
}
