//! Waiting for one environment: turns, clients that disconnect, and restarts.

#![allow(clippy::unwrap_used)]

use tokio::task::JoinHandle;
use tokio::time::{pause, sleep};

use super::*;
use domain::{Delete, EndedHow, Expiry, Heartbeat, Labels, Seen, SessionStatus};

const LONG: WaitPolicy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

impl Bench {
    /// A client that waits on its connection; it has joined the queue when this returns.
    pub(super) async fn wait_in_line(&self, who: u8) -> JoinHandle<Result<ClaimOutcome, Failure>> {
        let environments = self.environments.clone();
        let before = self.queue_length();
        let waiting = actix::spawn(async move { environments.claim(&key(), claim(who), LONG, None).await });
        self.let_others_run().await;
        assert_eq!(self.queue_length(), before + 1);
        waiting
    }

    async fn queued(&self, who: u8) -> Arc<Session> {
        match self.environments.claim(&key(), claim(who), QUEUE, None).await.unwrap() {
            ClaimOutcome::Queued { session, .. } => session,
            outcome => panic!("not queued: {outcome:?}"),
        }
    }

    /// Polls a session, as Get Session Status does.
    fn ask(&self, session: &Session) -> Arc<Session> {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        self.environments.session(&key(), &environment, session.id, session.user.id).unwrap().unwrap().session
    }
}

#[actix::test]
async fn waiters_get_the_lock_in_turn_and_in_the_same_commit_as_the_release() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let second = bench.wait_in_line(2).await;
    let third = bench.wait_in_line(3).await;
    let commits = bench.store.handed_in();
    bench.release(&first).await.unwrap();
    let second = granted(second.await.unwrap().unwrap());
    assert_eq!((second.user.id, token(&second)), (person(2).id, 2));
    assert_eq!(bench.store.handed_in().0, commits.0 + 1, "release and grant are one commit");
    assert!(!third.is_finished());
    bench.release(&second).await.unwrap();
    assert_eq!(granted(third.await.unwrap().unwrap()).user.id, person(3).id);
}

#[actix::test]
async fn a_queued_session_that_is_released_twice_at_once_ends_once_and_both_are_told_how() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let session = bench.queued(2).await;
    bench.store.hold();
    let releases: Vec<_> = (0..2)
        .map(|_| {
            let (environments, id, by) = (bench.environments.clone(), session.id, session.user.clone());
            let release = Release { session: id.into(), by, any: false };
            actix::spawn(async move { environments.ask(&key(), release).await })
        })
        .collect();
    bench.let_others_run().await;
    let (environments, by) = (bench.environments.clone(), session.user.clone());
    let heartbeat = Heartbeat { session: session.id.into(), by, fencing_token: None };
    let heartbeat = actix::spawn(async move { environments.ask(&key(), heartbeat).await });
    bench.let_others_run().await;
    bench.store.release();
    for release in releases {
        assert_eq!(release.await.unwrap().unwrap().status(), SessionStatus::Released);
    }
    let refused = heartbeat.await.unwrap();
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::SessionEnded { .. }))), "{refused:?}");
    assert_eq!(bench.release(&session).await.unwrap().status(), SessionStatus::Released, "from the store");
}

#[actix::test]
async fn nobody_is_told_of_a_turn_that_could_still_be_lost() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waiting = bench.wait_in_line(2).await;
    bench.store.hold();
    let (environments, session) = (bench.environments.clone(), first.clone());
    let releasing = actix::spawn(async move {
        let release = Release { session: session.id.into(), by: session.user.clone(), any: false };
        environments.ask(&key(), release).await
    });
    bench.let_others_run().await;
    assert!(!waiting.is_finished() && !releasing.is_finished());
    assert_eq!(bench.holder().map(|holder| holder.id), Some(first.id));
    bench.store.release();
    releasing.await.unwrap().unwrap();
    assert_eq!(token(&granted(waiting.await.unwrap().unwrap())), 2);
}

#[actix::test]
async fn a_queued_session_keeps_its_place_when_the_actor_dies() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let queued = bench.queued(2).await;
    assert!(matches!(bench.environments.ask(&key(), Blunder).await, Err(Failure::Unavailable)));
    assert_eq!(bench.ask(&queued).status(), SessionStatus::Queued);
    bench.release(&first).await.unwrap();
    assert_eq!(bench.holder().map(|holder| holder.id), Some(queued.id));
}

#[actix::test]
async fn a_waiter_that_hangs_up_leaves_the_queue_at_once_and_is_never_granted() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let gone = bench.wait_in_line(2).await;
    let stays = bench.wait_in_line(3).await;
    gone.abort();
    bench.let_others_run().await;
    assert_eq!(bench.queue_length(), 1);
    bench.release(&first).await.unwrap();
    assert_eq!(token(&granted(stays.await.unwrap().unwrap())), 2, "the one who had gone took a turn");
}

#[actix::test]
async fn a_grant_whose_client_goes_before_it_is_durable_passes_to_the_next() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let gone = bench.wait_in_line(2).await;
    let stays = bench.wait_in_line(3).await;
    bench.store.hold();
    let (environments, session) = (bench.environments.clone(), first.clone());
    let releasing = actix::spawn(async move {
        let release = Release { session: session.id.into(), by: session.user.clone(), any: false };
        environments.ask(&key(), release).await
    });
    bench.let_others_run().await;
    // The grant is decided but not durable when the client disconnects.
    gone.abort();
    bench.let_others_run().await;
    bench.store.release();
    releasing.await.unwrap().unwrap();
    let third = granted(stays.await.unwrap().unwrap());
    assert_eq!((third.user.id, token(&third)), (person(3).id, 3));
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let history = bench.environments.history(&key(), &environment, 0, 10).unwrap().unwrap();
    let lost = &history.items[1];
    assert_eq!(lost.user.id, person(2).id);
    assert_eq!(lost.ended.as_ref().map(|ended| ended.how), Some(EndedHow::Expired(Expiry::Vanished)));
}

#[actix::test]
async fn an_undelivered_grant_is_taken_back_however_often_the_store_refuses() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    claiming.abort();
    bench.let_others_run().await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    bench.store.release();
    bench.let_others_run().await;
    for _ in 0..3 {
        bench.pass(10_000).await;
    }
    assert!(bench.holder().is_some(), "the store has taken nothing");
    bench.store.refuse_with(None);
    bench.pass(10_000).await;
    assert!(bench.holder().is_none());
}

#[actix::test]
async fn a_claim_whose_client_goes_before_it_is_durable_does_not_keep_the_lock() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    claiming.abort();
    bench.let_others_run().await;
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.holder(), None);
    assert_eq!(token(&bench.claim(2).await.unwrap()), 2);
}

#[actix::test]
async fn a_wait_that_times_out_names_the_holder_and_leaves_the_queue() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    pause();
    let waits = bench.wait_in_line(2).await;
    sleep(Duration::from_secs(301)).await;
    let refused = waits.await.unwrap();
    let Err(Failure::Rejected(Rejection::EnvironmentLocked { holder, queue_length })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((holder.id, queue_length), (first.id, 0));
    assert_eq!(bench.queue_length(), 0);
}

#[actix::test]
async fn a_server_that_shuts_down_sends_waiters_away() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waits = bench.wait_in_line(2).await;
    bench.environments.send_waiters_away();
    assert!(matches!(waits.await.unwrap(), Err(Failure::ShuttingDown)));
    bench.release(&first).await.unwrap();
    assert_eq!(bench.holder(), None, "nobody was granted what nobody waits for");
}

#[actix::test]
async fn queued_sessions_survive_a_kill_in_their_order() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let queued = [bench.queued(2).await, bench.queued(3).await, bench.queued(4).await];
    let after = bench.killed(1_000);
    assert_eq!(after.queue_length(), 3, "also before anybody has asked for the environment");
    let newcomer = after.queued(5).await;
    let environment = after.environments.environment(&key()).unwrap().unwrap();
    let order: Vec<_> = environment.queue.iter().map(|waiter| waiter.session.id).collect();
    assert_eq!(order, [queued[0].id, queued[1].id, queued[2].id, newcomer.id]);
    after.release(&first).await.unwrap();
    assert_eq!(after.holder().map(|holder| holder.id), Some(queued[0].id));
}

#[actix::test]
async fn a_queued_session_keeps_its_id_through_its_whole_life() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let queued = bench.queued(2).await;
    assert_eq!(bench.ask(&queued).status(), SessionStatus::Queued);
    bench.release(&first).await.unwrap();
    let active = bench.ask(&queued);
    assert_eq!((active.status(), active.id, token(&active)), (SessionStatus::Active, queued.id, 2));
    bench.release(&queued).await.unwrap();
    assert_eq!(bench.ask(&queued).status(), SessionStatus::Released);
    assert_eq!(bench.killed(5).ask(&queued).status(), SessionStatus::Released);
}

#[actix::test]
async fn a_queued_session_that_leaves_is_kept_as_released() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let queued = bench.queued(2).await;
    let left = bench.release(&queued).await.unwrap();
    assert_eq!((left.status(), &left.claimed), (SessionStatus::Released, &None));
    assert_eq!(bench.queue_length(), 0);
    assert_eq!(bench.release(&queued).await.unwrap().status(), SessionStatus::Released, "twice is no fault");
    assert_eq!(bench.killed(5).ask(&queued).status(), SessionStatus::Released);
}

#[actix::test]
async fn a_queued_session_expires_unless_it_is_polled() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let (asked, forgotten) = (bench.queued(2).await, bench.queued(3).await);
    bench.pass(40_000).await;
    bench.ask(&asked);
    bench.pass(19_999).await;
    assert_eq!(bench.queue_length(), 2);
    bench.pass(1).await;
    assert_eq!(bench.queue_length(), 1);
    assert_eq!(bench.ask(&forgotten).status(), SessionStatus::Expired);
    assert_eq!(bench.ask(&asked).status(), SessionStatus::Queued);
}

#[actix::test]
async fn only_its_own_client_keeps_the_place_of_a_queued_session_by_polling() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let queued = bench.queued(2).await;
    bench.pass(40_000).await;
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let looked_at = bench.environments.session(&key(), &environment, queued.id, person(9).id).unwrap().unwrap();
    assert_eq!(looked_at.waiting.unwrap().until, Timestamp::from_millis(1_000_000 + 60_000));
    bench.pass(20_000).await;
    assert_eq!(bench.queue_length(), 0);
}

#[actix::test]
async fn a_lock_granted_to_a_queued_session_is_lost_unless_its_client_polls() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let queued = bench.queued(2).await;
    bench.release(&first).await.unwrap();
    assert!(bench.holder().unwrap().is_unseen());
    bench.pass(59_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(queued.id));
    bench.environments.ask(&key(), Seen { session: queued.id }).await.unwrap();
    bench.pass(1_000_000).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(queued.id), "it knows, and has no TTL");

    bench.release(&queued).await.unwrap();
    let second = bench.claim(1).await.unwrap();
    let forgotten = bench.queued(3).await;
    bench.release(&second).await.unwrap();
    bench.pass(60_000).await;
    assert_eq!(bench.holder(), None);
    assert_eq!(bench.ask(&forgotten).status(), SessionStatus::Expired);
}

#[actix::test]
async fn an_actor_with_waiters_does_not_leave() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let waits = bench.wait_in_line(2).await;
    for _ in 0..4 {
        bench.environments.dismiss_unused();
        bench.let_others_run().await;
    }
    assert_eq!(bench.environments.resident(), 1);
    assert!(!waits.is_finished());
}

#[actix::test]
async fn a_store_that_refuses_the_hand_over_leaves_holder_and_queue_as_they_were() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    let waits = bench.wait_in_line(2).await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(bench.release(&first).await, Err(Failure::Store(StoreError::Overloaded))));
    assert_eq!((bench.holder().map(|holder| holder.id), bench.queue_length()), (Some(first.id), 1));
    bench.store.refuse_with(None);
    bench.release(&first).await.unwrap();
    assert_eq!(token(&granted(waits.await.unwrap().unwrap())), 2);
}

#[actix::test]
async fn the_records_of_queued_sessions_go_with_the_history() {
    let bench = Bench::over(Arc::new(MemoryStore::new()), 3);
    bench.make().await;
    let count = |prefix: &[u8], end: &[u8]| bench.store.scan(prefix, end, 100).unwrap().len();
    for round in 1..=20 {
        let first = bench.claim(1).await.unwrap();
        let queued = bench.queued(2).await;
        bench.release(&first).await.unwrap();
        bench.release(&queued).await.unwrap();
        if round % 3 == 0 {
            bench.let_go_of_all().await;
        }
        assert!(count(b"h/", b"h0") <= 2, "pages of which nothing is remembered");
        assert!(count(b"i/", b"i0") <= 8, "pointers to sessions that are in no page");
    }
    assert_eq!(count(b"q/", b"q0"), 0);
    bench.environments.ask(&key(), Delete { expected: None }).await.unwrap();
    assert_eq!((count(b"h/", b"h0"), count(b"i/", b"i0")), (0, 0));
}

#[actix::test]
async fn a_grant_that_could_not_be_taken_back_at_once_is_taken_back_later() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    claiming.abort();
    bench.let_others_run().await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    bench.store.release();
    bench.let_others_run().await;
    assert!(bench.holder().is_some(), "the store refused, and yet it was taken back");
    bench.store.refuse_with(None);
    bench.pass(1_000).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn a_bounded_number_of_sessions_that_ended_in_a_queue_is_kept() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let mut batch = Batch::default();
    for old in 0..10_000_u64 {
        batch.put([b"g/".as_slice(), &old.to_be_bytes()].concat(), Vec::new());
    }
    bench.store.commit(batch).unwrap();
    let queued = bench.queued(2).await;
    bench.release(&queued).await.unwrap();
    bench.environments.drop_old_ended_sessions().await.unwrap();
    assert_eq!(bench.store.scan(b"g/", b"g0", usize::MAX).unwrap().len(), 10_000);
    assert_eq!(bench.ask(&queued).status(), SessionStatus::Released, "the oldest goes first");
}

#[actix::test]
async fn an_organization_that_waits_everywhere_leaves_places_to_wait_to_another() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::crowded(store.clone(), Capacity::seats(8));
    let free = named("review-2");
    let other = EnvironmentKey {
        pipeline: PipelineKey { organization: Identifier::parse("beta").unwrap(), ..pipeline() },
        name: key().name,
    };
    for key in [&key(), &free, &other] {
        bench.configure(key, Configuration::default()).await;
    }
    bench.claim(1).await.unwrap();
    claim_at_once(&bench.environments, &other, claim(1)).await.unwrap();
    // Half of the eight places are taken.
    let on_connections = [bench.wait_in_line(2).await, bench.wait_in_line(3).await];
    let polled = [bench.queued(4).await, bench.queued(5).await];
    let crowded = |outcome: Result<ClaimOutcome, Failure>| {
        assert!(matches!(outcome, Err(Failure::Crowded(ShareError::Share { own: 4 }))), "{outcome:?}");
    };
    for policy in [LONG, QUEUE] {
        crowded(bench.environments.claim(&key(), claim(6), policy, None).await);
    }
    let session = granted(bench.environments.claim(&free, claim(6), LONG, None).await.unwrap());
    crowded(bench.environments.claim_any(&pipeline(), Labels::new(), claim(7), QUEUE, None).await);
    bench.release_in(&free, &session).await.unwrap();
    for who in [7, 8] {
        let outcome = bench.environments.claim(&other, claim(who), QUEUE, None).await.unwrap();
        let ClaimOutcome::Queued { session, .. } = outcome else { panic!("not queued: {outcome:?}") };
        bench.release_in(&other, &session).await.unwrap();
    }

    // Every way of leaving frees a place.
    let [first, second] = on_connections;
    first.abort();
    bench.let_others_run().await;
    let third = bench.queued(9).await;
    crowded(bench.environments.claim(&key(), claim(6), QUEUE, None).await);
    bench.release(&third).await.unwrap();
    let fourth = bench.wait_in_line(10).await;
    crowded(bench.environments.claim(&key(), claim(6), QUEUE, None).await);

    // After a restart, queued sessions count again.
    let after = Bench::crowded(Arc::new(store.crash()), Capacity::seats(8));
    drop((second, fourth, polled));
    for who in [11, 12] {
        after.environments.claim(&key(), claim(who), QUEUE, None).await.unwrap();
    }
    crowded(after.environments.claim(&key(), claim(6), QUEUE, None).await);
}
