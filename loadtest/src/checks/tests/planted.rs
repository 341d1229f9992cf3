//! Plants faults into a correct history, each where the clients' answers prove that a promise was broken.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::HashSet;

use crate::history::{Answer, History, Moment, Record, Request, SessionName, SessionStatus};

/// Changes one of the suitable places, selected by the number; returns false if there is none.
pub type Plant = fn(&mut History, usize) -> bool;

/// Another client gets a lock while one certainly holds it.
pub fn a_second_holder(history: &mut History, choice: usize) -> bool {
    let forced: HashSet<_> = of(history, |request| *request == Request::ForceClaim).map(|r| r.environment).collect();
    let places = grants(history, |record| {
        let claimed = matches!(record.request, Request::Claim { ttl: None, .. });
        let released = of(history, |request| is_release_of(request, session(record)));
        let gap = released.map(|release| release.sent.0).min().unwrap_or(u64::MAX) > record.ended.0 + 1;
        claimed && gap && history.alone && !forced.contains(&record.environment) && !has_doubts(history, record)
    });
    let Some(place) = pick(&places, choice) else { return false };
    let first = &history.records[place];
    let fencing = highest(history, first.environment) + 1;
    let second = Record {
        client: 999,
        environment: first.environment,
        request: Request::Claim { any: false, in_line_at: None, ttl: None },
        sent: first.ended,
        ended: Moment(first.ended.0 + 1),
        answer: Answer::Granted { session: nobody(), fencing },
    };
    history.records.push(second);
    true
}

/// A claim that was sent after another was granted gets a lower token.
pub fn tokens_that_fall(history: &mut History, choice: usize) -> bool {
    let later = |one: &Record, other: &Record| one.ended <= other.sent;
    swap_tokens(history, choice, later)
}

pub fn a_token_of_two_sessions(history: &mut History, choice: usize) -> bool {
    let pairs = pairs(history, |one, other| fencing(one) < fencing(other));
    let Some((one, other)) = pick(&pairs, choice) else { return false };
    let shared = fencing(&history.records[one]);
    set_fencing(&mut history.records[other], shared);
    true
}

/// From one token on, all tokens are higher by one, in every answer.
pub fn a_token_that_nobody_got(history: &mut History, choice: usize) -> bool {
    let places = pairs(history, |one, other| {
        let complete = history.alone
            && !unanswered(history).any(|lost| lost.environment.is_none_or(|e| Some(e) == one.environment));
        complete && fencing(one) < fencing(other)
    });
    let Some((_, place)) = pick(&places, choice) else { return false };
    let (environment, from) = (history.records[place].environment, fencing(&history.records[place]));
    for record in history.records.iter_mut().chain(&mut history.audit).filter(|r| r.environment == environment) {
        if fencing(record) >= from {
            let raised = fencing(record) + 1;
            set_fencing(record, raised);
        }
    }
    true
}

/// A claim that was in the queue when another was sent is granted after that one.
pub fn one_that_is_passed(history: &mut History, choice: usize) -> bool {
    swap_tokens(history, choice, |one, other| {
        let Request::Claim { any: false, in_line_at: Some(in_line), .. } = one.request else { return false };
        matches!(other.request, Request::Claim { .. }) && in_line <= other.sent && other.sent < one.ended
    })
}

/// An environment shows a lower token than an earlier answer.
pub fn an_old_token_that_is_shown(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| {
        let told = history.records.iter().filter(|record| is_grant(record) && record.ended <= read.sent);
        read.request == Request::ReadEnvironment && told.filter(|r| r.environment == read.environment).count() > 0
    });
    let Some(place) = pick(&reads, choice) else { return false };
    let fencing = highest(history, history.audit[place].environment) - 1;
    history.audit[place].answer = Answer::Environment { holder: Some(nobody()), fencing, queue_length: 0 };
    true
}

/// A session whose release was acknowledged is shown as the holder, with its own token.
pub fn a_holder_that_gave_its_lock_back(history: &mut History, choice: usize) -> bool {
    let released = grants(history, |record| {
        of(history, |request| is_release_of(request, session(record))).any(|release| release.answer == Answer::Done)
    });
    let Some(place) = pick(&released, choice) else { return false };
    let Answer::Granted { session, fencing } = history.records[place].answer.clone() else { return false };
    let environment = history.records[place].environment;
    let mut reads = history.audit.iter_mut().filter(|read| read.request == Request::ReadEnvironment);
    let read = reads.find(|read| read.environment == environment).unwrap();
    read.answer = Answer::Environment { holder: Some(session), fencing, queue_length: 0 };
    true
}

pub fn a_session_that_comes_back(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| {
        let done = |release: &Record| release.answer == Answer::Done;
        shown(read).is_some() && of(history, |request| is_release_of(request, read_session(read))).any(done)
    });
    let Some(place) = pick(&reads, choice) else { return false };
    let (_, fencing, deployments) = shown(&history.audit[place]).unwrap();
    history.audit[place].answer = Answer::Session { status: SessionStatus::Active, fencing, deployments };
    true
}

pub fn a_deployment_that_is_missing(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| {
        let deployed =
            |request: &Request| matches!(request, Request::Deploy { session } if Some(session) == read_session(read));
        shown(read).is_some() && of(history, deployed).any(|deploy| deploy.answer == Answer::Done)
    });
    let Some(place) = pick(&reads, choice) else { return false };
    let acknowledged = |record: &&Record| {
        let read = read_session(&history.audit[place]);
        record.answer == Answer::Done && matches!(&record.request, Request::Deploy { session } if Some(session) == read)
    };
    let count = history.records.iter().filter(acknowledged).count() as u64;
    let (status, fencing, _) = shown(&history.audit[place]).unwrap();
    history.audit[place].answer = Answer::Session { status, fencing, deployments: count - 1 };
    true
}

pub fn a_session_that_is_forgotten(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| shown(read).is_some() && history.alone && history.retention >= 1_000);
    let Some(place) = pick(&reads, choice) else { return false };
    history.audit[place].answer = Answer::Refused { status: 404, code: "session_not_found".into() };
    true
}

pub fn a_lock_that_nobody_has(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| {
        let lost = unanswered(history).any(|lost| lost.environment.is_none_or(|place| Some(place) == read.environment));
        read.request == Request::ReadEnvironment && history.alone && !lost
    });
    let Some(place) = pick(&reads, choice) else { return false };
    let fencing = highest(history, history.audit[place].environment) + 1;
    history.audit[place].answer = Answer::Environment { holder: Some(nobody()), fencing, queue_length: 0 };
    true
}

pub fn one_that_still_waits(history: &mut History, choice: usize) -> bool {
    let reads = audits(history, |read| read.request == Request::ReadEnvironment && history.alone);
    let Some(place) = pick(&reads, choice) else { return false };
    let Answer::Environment { queue_length, .. } = &mut history.audit[place].answer else { return false };
    *queue_length = 1;
    true
}

/// Swaps only tokens of clients that got all their answers: otherwise the grant may answer an older request.
fn swap_tokens(history: &mut History, choice: usize, wanted: fn(&Record, &Record) -> bool) -> bool {
    let pairs = pairs(history, |one, other| wanted(one, other) && !has_doubts(history, other));
    let Some((one, other)) = pick(&pairs, choice) else { return false };
    let tokens = (fencing(&history.records[one]), fencing(&history.records[other]));
    set_fencing(&mut history.records[one], tokens.1);
    set_fencing(&mut history.records[other], tokens.0);
    true
}

fn grants(history: &History, wanted: impl Fn(&Record) -> bool) -> Vec<usize> {
    let places = history.records.iter().enumerate().filter(|(_, record)| is_grant(record) && wanted(record));
    places.map(|(place, _)| place).collect()
}

/// Two sessions of one environment, each granted in only one answer: a second answer would contradict the changed one.
fn pairs(history: &History, wanted: impl Fn(&Record, &Record) -> bool) -> Vec<(usize, usize)> {
    let all = grants(history, |one| history.records.iter().filter(|other| session(other) == session(one)).count() == 1);
    let pairs = all.iter().flat_map(|one| all.iter().map(|other| (*one, *other)));
    let fits = |(one, other): &(usize, usize)| {
        let (one, other) = (&history.records[*one], &history.records[*other]);
        one.environment == other.environment && session(one) != session(other) && wanted(one, other)
    };
    pairs.filter(fits).collect()
}

fn audits(history: &History, wanted: impl Fn(&Record) -> bool) -> Vec<usize> {
    history.audit.iter().enumerate().filter(|(_, read)| wanted(read)).map(|(place, _)| place).collect()
}

fn pick<T: Copy>(places: &[T], choice: usize) -> Option<T> {
    places.get(choice.checked_rem(places.len())?).copied()
}

fn of<'h>(history: &'h History, wanted: impl Fn(&Request) -> bool + 'h) -> impl Iterator<Item = &'h Record> + 'h {
    history.records.iter().filter(move |record| wanted(&record.request))
}

fn unanswered(history: &History) -> impl Iterator<Item = &Record> {
    let claims = of(history, |request| matches!(request, Request::Claim { .. } | Request::ForceClaim));
    claims.filter(|record| record.answer == Answer::Unknown)
}

fn has_doubts(history: &History, record: &Record) -> bool {
    unanswered(history).any(|lost| lost.client == record.client)
}

fn is_grant(record: &Record) -> bool {
    session(record).is_some()
}

fn session(record: &Record) -> Option<&SessionName> {
    if let Answer::Granted { session, .. } = &record.answer { Some(session) } else { None }
}

fn read_session(record: &Record) -> Option<&SessionName> {
    if let Request::ReadSession { session } = &record.request { Some(session) } else { None }
}

fn is_release_of(request: &Request, wanted: Option<&SessionName>) -> bool {
    matches!(request, Request::Release { session } if Some(session) == wanted)
}

fn shown(record: &Record) -> Option<(SessionStatus, u64, u64)> {
    let Answer::Session { status, fencing, deployments } = record.answer else { return None };
    Some((status, fencing, deployments))
}

fn highest(history: &History, environment: Option<u32>) -> u64 {
    let records = history.records.iter().filter(|record| record.environment == environment && is_grant(record));
    records.map(fencing).max().unwrap_or_default()
}

fn fencing(record: &Record) -> u64 {
    match record.answer {
        Answer::Granted { fencing, .. } | Answer::Environment { fencing, .. } | Answer::Session { fencing, .. } => {
            fencing
        }
        Answer::Done | Answer::Refused { .. } | Answer::Unknown => 0,
    }
}

fn set_fencing(record: &mut Record, token: u64) {
    if let Answer::Granted { fencing, .. } | Answer::Environment { fencing, .. } | Answer::Session { fencing, .. } =
        &mut record.answer
    {
        *fencing = token;
    }
}

/// A name that no session of the simulation has.
fn nobody() -> SessionName {
    SessionName("ses_nobody".into())
}
