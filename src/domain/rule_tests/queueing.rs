//! The queue of an environment, and when a waiter keeps its place.

use std::sync::Arc;

use super::*;
use crate::samples::{at, by_key};

fn waiter(number: u64, kept_by: KeptBy, known: bool) -> Waiter {
    Claim { waits: Some(kept_by), known, ..claim(number) }.into_waiter(at(0))
}

fn with_priority(number: u64, priority: i64) -> Arc<Waiter> {
    let mut waiter = waiter(number, KeptBy::Polling, true);
    waiter.session.priority = Priority::new(priority).unwrap();
    Arc::new(waiter)
}

#[test]
fn a_priority_is_from_minus_100_to_100() {
    for value in [-100, -1, 0, 100] {
        assert_eq!(i64::from(Priority::new(value).unwrap().get()), value);
    }
    for value in [-101, 101, 300, i64::MIN] {
        assert!(Priority::new(value).is_err(), "{value}");
    }
}

#[test]
fn a_place_survives_a_restart_unless_a_connection_alone_keeps_it() {
    let durable = |kept_by, known| waiter(2, kept_by, known).is_durable();
    assert!(!durable(KeptBy::Connection, true) && durable(by_key(2), true) && durable(KeptBy::Polling, false));
    let findable = |kept_by, known| waiter(2, kept_by, known).is_findable();
    assert!(!findable(KeptBy::Connection, true), "nobody can come back to it");
    assert!(findable(by_key(2), false), "its key leads to it");
    assert!(findable(KeptBy::Polling, true) && !findable(KeptBy::Polling, false), "only who knows its id");
}

#[test]
fn a_queue_with_a_place_that_must_survive_says_so() {
    let mut queue = Queue::new();
    assert!(queue.is_empty() && !queue.has_durable());
    queue.insert(Arc::new(waiter(1, KeptBy::Connection, true)));
    assert!(!queue.is_empty() && !queue.has_durable());
    queue.insert(Arc::new(waiter(2, KeptBy::Polling, true)));
    assert!(queue.has_durable());
    queue.remove(Ticket(2)).unwrap();
    assert!(!queue.has_durable() && queue.len() == 1);
    queue.remove(Ticket(1)).unwrap();
    assert!(queue.is_empty());
}

#[test]
fn positions_count_all_who_go_first() {
    let mut queue = Queue::new();
    for (number, priority) in [(1, 0), (2, 0), (3, 5), (4, 5), (5, -5), (6, 0)] {
        queue.insert(with_priority(number, priority));
    }
    let order: Vec<_> = queue.iter().map(|waiter| waiter.ticket.0).collect();
    assert_eq!(order, [3, 4, 1, 2, 6, 5]);
    let positions: Vec<_> = queue.iter().map(|waiter| queue.position(waiter)).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5, 6]);
    assert_eq!(queue.position(&with_priority(7, 0)), 5, "one that is not in it has those before it");
}

#[test]
fn a_waiter_is_found_by_its_whole_id() {
    let mut queue = Queue::new();
    queue.insert(Arc::new(waiter(2, KeptBy::Polling, true)));
    let id = queue.get(Ticket(2)).unwrap().session.id;
    assert_eq!(queue.session(id).map(|waiter| waiter.ticket), Some(Ticket(2)));
    assert_eq!(queue.session(SessionId { seed: IdSeed([9; 12]), ..id }), None, "the ticket alone is not enough");
    assert_eq!(queue.session(SessionId { origin: Origin::Granted(2), ..id }), None);
}

#[test]
fn whether_a_client_is_there_follows_from_its_connection_and_what_keeps_its_place() {
    let presence = |kept_by, known, connection, closing| {
        waiter(2, kept_by, known).presence(connection, closing, Tick(100), |_| Tick(50))
    };
    let (open, lost, absent) = (Connection::Open, Connection::Closed { keyed: false }, Connection::Absent);
    let keyed = Connection::Closed { keyed: true };
    let (polled, now) = (Presence::LastSeen(Tick(50)), Presence::LastSeen(Tick(100)));
    assert_eq!(presence(KeptBy::Connection, true, open, true), Presence::Connected);
    assert_eq!(presence(KeptBy::Polling, true, absent, false), polled);
    assert_eq!(presence(KeptBy::Polling, false, absent, false), Presence::Vanished, "nobody knows its id");
    assert_eq!(presence(KeptBy::Polling, false, keyed, false), polled, "its key leads to its id");
    assert_eq!(presence(KeptBy::Polling, true, lost, false), Presence::Vanished);
    assert_eq!(presence(by_key(2), true, absent, false), polled);
    assert_eq!(presence(by_key(2), true, keyed, true), now, "the server itself has closed it");
    assert_eq!(presence(by_key(2), true, keyed, false), Presence::Vanished);
    assert_eq!(presence(KeptBy::Connection, true, absent, true), Presence::Vanished);
}

#[test]
fn a_client_that_is_told_its_session_is_known_from_then_on() {
    let mut subject = locked();
    subject.run(0, Claim { waits: Some(KeptBy::Polling), known: false, ..claim(2) }).unwrap();
    let ((), outcome) = subject.run(1, MakeKnown { ticket: Ticket(2) }).unwrap();
    assert!(outcome.made_known.is_some_and(|waiter| waiter.known && waiter.ticket == Ticket(2)));
    assert!(subject.environment.queue.get(Ticket(2)).unwrap().known);
    let ((), outcome) = subject.run(2, MakeKnown { ticket: Ticket(2) }).unwrap();
    assert_eq!(outcome.made_known, None, "it is known already");
    assert_eq!(subject.queue(), [2]);
}

#[test]
fn who_hangs_up_leaves_and_who_stops_waiting_is_told_who_has_the_lock() {
    let mut subject = locked();
    for number in [2, 3] {
        subject.run(0, Claim { waits: Some(by_key(number)), ..claim(number) }).unwrap();
    }
    subject.run(1, HangUp { tickets: vec![Ticket(2)] }).unwrap();
    assert_eq!(subject.queue(), [3]);
    let (refused, outcome) = subject.run(2, StopWaiting { ticket: Ticket(3) }).unwrap();
    assert!(matches!(refused, Some(Rejection::EnvironmentLocked { queue_length: 0, .. })));
    assert_eq!((outcome.dequeued.len(), subject.queue()), (1, vec![]));
    assert_eq!(subject.run(3, StopWaiting { ticket: Ticket(3) }).unwrap().0, None, "it no longer waits");
}

#[test]
fn a_waiter_without_a_sign_of_life_expires_when_its_time_is_over_and_not_before() {
    let mut subject = locked();
    for number in [2, 3, 4] {
        subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(number) }).unwrap();
    }
    subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(0))), (Ticket(3), Presence::Vanished)];
    let (next, outcome) = subject.run(ASK_WITHIN_MILLIS - 1, Elapse).unwrap();
    assert_eq!((next, subject.queue()), (Some(Tick(ASK_WITHIN_MILLIS)), vec![2, 4]));
    let why = |outcome: &Outcome| outcome.left[0].ended.clone().unwrap().how;
    assert_eq!(why(&outcome), EndedHow::Expired(Expiry::Vanished));
    assert!(outcome.left[0].revision > 0, "its ETag changes with its end");
    let (next, outcome) = subject.run(ASK_WITHIN_MILLIS, Elapse).unwrap();
    assert_eq!((next, subject.queue()), (None, vec![4]));
    assert_eq!(why(&outcome), EndedHow::Expired(Expiry::Unasked));
}
