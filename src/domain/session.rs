//! A session: one person's lock on an environment, and the deployments made with it.

use std::sync::Arc;

use super::named::named_enum;
use super::{
    CommitId, Context, Deadline, Deployment, Event, EventData, Expiry, Malformed, Now, Person, SessionExpiredData,
    SessionId, SessionOverriddenData, SessionReleasedData, Tick, Timestamp,
};

/// The number of deployments listed per session. Older finished ones are dropped, but still counted in
/// `deployment_count`. The limit bounds the size of an environment's record.
pub(super) const DEPLOYMENTS_LISTED: usize = 100;

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
    /// None for a session that is queued, or left the queue without the lock.
    pub claimed: Option<Claimed>,
    pub ended: Option<Ended>,
    /// In order of arrival.
    pub deployments: Vec<Deployment>,
    pub deployment_count: u64,
    /// Counts the changes of this session, for its ETag.
    pub revision: u64,
}

/// From -100 to 100; higher priorities go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(i8);

impl Priority {
    pub const RANGE: std::ops::RangeInclusive<i64> = -100..=100;

    pub fn new(value: i64) -> Result<Self, Malformed> {
        i8::try_from(value)
            .ok()
            .filter(|_| Self::RANGE.contains(&value))
            .map(Self)
            .ok_or(Malformed("must be an integer from -100 to 100"))
    }

    pub const fn get(self) -> i8 {
        self.0
    }
}

/// The grant of the lock, and when it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Rises with each grant of the environment, so it also numbers the sessions of the history.
    pub fencing_token: u64,
    pub at: Timestamp,
    pub tick: Tick,
    pub lease: Option<Lease>,
    pub hold_until: Option<Deadline>,
    /// Set while the client may not know of the grant: it has to poll before this deadline.
    pub unseen_until: Option<Deadline>,
    /// Whether the client has shown that it knows of the grant.
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
    /// None if the session expired.
    pub by: Option<Person>,
    pub how: EndedHow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedHow {
    Released,
    /// Ended by the force-claim of this session.
    Overridden(SessionId),
    Expired(Expiry),
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

    /// Whether the session holds the lock and its client may not know of it.
    pub fn is_unseen(&self) -> bool {
        self.ended.is_none() && self.claimed.as_ref().is_some_and(|claimed| claimed.unseen_until.is_some())
    }

    /// When and why the session expires without further activity.
    pub fn expiry(&self) -> Option<(Deadline, Expiry)> {
        let claimed = self.claimed.as_ref()?;
        let lease = claimed.lease.map(|lease| (lease.until, Expiry::Ttl));
        let hold = claimed.hold_until.map(|until| (until, Expiry::MaxHold));
        let unseen = claimed.unseen_until.map(|until| (until, Expiry::Unasked));
        [lease, hold, unseen].into_iter().flatten().min_by_key(|(until, _)| until.due)
    }

    /// Whether the session holds the lock with neither a TTL nor a maximum hold, so that it only ends when it is
    /// released.
    pub fn never_expires(&self) -> bool {
        let endless = |claimed: &Claimed| claimed.lease.is_none() && claimed.hold_until.is_none();
        self.ended.is_none() && self.claimed.as_ref().is_some_and(endless)
    }

    /// The running deployment.
    pub fn unfinished_deployment(&self) -> Option<&Deployment> {
        self.deployments.iter().find(|deployment| deployment.status.occupies_environment())
    }

    /// The event of the session's end, once it has ended.
    pub fn end_event(&self) -> Option<Event> {
        let how = self.ended.as_ref()?.how;
        let fencing_token = self.fencing_token();
        let data = match how {
            EndedHow::Released => EventData::SessionReleased(SessionReleasedData { fencing_token }),
            EndedHow::Overridden(overridden_by) => {
                EventData::SessionOverridden(SessionOverriddenData { fencing_token, overridden_by })
            }
            EndedHow::Expired(reason) => EventData::SessionExpired(SessionExpiredData { fencing_token, reason }),
        };
        Some(Event::session(self.id, data))
    }

    pub(super) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.revision += 1;
    }

    /// Any activity of the holder renews the lease.
    pub(super) fn renew(&mut self, now: Now) {
        if let Some(claimed) = &mut self.claimed {
            claimed.lease = claimed.lease.map(|lease| Lease::new(lease.ttl_seconds, now));
            claimed.unseen_until = None;
            claimed.seen = true;
            self.revision += 1;
        }
    }
}

impl Lease {
    pub(super) fn new(ttl_seconds: u32, now: Now) -> Self {
        Self { ttl_seconds, until: Deadline::after(now, i64::from(ttl_seconds) * 1000) }
    }
}
