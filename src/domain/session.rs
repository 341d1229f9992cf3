//! A session: one person's hold on an environment, and the deployments made under it.

use std::sync::Arc;

use super::{CommitId, Context, DeploymentId, SessionId, Timestamp, UserId};

/// How many deployments a session lists; older ones that have finished drop out, and `deployment_count` still counts
/// them. Keeps an environment's record small however often a session deploys.
pub(super) const DEPLOYMENTS_LISTED: usize = 100;

/// Who did something, by the name they had then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: UserId,
    pub name: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub user: Person,
    pub commit: Option<CommitId>,
    pub context: Option<Context>,
    /// Rises by one with each grant of the environment, for ever.
    pub fencing_token: u64,
    pub created_at: Timestamp,
    pub claimed_at: Timestamp,
    pub ended: Option<Ended>,
    /// In order of arrival.
    pub deployments: Vec<Deployment>,
    pub deployment_count: u64,
    /// Counts the changes of this session, for its ETag.
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    pub by: Person,
    pub how: EndedHow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedHow {
    Released,
    /// By a force-claim, whose session this is.
    Overridden(SessionId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    Active,
    Released,
    Overridden,
}

/// A session a command speaks of. Where the environment does not have it as its holder, the actor fills in what the
/// history says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    pub id: SessionId,
    pub ended: Option<Box<Session>>,
}

impl From<SessionId> for SessionRef {
    fn from(id: SessionId) -> Self {
        Self { id, ended: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub id: DeploymentId,
    pub commit: CommitId,
    pub plan: Plan,
    pub status: DeploymentStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub error: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentStatus {
    Queued,
    Running,
    /// Told to stop, and not yet known to have stopped.
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

/// What there is to do for a deployment, by the pipeline it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// No stages: it succeeds in the moment it starts.
    Nothing,
    /// Stages that somebody runs and reports the end of, with [`super::FinishDeployment`].
    Stages,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentOutcome {
    Succeeded,
    Failed(Arc<str>),
    Cancelled,
}

impl Session {
    pub fn status(&self) -> SessionStatus {
        match self.ended.as_ref().map(|ended| ended.how) {
            None => SessionStatus::Active,
            Some(EndedHow::Released) => SessionStatus::Released,
            Some(EndedHow::Overridden(_)) => SessionStatus::Overridden,
        }
    }

    /// The deployment that runs, or has been told to stop and still may.
    pub fn unfinished_deployment(&self) -> Option<&Deployment> {
        self.deployments.iter().find(|deployment| deployment.status.occupies_environment())
    }

    pub(super) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.revision += 1;
    }
}

impl DeploymentStatus {
    pub fn is_finished(self) -> bool {
        match self {
            DeploymentStatus::Succeeded | DeploymentStatus::Failed | DeploymentStatus::Cancelled => true,
            DeploymentStatus::Queued | DeploymentStatus::Running | DeploymentStatus::Cancelling => false,
        }
    }

    pub fn occupies_environment(self) -> bool {
        matches!(self, DeploymentStatus::Running | DeploymentStatus::Cancelling)
    }
}
