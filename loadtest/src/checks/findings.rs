//! Collects the findings of a rule: counts all, and reports the first few with the requests that show them, one per
//! line.

use std::fmt::Write;

use crate::checks::evidence::name;
use crate::history::{Answer, History, Moment, Record, Request, SessionStatus};
use crate::report::{Check, Violation};

/// Number of findings reported in full: enough to see a pattern.
const TOLD_MAX: usize = 5;

pub struct Findings<'h> {
    history: &'h History,
    check: Check,
}

impl<'h> Findings<'h> {
    pub fn new(history: &'h History, name: &str) -> Self {
        Self { history, check: Check::new(name.to_owned()) }
    }

    pub fn examined(&mut self) {
        self.check.examined += 1;
    }

    /// `what` is called only for findings that are reported in full.
    pub fn wrong(&mut self, what: impl FnOnce() -> String, requests: &[&Record]) {
        let history = self.history;
        self.check.broken(TOLD_MAX, || {
            let mut requests = requests.to_vec();
            requests.sort_by_key(|record| (record.sent, record.ended));
            requests.dedup_by(|one, other| std::ptr::eq(*one, *other));
            Violation { what: what(), requests: requests.into_iter().map(|record| line(history, record)).collect() }
        });
    }

    pub fn into_check(self) -> Check {
        self.check
    }
}

/// For example `12.345678 s .. 12.346012 s  client 17  claim load-000003  granted ses_… fencing 42`.
pub fn line(history: &History, record: &Record) -> String {
    let Record { client, sent, ended, .. } = record;
    let (sent, ended) = (seconds(*sent), seconds(*ended));
    format!("{sent} s .. {ended} s  client {client}  {}  {}", asked(history, record), told(&record.answer))
}

/// Seconds with six decimals.
pub fn seconds(Moment(nanoseconds): Moment) -> String {
    format!("{}.{:06}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000)
}

pub fn status_word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Queued => "queued",
        SessionStatus::Active => "active",
        SessionStatus::Ended => "ended",
        SessionStatus::Overridden => "overridden",
    }
}

fn asked(history: &History, record: &Record) -> String {
    let environment = record.environment.map(|environment| name(history, environment));
    let environment = environment.as_deref().unwrap_or("-");
    match &record.request {
        Request::Claim { any, in_line_at, ttl } => {
            let mut text = String::from(if *any { "claim any: " } else { "claim " }) + environment;
            // Writing to a string cannot fail.
            if let Some(ttl) = ttl {
                _ = write!(text, ", TTL {} s", ttl.as_secs_f64());
            }
            if let Some(at) = in_line_at {
                _ = write!(text, ", in line by {} s", seconds(*at));
            }
            text
        }
        Request::ForceClaim => format!("force-claim {environment}"),
        Request::Release { session } => format!("release {session} of {environment}"),
        Request::Heartbeat { session } => format!("heartbeat {session} of {environment}"),
        Request::Deploy { session } => format!("deploy {session} of {environment}"),
        Request::ReadEnvironment => format!("read {environment}"),
        Request::ReadSession { session } => format!("read {session} of {environment}"),
    }
}

fn told(answer: &Answer) -> String {
    match answer {
        Answer::Granted { session, fencing } => format!("granted {session} fencing {fencing}"),
        Answer::Done => "done".to_owned(),
        Answer::Environment { holder: Some(holder), fencing, queue_length } => {
            format!("held by {holder} fencing {fencing}, {queue_length} in line")
        }
        Answer::Environment { holder: None, fencing: 0, queue_length } => format!("free, {queue_length} in line"),
        Answer::Environment { holder: None, fencing, queue_length } => {
            format!("free, fencing {fencing}, {queue_length} in line")
        }
        Answer::Session { status: of, fencing, deployments } => {
            format!("{} fencing {fencing}, deployments {deployments}", status_word(*of))
        }
        Answer::Refused { status, code } => format!("refused {status} {code}"),
        Answer::Unknown => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SessionName;

    #[test]
    fn a_request_reads_as_one_line() {
        let history = History { environments: vec!["load-000003".to_owned()], ..History::default() };
        let granted = Answer::Granted { session: SessionName("ses_a".into()), fencing: 42 };
        let record = Record {
            client: 17,
            environment: Some(0),
            request: Request::Claim { any: false, in_line_at: None, ttl: None },
            sent: Moment(12_345_678_999),
            ended: Moment(12_346_012_000),
            answer: granted,
        };
        let shown = "12.345678 s .. 12.346012 s  client 17  claim load-000003  granted ses_a fencing 42";
        assert_eq!(line(&history, &record), shown);
        let elsewhere = Record { environment: None, answer: Answer::Unknown, ..record };
        assert_eq!(line(&history, &elsewhere), "12.345678 s .. 12.346012 s  client 17  claim -  no answer");
    }
}
