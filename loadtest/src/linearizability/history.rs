//! The observations of the clients of one environment, in a form that can be written to a file and checked again.

use serde::{Deserialize, Serialize};

/// Nanoseconds since the start of the run, by this machine's monotonic clock.
pub type Moment = u64;

/// Index of a session in the history; `History::names` has the server's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Session(pub u32);

/// All requests to one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub environment: String,
    /// The seed of the clients' choices.
    pub seed: u64,
    pub records: Vec<Record>,
    /// When the server was killed: moments by which its process had ended. Requests sent before a kill have no effect
    /// after it.
    pub kills: Vec<Moment>,
    /// For a cluster, instead of kills: in each interval another node took over the environment's shard. Changes that
    /// the previous owner had not made durable by then never take effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<Interval>,
    /// When nodes of a cluster were being stopped: claims with a place in the queue then stop waiting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Interval>,
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub since: Moment,
    pub by: Moment,
}

/// One request, from just before its first byte was sent until its answer arrived, or the client gave up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub client: u32,
    pub sent: Moment,
    pub ended: Moment,
    pub request: Request,
    pub answer: Answer,
    /// In a cluster: from this moment on no node forwards the request, because the node it was sent to has ended or has
    /// answered it. If absent, that node may still forward it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub let_go: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Claim(Claim),
    ForceClaim { ttl: Option<Moment>, key: Option<u32> },
    Release(Session),
    Heartbeat(Session),
    ReadEnvironment,
    ReadSession(Session),
    ReadQueue,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// How long the claim waits on its connection if the lock is taken; 0 means not at all.
    pub wait: Moment,
    /// Whether the claim, if the lock is taken (and its wait is over), keeps a place in the queue under a session.
    pub queues: bool,
    pub priority: i8,
    pub ttl: Option<Moment>,
    /// Requests with the same key are retries of one another. Used only by claims that neither wait nor queue.
    pub key: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Granted {
        lock: Lock,
        /// The lock that a force-claim overrode.
        overrode: Option<Lock>,
    },
    /// A place in the queue, from 1.
    Queued {
        session: Session,
        position: usize,
    },
    Locked {
        holder: Option<Lock>,
    },
    /// A session, as read or as returned by a heartbeat or release.
    Session {
        status: Status,
        fencing: Option<u64>,
        position: Option<usize>,
    },
    /// A heartbeat was refused because the session did not hold the lock.
    NotHolding(Status),
    NoSuchSession,
    Environment {
        lock: Option<Lock>,
        queue_length: usize,
    },
    /// The waiters in order; those on a connection have no session yet.
    Queue(Vec<Option<Session>>),
    /// Certainly nothing was done; the answer shows nothing else.
    NothingDone,
    /// No answer, or an inconclusive one: the request may have taken effect at any time after it was sent, or not at
    /// all.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lock {
    pub session: Session,
    pub fencing: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    Queued,
    Active,
    Released,
    Overridden,
    Expired,
}

impl History {
    /// When an unanswered request is over: it can have no effect after that. A kill ends all requests sent to the
    /// server before it. A take-over ends only requests that no node forwards any more: the previous owner has received
    /// all of these, and cannot write from then on; the others may still reach the new owner.
    pub fn over(&self, record: &Record) -> Option<Moment> {
        let killed = self.kills.iter().copied().find(|killed| *killed > record.sent);
        let taken_over = || self.takeovers.iter().find(|takeover| record.let_go.is_some_and(|at| at < takeover.since));
        killed.or_else(|| Some(taken_over()?.by))
    }

    /// Whether a node was being stopped at some time in the interval.
    pub fn is_stopping_within(&self, since: Moment, by: Moment) -> bool {
        self.stops.iter().any(|stop| stop.since <= by && stop.by >= since)
    }
}

impl Claim {
    pub fn waits(&self) -> bool {
        self.wait > 0
    }
}

impl Request {
    pub fn key(&self) -> Option<u32> {
        if let Self::Claim(Claim { key, .. }) | Self::ForceClaim { key, .. } = self { *key } else { None }
    }

    pub fn is_read(&self) -> bool {
        matches!(self, Self::ReadEnvironment | Self::ReadSession(_) | Self::ReadQueue)
    }
}

impl Answer {
    /// Every lock that the answer names.
    pub fn locks(&self) -> impl Iterator<Item = Lock> {
        let (one, other) = if let Self::Granted { lock, overrode } = self {
            (Some(*lock), *overrode)
        } else if let Self::Locked { holder: lock } | Self::Environment { lock, .. } = self {
            (*lock, None)
        } else {
            (None, None)
        };
        one.into_iter().chain(other)
    }

    /// The session that the request created.
    pub fn made(&self) -> Option<Session> {
        if let Self::Granted { lock: Lock { session, .. }, .. } | Self::Queued { session, .. } = self {
            Some(*session)
        } else {
            None
        }
    }
}
