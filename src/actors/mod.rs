//! Order and durability: one actor for each environment serialises its commands, decides them by the domain's rules,
//! and answers when the outcome is durable.
//!
//! It adds no rules. Nothing outside this folder sees an `Addr` or a message: [`Environments`] is the whole surface.

mod batching;
mod claiming;
mod committing;
mod crowd;
mod deadlines;
mod declared;
mod deployments;
mod directory;
mod environment;
mod environments;
mod history;
mod keys;
mod notes;
mod pool;
mod reading;
mod restart;
mod settlement;
mod stored;
#[cfg(test)]
mod tests;
mod watchers;

pub use claiming::{ClaimOutcome, Patience};
pub use crowd::Keyed;
pub use deployments::{ApprovalFilter, ApprovalFound, ApprovalPage, DeploymentFilter, DeploymentFound, DeploymentPage};
pub use environments::{Environments, Failure, Options};
pub use reading::{EnvironmentPage, History, ListFilter, Queued, SessionFound, Waiting};
pub use watchers::Watch;

use std::sync::Arc;

use crate::domain::{DeploymentId, EnvironmentKey, Now, PipelineKey, PipelineNow, StageOrder};

/// Reads the time off both clocks. A function, so that tests can move it.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Says what a pipeline does, when a deployment could start. One that it does not know is stopped and has no stages.
pub trait Definitions: Send + Sync + 'static {
    fn now(&self, pipeline: &PipelineKey) -> PipelineNow;
}

/// Runs the stages of deployments. Is told what to do once that is durable, in the order of each environment, and says
/// through [`Environments`] what becomes of it. Must be quick: it is called where the answers are sent.
pub trait Executor: Send + Sync + 'static {
    fn run_stage(&self, environment: &EnvironmentKey, order: StageOrder);

    /// Stops what runs of a deployment, all of it; whoever runs it says when it has ended.
    fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId);

    /// Sees to it that nothing is left of a deployment that an earlier run of the server had begun.
    fn sweep(&self, environment: &EnvironmentKey, deployment: DeploymentId);
}
