//! The pool: its waiters, and which environments are free.

use std::sync::Arc;

use super::*;
use crate::samples::{at, identifier, labels};

const LINUX: &[(&str, &str)] = &[("os", "linux")];
const MAC: &[(&str, &str)] = &[("os", "mac")];

fn join(pool: &mut Pool, number: u64, wants: &[(&str, &str)]) -> Arc<Waiter> {
    let waiter = Arc::new(Claim { waits: Some(KeptBy::Polling), known: false, ..claim(number) }.into_waiter(at(0)));
    pool.put_back(waiter.clone(), Arc::new(labels(wants)));
    waiter
}

fn configuration(has: &[(&str, &str)]) -> Arc<Configuration> {
    Arc::new(Configuration { labels: labels(has), ..Configuration::default() })
}

fn free(has: &[(&str, &str)], last_used: Option<i64>) -> Availability {
    Availability::Free { configuration: configuration(has), last_used: last_used.map(Timestamp::from_millis) }
}

fn there(_: &Waiter) -> Presence {
    Presence::Connected
}

fn tickets<'a>(waiters: impl Iterator<Item = &'a Arc<Waiter>>) -> Vec<u64> {
    let mut tickets: Vec<_> = waiters.map(|waiter| waiter.ticket.0).collect();
    tickets.sort_unstable();
    tickets
}

#[test]
fn an_environment_does_for_those_whose_labels_it_has() {
    let mut pool = Pool::default();
    assert!(pool.is_empty());
    for (number, wants) in [(1, MAC), (2, LINUX), (3, &[])] {
        join(&mut pool, number, wants);
    }
    assert_eq!((pool.len(), pool.is_empty()), (3, false));
    assert_eq!(tickets(pool.iter()), [1, 2, 3]);
    assert_eq!(tickets(pool.waiting_for(&configuration(LINUX))), [2, 3]);
    assert!(pool.wants(&configuration(MAC), there));
    pool.leave(Ticket(3));
    assert!(!pool.wants(&configuration(&[]), there));
    assert!(!pool.wants(&configuration(LINUX), |_| Presence::Vanished), "its client is gone");
}

#[test]
fn only_a_waiter_that_comes_before_the_own_ones_is_taken() {
    let mut pool = Pool::default();
    let (second, fourth) = (join(&mut pool, 2, &[]).turn(), join(&mut pool, 4, &[]).turn());
    let turn = |number| Turn { ticket: Ticket(number), ..second };
    let first = |pool: &Pool, before| pool.first(&Configuration::default(), before, there).map(|first| first.turn());
    assert_eq!(first(&pool, None), Some(second));
    assert_eq!(first(&pool, Some(turn(1))), None);
    assert_eq!(first(&pool, Some(turn(3))), Some(second));
    assert_eq!(pool.take(&Configuration::default(), Some(turn(9)), there).map(|taken| taken.ticket), Some(Ticket(2)));
    assert_eq!(first(&pool, None), Some(fourth));
}

#[test]
fn a_waiter_is_made_known_once() {
    let mut pool = Pool::default();
    let waiter = join(&mut pool, 1, &[]);
    assert!(!waiter.known);
    assert!(pool.make_known(Ticket(1)).is_some_and(|known| known.known && known.session.id == waiter.session.id));
    assert!(pool.get(Ticket(1)).unwrap().known);
    assert_eq!(pool.make_known(Ticket(1)), None, "it is known already");
    assert_eq!(pool.make_known(Ticket(2)), None);
}

#[test]
fn the_least_recently_used_environment_with_the_labels_is_offered_first_and_once() {
    let mut pool = Pool::default();
    let names = ["old", "new", "never", "mac"].map(identifier);
    let [old, new, never, mac] = &names;
    for (name, has, last_used) in [(old, LINUX, Some(1)), (new, LINUX, Some(2)), (never, LINUX, None), (mac, MAC, None)]
    {
        assert!(!pool.knows(name));
        pool.report(name, free(has, last_used));
        assert!(pool.knows(name));
    }
    assert!(pool.has_match(&labels(LINUX)) && !pool.has_match(&labels(&[("os", "bsd")])));
    assert!(!pool.is_offered(&labels(LINUX)));
    let offered: Vec<_> = std::iter::from_fn(|| pool.offer(&labels(LINUX))).collect();
    assert_eq!(offered, [never.clone(), old.clone(), new.clone()]);
    assert!(pool.is_offered(&labels(LINUX)) && !pool.is_offered(&labels(MAC)));
    pool.report(old, Availability::Taken { configuration: configuration(LINUX) });
    pool.report(new, Availability::Gone);
    pool.report(never, Availability::Gone);
    assert!(!pool.is_offered(&labels(LINUX)) && !pool.knows(new));
    assert!(pool.has_match(&labels(LINUX)), "one has them, although it is taken");
    assert_eq!(pool.offer(&Labels::new()), Some(mac.clone()));
}

#[test]
fn an_environment_that_is_taken_or_gone_is_no_longer_free() {
    for gone in [Availability::Gone, Availability::Taken { configuration: configuration(LINUX) }] {
        let mut pool = Pool::default();
        pool.report(&identifier("review-1"), free(LINUX, None));
        pool.report(&identifier("review-1"), gone);
        assert_eq!((pool.offer(&labels(LINUX)), pool.offer(&Labels::new())), (None, None));
    }
}

#[test]
fn what_is_neither_free_nor_disabled_is_taken() {
    let mut pool = Pool::default();
    let disabled = Arc::new(Configuration { disabled: true, ..(*configuration(LINUX)).clone() });
    pool.report(&identifier("free"), free(LINUX, None));
    pool.report(&identifier("disabled"), Availability::Taken { configuration: disabled });
    assert_eq!(pool.taken(&labels(LINUX)).next(), None);
    pool.report(&identifier("taken"), Availability::Taken { configuration: configuration(LINUX) });
    pool.report(&identifier("mac"), Availability::Taken { configuration: configuration(MAC) });
    assert_eq!(pool.taken(&labels(LINUX)).collect::<Vec<_>>(), [&identifier("taken")]);
    assert_eq!(pool.taken(&Labels::new()).count(), 2);
}

#[test]
fn as_many_are_offered_as_there_are_ready_waiters() {
    let mut pool = Pool::default();
    for name in ["a", "b", "c"] {
        pool.report(&identifier(name), free(LINUX, None));
    }
    assert_eq!(pool.offers(there), [], "nobody waits");
    join(&mut pool, 1, LINUX);
    join(&mut pool, 2, LINUX);
    join(&mut pool, 3, MAC);
    let present = |waiter: &Waiter| if waiter.ticket.0 == 2 { Presence::Vanished } else { Presence::Connected };
    assert_eq!(pool.offers(present), [identifier("a")]);
    assert_eq!(pool.offers(there), [identifier("b"), identifier("c")]);
    assert_eq!(pool.offers(there), []);
}

#[test]
fn all_that_match_are_disabled_or_not() {
    let mut pool = Pool::default();
    let disabled = Arc::new(Configuration { disabled: true, ..(*configuration(LINUX)).clone() });
    pool.report(&identifier("a"), Availability::Taken { configuration: disabled });
    assert!(pool.all_disabled(&labels(LINUX)));
    pool.report(&identifier("b"), Availability::Taken { configuration: configuration(LINUX) });
    assert!(!pool.all_disabled(&labels(LINUX)));
}
