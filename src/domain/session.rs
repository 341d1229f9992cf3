//! A session: one person's lock on an environment, and the deployments made with it.

use std::sync::Arc;

use super::named::named_enum;
use super::{
    CommitId, Context, Deadline, DeploymentId, Event, EventType, Priority, Run, SessionId, Tick, Timestamp, UserId,
};

/// Of the error of a deployment: a page of the history with eight sessions of a hundred deployments each must fit into one
/// batch of the store.
pub const ERROR_BYTES_MAX: usize = 256;

/// How many deployments a session lists. Older finished ones are dropped, but still counted in `deployment_count`. Bounds
/// an environment's record.
pub(super) const DEPLOYMENTS_LISTED: usize = 100;

/// A user, by the name they had at the time.
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
    pub priority: Priority,
    /// As requested; the environment may have a default.
    pub ttl_seconds: Option<u32>,
    pub created_at: Timestamp,
    /// None while it is queued, and if it left the queue without the lock.
    pub claimed: Option<Claimed>,
    pub ended: Option<Ended>,
    /// In order of arrival.
    pub deployments: Vec<Deployment>,
    pub deployment_count: u64,
    /// Counts the changes of this session, for its ETag.
    pub revision: u64,
}

/// The grant of the lock, and when it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Increases by one with each grant of the environment, so it also numbers the sessions of the history.
    pub fencing_token: u64,
    pub at: Timestamp,
    pub tick: Tick,
    pub lease: Option<Lease>,
    pub hold_until: Option<Deadline>,
    /// Its client may not know of the grant, and has to poll until then.
    pub unseen_until: Option<Deadline>,
    /// Its client has shown that it knows of the grant.
    pub seen: bool,
}

/// Expires `ttl_seconds` after the last activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub ttl_seconds: u32,
    pub until: Deadline,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    /// None if it expired.
    pub by: Option<Person>,
    pub how: EndedHow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedHow {
    Released,
    /// By the force-claim of this session.
    Overridden(SessionId),
    Expired(Expiry),
}

named_enum! {
    /// Why a session expired.
    pub enum Expiry {
        /// No activity within its TTL.
        Ttl = "ttl",
        /// It held the lock as long as the environment allows.
        MaxHold = "max_hold",
        /// Nobody polled it for too long, in the queue or after the grant.
        Unasked = "unasked",
        /// Its client was gone before it could be answered.
        Vanished = "vanished",
    }
}

named_enum! {
    pub enum SessionStatus {
        Queued = "queued",
        Active = "active",
        Released = "released",
        Overridden = "overridden",
        Expired = "expired",
    }
}

/// The session that a command refers to. If it is not the environment's holder, the actor reads it from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    pub id: SessionId,
    pub ended: Option<Arc<Session>>,
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
    pub status: DeploymentStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// At most [`ERROR_BYTES_MAX`].
    pub error: Option<Arc<str>>,
    /// Counts its changes, for its ETag.
    pub revision: u32,
    /// Whether it has had stages: then more is stored than this record.
    pub staged: bool,
    /// From its start to its end, and while it waits for a retry.
    pub run: Option<Arc<Run>>,
}

named_enum! {
    pub enum DeploymentStatus {
        Queued = "queued",
        Running = "running",
        /// Its next stage needs approval. Nothing of it runs, and nothing else is deployed meanwhile.
        AwaitingApproval = "awaiting_approval",
        /// Told to stop, and may still run.
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

impl Session {
    pub fn status(&self) -> SessionStatus {
        match (self.ended.as_ref().map(|ended| ended.how), &self.claimed) {
            (None, None) => SessionStatus::Queued,
            (None, Some(_)) => SessionStatus::Active,
            (Some(EndedHow::Released), _) => SessionStatus::Released,
            (Some(EndedHow::Overridden(_)), _) => SessionStatus::Overridden,
            (Some(EndedHow::Expired(_)), _) => SessionStatus::Expired,
        }
    }

    pub fn fencing_token(&self) -> Option<u64> {
        self.claimed.as_ref().map(|claimed| claimed.fencing_token)
    }

    /// Whether it has the lock and its client may not know of it.
    pub fn is_unseen(&self) -> bool {
        self.ended.is_none() && self.claimed.as_ref().is_some_and(|claimed| claimed.unseen_until.is_some())
    }

    /// When and why it expires without further activity.
    pub fn expiry(&self) -> Option<(Deadline, Expiry)> {
        let claimed = self.claimed.as_ref()?;
        let lease = claimed.lease.map(|lease| (lease.until, Expiry::Ttl));
        let hold = claimed.hold_until.map(|until| (until, Expiry::MaxHold));
        let unseen = claimed.unseen_until.map(|until| (until, Expiry::Unasked));
        [lease, hold, unseen].into_iter().flatten().min_by_key(|(until, _)| until.due)
    }

    /// Whether it has the lock with neither a TTL nor a longest time: it ends only if somebody ends it.
    pub fn never_expires(&self) -> bool {
        let endless = |claimed: &Claimed| claimed.lease.is_none() && claimed.hold_until.is_none();
        self.ended.is_none() && self.claimed.as_ref().is_some_and(endless)
    }

    /// The running deployment.
    pub fn unfinished_deployment(&self) -> Option<&Deployment> {
        self.deployments.iter().find(|deployment| deployment.status.occupies_environment())
    }

    /// The event of its end, once it has ended.
    pub fn end_event(&self) -> Option<Event> {
        let how = self.ended.as_ref()?.how;
        let event = |event_type| Event::session(event_type, self.id).with_some("fencingToken", self.fencing_token());
        Some(match how {
            EndedHow::Released => event(EventType::SessionReleased),
            EndedHow::Overridden(successor) => {
                event(EventType::SessionOverridden).with("overriddenBy", successor.to_string())
            }
            EndedHow::Expired(why) => event(EventType::SessionExpired).with("reason", why.as_str()),
        })
    }

    pub(super) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.revision += 1;
    }
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

    pub(super) fn event(&self, event_type: EventType, session: Option<SessionId>) -> Event {
        let event = Event::deployment(event_type, session, self.id).with("commitId", self.commit.shared());
        event.with_some("error", self.error.clone())
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
