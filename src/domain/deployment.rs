//! A deployment and its run: the state of its stages and steps, and the parts of its log. Only decisions of its
//! environment change it.

use std::sync::Arc;

use super::named::named_enum;
use super::{
    ApprovalId, Blueprint, CommitId, Configuration, DeploymentData, DeploymentId, Event, EventData, Identifier, Person,
    SessionId, StepSource, Timestamp,
};

/// The limit for the error of a deployment: a page of the history with eight sessions of a hundred deployments each
/// must fit into one batch of the store.
pub const ERROR_BYTES_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub id: DeploymentId,
    pub commit: CommitId,
    pub status: DeploymentStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// At most [`ERROR_BYTES_MAX`].
    pub error: Option<Arc<str>>,
    /// Counts the deployment's changes, for its ETag.
    pub revision: u32,
    /// Whether the deployment has had stages: then more is stored than this record.
    pub staged: bool,
    /// Present from the deployment's start to its end, and while it waits for a retry.
    pub run: Option<Arc<Run>>,
}

named_enum! {
    pub enum DeploymentStatus {
        Queued = "queued",
        Running = "running",
        /// The next stage needs approval. Nothing runs meanwhile, neither of this deployment nor of another.
        AwaitingApproval = "awaiting_approval",
        /// Told to stop, but may still be running.
        Cancelling = "cancelling",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentOutcome {
    Succeeded,
    Failed(Arc<str>),
    Cancelled,
}

/// The execution of a deployment, from its start (or while it waits for a retry) until its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub blueprint: Arc<Blueprint>,
    pub stages: Vec<StageRun>,
    /// The last retry.
    pub retried: Option<Retried>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    pub by: Person,
    /// The first stage that is run again.
    pub stage: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRun {
    pub name: Identifier,
    pub status: StageStatus,
    /// Counted from 1; 0 before the first attempt.
    pub attempt: u32,
    /// The approval of this attempt, if the stage needs one.
    pub approval: Option<Approval>,
    pub steps: Vec<StepRun>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRun {
    pub name: Identifier,
    /// Set for a step of a registry.
    pub source: Option<Arc<StepSource>>,
    pub status: StepStatus,
    pub exit_code: Option<i32>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

named_enum! {
    pub enum StageStatus {
        Pending = "pending",
        AwaitingApproval = "awaiting_approval",
        /// Handed to the runner, which has not executed anything yet.
        Queued = "queued",
        Running = "running",
        /// Told to stop, but may still be running.
        Cancelling = "cancelling",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
        /// An earlier stage did not succeed.
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
    /// When the approval was decided or cancelled.
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<Person>,
    pub comment: Option<Arc<str>>,
}

named_enum! {
    pub enum ApprovalStatus {
        Pending = "pending",
        Approved = "approved",
        Rejected = "rejected",
        /// The stage was cancelled before a decision.
        Cancelled = "cancelled",
    }
}

/// The stored state of a deployment, except its blueprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// The deployment without its `run`.
    pub deployment: Deployment,
    /// None for a reset.
    pub session: Option<SessionId>,
    pub fencing_token: u64,
    /// The session's user.
    pub user: Option<Person>,
    pub stages: Vec<StageRun>,
    pub retried: Option<Retried>,
}

/// The deployment that a command refers to. If it is not one of the environment's unfinished ones, the actor reads it
/// from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRef {
    pub id: DeploymentId,
    pub ended: Option<Box<EndedDeployment>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedDeployment {
    pub record: DeploymentRecord,
    /// Set if the deployment had stages.
    pub blueprint: Option<Arc<Blueprint>>,
}

/// An approval with its stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    pub approval: Approval,
    pub deployment: DeploymentId,
    pub session: Option<SessionId>,
    pub commit: CommitId,
    pub stage: Identifier,
    pub attempt: u32,
    /// The user of the deployment's session.
    pub requested_by: Option<Person>,
}

/// An order to the runner, given once the decision is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    RunStage(Box<StageOrder>),
    /// Stop the deployment completely, and report when it has ended.
    Stop(DeploymentId),
    /// Remove processes that an earlier run of the server may have left, and report when they are gone.
    Sweep(DeploymentId),
}

/// An order to run a stage from its first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageOrder {
    pub deployment: DeploymentId,
    pub session: Option<SessionId>,
    pub fencing_token: u64,
    pub commit: CommitId,
    pub stage: usize,
    pub attempt: u32,
    pub blueprint: Arc<Blueprint>,
    /// The environment's configuration, for its variables.
    pub configuration: Arc<Configuration>,
}

/// How a stage ended, once all its processes are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageEnd {
    Succeeded,
    Failed(Arc<str>),
    /// Stopped before its end.
    Cancelled,
    /// The server stopped while it was running.
    Interrupted,
}

impl Deployment {
    pub(super) fn new(id: DeploymentId, commit: CommitId, now: Timestamp) -> Self {
        Self {
            id,
            commit,
            status: DeploymentStatus::Queued,
            created_at: now,
            started_at: None,
            finished_at: None,
            error: None,
            revision: 0,
            staged: false,
            run: None,
        }
    }

    pub(super) fn event(&self, event: fn(DeploymentData) -> EventData, session: Option<SessionId>) -> Event {
        let data = DeploymentData { commit_id: self.commit.clone(), error: self.error.clone() };
        Event::deployment(session, self.id, event(data))
    }
}

impl DeploymentStatus {
    pub fn is_finished(self) -> bool {
        match self {
            DeploymentStatus::Succeeded | DeploymentStatus::Failed | DeploymentStatus::Cancelled => true,
            DeploymentStatus::Queued
            | DeploymentStatus::Running
            | DeploymentStatus::AwaitingApproval
            | DeploymentStatus::Cancelling => false,
        }
    }

    pub fn occupies_environment(self) -> bool {
        match self {
            DeploymentStatus::Running | DeploymentStatus::AwaitingApproval | DeploymentStatus::Cancelling => true,
            DeploymentStatus::Queued
            | DeploymentStatus::Succeeded
            | DeploymentStatus::Failed
            | DeploymentStatus::Cancelled => false,
        }
    }
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

    /// Whether the stage is the current one of its deployment.
    pub fn is_active(self) -> bool {
        !self.is_finished() && self != StageStatus::Pending
    }
}

/// Only the newest log parts are recorded: a deployment can be retried any number of times, on any node.
const PARTS_MAX: usize = 64;

/// A part of a deployment's log. In a cluster, each node that continues the deployment begins a new part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// From 0, in the order of writing.
    pub number: u32,
    /// The node that wrote it.
    pub node: Arc<str>,
    /// Whether the part is uploaded to the log store when a stage has ended.
    pub in_store: bool,
}

/// A deployment that is no longer kept, but may have left its log in the log store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedLog {
    pub organization: Identifier,
    pub deployment: DeploymentId,
    pub parts: Vec<LogPart>,
}

impl LogPart {
    /// The parts when a stage begins on this node; `None` if they are unchanged. A part that its node has lost is not
    /// continued, since that would overwrite the copy in the log store.
    pub fn continued(
        parts: &[Self],
        node: &str,
        in_store: bool,
        is_here: impl FnOnce(u32) -> bool,
    ) -> Option<Vec<Self>> {
        let last = parts.last();
        let mut next = parts.to_vec();
        match last.filter(|last| *last.node == *node && is_here(last.number)) {
            Some(last) if last.in_store || !in_store => return None,
            Some(_) => next.iter_mut().rev().take(1).for_each(|last| last.in_store = true),
            None => {
                let number = last.map_or(0, |last| last.number.saturating_add(1));
                next.push(Self { number, node: Arc::from(node), in_store });
                next.drain(..next.len().saturating_sub(PARTS_MAX));
            }
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn part(number: u32, node: &str, in_store: bool) -> LogPart {
        LogPart { number, node: Arc::from(node), in_store }
    }

    #[test]
    fn a_part_goes_on_until_another_node_does() {
        let first = LogPart::continued(&[], "n1", false, |_| false).unwrap();
        assert_eq!(first, [part(0, "n1", false)]);
        assert_eq!(LogPart::continued(&first, "n1", false, |number| number == 0), None);
        let second = LogPart::continued(&first, "n2", false, |_| true).unwrap();
        assert_eq!(second, [part(0, "n1", false), part(1, "n2", false)]);
        let third = LogPart::continued(&second, "n1", false, |_| true).unwrap();
        assert_eq!(third[2], part(2, "n1", false), "it does not go on with what lies before others");
    }

    #[test]
    fn a_part_that_is_gone_is_not_gone_on_with() {
        let parts = [part(3, "n1", true)];
        assert_eq!(
            LogPart::continued(&parts, "n1", true, |_| false).unwrap(),
            [part(3, "n1", true), part(4, "n1", true)]
        );
    }

    #[test]
    fn a_part_is_in_the_store_once_there_is_one_and_stays_so() {
        let parts = [part(0, "n1", false)];
        assert_eq!(LogPart::continued(&parts, "n1", true, |_| true).unwrap(), [part(0, "n1", true)]);
        assert_eq!(LogPart::continued(&[part(0, "n1", true)], "n1", false, |_| true), None);
    }

    #[test]
    fn the_newest_parts_are_known() {
        let mut parts = Vec::new();
        for number in 0..200 {
            parts = LogPart::continued(&parts, if number % 2 == 0 { "n1" } else { "n2" }, false, |_| true).unwrap();
        }
        assert_eq!((parts.len(), parts[0].number, parts[63].number), (PARTS_MAX, 136, 199));
    }
}
