//! What sessions show: they go from queued to active to their end and never back, count every acknowledged deployment,
//! and stay readable as long as the server promises to keep them.

use std::collections::HashMap;

use crate::checks::evidence::{Evidence, Grant, is_activity, session};
use crate::checks::findings::{Findings, status_word};
use crate::history::{Answer, History, Moment, Record, Request, SessionName, SessionStatus};

pub fn check<'h>(evidence: &Evidence<'h>, findings: &mut Findings<'h>) {
    let newest = newest_tokens(evidence);
    for records in by_session(evidence.history).chunk_by(|one, other| one.number == other.number) {
        let records: Vec<&Record> = records.iter().map(|numbered| numbered.record).collect();
        let Some(name) = records.first().and_then(|record| session(record)) else { continue };
        let grant = evidence.grant_of(name);
        let newest = grant.and_then(|grant| newest.get(&grant.environment).copied());
        Life { name, grant, newest, retention: evidence.history.retention }.check(&records, findings);
    }
}

struct Numbered<'h> {
    number: usize,
    sent: Moment,
    record: &'h Record,
}

/// All requests to sessions that were shown at least once, grouped by session. Sorts numbers instead of names, because
/// there may be millions.
fn by_session(history: &History) -> Vec<Numbered<'_>> {
    let mut numbers: HashMap<&SessionName, usize> = HashMap::new();
    for name in history.everything().filter(|record| shows(record)).filter_map(session) {
        let next = numbers.len();
        numbers.entry(name).or_insert(next);
    }
    let numbered = |record| Some(Numbered { number: *numbers.get(session(record)?)?, sent: record.sent, record });
    let mut records: Vec<_> = history.everything().filter_map(numbered).collect();
    records.sort_unstable_by_key(|numbered| (numbered.number, numbered.sent));
    records
}

/// The highest token that each environment can have reached: the highest one granted or shown, plus one for each
/// unanswered claim. Unknown if others claim as well.
fn newest_tokens(evidence: &Evidence<'_>) -> HashMap<u32, u64> {
    let mut newest: HashMap<u32, u64> = HashMap::new();
    if !evidence.history.alone {
        return newest;
    }
    for record in evidence.history.everything() {
        let (Answer::Granted { fencing, .. } | Answer::Environment { fencing, .. } | Answer::Session { fencing, .. }) =
            record.answer
        else {
            continue;
        };
        if let Some(environment) = record.environment {
            let newest = newest.entry(environment).or_default();
            *newest = fencing.max(*newest);
        }
    }
    for (environment, newest) in &mut newest {
        *newest = newest.saturating_add(evidence.unanswered.count(*environment) as u64);
    }
    newest
}

struct Life<'e, 'h> {
    name: &'h SessionName,
    grant: Option<&'e Grant<'h>>,
    /// The highest token that the session's environment can have reached, if known.
    newest: Option<u64>,
    retention: u64,
}

/// The known state of a session at some moment, and the answers that showed it.
#[derive(Default)]
struct Known<'h> {
    active: Option<&'h Record>,
    ended: Option<&'h Record>,
    /// How the session ended, if that was shown. An acknowledged release may have come too late to be the cause.
    how: Option<(SessionStatus, &'h Record)>,
    deployed: u64,
    deployments: Option<(u64, &'h Record)>,
}

impl<'h> Life<'_, 'h> {
    /// Compares every answer with the state known when its request was sent.
    fn check(&self, records: &[&'h Record], findings: &mut Findings<'h>) {
        // A repeated answer may be as old as the first unanswered request.
        let unanswered = records.iter().filter(|record| is_activity(record) && record.answer == Answer::Unknown);
        let unanswered = unanswered.map(|record| record.sent).min();
        let mut asked: Vec<(Moment, &Record)> =
            records.iter().map(|record| (since(record, unanswered), *record)).collect();
        asked.sort_by_key(|(at, _)| *at);
        let mut told: Vec<&Record> = records.iter().copied().chain(self.grant.map(|grant| grant.record)).collect();
        told.sort_by_key(|record| record.ended);
        let mut told = told.into_iter().peekable();
        let mut known = Known::default();
        for (at, record) in asked {
            while let Some(earlier) = told.next_if(|earlier| earlier.ended <= at) {
                known.learn(earlier);
            }
            if !shows(record) {
                continue;
            }
            findings.examined();
            if let Some((what, shown_by)) = self.fault(record, &known) {
                let requests: Vec<_> = shown_by.into_iter().chain([record]).collect();
                findings.wrong(|| what, &requests);
            }
        }
    }

    /// The fault of an answer, and the earlier answer that proves it.
    fn fault(&self, record: &'h Record, known: &Known<'h>) -> Option<(String, Option<&'h Record>)> {
        let name = self.name;
        match &record.answer {
            Answer::Session { status, fencing, deployments } => {
                let fault = self.wrong_status(record, *status, known);
                fault.or_else(|| self.wrong_token(*status, *fencing)).or_else(|| known.missing(name, *deployments))
            }
            Answer::Done => {
                let ended = known.ended.filter(|_| is_activity(record))?;
                Some((format!("{name} had ended, and something was done in it"), Some(ended)))
            }
            Answer::Refused { status: 404, .. } => self.wrongly_gone(record),
            Answer::Refused { .. } => {
                let grant = self.held_until_after(record)?;
                Some((format!("{name} certainly held its lock, and was told that it did not"), Some(grant.record)))
            }
            Answer::Granted { .. } | Answer::Environment { .. } | Answer::Unknown => None,
        }
    }

    fn wrong_status(
        &self,
        record: &Record,
        status: SessionStatus,
        known: &Known<'h>,
    ) -> Option<(String, Option<&'h Record>)> {
        let (name, shown) = (self.name, status_word(status));
        match status {
            SessionStatus::Queued => {
                let before = known.ended.or(known.active)?;
                Some((format!("{name} was {shown} again"), Some(before)))
            }
            SessionStatus::Active => Some((format!("{name} was {shown} after it had ended"), Some(known.ended?))),
            SessionStatus::Ended | SessionStatus::Overridden => {
                if let Some((how, before)) = known.how.filter(|(how, _)| *how != status) {
                    return Some((format!("{name} was {shown} after it was {}", status_word(how)), Some(before)));
                }
                let grant = self.held_until_after(record)?;
                Some((format!("{name} was {shown} while it certainly held its lock"), Some(grant.record)))
            }
        }
    }

    fn wrong_token(&self, status: SessionStatus, fencing: u64) -> Option<(String, Option<&'h Record>)> {
        let grant = self.grant.filter(|grant| status != SessionStatus::Queued && grant.token != fencing)?;
        let (name, token) = (self.name, grant.token);
        Some((format!("{name} showed fencing {fencing}, and was granted {token}"), Some(grant.record)))
    }

    /// The session's grant, if the lock was still held after the answer. That is enough, since an ended session stays
    /// ended.
    fn held_until_after(&self, record: &Record) -> Option<&Grant<'h>> {
        self.grant.filter(|grant| grant.is_held() && record.ended <= grant.held_until)
    }

    /// Reports a session that is missing too early: the server keeps the newest sessions of each environment, and the
    /// holder.
    fn wrongly_gone(&self, record: &Record) -> Option<(String, Option<&'h Record>)> {
        let grant = self.grant.filter(|grant| grant.told() <= record.sent)?;
        let (name, token, newest) = (self.name, grant.token, self.newest?);
        let kept = token.saturating_add(self.retention) > newest;
        let what =
            || format!("{name} (fencing {token}) was not found, of {newest} of which {} are kept", self.retention);
        kept.then(|| (what(), Some(grant.record)))
    }
}

impl<'h> Known<'h> {
    fn learn(&mut self, record: &'h Record) {
        match &record.answer {
            Answer::Granted { .. } => _ = self.active.get_or_insert(record),
            Answer::Done if is_activity(record) => {
                self.active.get_or_insert(record);
                if matches!(record.request, Request::Deploy { .. }) {
                    self.deployed += 1;
                    self.count(self.deployed, record);
                }
            }
            Answer::Done => _ = self.ended.get_or_insert(record),
            Answer::Session { status, deployments, .. } => {
                self.count(*deployments, record);
                match status {
                    SessionStatus::Queued => {}
                    SessionStatus::Active => _ = self.active.get_or_insert(record),
                    SessionStatus::Ended | SessionStatus::Overridden => {
                        self.ended.get_or_insert(record);
                        self.how.get_or_insert((*status, record));
                    }
                }
            }
            Answer::Environment { .. } | Answer::Refused { .. } | Answer::Unknown => {}
        }
    }

    fn count(&mut self, deployments: u64, record: &'h Record) {
        if self.deployments.is_none_or(|(known, _)| known < deployments) {
            self.deployments = Some((deployments, record));
        }
    }

    fn missing(&self, name: &SessionName, shown: u64) -> Option<(String, Option<&'h Record>)> {
        let (known, record) = self.deployments.filter(|(known, _)| *known > shown)?;
        Some((format!("{name} showed {shown} deployments of at least {known}"), Some(record)))
    }
}

/// Whether the answer shows the session's state.
fn shows(record: &Record) -> bool {
    match &record.answer {
        Answer::Session { .. } | Answer::Refused { status: 404, .. } => true,
        Answer::Done => is_activity(record),
        Answer::Refused { status, code } => *status == 409 && is_activity(record) && code.starts_with("session_"),
        Answer::Granted { .. } | Answer::Environment { .. } | Answer::Unknown => false,
    }
}

fn since(record: &Record, unanswered: Option<Moment>) -> Moment {
    let repeats = is_activity(record) && record.answer == Answer::Done;
    unanswered.filter(|_| repeats).map_or(record.sent, |first| first.min(record.sent))
}
