//! Claims with an idempotency key.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Wake, Waker};

use super::*;
use crate::Keyed;
use crate::idempotency::{Fingerprint, IdempotencyKey, KeyState, Keys, StoredAnswer};
use ambient::steady_clock::SteadyClock;
use domain::{Heartbeat, IdSeed, Seen, SessionStatus};

const LONG: WaitPolicy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

impl Bench {
    pub(super) fn keys(&self) -> Keys {
        {
            let (boot, steady) = (self.boot, self.steady.clone());
            let clock = SteadyClock::new(boot, move || Tick(steady.load(Ordering::Relaxed)));
            Keys::open(self.store.clone(), 1_000, clock).unwrap()
        }
    }
}

fn begin(keys: &Keys, key: &str) -> KeyState {
    let key = IdempotencyKey::parse(key).unwrap();
    let organization = Identifier::parse("acme").unwrap();
    keys.begin(&organization, IdSeed([7; 12]), &key, Fingerprint([1; 16])).unwrap()
}

pub(super) fn keyed(keys: &Keys, key: &str) -> Keyed<ClaimOutcome> {
    let KeyState::Unused(pending) = begin(keys, key) else { panic!("the key is not free") };
    Keyed {
        pending,
        render: Box::new(|outcome| StoredAnswer { status: 201, location: None, body: text(outcome), subject: None }),
    }
}

fn text(outcome: &ClaimOutcome) -> Vec<u8> {
    match outcome {
        ClaimOutcome::Granted { session, .. } | ClaimOutcome::Queued { session, .. } => session.id.to_string().into(),
    }
}

fn replay(keys: &Keys, key: &str) -> Option<Vec<u8>> {
    match begin(keys, key) {
        KeyState::Executed(answer) => Some(answer.body),
        KeyState::Unused(_) | KeyState::InFlight | KeyState::NoRoom | KeyState::Reused => None,
    }
}

#[actix::test]
async fn the_answer_is_durable_with_the_grant_and_not_before() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    bench.store.hold();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let claiming = actix::spawn(async move { environments.claim(&key(), claim(1), AT_ONCE, Some(key_of_claim)).await });
    bench.let_others_run().await;
    assert!(matches!(begin(&keys, "a"), KeyState::InFlight));
    let crashed = Bench::over(Arc::new(bench.store.crash()), 1000);
    assert_eq!((replay(&crashed.keys(), "a"), crashed.holder()), (None, None), "neither happened");
    bench.store.release();
    let session = granted(claiming.await.unwrap().unwrap());
    bench.let_others_run().await;
    assert_eq!(replay(&keys, "a"), Some(session.id.to_string().into()));
    let crashed = Bench::over(Arc::new(bench.store.crash()), 1000);
    assert_eq!(replay(&crashed.keys(), "a"), Some(session.id.to_string().into()));
    assert_eq!(crashed.holder().map(|holder| holder.id), Some(session.id));
}

#[actix::test]
async fn a_refusal_frees_the_key() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    let refused = bench.environments.claim(&key(), claim(2), AT_ONCE, Some(keyed(&keys, "a"))).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentLocked { .. }))));
    bench.release(&first).await.unwrap();
    bench.environments.claim(&key(), claim(2), AT_ONCE, Some(keyed(&keys, "a"))).await.unwrap();
}

/// Records at each wake-up, which sending the answer causes, whether the key is still in flight.
struct KeyAtWakeUp {
    keys: Keys,
    key: &'static str,
    in_flight: AtomicBool,
}

impl Wake for KeyAtWakeUp {
    fn wake(self: Arc<Self>) {
        self.in_flight.store(matches!(begin(&self.keys, self.key), KeyState::InFlight), Ordering::Relaxed);
    }
}

/// The answer to a request under this key, which must be free by the time the answer is sent.
async fn answered_with_key_free<T>(
    bench: &Bench,
    keys: &Keys,
    key: &'static str,
    request: impl Future<Output = T>,
) -> T {
    let noted = Arc::new(KeyAtWakeUp { keys: keys.clone(), key, in_flight: AtomicBool::new(true) });
    let waker = Waker::from(noted.clone());
    let mut request = pin!(request);
    assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    bench.let_others_run().await;
    assert!(!noted.in_flight.load(Ordering::Relaxed), "{key}");
    request.await
}

#[actix::test]
async fn a_client_may_use_its_key_again_as_soon_as_it_is_answered() {
    let bench = Bench::with_environment().await;
    let (keys, key) = (bench.keys(), key());
    let claiming = bench.environments.claim(&key, claim(1), AT_ONCE, Some(keyed(&keys, "granted")));
    let session = granted(answered_with_key_free(&bench, &keys, "granted", claiming).await.unwrap());
    assert_eq!(replay(&keys, "granted"), Some(session.id.to_string().into()));

    let claiming = bench.environments.claim(&key, claim(2), AT_ONCE, Some(keyed(&keys, "refused")));
    answered_with_key_free(&bench, &keys, "refused", claiming).await.unwrap_err();

    for (name, by, is_holder) in [("heartbeat", session.user.clone(), true), ("heartbeat-of-another", person(2), false)]
    {
        let KeyState::Unused(pending) = begin(&keys, name) else { panic!("the key is not free") };
        let render = Box::new(|_: &_| StoredAnswer { status: 200, location: None, body: Vec::new(), subject: None });
        let heartbeat = Heartbeat { session: session.id.into(), by, fencing_token: None };
        let asking = bench.environments.ask_keyed(&key, heartbeat, Some(Keyed { pending, render }));
        let answer = answered_with_key_free(&bench, &keys, name, asking).await;
        assert_eq!(answer.is_ok(), is_holder, "{name}");
    }
}

#[actix::test]
async fn a_client_with_a_key_has_a_while_to_come_back_for_its_grant() {
    for comes_back in [true, false] {
        let bench = Bench::with_environment().await;
        let keys = bench.keys();
        bench.store.hold();
        let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
        let claiming =
            actix::spawn(async move { environments.claim(&key(), claim(1), AT_ONCE, Some(key_of_claim)).await });
        bench.let_others_run().await;
        claiming.abort();
        bench.let_others_run().await;
        bench.store.release();
        bench.let_others_run().await;
        let holder = bench.holder().expect("it was not taken back at once");
        assert_eq!(replay(&keys, "a"), Some(holder.id.to_string().into()));
        if comes_back {
            bench.environments.ask(&key(), Seen { session: holder.id }).await.unwrap();
        }
        bench.pass(60_000).await;
        assert_eq!(bench.holder().is_some(), comes_back);
    }
}

#[actix::test]
async fn a_client_that_has_come_back_does_not_lose_its_grant_to_its_first_connection() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    bench.environments.ask(&key(), Seen { session: session.id }).await.unwrap();
    bench.environments.undelivered(&key(), session.id, true);
    bench.let_others_run().await;
    bench.pass(1_000_000).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
}

#[actix::test]
async fn a_waiter_comes_back_to_its_place_after_a_kill() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    bench.let_others_run().await;
    let after = bench.killed(1_000);
    let keys = after.keys();
    assert_eq!(after.queue_length(), 1);
    let environments = after.environments.clone();
    let later = actix::spawn(async move { environments.claim(&key(), claim(3), LONG, None).await });
    after.let_others_run().await;
    let (environments, key_of_claim) = (after.environments.clone(), keyed(&keys, "a"));
    let again = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    after.let_others_run().await;
    assert_eq!(after.queue_length(), 2, "it has one place, not two");
    after.release(&first).await.unwrap();
    assert_eq!(granted(again.await.unwrap().unwrap()).user.id, person(2).id);
    assert!(!later.is_finished());
    drop(waiting);
}

#[actix::test]
async fn the_lock_is_not_given_to_a_client_that_has_not_come_back_yet() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    bench.let_others_run().await;
    let after = bench.killed(1_000);
    after.release(&first).await.unwrap();
    assert_eq!(after.holder(), None);
    let keys = after.keys();
    let (environments, key_of_claim) = (after.environments.clone(), keyed(&keys, "a"));
    let again = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    assert_eq!(token(&granted(again.await.unwrap().unwrap())), 2, "it gets the free lock when it is back");

    let after = after.killed(1_000);
    assert!(replay(&after.keys(), "a").is_some());
    assert_eq!(after.queue_length(), 0);
    drop(waiting);
}

#[actix::test]
async fn a_place_nobody_comes_back_for_is_given_up() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    bench.claim(1).await.unwrap();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    bench.let_others_run().await;
    let after = bench.killed(1_000);
    after.pass(59_999).await;
    assert_eq!(after.queue_length(), 1);
    after.pass(1).await;
    assert_eq!(after.queue_length(), 0);
    assert_eq!(after.store.scan(b"q/", b"q0", 10).unwrap().len(), 0);
    assert!(!after.environments.keeps_places());
    drop(waiting);
}

#[actix::test]
async fn a_client_that_hangs_up_loses_its_place_with_a_key_too() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    bench.claim(1).await.unwrap();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    bench.let_others_run().await;
    waiting.abort();
    bench.let_others_run().await;
    assert_eq!(bench.queue_length(), 0);
    assert_eq!(bench.store.scan(b"q/", b"q0", 10).unwrap().len(), 0);
    assert!(matches!(begin(&keys, "a"), KeyState::Unused(_)));
}

#[actix::test]
async fn a_server_that_shuts_down_keeps_the_places_of_clients_with_a_key() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), LONG, Some(key_of_claim)).await });
    bench.let_others_run().await;
    bench.environments.send_waiters_away();
    assert!(matches!(waiting.await.unwrap(), Err(Failure::ShuttingDown)));
    bench.release(&first).await.unwrap();
    bench.let_others_run().await;
    assert_eq!(bench.holder(), None);
    let after = bench.killed(1_000);
    assert_eq!(after.queue_length(), 1);
    let again = after.environments.claim(&key(), claim(2), LONG, Some(keyed(&after.keys(), "a"))).await;
    assert_eq!(token(&granted(again.unwrap())), 2);
}

#[actix::test]
async fn a_retried_claim_gets_the_same_queued_session() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    // Also for a claim that waits on the connection for a while and is disconnected when the server stops.
    let on_the_line = WaitPolicy { wait: Duration::from_secs(300), queue: true };
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting =
        actix::spawn(async move { environments.claim(&key(), claim(2), on_the_line, Some(key_of_claim)).await });
    bench.let_others_run().await;
    let outcome = bench.environments.claim(&key(), claim(3), QUEUE, Some(keyed(&keys, "b"))).await.unwrap();
    let after = bench.killed(1_000);
    let first_in_line = String::from_utf8(replay(&after.keys(), "a").unwrap()).unwrap();
    assert_eq!(replay(&after.keys(), "b"), Some(text(&outcome)));
    after.release(&first).await.unwrap();
    let holder = after.holder().unwrap();
    assert_eq!((holder.id.to_string(), holder.status()), (first_in_line, SessionStatus::Active));
    drop(waiting);
}

#[actix::test]
async fn a_queued_session_with_a_key_survives_a_cut_connection() {
    let bench = Bench::with_environment().await;
    let keys = bench.keys();
    let first = bench.claim(1).await.unwrap();
    let on_the_line = WaitPolicy { wait: Duration::from_secs(300), queue: true };
    let (environments, key_of_claim) = (bench.environments.clone(), keyed(&keys, "a"));
    let waiting =
        actix::spawn(async move { environments.claim(&key(), claim(2), on_the_line, Some(key_of_claim)).await });
    bench.let_others_run().await;
    waiting.abort();
    bench.let_others_run().await;
    assert_eq!(bench.queue_length(), 1, "its key leads back to it");
    let id = String::from_utf8(replay(&keys, "a").unwrap()).unwrap();
    bench.release(&first).await.unwrap();
    assert_eq!(bench.holder().map(|holder| holder.id.to_string()), Some(id));
    bench.pass(60_000).await;
    assert_eq!(bench.holder(), None, "nobody came for it");
}
