//! Queued sessions whose id their client has not received yet, when the server is killed and when the disk is full.

#![allow(clippy::unwrap_used)]

use tokio::task::JoinHandle;
use tokio::time::{pause, resume, sleep};

use super::idempotency::keyed;
use super::*;
use domain::{Labels, SessionStatus};

/// Waits on the connection first, and as a queued session afterwards.
const FIRST_ON_THE_LINE: WaitPolicy = WaitPolicy { wait: Duration::from_secs(30), queue: true };
const ON_THE_LINE: WaitPolicy = WaitPolicy { wait: Duration::from_secs(30), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

type Claiming = JoinHandle<Result<ClaimOutcome, Failure>>;

impl Bench {
    async fn on_the_line(&self, policy: WaitPolicy, key_text: Option<&str>) -> Claiming {
        let (environments, keyed) = (self.environments.clone(), key_text.map(|text| keyed(&self.keys(), text)));
        let claiming = actix::spawn(async move { environments.claim(&key(), claim(2), policy, keyed).await });
        self.until(|| self.queue_length() == 1).await;
        claiming
    }

    async fn on_the_line_for_any(&self, key_text: Option<&str>) -> Claiming {
        let (environments, keyed) = (self.environments.clone(), key_text.map(|text| keyed(&self.keys(), text)));
        let claiming = actix::spawn(async move {
            environments.claim_any(&pipeline(), Labels::new(), claim(2), FIRST_ON_THE_LINE, keyed).await
        });
        self.until(|| self.environments.waiting_for_any() == 1).await;
        claiming
    }

    fn fill_disk(&self) {
        self.store.refuse_with(Some(full_disk()));
    }

    fn waiter_records(&self) -> usize {
        [b"q/", b"p/"].map(|prefix| self.store.scan(prefix, &[prefix[0], b'0'], 10).unwrap().len()).iter().sum()
    }
}

fn full_disk() -> StoreError {
    StoreError::Full { path: "/data".to_owned(), min_free_mb: 128 }
}

/// Lets a claim wait until its wait time is over.
async fn waited(claiming: Claiming) -> Result<ClaimOutcome, Failure> {
    sleep(Duration::from_secs(31)).await;
    claiming.await.unwrap()
}

fn queued(outcome: Result<ClaimOutcome, Failure>) -> Arc<Session> {
    match outcome {
        Ok(ClaimOutcome::Queued { session, .. }) => session,
        outcome => panic!("{outcome:?}"),
    }
}

#[actix::test]
async fn a_place_that_its_client_cannot_know_of_does_not_survive_a_kill() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waiting = bench.on_the_line(FIRST_ON_THE_LINE, None).await;
    let after = bench.killed(1_000);
    assert_eq!((after.queue_length(), after.waiter_records()), (0, 0), "nobody reads of it, not even at first");
    after.release(&first).await.unwrap();
    assert_eq!(after.holder(), None, "the lock was granted to a session that nobody knows");
    drop(waiting);
}

#[actix::test]
async fn a_client_on_the_line_whose_queued_session_somebody_releases_is_told_at_once() {
    for any in [false, true] {
        let bench = Bench::with_environment().await;
        bench.claim(1).await.unwrap();
        let waiting = match any {
            false => bench.on_the_line(FIRST_ON_THE_LINE, None).await,
            true => bench.on_the_line_for_any(None).await,
        };
        let environment = bench.environments.environment(&key()).unwrap().unwrap();
        let id = bench.environments.queue(&key(), &environment)[0].waiter.session.id;
        if any {
            bench.environments.leave_pool(&pipeline(), id, &person(1), true).await.unwrap();
        } else {
            let release = Release { session: id.into(), by: person(1), any: true };
            bench.environments.ask(&key(), release).await.unwrap();
        }
        match waiting.await.unwrap() {
            Err(Failure::Rejected(Rejection::SessionEnded { session })) => {
                assert_eq!((session.id, session.status()), (id, SessionStatus::Released));
            }
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[actix::test]
async fn a_place_that_nobody_can_know_of_gets_no_lock_if_a_full_disk_keeps_it_at_the_start() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waiting = bench.on_the_line(FIRST_ON_THE_LINE, None).await;
    let store = bench.store.crash();
    store.refuse_with(Some(full_disk()));
    let after = Bench::over(Arc::new(store), 50);
    after.store.refuse_with(None);
    after.release(&first).await.unwrap();
    assert_eq!(after.holder(), None, "the lock was granted to a session that nobody knows");
    after.pass(0).await;
    assert_eq!((after.queue_length(), after.waiter_records()), (0, 0));
    drop(waiting);
}

#[actix::test]
async fn a_place_in_a_pool_that_its_client_cannot_know_of_does_not_survive_a_kill() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waiting = bench.on_the_line_for_any(None).await;
    let after = bench.killed(1_000);
    assert_eq!((after.environments.waiting_for_any(), after.waiter_records()), (0, 0));
    after.environments.resume_pools().await.unwrap();
    after.release(&first).await.unwrap();
    after.let_others_run().await;
    assert_eq!(after.holder(), None, "the lock was granted to a session that nobody knows");
    drop(waiting);
}

#[actix::test]
async fn a_client_that_was_told_its_session_keeps_its_place_through_a_kill() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    pause();
    let waiting = bench.on_the_line(FIRST_ON_THE_LINE, None).await;
    let session = queued(waited(waiting).await);
    let after = bench.killed(1_000);
    after.pass(0).await;
    after.release(&first).await.unwrap();
    assert_eq!(after.holder().map(|holder| holder.id), Some(session.id));
}

#[actix::test]
async fn a_client_that_was_told_its_session_keeps_its_place_in_a_pool_through_a_kill() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    pause();
    let waiting = bench.on_the_line_for_any(None).await;
    let session = queued(waited(waiting).await);
    let after = bench.killed(1_000);
    after.pass(0).await;
    after.environments.resume_pools().await.unwrap();
    after.release(&first).await.unwrap();
    after.let_others_run().await;
    assert_eq!(after.holder().map(|holder| holder.id), Some(session.id));
}

#[actix::test]
async fn a_claim_that_is_refused_by_a_full_disk_is_in_no_queue() {
    for (policy, key_text) in [(FIRST_ON_THE_LINE, None), (ON_THE_LINE, None), (ON_THE_LINE, Some("a"))] {
        let bench = Bench::with_environment().await;
        let first = bench.claim(1).await.unwrap();
        pause();
        let waiting = bench.on_the_line(policy, key_text).await;
        bench.fill_disk();
        match waited(waiting).await {
            // The claim was queued; both the error and the journal say so.
            Err(Failure::PlaceGivenUp { session, error: StoreError::Full { .. } }) if policy.queue => {
                let waiting = bench.environments.environment(&key()).unwrap().unwrap();
                assert!(waiting.queue.iter().any(|waiter| waiter.session.id == session), "of which the journal tells");
            }
            Err(Failure::Store(StoreError::Full { .. })) if !policy.queue => {}
            // The claim stored nothing, so a full disk cannot refuse anything.
            Err(Failure::Rejected(Rejection::EnvironmentLocked { .. })) if policy == ON_THE_LINE => {}
            outcome => panic!("{policy:?}: {outcome:?}"),
        }
        bench.store.refuse_with(None);
        bench.release(&first).await.unwrap();
        assert_eq!(bench.holder(), None, "{policy:?}: it was told that it gets no lock");
        bench.pass(1_000).await;
        assert_eq!((bench.queue_length(), bench.waiter_records()), (0, 0), "{policy:?}");
        resume();
    }
}

#[actix::test]
async fn a_claim_of_any_that_is_refused_by_a_full_disk_is_in_no_pool() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    pause();
    let waiting = bench.on_the_line_for_any(None).await;
    bench.fill_disk();
    let refused = waited(waiting).await;
    let given_up = matches!(refused, Err(Failure::PlaceGivenUp { error: StoreError::Full { .. }, .. }));
    assert!(given_up, "{refused:?}");
    bench.store.refuse_with(None);
    bench.release(&first).await.unwrap();
    bench.let_others_run().await;
    assert_eq!(bench.holder(), None, "it was told that it gets no lock");
    bench.pass(0).await;
    bench.until(|| (bench.environments.waiting_for_any(), bench.waiter_records()) == (0, 0)).await;
}

#[actix::test]
async fn a_queued_session_that_its_key_leads_to_is_told_of_on_a_full_disk_too() {
    for any in [false, true] {
        let bench = Bench::with_environment().await;
        let first = bench.claim(1).await.unwrap();
        pause();
        let waiting = match any {
            false => bench.on_the_line(FIRST_ON_THE_LINE, Some("a")).await,
            true => bench.on_the_line_for_any(Some("a")).await,
        };
        bench.fill_disk();
        let session = queued(waited(waiting).await);
        bench.store.refuse_with(None);
        bench.release(&first).await.unwrap();
        bench.let_others_run().await;
        assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
        resume();
    }
}

#[actix::test]
async fn a_grant_that_was_read_on_a_full_disk_does_not_expire_unasked() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let session = queued(bench.environments.claim(&key(), claim(2), QUEUE, None).await);
    bench.release(&first).await.unwrap();
    assert!(bench.holder().unwrap().is_unseen());
    bench.fill_disk();
    for _ in 0..3 {
        bench.environments.seen(&key(), session.id).await.unwrap();
        bench.let_others_run().await;
    }
    bench.pass(61_000).await;
    bench.store.refuse_with(None);
    bench.pass(5_000).await;
    let holder = bench.holder().expect("its client has read that it has the lock");
    assert_eq!((holder.id, holder.status(), holder.is_unseen()), (session.id, SessionStatus::Active, false));
}
