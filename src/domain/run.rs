//! The run of a deployment: how each of its stages and steps stands. Only its environment's decisions move it.

use std::sync::Arc;

use super::named::named_enum;
use super::{
    ApprovalId, Blueprint, CommitId, Configuration, Deployment, DeploymentId, Identifier, Person, SessionId,
    StepSource, Timestamp,
};

/// From the moment a deployment starts (or waits to be run again) until it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub blueprint: Arc<Blueprint>,
    pub stages: Vec<StageRun>,
    /// The last time it was run again.
    pub retried: Option<Retried>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    pub by: Person,
    /// From which stage on.
    pub stage: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRun {
    pub name: Identifier,
    pub status: StageStatus,
    /// From 1, with each time it is run; 0 until then.
    pub attempt: u32,
    /// Of this attempt, if it needs one.
    pub approval: Option<Approval>,
    pub steps: Vec<StepRun>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRun {
    pub name: Identifier,
    /// Which step of a registry it is, if it is one.
    pub source: Option<Arc<StepSource>>,
    pub status: StepStatus,
    pub exit_code: Option<i32>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

named_enum! {
    pub enum StageStatus {
        /// Its turn has not come.
        Pending = "pending",
        AwaitingApproval = "awaiting_approval",
        /// Handed to the runner, which has not begun it: nothing of it has been executed.
        Queued = "queued",
        Running = "running",
        /// Told to stop, and not yet known to have stopped.
        Cancelling = "cancelling",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
        /// A stage before it did not succeed.
        Skipped = "skipped",
    }
}

named_enum! {
    pub enum StepStatus {
        Pending = "pending",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
        Skipped = "skipped",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub status: ApprovalStatus,
    pub requested_at: Timestamp,
    /// When it was decided, or ended undecided; by whom, if it was decided; and what they said.
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<Person>,
    pub comment: Option<Arc<str>>,
}

named_enum! {
    pub enum ApprovalStatus {
        Pending = "pending",
        Approved = "approved",
        Rejected = "rejected",
        /// What it was for has ended before somebody decided.
        Cancelled = "cancelled",
    }
}

/// A deployment with all that is kept of it, but for what its stages do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// Its `run` is left out here.
    pub deployment: Deployment,
    /// None for what puts an environment back in order.
    pub session: Option<SessionId>,
    pub fencing_token: u64,
    /// Whose session it was made in.
    pub user: Option<Person>,
    pub stages: Vec<StageRun>,
    pub retried: Option<Retried>,
}

/// A deployment that a command speaks of. Where the environment does not have it among those that have not ended, the
/// actor fills in what the store has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRef {
    pub id: DeploymentId,
    pub ended: Option<Box<EndedDeployment>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedDeployment {
    pub record: DeploymentRecord,
    /// What its stages did, if it had any.
    pub blueprint: Option<Arc<Blueprint>>,
}

/// An approval with what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    pub approval: Approval,
    pub deployment: DeploymentId,
    pub session: Option<SessionId>,
    pub commit: CommitId,
    pub stage: Identifier,
    pub attempt: u32,
    /// Whose deployment it is.
    pub requested_by: Option<Person>,
}

/// What a decision wants to be done by the runner, once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    RunStage(Box<StageOrder>),
    /// Stop what runs of it, all of it, and say when it has ended.
    Stop(DeploymentId),
    /// An earlier run of the server may have left something of it running: see that it is gone, and say so.
    Sweep(DeploymentId),
}

/// One stage to be run from its first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageOrder {
    pub deployment: DeploymentId,
    pub session: Option<SessionId>,
    pub fencing_token: u64,
    pub commit: CommitId,
    pub stage: usize,
    pub attempt: u32,
    pub blueprint: Arc<Blueprint>,
    /// Of the environment, for its variables.
    pub configuration: Arc<Configuration>,
}

/// How the run of a stage ended: nothing of it is left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageEnd {
    Succeeded,
    Failed(Arc<str>),
    /// It was told to stop before it was through.
    Cancelled,
    /// The server ended while it ran.
    Interrupted,
}

impl From<DeploymentId> for DeploymentRef {
    fn from(id: DeploymentId) -> Self {
        Self { id, ended: None }
    }
}

impl StageStatus {
    pub fn is_finished(self) -> bool {
        match self {
            StageStatus::Succeeded | StageStatus::Failed | StageStatus::Cancelled | StageStatus::Skipped => true,
            StageStatus::Pending
            | StageStatus::AwaitingApproval
            | StageStatus::Queued
            | StageStatus::Running
            | StageStatus::Cancelling => false,
        }
    }

    /// Whether it is the one that its deployment is at.
    pub fn is_active(self) -> bool {
        !self.is_finished() && self != StageStatus::Pending
    }
}
