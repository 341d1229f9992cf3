//! Why a command was refused, with facts that help the caller to act.

use std::sync::Arc;

use super::{ApprovalStatus, DeploymentId, NoShare, Person, Role, Session, StageStatus};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the environment does not exist")]
    EnvironmentNotFound,
    #[error("the environment is locked")]
    EnvironmentLocked { holder: Arc<Session>, queue_length: usize },
    #[error("the environment is being reset after a release")]
    EnvironmentResetting { queue_length: usize },
    #[error("all environments with these labels are locked")]
    AllLocked { queue_length: usize },
    #[error("no environment has these labels")]
    NoneMatches,
    #[error("the queue is full")]
    QueueFull { limit: usize },
    /// The queue has room, but not for this member.
    #[error("too many claims of the member wait: {0}")]
    QueueShare(NoShare),
    #[error("the environment's queue is not empty")]
    QueueNotEmpty { length: usize },
    #[error("the TTL is longer than the environment allows")]
    TtlTooLong { max_seconds: u32 },
    #[error("the environment is disabled")]
    EnvironmentDisabled { reason: Option<Arc<str>> },
    #[error("a deployment of an ended session still runs in the environment")]
    DeploymentRunning { deployment: DeploymentId },
    #[error("nobody holds the lock")]
    LockNotFound,
    #[error("the session does not exist")]
    SessionNotFound,
    #[error("the session has ended")]
    SessionEnded { session: Arc<Session> },
    #[error("the session is still queued")]
    SessionQueued { position: usize },
    #[error("the fencing token is not the session's")]
    StaleFencingToken { current: u64 },
    #[error("the session belongs to somebody else")]
    NotSessionHolder { holder: Person },
    #[error("the environment does not allow this role to force-claim it")]
    RoleTooLow { required: Role },
    #[error("the session has too many deployments waiting")]
    DeploymentQueueFull { limit: usize },
    #[error("the deployment does not exist")]
    DeploymentNotFound,
    #[error("the deployment is not running at that stage")]
    DeploymentNotRunning,
    #[error("the stage does not exist")]
    StageNotFound,
    #[error("the stage is not running")]
    StageNotRunning { status: StageStatus },
    #[error("the stage has neither failed nor been cancelled")]
    StageNotRetryable { status: StageStatus },
    #[error("the deployment belongs to no session")]
    DeploymentOfNoSession,
    #[error("the approval does not exist")]
    ApprovalNotFound,
    #[error("the approval is no longer pending")]
    ApprovalNotPending { status: ApprovalStatus },
    #[error("this pipeline does not allow self-approval")]
    SelfApproval,
    #[error("the configuration has changed since it was read")]
    ConfigurationChanged { revision: u64 },
}

impl From<NoShare> for Rejection {
    /// A refused place in a queue.
    fn from(refused: NoShare) -> Self {
        match refused {
            NoShare::Full { total } => Self::QueueFull { limit: total },
            NoShare::Own { .. } | NoShare::Kept { .. } => Self::QueueShare(refused),
        }
    }
}

impl Rejection {
    /// Whether a claim was refused only because the lock is held.
    pub fn means_locked(&self) -> bool {
        matches!(self, Self::EnvironmentLocked { .. } | Self::EnvironmentResetting { .. } | Self::AllLocked { .. })
    }
}
