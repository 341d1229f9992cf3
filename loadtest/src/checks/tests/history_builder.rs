//! Builds the histories of the tests: one line per request, times in seconds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::time::Duration;

use crate::checks::all;
use crate::history::{Answer, History, Moment, Record, Request, SessionName, SessionStatus};
use crate::report::Check;

/// A claim, as the client sends it.
pub const CLAIM: Request = Request::Claim { any: false, in_line_at: None, ttl: None };
pub const CLAIM_ANY: Request = Request::Claim { any: true, in_line_at: None, ttl: None };

/// Unless set otherwise, every request is for the environment `load-0` and comes from a separate client.
pub struct HistoryBuilder {
    pub history: History,
}

impl HistoryBuilder {
    pub fn new() -> Self {
        let environments = vec!["load-0".to_owned(), "load-1".to_owned()];
        Self { history: History { environments, alone: true, retention: 1_000, ..History::default() } }
    }

    /// Lets others use the environments too.
    pub fn among_others(mut self) -> Self {
        self.history.alone = false;
        self
    }

    pub fn with(mut self, request: Request, sent: f64, ended: f64, answer: Answer) -> Self {
        let client = 1_000 + self.history.records.len() as u32;
        self.history.records.push(Record {
            client,
            environment: Some(0),
            request,
            sent: at(sent),
            ended: at(ended),
            answer,
        });
        self
    }

    /// Sets the client of the last request.
    pub fn by(mut self, client: u32) -> Self {
        self.history.records.last_mut().unwrap().client = client;
        self
    }

    /// Sets the environment of the last request; some requests have none.
    pub fn of(mut self, environment: Option<u32>) -> Self {
        self.history.records.last_mut().unwrap().environment = environment;
        self
    }

    pub fn claim(self, sent: f64, ended: f64, session: &str, fencing: u64) -> Self {
        self.with(CLAIM, sent, ended, granted(session, fencing))
    }

    pub fn claim_with_ttl(self, sent: f64, ended: f64, ttl: f64, session: &str, fencing: u64) -> Self {
        let ttl = Some(Duration::from_secs_f64(ttl));
        self.with(Request::Claim { any: false, in_line_at: None, ttl }, sent, ended, granted(session, fencing))
    }

    pub fn claim_in_line(self, sent: f64, in_line: f64, ended: f64, session: &str, fencing: u64) -> Self {
        self.with(waiting(in_line), sent, ended, granted(session, fencing))
    }

    pub fn force_claim(self, sent: f64, ended: f64, session: &str, fencing: u64) -> Self {
        self.with(Request::ForceClaim, sent, ended, granted(session, fencing))
    }

    pub fn release(self, sent: f64, ended: f64, session: &str) -> Self {
        self.with(Request::Release { session: name(session) }, sent, ended, Answer::Done)
    }

    pub fn heartbeat(self, sent: f64, ended: f64, session: &str) -> Self {
        self.with(Request::Heartbeat { session: name(session) }, sent, ended, Answer::Done)
    }

    pub fn deploy(self, sent: f64, ended: f64, session: &str) -> Self {
        self.with(Request::Deploy { session: name(session) }, sent, ended, Answer::Done)
    }

    pub fn read(self, sent: f64, ended: f64, holder: Option<&str>, fencing: u64) -> Self {
        self.with(Request::ReadEnvironment, sent, ended, environment(holder, fencing, 0))
    }

    pub fn read_session(self, sent: f64, ended: f64, session: &str, status: SessionStatus, fencing: u64) -> Self {
        self.read_deployments(sent, ended, session, (status, fencing, 0))
    }

    pub fn read_deployments(self, sent: f64, ended: f64, session: &str, shown: (SessionStatus, u64, u64)) -> Self {
        let (status, fencing, deployments) = shown;
        let answer = Answer::Session { status, fencing, deployments };
        self.with(Request::ReadSession { session: name(session) }, sent, ended, answer)
    }

    /// Turns the last request into one that was sent after all clients had stopped.
    pub fn audited(mut self) -> Self {
        let read = self.history.records.pop().unwrap();
        self.history.audit.push(read);
        self
    }

    pub fn check(&self, rule: &str) -> Check {
        all(&self.history).into_iter().find(|check| check.name == rule).unwrap()
    }

    /// Asserts that the rule compared something and found no violation.
    #[track_caller]
    pub fn keeps(&self, rule: &str) {
        let check = self.check(rule);
        assert_eq!(check.violation_count, 0, "{check:#?}");
        assert!(check.examined > 0, "nothing was compared");
    }

    /// Asserts that the rule finds nothing to compare.
    #[track_caller]
    pub fn says_nothing_about(&self, rule: &str) {
        let check = self.check(rule);
        assert_eq!((check.examined, check.violation_count), (0, 0), "{check:#?}");
    }

    /// Asserts that the rule finds one violation, with this text and this number of requests.
    #[track_caller]
    pub fn breaks(&self, rule: &str, what: &str, requests: usize) {
        let check = self.check(rule);
        assert_eq!(check.violation_count, 1, "{check:#?}");
        assert!(check.violations[0].what.contains(what), "{check:#?}");
        assert_eq!(check.violations[0].requests.len(), requests, "{check:#?}");
        assert!(check.examined > 0, "{check:#?}");
    }
}

pub fn at(seconds: f64) -> Moment {
    Moment((seconds * 1e9).round() as u64)
}

pub fn name(session: &str) -> SessionName {
    SessionName(session.into())
}

pub fn waiting(in_line: f64) -> Request {
    Request::Claim { any: false, in_line_at: Some(at(in_line)), ttl: None }
}

pub fn granted(session: &str, fencing: u64) -> Answer {
    Answer::Granted { session: name(session), fencing }
}

pub fn refused(status: u16, code: &str) -> Answer {
    Answer::Refused { status, code: code.into() }
}

pub fn environment(holder: Option<&str>, fencing: u64, queue_length: u64) -> Answer {
    Answer::Environment { holder: holder.map(name), fencing, queue_length }
}
