//! Owns how one recorded request is shown to a reader: when, by whom, what it asked for and what it was told.

use std::fmt::Write;

use super::evidence::name;
use crate::history::{Answer, History, Moment, Record, Request, SessionStatus};

/// `12.345678 s .. 12.346012 s  client 17  claim load-000003  granted ses_… fencing 42`
pub fn of(history: &History, record: &Record) -> String {
    let Record { client, sent, ended, .. } = record;
    let (sent, ended) = (seconds(*sent), seconds(*ended));
    format!("{sent} s .. {ended} s  client {client}  {}  {}", asked(history, record), told(&record.answer))
}

/// To the microsecond.
pub fn seconds(Moment(nanoseconds): Moment) -> String {
    format!("{}.{:06}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000)
}

pub fn status(status: SessionStatus) -> &'static str {
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
            format!("{} fencing {fencing}, deployments {deployments}", status(*of))
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
        let line = "12.345678 s .. 12.346012 s  client 17  claim load-000003  granted ses_a fencing 42";
        assert_eq!(of(&history, &record), line);
        let elsewhere = Record { environment: None, answer: Answer::Unknown, ..record };
        assert_eq!(of(&history, &elsewhere), "12.345678 s .. 12.346012 s  client 17  claim -  no answer");
    }
}
