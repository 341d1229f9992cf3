//! The rules: what an environment, its lock, its sessions and its deployments may do, and nothing else.
//!
//! Pure by design: no clock, no randomness, no I/O, no await. Time and new ids come in with the call, so every rule can
//! be read and tested here alone. The actors add order and durability; they add no rules.

mod bounded;
mod claim;
mod configuration;
mod configure;
mod deploy;
mod environment;
mod event;
mod force_claim;
mod ids;
pub mod invariants;
#[cfg(test)]
mod properties;
mod rejection;
mod release;
mod role;
mod session;
mod time;

pub use bounded::{CommitId, Context, Description, Identifier, LabelValue, Malformed, VariableName, VariableValue};
pub use claim::Claim;
pub use configuration::{CONFIGURATION_BYTES_MAX, Configuration, LABELS_MAX, VARIABLES_MAX};
pub use configure::{Configure, Configured, Delete, Expected};
pub use deploy::{Deploy, Deployed, FinishDeployment};
pub use environment::{Environment, LastDeployment, LockStatus};
pub use event::{Event, Notice};
pub use force_claim::{ForceClaim, ForceClaimed};
pub use ids::{DeploymentId, EnvironmentKey, IdSeed, PipelineKey, SessionId, UserId};
pub use rejection::Rejection;
pub use release::Release;
pub use role::Role;
pub use session::{
    Deployment, DeploymentOutcome, DeploymentStatus, Ended, EndedHow, Person, Plan, Session, SessionRef, SessionStatus,
};
pub use time::Timestamp;

/// Something a caller asks of one environment.
pub trait Command {
    type Reply;

    /// Decides on `environment` as it is at `now`. Called through [`decide`], which also checks the invariants.
    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<Self::Reply>, Rejection>;

    /// The session the command speaks of, if any: the actor looks it up where the environment no longer has it.
    fn subject(&mut self) -> Option<&mut SessionRef> {
        None
    }
}

/// What a command leads to: all of it, or nothing, becomes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition<Reply> {
    pub next: Environment,
    /// Sessions that have ended, as they go into the history (again, if a deployment of theirs outlived them).
    pub ended: Vec<Session>,
    pub events: Vec<Event>,
    pub reply: Reply,
}

/// The one way a command changes an environment.
pub fn decide<C: Command>(
    environment: &Environment,
    command: C,
    now: Timestamp,
) -> Result<Transition<C::Reply>, Rejection> {
    let transition = command.decide(environment, now)?;
    debug_assert_eq!(invariants::check(&transition.next), Ok(()));
    debug_assert_eq!(invariants::check_step(environment, &transition.next), Ok(()));
    Ok(transition)
}
