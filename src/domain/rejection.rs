//! Why a command was refused: the caller's doing, with what helps the caller act.

use super::{DeploymentId, Person, Role, Session};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the environment does not exist")]
    EnvironmentNotFound,
    #[error("the environment is locked")]
    EnvironmentLocked { holder: Box<Session> },
    #[error("the environment is disabled")]
    EnvironmentDisabled,
    #[error("a deployment of an ended session still runs in the environment")]
    DeploymentRunning { deployment: DeploymentId },
    #[error("the session does not exist")]
    SessionNotFound,
    #[error("the session has ended")]
    SessionEnded { session: Box<Session> },
    #[error("the session belongs to somebody else")]
    NotSessionHolder { holder: Person },
    #[error("the environment does not allow this role to force-claim it")]
    RoleTooLow { required: Role },
    #[error("the session has too many deployments waiting")]
    DeploymentQueueFull { limit: usize },
    #[error("the deployment is not running")]
    DeploymentNotRunning,
    #[error("the configuration has changed since it was read")]
    ConfigurationChanged { revision: u64 },
}
