//! The rules of environments, locks, queues, sessions and deployments, and nothing else.
//!
//! Pure: no clock, no randomness, no I/O, no await. Time and new ids come with the call, so every rule can be read and
//! tested alone. The actors add order and durability, but no rules.

mod claim;
mod configuration;
mod configure;
mod decision;
mod deploy;
mod deployment;
mod environment;
mod event;
mod event_data;
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
    CONFIGURATION_BYTES_MAX, Configuration, Expected, LABELS_MAX, Labels, QUEUE_LENGTH_MAX, SECONDS_MAX, VARIABLES_MAX,
};
pub use configure::{Configure, Configured, Delete, Retire, Retired};
pub use decision::{Command, Decision, Outcome, Transition};
pub use deploy::{Deploy, Resume};
pub use deployment::{
    Approval, ApprovalRecord, ApprovalStatus, Deployment, DeploymentOutcome, DeploymentRecord, DeploymentRef,
    DeploymentStatus, DroppedLog, Effect, EndedDeployment, LogPart, Retried, Run, StageEnd, StageOrder, StageRun,
    StageStatus, StepRun, StepStatus,
};
pub use environment::{Availability, Environment, LastDeployment, LastReset, LockStatus, SkippedRun, SkippedTokens};
pub use event::{Event, EventValue, Initiator, RequestRef};
pub use event_data::{
    AnalysisCompletedData, ApprovalData, Datum, DeploymentData, Details, EnvironmentData, EventData, EventMember,
    EventShape, EventType, Expiry, MemberData, MemberKind, MemberPasswordData, MemberSignedInData, MemberSignedOutData,
    MemberUpdatedData, Moment, PipelineData, PipelineStoppedData, PullRequestCreatedData, RegistryData,
    RegistrySyncedData, SecretData, SecretUpdatedData, SecurityClass, SessionClaimedData, SessionExpiredData,
    SessionOverriddenData, SessionQueuedData, SessionReleasedData, StageData, TokenCreatedData, TokenExchangedData,
    TokenRevokedData, WebhookData, WebhookDisabledData, WebhookUpdatedData,
};
pub use ids::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, EnvironmentKey, Hex, Id, IdSeed, IdText, Origin, PipelineKey,
    RegistryId, SessionId, Ticket, TokenId, UserId, WebhookId, read_hex,
};
pub use intervene::{CancelStage, DecideApproval, RetryStage, Verdict};
pub use lease::{Elapse, HandOver, HangUp, Heartbeat, MakeKnown, Seen, StopWaiting, Undelivered};
pub use member::{Email, Holder, MemberShare, NoShare, Person, Role};
pub use pipeline::{
    Action, ApprovalRule, Blueprint, HttpCall, InputKind, InputValue, Stage, Step, StepReference, StepSource, Use,
};
pub use pool::{ClaimAny, HungUp, Pool, Unserved};
pub use queue::{
    ASK_WITHIN_MILLIS, AfterHangUp, Connection, DecisionPorts, Departure, KeptBy, PipelineNow, PlaceKey, Presence,
    Queue, Turn, Waiter,
};
pub use registry_step::{INPUTS_MAX, Input, RegistryStep, ResolvedStep};
pub use rejection::Rejection;
pub use release::{Release, ReleaseLock};
pub use runner_reports::{BeginStage, EndStage, Recover, ReportSteps, StageAttempt, Swept};
pub use session::{Claimed, Ended, EndedHow, Lease, Priority, Session, SessionRef, SessionStatus};
pub use text::{
    CharClass, CommitId, Context, Description, Identifier, LabelValue, Malformed, NAME, REVISION, TextRule,
    VariableName, VariableValue,
};
pub use time::{Boot, Deadline, Now, SteadyTime, Tick, Timestamp};
pub use utilisation::{EnvironmentUse, HolderUse, Period, PeriodIs, Utilisation, Waits};

/// The only way a command changes an environment. `outcome` must be empty; drop it if the command is refused. The
/// caller passes it in because it is large: returning it would copy it several times.
pub fn decide<C: Command>(
    environment: &Arc<Environment>,
    command: C,
    now: Now,
    ports: &mut dyn DecisionPorts,
    outcome: &mut Outcome,
) -> Result<Transition<C::Reply>, Rejection> {
    // Changed in place, since an environment is large.
    let mut next = environment.clone();
    let mut decision = Decision::new(Arc::make_mut(&mut next), outcome, now, ports);
    let mut reply = command.decide(&mut decision)?;
    claim::hand_over(&mut decision, None);
    deploy::advance(&mut decision);
    C::complete(&mut reply, &next);
    debug_assert_eq!(invariants::check(&next), Ok(()));
    debug_assert_eq!(invariants::check_step(environment, &next), Ok(()));
    Ok(Transition { next, reply })
}
