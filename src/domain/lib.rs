//! The rules of environments, locks, queues, sessions and deployments, and nothing else.
//!
//! Pure: no clock, no randomness, no I/O, no await. Time and new ids come with the call, so every rule can be read and
//! tested alone. The actors add order and durability, and no rules.

mod claim;
mod configuration;
mod decision;
mod deploy;
mod environment;
mod event;
mod ids;
mod intervene;
pub mod invariants;
mod lease;
mod member;
pub mod named;
pub mod nearest;
pub mod pipeline;
mod pool;
#[cfg(test)]
mod properties;
mod queue;
mod registry_step;
mod rejection;
mod release;
mod reset;
#[cfg(test)]
mod rule_tests;
mod run;
mod runner_reports;
pub mod samples;
mod session;
#[cfg(test)]
mod simulation;
mod stages;
mod text;
mod time;
mod utilisation;

use std::sync::Arc;

pub use claim::{Claim, ClaimReply, ClaimRequest, ForceClaim, ForceClaimed};
pub use configuration::{
    CONFIGURATION_BYTES_MAX, Configuration, Configure, Configured, Delete, Expected, LABELS_MAX, Labels,
    QUEUE_LENGTH_MAX, Retire, Retired, SECONDS_MAX, VARIABLES_MAX,
};
pub use decision::{Decision, Outcome, Transition};
pub use deploy::{Deploy, Resume};
pub use environment::{Environment, LastDeployment, LastReset, LockStatus, SkippedRun, SkippedTokens};
pub use event::{Event, EventData, EventType, EventValue, Initiator, RequestRef};
pub use ids::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, EnvironmentKey, Hex, Id, IdSeed, IdText, Origin, PipelineKey,
    RegistryId, SessionId, Ticket, TokenId, UserId, WebhookId, read_hex,
};
pub use intervene::{CancelStage, DecideApproval, RetryStage, Verdict};
pub use lease::{Elapse, HandOver, HangUp, Heartbeat, MakeKnown, Seen, StopWaiting, Undelivered};
pub use member::{Email, Holder, MemberShare, NoShare, Role};
pub use pipeline::{Action, ApprovalRule, Blueprint, HttpCall, Stage, Step};
pub use pool::{Availability, ClaimAny, HungUp, Pool, Unserved};
pub use queue::{
    ASK_WITHIN_MILLIS, AfterHangUp, Connection, Departure, KeptBy, PipelineNow, PlaceKey, Presence, Priority, Queue,
    Surroundings, Turn, Waiter,
};
pub use registry_step::{
    Found, INPUTS_MAX, Input, InputKind, InputValue, RegistryStep, StepReference, StepSource, Use,
};
pub use rejection::Rejection;
pub use release::{Release, ReleaseLock};
pub use run::{
    Approval, ApprovalRecord, ApprovalStatus, DeploymentRecord, DeploymentRef, DroppedLog, Effect, EndedDeployment,
    LogPart, Retried, Run, StageEnd, StageOrder, StageRun, StageStatus, StepRun, StepStatus,
};
pub use runner_reports::{BeginStage, EndStage, Recover, ReportSteps, StageAttempt, Swept};
pub use session::{
    Claimed, Deployment, DeploymentOutcome, DeploymentStatus, Ended, EndedHow, Expiry, Lease, Person, Session,
    SessionRef, SessionStatus,
};
pub use text::{
    CharClass, CommitId, Context, Description, Identifier, LabelValue, Malformed, NAME, REVISION, TextRule,
    VariableName, VariableValue,
};
pub use time::{Boot, Deadline, Now, SteadyTime, Tick, Timestamp};
pub use utilisation::{EnvironmentUse, HolderUse, Period, PeriodIs, Utilisation, Waits};

/// A command to one environment.
pub trait Command: Send + 'static {
    type Reply: Send + 'static;

    /// Whether it ends something, and so must also be possible on a full disk.
    const ENDS: bool = false;

    /// The same of a command that depends on what it is told.
    fn ends(&self) -> bool {
        Self::ENDS
    }

    /// Called through [`decide`], which also hands over a free lock, starts waiting deployments and checks the invariants.
    fn decide(self, decision: &mut Decision<'_>) -> Result<Self::Reply, Rejection>;

    /// The session that the command refers to: the actor looks it up if the environment no longer has it.
    fn subject(&mut self) -> Option<&mut SessionRef> {
        None
    }

    /// The same for a deployment that has ended.
    fn deployment(&mut self) -> Option<&mut DeploymentRef> {
        None
    }

    /// The session that the reply says has the lock. If the reply does not reach its client, the lock is taken back.
    fn grants(_reply: &Self::Reply) -> Option<SessionId> {
        None
    }

    /// For replies that show the environment after the whole decision.
    fn complete(_reply: &mut Self::Reply, _next: &Environment) {}
}

/// The only way a command changes an environment. The outcome is empty before; if the command is refused, it is to be
/// dropped. The caller has the place for it, since it is large: it would be copied several times on its way back.
pub fn decide<C: Command>(
    environment: &Arc<Environment>,
    command: C,
    now: Now,
    surroundings: &mut dyn Surroundings,
    outcome: &mut Outcome,
) -> Result<Transition<C::Reply>, Rejection> {
    // A copy, changed in the place where it stays: it is large.
    let mut next = environment.clone();
    let mut decision = Decision::new(Arc::make_mut(&mut next), outcome, now, surroundings);
    let mut reply = command.decide(&mut decision)?;
    queue::hand_over(&mut decision, None);
    deploy::advance(&mut decision);
    C::complete(&mut reply, &next);
    debug_assert_eq!(invariants::check(&next), Ok(()));
    debug_assert_eq!(invariants::check_step(environment, &next), Ok(()));
    Ok(Transition { next, reply })
}
