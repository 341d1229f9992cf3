//! The state of one environment: everything its rules need, and what must survive a restart.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{CommitId, Configuration, Deployment, DeploymentId, DeploymentStatus, Session, SessionId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// None before it is made and after it is deleted. What it counts stays, so that a fencing token is never given
    /// twice under one name.
    pub configuration: Option<Arc<Configuration>>,
    pub configuration_revision: u64,
    /// Counts the changes of this environment, for its ETag.
    pub revision: u64,
    /// Of the last grant.
    pub fencing_token: u64,
    /// How many sessions there have been; the newest has this number.
    pub sessions: u64,
    /// The number of the first session since the environment was made; those before a deletion are not its history.
    pub first_session: u64,
    pub lock: Option<Session>,
    /// A session that has ended while its deployment has not: nothing else is deployed here until it has.
    pub leaving: Option<Session>,
    pub last_deployment: Option<LastDeployment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDeployment {
    pub id: DeploymentId,
    pub commit: CommitId,
    pub status: DeploymentStatus,
    pub finished_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStatus {
    Unlocked,
    Locked,
    /// Being put back in order after a release. No rule leads here yet; it is a status clients may ask for.
    Resetting,
    Disabled,
}

impl LockStatus {
    pub const ALL: [LockStatus; 4] =
        [LockStatus::Unlocked, LockStatus::Locked, LockStatus::Resetting, LockStatus::Disabled];
}

impl Environment {
    /// An environment nobody has made yet.
    pub const fn absent() -> Self {
        Self {
            configuration: None,
            configuration_revision: 0,
            revision: 0,
            fencing_token: 0,
            sessions: 0,
            first_session: 1,
            lock: None,
            leaving: None,
            last_deployment: None,
        }
    }

    pub fn exists(&self) -> bool {
        self.configuration.is_some()
    }

    /// A held environment is locked, also while it is being taken out of service.
    pub fn lock_status(&self) -> LockStatus {
        match (&self.lock, &self.configuration) {
            (Some(_), _) => LockStatus::Locked,
            (None, Some(configuration)) if !configuration.disabled => LockStatus::Unlocked,
            (None, _) => LockStatus::Disabled,
        }
    }

    /// The session with this id, if the environment still has to do with it.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        [&self.lock, &self.leaving].into_iter().flatten().find(|session| session.id == id)
    }

    /// The numbers of its sessions, as far as a history that keeps `retention` ended ones still has them.
    pub fn remembered_sessions(&self, retention: u64) -> RangeInclusive<u64> {
        let newest_ended = self.sessions - u64::from(self.lock.is_some());
        let oldest = (newest_ended + 1).saturating_sub(retention);
        oldest.max(self.first_session)..=self.sessions
    }

    /// The one deployment that runs here, or may still run.
    pub fn current_deployment(&self) -> Option<&Deployment> {
        [&self.leaving, &self.lock].into_iter().flatten().find_map(Session::unfinished_deployment)
    }
}
