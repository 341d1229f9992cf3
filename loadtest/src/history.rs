//! Owns what the clients saw: one record for each request, with the times between which its effect took place. The
//! checkers read nothing else, so whatever they find can be shown with the requests that prove it.

use std::fmt;

/// Nanoseconds since the run began, by this machine's steady clock; all clients are on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// A session's name as the server gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(pub Box<str>);

/// One request, from its first byte sent to its last byte received.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub client: u32,
    /// Which of the run's environments it was about; for "any environment", the one that was given. None if it was about
    /// none: a claim of any that was refused.
    pub environment: Option<u32>,
    pub request: Request,
    pub sent: Moment,
    /// When the answer was there, or when it was clear that none comes.
    pub ended: Moment,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Claim {
        /// It named no environment, but labels.
        any: bool,
        /// From here on it was certainly in line, before the server was asked for anything that was sent later: it was
        /// seen in the queue, or told so. None: not known.
        in_line_at: Option<Moment>,
        /// The lock ends by itself this long after the grant, unless renewed.
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
    /// Reads the environment.
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
    /// The environment as it was read.
    Environment {
        holder: Option<SessionName>,
        fencing: u64,
        queue_length: u64,
    },
    /// The session as it was read.
    Session {
        status: SessionStatus,
        fencing: u64,
        deployments: u64,
    },
    /// An answer that says that nothing was done.
    Refused {
        status: u16,
        code: Box<str>,
    },
    /// The connection broke, or the client went away on purpose: the effect may have taken place or not, and if it did,
    /// at any time after `sent`.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    Queued,
    Active,
    Ended,
    Overridden,
}

/// Everything that was recorded of one run.
#[derive(Debug, Default)]
pub struct History {
    pub records: Vec<Record>,
    /// Names of the environments, by their number in the records.
    pub environments: Vec<String>,
    /// Reads made after all clients had stopped (and whatever ends by itself had time to): the state that was left behind.
    pub audit: Vec<Record>,
    /// No one else used these environments, so tokens have no gaps unless an answer is unknown.
    pub alone: bool,
    /// How many sessions of each environment the server keeps; older ones may rightly be gone.
    pub retention: u64,
}

impl History {
    pub fn grants(&self) -> usize {
        self.records.iter().filter(|record| matches!(record.answer, Answer::Granted { .. })).count()
    }

    /// With the reads made at the end.
    pub fn everything(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(&self.audit)
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
