//! The state of one environment: everything its rules need, and what must survive a restart.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::named::named_enum;
use super::{
    Availability, CommitId, Configuration, Deployment, DeploymentId, DeploymentStatus, Queue, Rejection, Session,
    SessionId, SkippedTokens, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// None before it is created and after it is deleted. The counters stay, so that no fencing token is given twice under
    /// one name.
    pub configuration: Option<Arc<Configuration>>,
    pub configuration_revision: u64,
    /// Counts the changes of this environment, for its ETag.
    pub revision: u64,
    /// Of the last grant. It also numbers the sessions of the history.
    pub fencing_token: u64,
    pub skipped_tokens: SkippedTokens,
    /// The first grant since the environment was created; earlier ones are not part of its history.
    pub first_session: u64,
    /// Shared with earlier states and with answers; changed with [`Arc::make_mut`].
    pub lock: Option<Arc<Session>>,
    /// An ended session whose deployment still runs: nothing else is deployed until that has ended.
    pub leaving: Option<Arc<Session>>,
    /// The deployment that resets the environment. Nobody gets the lock until it has ended, except by force.
    pub reset: Option<Deployment>,
    /// The last reset. Only this one is kept, since it belongs to no session.
    pub last_reset: Option<LastReset>,
    /// A deployment could start, but its pipeline is stopped.
    pub held_back: bool,
    /// Why it was disabled, unless a person did it.
    pub disabled_reason: Option<Arc<str>>,
    /// When a session last ended here.
    pub last_used: Option<Timestamp>,
    /// Changes of the queue alone do not count as revisions of the environment.
    pub queue: Queue,
    pub last_deployment: Option<LastDeployment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReset {
    pub id: DeploymentId,
    /// Of the session that it followed. A higher one since then means a force-claim.
    pub fencing_token: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDeployment {
    pub id: DeploymentId,
    pub commit: CommitId,
    pub status: DeploymentStatus,
    pub finished_at: Timestamp,
}

named_enum! {
    pub enum LockStatus {
        Unlocked = "unlocked",
        Locked = "locked",
        /// Being reset after a release.
        Resetting = "resetting",
        Disabled = "disabled",
    }
}

impl Environment {
    /// An environment that does not exist yet.
    pub fn absent() -> Self {
        Self {
            configuration: None,
            configuration_revision: 0,
            revision: 0,
            fencing_token: 0,
            skipped_tokens: SkippedTokens::default(),
            first_session: 1,
            lock: None,
            leaving: None,
            reset: None,
            last_reset: None,
            held_back: false,
            disabled_reason: None,
            last_used: None,
            queue: Queue::new(),
            last_deployment: None,
        }
    }

    pub fn exists(&self) -> bool {
        self.configuration.is_some()
    }

    /// A held environment is locked, even if it is disabled.
    pub fn lock_status(&self) -> LockStatus {
        match (&self.lock, &self.configuration) {
            (Some(_), _) => LockStatus::Locked,
            (None, _) if self.reset.is_some() => LockStatus::Resetting,
            (None, Some(configuration)) if !configuration.disabled => LockStatus::Unlocked,
            (None, _) => LockStatus::Disabled,
        }
    }

    /// Whether the lock can be given now.
    pub fn is_vacant(&self) -> bool {
        self.lock_status() == LockStatus::Unlocked
    }

    /// Whether somebody holds it, or something runs in it.
    pub fn is_in_use(&self) -> bool {
        self.lock.is_some() || self.reset.is_some() || self.current_deployment().is_some()
    }

    /// Whether it is held by a session that ends only if somebody ends it.
    pub fn holder_never_expires(&self) -> bool {
        self.lock.as_deref().is_some_and(Session::never_expires)
    }

    /// For the pool of its pipeline.
    pub fn availability(&self) -> Availability {
        match &self.configuration {
            None => Availability::Gone,
            Some(configuration) if self.is_vacant() => {
                Availability::Free { configuration: configuration.clone(), last_used: self.last_used }
            }
            Some(configuration) => Availability::Taken { configuration: configuration.clone() },
        }
    }

    /// Its configuration, if it exists and is not disabled.
    pub(super) fn available(&self) -> Result<&Arc<Configuration>, Rejection> {
        let configuration = self.configuration.as_ref().ok_or(Rejection::EnvironmentNotFound)?;
        if configuration.disabled {
            return Err(Rejection::EnvironmentDisabled { reason: self.disabled_reason.clone() });
        }
        Ok(configuration)
    }

    /// Why it cannot be claimed now.
    pub(super) fn occupied(&self) -> Rejection {
        let queue_length = self.queue.len();
        match (&self.lock, self.available()) {
            (Some(holder), _) => Rejection::EnvironmentLocked { holder: holder.clone(), queue_length },
            (None, Err(unavailable)) => unavailable,
            (None, Ok(_)) => Rejection::EnvironmentResetting { queue_length },
        }
    }

    /// The session with this id, if it holds the lock, is leaving or waits.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        let present = self.present_session(id).map(|session| &**session);
        present.or_else(|| self.queue.session(id).map(|waiter| &waiter.session))
    }

    /// The same without those that wait.
    pub fn present_session(&self, id: SessionId) -> Option<&Arc<Session>> {
        [&self.lock, &self.leaving].into_iter().flatten().find(|session| session.id == id)
    }

    /// The token of the next grant.
    pub fn next_token(&self) -> u64 {
        self.skipped_tokens.next(self.fencing_token)
    }

    /// The number of the last session that no longer has the lock, or a skipped one after it.
    pub fn newest_ended(&self) -> u64 {
        self.fencing_token - u64::from(self.lock.is_some())
    }

    /// The numbers of the sessions in a history that keeps `retention` ended ones.
    pub fn remembered_sessions(&self, retention: u64) -> RangeInclusive<u64> {
        let ended = self.skipped_tokens.count_up_to(self.newest_ended());
        let oldest = self.skipped_tokens.token_at((ended + 1).saturating_sub(retention));
        oldest.max(self.first_session)..=self.fencing_token
    }

    /// How many sessions have these numbers.
    pub fn count_sessions(&self, numbers: RangeInclusive<u64>) -> u64 {
        let up_to = self.skipped_tokens.count_up_to(*numbers.end());
        up_to.saturating_sub(self.skipped_tokens.count_up_to(numbers.start().saturating_sub(1)))
    }

    /// The number of the session that is so many before this one; 0 if there are not so many.
    pub fn sessions_before(&self, number: u64, count: u64) -> u64 {
        self.skipped_tokens.token_at(self.skipped_tokens.count_up_to(number).saturating_sub(count))
    }

    /// A waiting or running deployment, and its session.
    pub fn unfinished_deployment(&self, id: DeploymentId) -> Option<(&Deployment, Option<&Session>)> {
        let of_sessions = [&self.leaving, &self.lock].into_iter().flatten();
        let mut all = of_sessions
            .flat_map(|session| session.deployments.iter().map(move |deployment| (deployment, Some(&**session))))
            .chain(self.reset.iter().map(|deployment| (deployment, None)));
        all.find(|(deployment, _)| deployment.id == id && !deployment.status.is_finished())
    }

    /// The next deployment to start, if any waits.
    pub fn waiting_deployment(&self) -> Option<DeploymentId> {
        let of_session = self.lock.iter().flat_map(|session| &session.deployments);
        let mut all = self.reset.iter().chain(of_session);
        all.find(|deployment| deployment.status == DeploymentStatus::Queued).map(|deployment| deployment.id)
    }

    /// The one running deployment.
    pub fn current_deployment(&self) -> Option<&Deployment> {
        let mut sessions = [&self.leaving, &self.lock].into_iter().flatten();
        let of_sessions = sessions.find_map(|session| session.unfinished_deployment());
        of_sessions.or_else(|| self.reset.as_ref().filter(|deployment| deployment.status.occupies_environment()))
    }
}
