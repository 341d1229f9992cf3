//! Owns what the clients of one environment saw, in a form that can be written to a file and checked again.

use serde::{Deserialize, Serialize};

/// Nanoseconds of this machine's steady clock since the run began.
pub type Moment = u64;

/// Which of the history's sessions; `History::names` has the server's names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Session(pub u32);

/// Everything that was asked of one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub environment: String,
    /// What the clients' choices came from.
    pub seed: u64,
    pub records: Vec<Record>,
    /// When the server was killed: moments by which its process had ended. Nothing that was asked of it before takes effect
    /// later.
    pub kills: Vec<Moment>,
    /// Of a cluster instead: in each interval another node took over the environment's shard. What the owner before it had
    /// not made durable by then never takes effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<Interval>,
    /// When nodes of a cluster were being stopped: claims with a place in the queue do not wait any longer then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Interval>,
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub since: Moment,
    pub by: Moment,
}

/// One request, from just before its first byte was sent until its answer was there, or none was expected any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub client: u32,
    pub sent: Moment,
    pub ended: Moment,
    pub request: Request,
    pub answer: Answer,
    /// In a cluster: from this moment on no node passes it on, since the one that it was sent to has ended or has answered
    /// it. Without it, that node may still do so.
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
    /// How long it waits on its connection if the lock is taken; 0: it does not.
    pub wait: Moment,
    /// If the lock is taken (and its wait is over), its place in the queue is kept under a session.
    pub queues: bool,
    pub priority: i8,
    pub ttl: Option<Moment>,
    /// Requests with the same key are retries of one another. Only on claims that neither wait nor queue.
    pub key: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Granted {
        lock: Lock,
        /// Whose lock a force-claim took.
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
    /// A session, as it was read or after it was renewed or released.
    Session {
        status: Status,
        fencing: Option<u64>,
        position: Option<usize>,
    },
    /// A heartbeat was refused because the session had not the lock.
    NotHolding(Status),
    NoSuchSession,
    Environment {
        lock: Option<Lock>,
        queue_length: usize,
    },
    /// Who waits, in order; those on a connection have no session yet.
    Queue(Vec<Option<Session>>),
    /// It says for certain that nothing was done, and nothing else.
    NothingDone,
    /// No answer, or one that does not say: it may have been done or not, at any time after it was sent.
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
    /// When a request without an answer is over: whatever effect it has, it has had by then. A kill ends all that was sent
    /// to the server before. A take-over ends only what no node passes on any more: of that, the owner before it has all
    /// there is, and can write nothing from then on; the rest may still reach the new owner.
    pub fn over(&self, record: &Record) -> Option<Moment> {
        let killed = self.kills.iter().copied().find(|killed| *killed > record.sent);
        let taken_over = || self.takeovers.iter().find(|takeover| record.let_go.is_some_and(|at| at < takeover.since));
        killed.or_else(|| Some(taken_over()?.by))
    }

    /// Whether a node was being stopped at some time within.
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
    /// Every lock that it tells of.
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

    /// The session that the request made.
    pub fn made(&self) -> Option<Session> {
        if let Self::Granted { lock: Lock { session, .. }, .. } | Self::Queued { session, .. } = self {
            Some(*session)
        } else {
            None
        }
    }
}
