//! Guarantees for clients, over a store that can be held back, made to refuse, and killed.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::sync::Arc;

use super::*;
use ambient::steady_clock::SteadyClock;
use domain::{Boot, IdSeed, Identifier, Tick, Timestamp};
use store::{Batch, MemoryStore, Store, StoreError, end_of_prefix};

const NOW: Timestamp = Timestamp::from_millis(1_794_735_000_000);
/// The time from which an answer stored at `NOW` may be dropped if there are too many.
const MINUTES_LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + 5 * 60 * 1000);
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;
const ANA: IdSeed = IdSeed([1; 12]);
const BEN: IdSeed = IdSeed([2; 12]);
const REQUEST: Fingerprint = Fingerprint([1; 16]);
const ANOTHER: Fingerprint = Fingerprint([2; 16]);

#[test]
fn a_retry_gets_the_first_answer_again() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    for _ in 0..2 {
        assert_eq!(replayed(&keys, "a", later(NOW, 1)), Some(answer("first")));
    }
    let unlocated = StoredAnswer { status: 202, location: None, body: Vec::new(), subject: None };
    execute(&store, &keys, "b", &unlocated, NOW);
    assert_eq!(replayed(&keys, "b", NOW), Some(unlocated));
}

#[test]
fn a_key_is_its_tokens_own() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("of ana"), NOW);
    assert!(matches!(at(&keys, NOW).begin(&acme(), BEN, &key("a"), ANOTHER).unwrap(), KeyState::Unused(_)));
}

#[test]
fn another_request_under_the_same_key_is_told_so() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    assert!(matches!(at(&keys, NOW).begin(&acme(), ANA, &key("a"), ANOTHER).unwrap(), KeyState::Reused));
    assert_eq!(replayed(&keys, "a", NOW), Some(answer("first")), "and changes nothing");
}

#[test]
fn while_a_request_is_executed_its_key_is_in_flight() {
    let (_, keys) = opened(10);
    let pending = fresh(&keys, "a", NOW);
    for fingerprint in [REQUEST, ANOTHER] {
        assert!(matches!(at(&keys, NOW).begin(&acme(), ANA, &key("a"), fingerprint).unwrap(), KeyState::InFlight));
    }
    fresh(&keys, "b", NOW);
    drop(pending);
    fresh(&keys, "a", NOW);
}

#[test]
fn a_refused_request_frees_its_key_for_any_other() {
    let (store, keys) = opened(10);
    drop(fresh(&keys, "a", NOW));
    let KeyState::Unused(pending) = at(&keys, NOW).begin(&acme(), ANA, &key("a"), ANOTHER).unwrap() else {
        panic!("the key is free");
    };
    let mut batch = Batch::default();
    let in_flight = pending.keep(&mut batch, &answer("never"), NOW);
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(store.commit(batch).is_err());
    drop(in_flight);
    store.refuse_with(None);
    execute(&store, &keys, "a", &answer("at last"), NOW);
    assert_eq!(replayed(&keys, "a", NOW), Some(answer("at last")));
}

#[test]
fn a_request_is_never_executed_twice_around_the_moment_it_becomes_durable() {
    let (store, keys) = opened(10);
    store.hold();
    let mut batch = Batch::default();
    let in_flight = fresh(&keys, "a", NOW).keep(&mut batch, &answer("first"), NOW);
    let retry = || at(&keys, NOW).begin(&acme(), ANA, &key("a"), REQUEST).unwrap();
    assert!(matches!(retry(), KeyState::InFlight), "not yet handed in");
    store.commit(batch).unwrap();
    assert!(matches!(retry(), KeyState::InFlight), "not yet durable: nobody is shown what may be lost");
    store.release();
    assert!(matches!(retry(), KeyState::Executed(_)), "durable, and its guard not dropped yet");
    drop(in_flight);
    assert!(matches!(retry(), KeyState::Executed(_)));
}

#[test]
fn what_a_power_cut_took_is_executed_again_and_what_it_left_is_not() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "left", &answer("left"), NOW);
    store.hold();
    execute(&store, &keys, "taken", &answer("taken"), NOW);
    let keys = Keys::open(Arc::new(store.crash()), 10, steady()).unwrap();
    assert_eq!(replayed(&keys, "left", NOW), Some(answer("left")));
    fresh(&keys, "taken", NOW);
}

#[test]
fn the_answer_is_in_the_batch_of_its_effect() {
    let (store, keys) = opened(10);
    let pending = fresh(&keys, "a", NOW);
    assert_eq!(pending.fingerprint(), REQUEST);
    let record_key = pending.record_key().to_vec();
    let mut batch = Batch::default();
    batch.put(b"effect", b"done");
    drop(pending.keep(&mut batch, &answer("first"), NOW));
    assert!(batch.changes().any(|change| change.key == record_key));
    store.commit(batch).unwrap();
    assert!(store.get(&record_key).unwrap().is_some() && store.get(b"effect").unwrap().is_some());
}

#[tokio::test]
async fn an_answer_ages_by_the_steady_clock_alone() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    let retried = |keys: &Keys| keys.begin(&acme(), ANA, &key("a"), REQUEST).unwrap();
    assert!(matches!(retried(&keys), KeyState::Executed(_)), "in the same run");
    keys.sweep().await.unwrap();
    let keys = Keys::open(store.clone(), 10, steady()).unwrap();
    assert!(matches!(retried(&keys), KeyState::Executed(_)), "after a restart");

    // After a reboot, or on another machine, the age of an answer is unknown, except that the answer existed when the
    // server started, even if the machine has been up for days.
    let keys = Keys::open(store.clone(), 10, SteadyClock::new(Boot(2), || Tick(STEADY.get()))).unwrap();
    for (open, is_kept) in [(0, true), (DAY_MILLIS - 1, true), (DAY_MILLIS, false)] {
        STEADY.set(UPTIME_MILLIS + open);
        assert_eq!(matches!(retried(&keys), KeyState::Executed(_)), is_kept, "open for {open} ms");
    }
}

#[tokio::test]
async fn an_answer_is_kept_for_24_hours_and_no_longer() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    let last_moment = later(NOW, DAY_MILLIS - 1);
    at(&keys, last_moment).sweep().await.unwrap();
    assert_eq!(replayed(&keys, "a", last_moment), Some(answer("first")));
    // An expired answer counts as absent before any sweep.
    let expired = later(NOW, DAY_MILLIS);
    assert!(matches!(at(&keys, expired).begin(&acme(), ANA, &key("a"), ANOTHER).unwrap(), KeyState::Unused(_)));
    at(&keys, expired).sweep().await.unwrap();
    assert_eq!(left(&store), 0);
    // A clock that is set back does not age anything.
    execute(&store, &keys, "b", &answer("second"), NOW);
    assert_eq!(replayed(&keys, "b", later(NOW, -DAY_MILLIS)), Some(answer("second")));
}

#[tokio::test]
async fn beyond_the_bound_the_oldest_go_first() {
    let (store, keys) = opened(5);
    for number in 0..5 {
        execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW);
    }
    let keys = Keys::open(store.clone(), 3, steady()).unwrap();
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    let is_known = |number| replayed(&keys, &format!("k{number}"), NOW).is_some();
    assert_eq!([0, 1, 2, 3, 4].map(is_known), [false, false, true, true, true]);
    assert_eq!(left(&store), 6, "each with its entry in the index");
}

#[tokio::test]
async fn an_organization_that_records_many_answers_drops_none_of_another() {
    let (store, keys) = opened(1_000);
    assert!(execute_in(&store, &keys, &beta(), "mine", &answer("of beta"), NOW));
    (0..1_100).for_each(|number| execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW));
    for reopened in [false, true] {
        let keys = if reopened { Keys::open(store.clone(), 1_000, steady()).unwrap() } else { keys.clone() };
        at(&keys, MINUTES_LATER).sweep().await.unwrap();
        assert_eq!(replayed_in(&keys, &beta(), "mine", MINUTES_LATER), Some(answer("of beta")));
        assert!(replayed(&keys, "k0", NOW).is_none() && replayed(&keys, "k1099", NOW).is_some(), "its own oldest go");
    }
}

#[tokio::test]
async fn rather_than_to_drop_an_answer_of_the_last_minutes_a_request_is_refused() {
    let (store, keys) = opened(1_000);
    let recorded = (0..2_000).take_while(|n| execute_in(&store, &keys, &acme(), &n.to_string(), &answer("x"), NOW));
    assert_eq!(recorded.count(), 1_125);
    let last_moment = later(MINUTES_LATER, -1);
    at(&keys, last_moment).sweep().await.unwrap();
    assert!(replayed(&keys, "0", last_moment).is_some());
    assert!(begun(&keys, &acme(), "new", last_moment).is_none());
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    fresh(&keys, "new", MINUTES_LATER);
    assert!(replayed(&keys, "0", MINUTES_LATER).is_none());
}

#[tokio::test]
async fn an_organization_always_has_room_for_its_equal_part() {
    let (store, keys) = opened(1_000);
    while execute_in(&store, &keys, &acme(), &left(&store).to_string(), &answer("x"), NOW) {}
    let recorded = (0..2_000).take_while(|n| execute_in(&store, &keys, &beta(), &n.to_string(), &answer("x"), NOW));
    assert_eq!(recorded.count(), 500);
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    assert!(replayed_in(&keys, &beta(), "100", MINUTES_LATER).is_some(), "the one that had more gives way first");
    assert!(left(&store) <= 2 * 1_000);
}

#[tokio::test]
async fn what_the_store_refused_does_not_count_towards_the_bound() {
    let (store, keys) = opened(4);
    for number in 0..2 {
        execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW);
        drop(fresh(&keys, "refused", NOW).keep(&mut Batch::default(), &answer("x"), NOW));
    }
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    for number in 2..4 {
        execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW);
    }
    assert!(begun(&keys, &acme(), "k4", NOW).is_none());
    assert!((0..4).all(|number| replayed(&keys, &format!("k{number}"), NOW).is_some()));
}

#[tokio::test]
async fn a_bound_exceeded_by_far_is_kept_after_one_sweep() {
    let (store, keys) = opened(3_000);
    for number in 0..3_000 {
        execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW);
    }
    // The limit is lowered, as after a change of the settings.
    let keys = Keys::open(store.clone(), 1_600, steady()).unwrap();
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    assert_eq!(left(&store), 2 * 1_500, "with some room for the next");
    assert!(replayed(&keys, "k1499", NOW).is_none() && replayed(&keys, "k1500", NOW).is_some());
}

#[tokio::test]
async fn a_sweep_goes_on_over_many_pieces_and_gaps() {
    let (store, keys) = opened(10_000);
    for number in 0..1_000 {
        execute(&store, &keys, &format!("k{number}"), &answer("x"), NOW);
        // The store refused this one.
        drop(fresh(&keys, "refused", NOW).keep(&mut Batch::default(), &answer("x"), NOW));
    }
    execute(&store, &keys, "young", &answer("x"), later(NOW, 1));
    at(&keys, later(NOW, DAY_MILLIS)).sweep().await.unwrap();
    assert_eq!(left(&store), 2);
    assert!(replayed(&keys, "young", later(NOW, DAY_MILLIS)).is_some());
}

#[tokio::test]
async fn a_key_recorded_anew_outlives_its_first_answer() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    let anew = later(NOW, DAY_MILLIS);
    execute(&store, &keys, "a", &answer("second"), anew);
    assert_eq!(left(&store), 3, "one record, and two entries in the index");
    at(&keys, anew).sweep().await.unwrap();
    assert_eq!(left(&store), 2);
    assert_eq!(replayed(&keys, "a", later(anew, DAY_MILLIS - 1)), Some(answer("second")));
    at(&keys, later(anew, DAY_MILLIS)).sweep().await.unwrap();
    assert_eq!(left(&store), 0);
}

#[tokio::test]
async fn both_entries_of_a_key_recorded_anew_go_in_one_sweep() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    execute(&store, &keys, "a", &answer("second"), later(NOW, DAY_MILLIS));
    at(&keys, later(NOW, 2 * DAY_MILLIS)).sweep().await.unwrap();
    assert_eq!(left(&store), 0);
}

#[tokio::test]
async fn a_sweep_leaves_alone_what_is_being_recorded_anew() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    execute(&store, &keys, "b", &answer("first"), NOW);
    let anew = later(NOW, DAY_MILLIS);
    store.hold();
    let mut batch = Batch::default();
    let in_flight = fresh(&keys, "a", anew).keep(&mut batch, &answer("second"), anew);
    store.commit(batch).unwrap();
    // The store still shows the first answer, which is old enough; only the other key's answer is dropped.
    let sweep = at(&keys, anew).sweep();
    let release = async {
        store.release();
        drop(in_flight);
    };
    futures_util::future::join(sweep, release).await.0.unwrap();
    assert_eq!(replayed(&keys, "a", anew), Some(answer("second")));
    assert_eq!(left(&store), 3);
    at(&keys, anew).sweep().await.unwrap();
    assert_eq!(left(&store), 2, "the next sweep takes the entry that was outlived");
}

#[tokio::test]
async fn a_sweep_that_the_store_refuses_changes_nothing() {
    let (store, keys) = opened(10);
    execute(&store, &keys, "a", &answer("first"), NOW);
    store.refuse_with(Some(StoreError::Overloaded));
    at(&keys, later(NOW, DAY_MILLIS)).sweep().await.unwrap_err();
    assert_eq!(left(&store), 2);
    store.refuse_with(None);
    at(&keys, later(NOW, DAY_MILLIS)).sweep().await.unwrap();
    assert_eq!(left(&store), 0);
}

#[tokio::test]
async fn numbers_go_on_after_a_restart() {
    let (store, _) = opened(10);
    let mut expected = 0;
    for (round, count) in [0, 1, 2, 5].into_iter().enumerate() {
        let keys = Keys::open(store.clone(), 10, steady()).unwrap();
        for number in 0..count {
            execute(&store, &keys, &format!("{round}-{number}"), &answer("x"), NOW);
            expected += 1;
            let index = answer::index_of(&acme());
            let (newest, _) = store.scan(&index, &end_of_prefix(&index), 100).unwrap().pop().unwrap();
            assert_eq!(answer::number_of(&index, &newest), Some(expected - 1));
        }
        at(&keys, MINUTES_LATER).sweep().await.unwrap();
    }
    let keys = Keys::open(store.clone(), 3, steady()).unwrap();
    at(&keys, MINUTES_LATER).sweep().await.unwrap();
    assert!(replayed(&keys, "3-1", NOW).is_none() && replayed(&keys, "3-2", NOW).is_some());
}

#[test]
fn the_end_of_the_index_is_found_wherever_it_is() {
    for newest in [0, 1, 1_000_000, u64::MAX / 2, u64::MAX - 1] {
        let store = Arc::new(MemoryStore::new());
        let mut batch = Batch::default();
        let index = answer::index_of(&acme());
        for number in [newest / 3, newest.saturating_sub(1), newest] {
            batch.put(answer::index_key(&index, number), Vec::new());
        }
        store.commit(batch).unwrap();
        let keys = Keys::open(store.clone(), usize::MAX, steady()).unwrap();
        let mut batch = Batch::default();
        drop(fresh(&keys, "a", NOW).keep(&mut batch, &answer("x"), NOW));
        assert_eq!(answer::number_of(&index, batch.changes().nth(1).unwrap().key), Some(newest + 1));
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_never_lets_a_request_through_and_is_swept() {
    let store = Arc::new(MemoryStore::new());
    let record_key = answer::record_key(ANA, &key("a"));
    let mut batch = Batch::default();
    batch.put(record_key.clone(), vec![99]);
    batch.put(answer::index_key(&answer::index_of(&acme()), 0), record_key);
    store.commit(batch).unwrap();
    let keys = Keys::open(store.clone(), 10, steady()).unwrap();
    for _ in 0..2 {
        assert!(matches!(at(&keys, NOW).begin(&acme(), ANA, &key("a"), REQUEST), Err(StoreError::Read(_))));
    }
    at(&keys, NOW).sweep().await.unwrap();
    fresh(&keys, "a", NOW);
}

thread_local! {
    /// The steady clock of the test, in milliseconds.
    static STEADY: Cell<i64> = const { Cell::new(UPTIME_MILLIS) };
}

/// How long the machine has been up at `NOW`.
const UPTIME_MILLIS: i64 = 10 * DAY_MILLIS;

fn steady() -> SteadyClock {
    SteadyClock::new(Boot(1), || Tick(STEADY.get()))
}

/// The same keys, with the steady clock moved to match this wall-clock time.
fn at(keys: &Keys, now: Timestamp) -> &Keys {
    STEADY.set(UPTIME_MILLIS + now.as_millis() - NOW.as_millis());
    keys
}

fn opened(keys_max: usize) -> (Arc<MemoryStore>, Keys) {
    let store = Arc::new(MemoryStore::new());
    (store.clone(), Keys::open(store, keys_max, steady()).unwrap())
}

fn acme() -> Identifier {
    Identifier::parse("acme").unwrap()
}

fn beta() -> Identifier {
    Identifier::parse("beta").unwrap()
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

fn answer(body: &str) -> StoredAnswer {
    StoredAnswer { status: 201, location: Some(format!("/of/{body}")), body: body.as_bytes().to_vec(), subject: None }
}

fn later(time: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis() + millis)
}

/// Begins ana's request, whose key must be unused.
fn fresh(keys: &Keys, text: &str, now: Timestamp) -> Pending {
    begun(keys, &acme(), text, now).unwrap_or_else(|| panic!("there is no room for {text}"))
}

/// Like [`fresh`], in any organization; `None` if the organization has no room.
fn begun(keys: &Keys, organization: &Identifier, text: &str, now: Timestamp) -> Option<Pending> {
    match at(keys, now).begin(organization, token_of(organization), &key(text), REQUEST).unwrap() {
        KeyState::Unused(pending) => Some(pending),
        KeyState::NoRoom => None,
        KeyState::Executed(_) | KeyState::Reused | KeyState::InFlight => panic!("{text} is known"),
    }
}

fn token_of(organization: &Identifier) -> IdSeed {
    if *organization == acme() { ANA } else { BEN }
}

/// Executes ana's request, whose only effect is its answer.
fn execute(store: &MemoryStore, keys: &Keys, text: &str, answer: &StoredAnswer, now: Timestamp) {
    assert!(execute_in(store, keys, &acme(), text, answer, now), "there is no room for {text}");
}

/// Like [`execute`], in any organization; false if the organization has no room.
fn execute_in(
    store: &MemoryStore,
    keys: &Keys,
    organization: &Identifier,
    text: &str,
    answer: &StoredAnswer,
    now: Timestamp,
) -> bool {
    let Some(pending) = begun(keys, organization, text, now) else { return false };
    let mut batch = Batch::default();
    let in_flight = pending.keep(&mut batch, answer, now);
    store.commit(batch).unwrap();
    drop(in_flight);
    true
}

fn replayed(keys: &Keys, text: &str, now: Timestamp) -> Option<StoredAnswer> {
    replayed_in(keys, &acme(), text, now)
}

fn replayed_in(keys: &Keys, organization: &Identifier, text: &str, now: Timestamp) -> Option<StoredAnswer> {
    match at(keys, now).begin(organization, token_of(organization), &key(text), REQUEST).unwrap() {
        KeyState::Executed(answer) => Some(answer),
        KeyState::Reused | KeyState::InFlight | KeyState::NoRoom | KeyState::Unused(_) => None,
    }
}

/// The number of our keys in the store.
fn left(store: &MemoryStore) -> usize {
    let count = |prefix: &&[u8]| store.scan(prefix, &end_of_prefix(prefix), usize::MAX).unwrap().len();
    [&b"k/"[..], b"x/", b"xo/"].iter().map(count).sum()
}
