//! The limit on waiting claims per token: for both ways of waiting, in queues and pools, and freed however the wait
//! ends.

#![allow(clippy::unwrap_used)]

use super::*;
use domain::{Delete, IdSeed, Initiator, Labels, ReleaseLock, RequestRef, TokenId};

const LONG: WaitPolicy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

fn token_id(number: u8) -> TokenId {
    TokenId(IdSeed([number; 12]))
}

impl Bench {
    /// The environments on behalf of this token, which may have four waiting claims.
    fn with_token(&self, number: u8) -> Environments {
        let via = Some(RequestRef { token: token_id(number), request: Arc::from("req_1") });
        self.environments.by(Initiator { person: person(number), via })
    }

    async fn queue_with(&self, number: u8) -> Result<Arc<Session>, Failure> {
        self.with_token(number).claim(&key(), claim(number), QUEUE, None).await.map(queued)
    }

    async fn queue_for_any_with(&self, number: u8) -> Result<Arc<Session>, Failure> {
        self.with_token(number).claim_any(&pipeline(), Labels::new(), claim(number), QUEUE, None).await.map(queued)
    }
}

fn queued(outcome: ClaimOutcome) -> Arc<Session> {
    match outcome {
        ClaimOutcome::Queued { session, .. } => session,
        ClaimOutcome::Granted { .. } => panic!("granted, not queued: {outcome:?}"),
    }
}

fn is_crowded<T: std::fmt::Debug>(outcome: Result<T, Failure>) {
    assert!(matches!(outcome, Err(Failure::TokenCrowded { most: 4 })), "{outcome:?}");
}

#[actix::test]
async fn one_token_may_not_fill_the_queue_and_another_still_finds_a_place() {
    let bench = Bench::with_environment().await;
    bench.claim(9).await.unwrap();
    let environments = bench.with_token(1);
    let on_connection = actix::spawn(async move { environments.claim(&key(), claim(1), LONG, None).await });
    bench.let_others_run().await;
    bench.queue_with(1).await.unwrap();
    bench.queue_for_any_with(1).await.unwrap();
    let environments = bench.with_token(1);
    let for_any =
        actix::spawn(async move { environments.claim_any(&pipeline(), Labels::new(), claim(1), LONG, None).await });
    bench.let_others_run().await;
    assert_eq!(bench.environments.waiting_of(token_id(1)), 4, "both ways, in the queue and in the pool");
    for policy in [LONG, QUEUE] {
        is_crowded(bench.with_token(1).claim(&key(), claim(1), policy, None).await);
        is_crowded(bench.with_token(1).claim_any(&pipeline(), Labels::new(), claim(1), policy, None).await);
    }
    // A claim that does not wait gets the usual answer, and another token of the same member has separate places.
    let at_once = bench.with_token(1).claim(&key(), claim(1), AT_ONCE, None).await;
    assert!(matches!(at_once, Err(Failure::Rejected(Rejection::EnvironmentLocked { .. }))), "{at_once:?}");
    bench.with_token(2).claim(&key(), claim(1), QUEUE, None).await.unwrap();
    on_connection.abort();
    for_any.abort();
}

#[actix::test]
async fn a_free_lock_is_given_even_if_no_more_may_wait() {
    let bench = Bench::with_environment().await;
    bench.configure(&named("free"), Configuration::default()).await;
    bench.claim(9).await.unwrap();
    for _ in 0..4 {
        bench.queue_with(1).await.unwrap();
    }
    is_crowded(bench.queue_with(1).await);
    granted(bench.with_token(1).claim(&named("free"), claim(1), LONG, None).await.unwrap());
    assert_eq!(bench.environments.waiting_of(token_id(1)), 4);
}

#[actix::test]
async fn every_end_of_a_wait_gives_the_place_back() {
    let bench = Bench::with_environment().await;
    let none_waits = || assert_eq!(bench.environments.waiting_of(token_id(1)), 0);
    let held = bench.claim(9).await.unwrap();

    // The wait ends with the lock, by name and from the pool.
    let by_name = bench.queue_with(1).await.unwrap();
    bench.release(&held).await.unwrap();
    none_waits();
    let for_any = bench.queue_for_any_with(1).await.unwrap();
    bench.environments.ask(&key(), ReleaseLock { by: person(1), any: false }).await.unwrap();
    bench.let_others_run().await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(for_any.id), "after {}", by_name.id);
    none_waits();

    // The waiter leaves, or is not polled.
    let leaves = bench.queue_with(1).await.unwrap();
    bench.release(&leaves).await.unwrap();
    let leaves = bench.queue_for_any_with(1).await.unwrap();
    bench.environments.leave_pool(&pipeline(), leaves.id, &person(1), false).await.unwrap();
    none_waits();
    bench.queue_with(1).await.unwrap();
    bench.queue_for_any_with(1).await.unwrap();
    bench.environments.seen(&key(), for_any.id).await.unwrap();
    bench.pass(60_000).await;
    none_waits();

    // The client disconnects, or has waited long enough.
    for policy in [LONG, WaitPolicy { queue: true, ..LONG }] {
        let (environments, any) = (bench.with_token(1), bench.with_token(1));
        let waiting = actix::spawn(async move { environments.claim(&key(), claim(1), policy, None).await });
        let waiting_for_any =
            actix::spawn(async move { any.claim_any(&pipeline(), Labels::new(), claim(1), policy, None).await });
        bench.let_others_run().await;
        assert_eq!(bench.environments.waiting_of(token_id(1)), 2);
        waiting.abort();
        waiting_for_any.abort();
        bench.let_others_run().await;
        none_waits();
    }
    let briefly = WaitPolicy { wait: Duration::from_millis(1), queue: false };
    let refused = bench.with_token(1).claim(&key(), claim(1), briefly, None).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentLocked { .. }))), "{refused:?}");
    let refused = bench.with_token(1).claim_any(&pipeline(), Labels::new(), claim(1), briefly, None).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::AllLocked { .. }))), "{refused:?}");
    none_waits();

    // The claim is refused: by a full queue, by the store, for its request, or for a nonexistent environment.
    bench.configure(&key(), Configuration { max_queue_length: 0, ..Configuration::default() }).await;
    assert!(matches!(bench.queue_with(1).await, Err(Failure::Rejected(Rejection::QueueFull { .. }))));
    none_waits();
    bench.configure(&key(), Configuration::default()).await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(bench.queue_with(1).await.is_err() && bench.queue_for_any_with(1).await.is_err());
    bench.store.refuse_with(None);
    none_waits();
    let too_long = ClaimRequest { ttl_seconds: Some(u32::MAX), ..claim(1) };
    assert!(bench.with_token(1).claim(&key(), too_long, QUEUE, None).await.is_err());
    assert!(bench.with_token(1).claim(&named("nowhere"), claim(1), QUEUE, None).await.is_err());
    none_waits();
    bench.environments.ask(&key(), ReleaseLock { by: person(1), any: false }).await.unwrap();
    bench.environments.ask(&key(), Delete { expected: None }).await.unwrap();
    assert!(bench.queue_with(1).await.is_err());
    none_waits();
}

#[actix::test]
async fn after_a_restart_the_queued_sessions_of_a_token_count_again() {
    let bench = Bench::with_environment().await;
    bench.claim(9).await.unwrap();
    for _ in 0..2 {
        bench.queue_with(1).await.unwrap();
    }
    bench.queue_for_any_with(1).await.unwrap();
    let environments = bench.with_token(1);
    let connected = actix::spawn(async move { environments.claim(&key(), claim(1), LONG, None).await });
    bench.let_others_run().await;
    is_crowded(bench.queue_with(1).await);

    let after = bench.killed(10);
    drop(connected);
    after.environments.resume_pools().await.unwrap();
    assert_eq!(after.environments.waiting_of(token_id(1)), 3, "the one on its connection is gone with it");
    after.queue_with(1).await.unwrap();
    is_crowded(after.queue_with(1).await);
    after.pass(60_001).await;
    assert_eq!(after.environments.waiting_of(token_id(1)), 0);
}
