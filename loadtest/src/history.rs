//! Records what the clients saw: one record per request, with the times between which it took effect. The checkers read
//! nothing else, so every finding can be shown with the requests that prove it.

use std::fmt;

/// Nanoseconds since the start of the run, by this machine's monotonic clock; all clients are on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// A session's id as given by the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(pub Box<str>);

/// One request, from its first byte sent to its last byte received.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub client: u32,
    /// The environment of the request; for a claim of any environment, the one that was granted. None if such a claim
    /// was refused.
    pub environment: Option<u32>,
    pub request: Request,
    pub sent: Moment,
    /// When the answer had arrived, or when it was clear that none would come.
    pub ended: Moment,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Claim {
        /// Whether the claim named labels instead of an environment.
        any: bool,
        /// From this moment on the claim was certainly in the queue, since it was seen there or its answer said so.
        /// None if unknown.
        in_line_at: Option<Moment>,
        /// The lock expires this long after the grant unless renewed.
        ttl: Option<std::time::Duration>,
    },
    ForceClaim,
    Release {
        session: SessionName,
    },
    Heartbeat {
        session: SessionName,
    },
    Deploy {
        session: SessionName,
    },
    ReadEnvironment,
    ReadSession {
        session: SessionName,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Granted {
        session: SessionName,
        fencing: u64,
    },
    /// A release, a heartbeat or a deployment was acknowledged.
    Done,
    Environment {
        holder: Option<SessionName>,
        fencing: u64,
        queue_length: u64,
    },
    Session {
        status: SessionStatus,
        fencing: u64,
        deployments: u64,
    },
    /// Nothing was done.
    Refused {
        status: u16,
        code: Box<str>,
    },
    /// The connection broke, or the client disconnected on purpose: the request may have taken effect at any time after
    /// `sent`, or not at all.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    Queued,
    Active,
    Ended,
    Overridden,
}

/// All records of one run.
#[derive(Debug, Default)]
pub struct History {
    pub records: Vec<Record>,
    /// Names of the environments, indexed by their number in the records.
    pub environments: Vec<String>,
    /// Reads made after all clients had stopped and all leases and waits had time to end: the state left behind.
    pub audit: Vec<Record>,
    /// Whether no one else used these environments, so that tokens have no gaps unless an answer is unknown.
    pub alone: bool,
    /// Number of sessions of each environment that the server keeps; older ones may be gone.
    pub retention: u64,
}

impl History {
    pub fn grants(&self) -> usize {
        self.records.iter().filter(|record| matches!(record.answer, Answer::Granted { .. })).count()
    }

    /// Includes the reads made at the end.
    pub fn everything(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(&self.audit)
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
