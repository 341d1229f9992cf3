//! Prints a history for a reader: one line per request; of a refused history, only what the contradiction needs.

use std::fmt::Write;

use crate::linearizability::checker::{Verdict, Violation, check};
use crate::linearizability::history::{Answer, History, Interval, Lock, Moment, Record, Request, Session};
use crate::linearizability::state::State;

/// Number of requests shown before the refused answer.
const SHOWN_BEFORE: usize = 25;

pub fn verdict(history: &History, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Linearizable => format!("{}: linearizable\n", history.environment),
        Verdict::Undecided { record } => {
            let line = line(history, &history.records[*record]);
            format!("{}: undecided, too many orders are possible at\n    {line}\n", history.environment)
        }
        Verdict::Violation(refused) => violation(history, refused),
    }
}

/// The unexplained answer, the requests before it, and the states that were possible.
fn violation(history: &History, violation: &Violation) -> String {
    let refused = &history.records[violation.record];
    let mut before: Vec<&Record> = history.records.iter().filter(|record| record.sent <= refused.ended).collect();
    before.sort_by_key(|record| record.ended);
    let mut text = format!("{}: {}\n", history.environment, violation.why);
    let mut losses = losses(history).into_iter().filter(|(at, _)| *at <= refused.ended).peekable();
    let first = before.len().saturating_sub(SHOWN_BEFORE);
    for record in &before[first..] {
        while let Some((_, loss)) = losses.next_if(|(at, _)| *at <= record.ended) {
            // Writing to a string cannot fail.
            _ = writeln!(text, "    {loss}");
        }
        let mark = if std::ptr::eq(*record, refused) { ">>>" } else { "   " };
        _ = writeln!(text, "{mark} {}", line(history, record));
    }
    for possible in &violation.before {
        _ = writeln!(text, "    possible before it: {}", state(history, possible));
    }
    text
}

/// Kills, take-overs and stops, in time order.
fn losses(history: &History) -> Vec<(Moment, String)> {
    let within = |what: &str, interval: &Interval| {
        let Interval { since, by } = *interval;
        (by, format!("{} s .. {} s  {what}", seconds(since), seconds(by)))
    };
    let kills = history.kills.iter().map(|at| (*at, format!("{} s  the server was killed", seconds(*at))));
    let takeovers = history.takeovers.iter().map(|takeover| within("another node took over", takeover));
    let stops = history.stops.iter().map(|stop| within("a node was being stopped", stop));
    let mut all: Vec<_> = kills.chain(takeovers).chain(stops).collect();
    all.sort();
    all
}

fn line(history: &History, record: &Record) -> String {
    let Record { client, sent, ended, request, answer, let_go: _ } = record;
    let name = |session: &Session| name(history, *session);
    let asked = match request {
        Request::Claim(claim) => {
            let wait = if claim.waits() { format!(", waits {} s", seconds(claim.wait)) } else { String::new() };
            let queue = if claim.queues { ", queues" } else { "" };
            let ttl = claim.ttl.map_or_else(String::new, |ttl| format!(", TTL {} s", seconds(ttl)));
            let key = claim.key.map_or_else(String::new, |key| format!(", key {key}"));
            format!("claim{wait}{queue}, priority {}{ttl}{key}", claim.priority)
        }
        Request::ForceClaim { key, .. } => {
            format!("force-claim{}", key.map_or_else(String::new, |key| format!(", key {key}")))
        }
        Request::Release(session) => format!("release {}", name(session)),
        Request::Heartbeat(session) => format!("heartbeat {}", name(session)),
        Request::ReadEnvironment => "read the environment".to_owned(),
        Request::ReadSession(session) => format!("read {}", name(session)),
        Request::ReadQueue => "read the queue".to_owned(),
    };
    format!("{} s .. {} s  client {client}  {asked}: {}", seconds(*sent), seconds(*ended), told(history, answer))
}

fn told(history: &History, answer: &Answer) -> String {
    let held = |held: &Option<Lock>| held.map_or_else(|| "free".to_owned(), |held| lock(history, held));
    match answer {
        Answer::Granted { lock: granted, overrode } => match overrode {
            Some(overrode) => format!("granted {}, overrode {}", lock(history, *granted), lock(history, *overrode)),
            None => format!("granted {}", lock(history, *granted)),
        },
        Answer::Queued { session, position } => format!("queued {} at {position}", name(history, *session)),
        Answer::Locked { holder } => format!("locked by {}", held(holder)),
        Answer::Session { status, fencing, position } => {
            format!("{status:?}, fencing token {fencing:?}, position {position:?}")
        }
        Answer::NotHolding(status) => format!("refused, it is {status:?}"),
        Answer::NoSuchSession => "no such session".to_owned(),
        Answer::Environment { lock, queue_length } => format!("{}, {queue_length} in the queue", held(lock)),
        Answer::Queue(waiting) => {
            let one = |waiting: &Option<Session>| waiting.map_or_else(|| "-".to_owned(), |one| name(history, one));
            format!("[{}]", waiting.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Answer::NothingDone => "refused, nothing was done".to_owned(),
        Answer::Unknown => "no answer".to_owned(),
    }
}

fn state(history: &History, state: &State) -> String {
    let named = |session: Option<Session>| session.map_or_else(|| "?".to_owned(), |session| name(history, session));
    let holder = match &state.holder {
        Some(holder) => format!("held by {} ({})", named(holder.session), holder.fencing),
        None => format!("free after {}", state.fencing),
    };
    let queue: Vec<_> = state.queue.iter().map(|waiter| named(waiter.session)).collect();
    format!("{holder}, queue [{}]", queue.join(" "))
}

fn lock(history: &History, lock: Lock) -> String {
    format!("{} ({})", name(history, lock.session), lock.fencing)
}

fn name(history: &History, session: Session) -> String {
    history.names.get(session.0 as usize).cloned().unwrap_or_else(|| format!("session {}", session.0))
}

/// Seconds with six decimals.
fn seconds(nanoseconds: Moment) -> String {
    format!("{}.{:06}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000)
}

/// The longest history that is shortened: the search is repeated once per record.
const MAX_RECORDS: usize = 2_000;

/// Drops the requests sent after the unexplained answer, and every request without effect that the contradiction does
/// not need. Requests that may have had an effect stay: without them the rest would prove nothing.
pub fn minimised(history: &History) -> History {
    let Verdict::Violation(violation) = check(history) else { return history.clone() };
    if history.records.len() > MAX_RECORDS {
        return history.clone();
    }
    let end = history.records[violation.record].ended;
    let mut shortest = history.clone();
    shortest.records.retain(|record| record.sent <= end);
    shortest.kills.retain(|killed| *killed <= end);
    shortest.takeovers.retain(|takeover| takeover.since <= end);
    if !is_refused(&shortest) {
        // The contradiction needs a later answer.
        shortest = history.clone();
    }
    let mut index = shortest.records.len();
    while index > 0 {
        index -= 1;
        if has_effect(&shortest.records[index]) {
            continue;
        }
        let removed = shortest.records.remove(index);
        if !is_refused(&shortest) {
            shortest.records.insert(index, removed);
        }
    }
    shortest
}

fn is_refused(history: &History) -> bool {
    matches!(check(history), Verdict::Violation(_))
}

/// A claim that timed out was in the queue meanwhile, which others may have seen.
fn has_effect(record: &Record) -> bool {
    let waited = matches!(&record.request, Request::Claim(claim) if claim.waits());
    let changes = matches!(
        record.answer,
        Answer::Granted { .. } | Answer::Queued { .. } | Answer::Session { .. } | Answer::Unknown
    );
    waited || !record.request.is_read() && changes
}
