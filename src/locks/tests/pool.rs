//! Claiming any environment: each waiter gets the right one, and only one.

#![allow(clippy::unwrap_used)]

use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;

use super::*;
use domain::{LabelValue, Labels, SessionId, SessionStatus};

const LONG: WaitPolicy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(k, v)| (Identifier::parse(k).unwrap(), LabelValue::parse(v).unwrap())).collect()
}

fn large() -> Labels {
    labels(&[("size", "large")])
}

type Claiming = JoinHandle<Result<ClaimOutcome, Failure>>;

impl Bench {
    async fn with_large(names: &[&str]) -> Self {
        let bench = Bench::new();
        for name in names {
            bench.configure(&named(name), Configuration { labels: large(), ..Configuration::default() }).await;
        }
        bench
    }

    async fn any(&self, who: u8, policy: WaitPolicy) -> Result<(String, Arc<Session>), Failure> {
        match self.environments.claim_any(&pipeline(), large(), claim(who), policy, None).await? {
            ClaimOutcome::Granted { environment, session } => Ok((environment.name.to_string(), session)),
            ClaimOutcome::Queued { session, .. } => Ok((String::new(), session)),
        }
    }

    async fn wait_for_any(&self, who: u8) -> Claiming {
        let environments = self.environments.clone();
        let before = self.environments.waiting_for_any();
        let claiming =
            actix::spawn(async move { environments.claim_any(&pipeline(), large(), claim(who), LONG, None).await });
        self.until(|| self.environments.waiting_for_any() == before + 1).await;
        claiming
    }

    async fn wait_by_name(&self, who: u8, name: &str) -> Claiming {
        let (environments, key) = (self.environments.clone(), named(name));
        let before = self.environments.waiting_by_name();
        let claiming = actix::spawn(async move { environments.claim(&key, claim(who), LONG, None).await });
        self.until(|| self.environments.waiting_by_name() == before + 1).await;
        claiming
    }

    async fn take(&self, who: u8, name: &str) -> Arc<Session> {
        claim_at_once(&self.environments, &named(name), claim(who)).await.unwrap()
    }

    fn find(&self, session: &Session) -> Option<(Option<String>, SessionStatus)> {
        let found = self.environments.session_of_any(&pipeline(), session.id, session.user.id).unwrap()?;
        Some((found.environment.map(|key| key.name.to_string()), found.session.status()))
    }
}

async fn served(claiming: Claiming) -> (String, Arc<Session>) {
    match claiming.await.unwrap().unwrap() {
        ClaimOutcome::Granted { environment, session } => (environment.name.to_string(), session),
        outcome @ ClaimOutcome::Queued { .. } => panic!("{outcome:?}"),
    }
}

#[actix::test]
async fn the_least_recently_used_free_environment_is_taken() {
    let bench = Bench::with_large(&["a", "b", "c"]).await;
    for (name, at) in [("b", 10), ("a", 20), ("c", 30)] {
        bench.wall.store(1_000_000 + at, Ordering::Relaxed);
        let session = bench.take(1, name).await;
        bench.release_in(&named(name), &session).await.unwrap();
    }
    for expected in ["b", "a", "c"] {
        assert_eq!(bench.any(1, AT_ONCE).await.unwrap().0, expected);
    }
    let refused = bench.any(1, AT_ONCE).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::AllLocked { .. }))), "{refused:?}");
}

#[actix::test]
async fn only_environments_with_all_the_labels_match() {
    let bench = Bench::with_large(&["a"]).await;
    bench.configure(&named("b"), Configuration::default()).await;
    assert_eq!(bench.any(1, AT_ONCE).await.unwrap().0, "a");
    assert!(matches!(bench.any(1, AT_ONCE).await, Err(Failure::Rejected(Rejection::AllLocked { .. }))));
    let huge = labels(&[("size", "large"), ("disk", "ssd")]);
    let refused = bench.environments.claim_any(&pipeline(), huge, claim(1), LONG, None).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::NoneMatches))), "{refused:?}");
    let any = bench.environments.claim_any(&pipeline(), Labels::new(), claim(1), AT_ONCE, None).await;
    assert_eq!(granted(any.unwrap()).fencing_token(), Some(1), "no labels: any will do, and b is free");
}

#[actix::test]
async fn the_first_waiter_gets_the_environment_by_name_or_for_any() {
    let bench = Bench::with_large(&["a", "b"]).await;
    let (a, b) = (bench.take(1, "a").await, bench.take(1, "b").await);
    let first = bench.wait_for_any(2).await;
    let second = bench.wait_by_name(3, "a").await;
    let third = bench.wait_for_any(4).await;
    bench.release_in(&named("a"), &a).await.unwrap();
    let (name, session) = served(first).await;
    assert_eq!(name, "a");
    bench.let_others_run().await;
    assert!(!second.is_finished() && !third.is_finished());
    bench.release_in(&named("a"), &session).await.unwrap();
    assert_eq!(granted(second.await.unwrap().unwrap()).user.id, person(3).id, "it came before the third");
    bench.release_in(&named("b"), &b).await.unwrap();
    assert_eq!(served(third).await.0, "b");
}

#[actix::test]
async fn several_that_become_free_at_once_serve_one_each() {
    let names = ["a", "b", "c", "d"];
    let bench = Bench::with_large(&names).await;
    let mut held = Vec::new();
    for name in names {
        held.push((name, bench.take(1, name).await));
    }
    let waiting = [bench.wait_for_any(2).await, bench.wait_for_any(3).await];
    let releases = held.iter().map(|(name, session)| {
        let name = named(name);
        let bench = &bench;
        async move { bench.release_in(&name, session).await.unwrap() }
    });
    futures_util::future::join_all(releases).await;
    let mut got = Vec::new();
    for waiting in waiting {
        got.push(served(waiting).await.0);
    }
    bench.let_others_run().await;
    let locked: Vec<_> = names.into_iter().filter(|name| bench.holder_of(&named(name)).is_some()).collect();
    got.sort();
    assert_eq!(locked, got, "somebody has two, or nobody has one");
    assert_eq!(bench.environments.waiting_for_any(), 0);
}

#[actix::test]
async fn many_waiters_for_any_are_served_one_by_one_without_a_gap() {
    let bench = Bench::with_large(&["a", "b"]).await;
    // The first claim reads which environments exist; others may overtake the claims that wait for this read.
    let claims = FuturesUnordered::new();
    for who in 0..30 {
        let environments = bench.environments.clone();
        claims.push(served(actix::spawn(async move {
            environments.claim_any(&pipeline(), large(), claim(who), LONG, None).await
        })));
    }
    let mut claims = pin!(claims);
    while let Some((name, session)) = claims.next().await {
        bench.release_in(&named(&name), &session).await.unwrap();
    }
    bench.let_others_run().await;
    assert_eq!((bench.holder_of(&named("a")), bench.holder_of(&named("b"))), (None, None));
}

#[actix::test]
async fn a_waiter_that_hangs_up_is_not_served_and_blocks_nothing() {
    let bench = Bench::with_large(&["a"]).await;
    let held = bench.take(1, "a").await;
    let gone = bench.wait_for_any(2).await;
    let stays = bench.wait_for_any(3).await;
    gone.abort();
    bench.let_others_run().await;
    assert_eq!(bench.environments.waiting_for_any(), 1);
    bench.release_in(&named("a"), &held).await.unwrap();
    assert_eq!(token(&served(stays).await.1), 2);
}

#[actix::test]
async fn a_waiter_that_leaves_between_grant_and_answer_does_not_keep_the_lock() {
    let bench = Bench::with_large(&["a"]).await;
    let held = bench.take(1, "a").await;
    let gone = bench.wait_for_any(2).await;
    let stays = bench.wait_for_any(3).await;
    bench.store.hold();
    let (environments, session) = (bench.environments.clone(), held.clone());
    let releasing = actix::spawn(async move {
        let release = Release { session: session.id.into(), by: session.user.clone(), any: false };
        environments.ask(&named("a"), release).await
    });
    bench.let_others_run().await;
    gone.abort();
    bench.let_others_run().await;
    bench.store.release();
    releasing.await.unwrap().unwrap();
    assert_eq!(token(&served(stays).await.1), 3, "the ghost's grant was 2");
}

#[actix::test]
async fn a_waiter_whose_grant_the_store_refuses_is_put_back_in_its_place() {
    let bench = Bench::with_large(&["a", "b"]).await;
    let (a, b) = (bench.take(1, "a").await, bench.take(1, "b").await);
    let first = bench.wait_for_any(2).await;
    let second = bench.wait_for_any(3).await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(bench.release_in(&named("a"), &a).await.is_err());
    bench.store.refuse_with(None);
    bench.release_in(&named("b"), &b).await.unwrap();
    assert_eq!(served(first).await.1.user.id, person(2).id, "it lost its place");
    assert!(!second.is_finished());
}

#[actix::test]
async fn an_environment_that_appears_or_is_enabled_is_offered_to_waiters() {
    let bench = Bench::with_large(&["a"]).await;
    bench.take(1, "a").await;
    let waiting = bench.wait_for_any(2).await;
    bench.configure(&named("b"), Configuration { labels: large(), ..Configuration::default() }).await;
    assert_eq!(served(waiting).await.0, "b");
    let disabled = Configuration { labels: large(), disabled: true, ..Configuration::default() };
    bench.configure(&named("c"), disabled.clone()).await;
    let waiting = bench.wait_for_any(3).await;
    bench.configure(&named("c"), Configuration { disabled: false, ..disabled }).await;
    assert_eq!(served(waiting).await.0, "c");
}

#[actix::test]
async fn nobody_waits_where_all_matching_environments_are_disabled() {
    let bench = Bench::with_large(&["a"]).await;
    let disabled = Configuration { labels: large(), disabled: true, ..Configuration::default() };
    bench.configure(&named("a"), disabled).await;
    for _ in 0..2 {
        let refused = bench.any(1, LONG).await;
        assert!(matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentDisabled { .. }))), "{refused:?}");
        bench
            .configure(&named("b"), Configuration { disabled: true, labels: large(), ..Configuration::default() })
            .await;
    }
}

#[actix::test]
async fn waiters_for_any_are_shown_in_the_queue_of_each_matching_environment() {
    let bench = Bench::with_large(&["a", "b"]).await;
    bench.take(1, "a").await;
    bench.take(1, "b").await;
    let waiting = [bench.wait_for_any(2).await, bench.wait_by_name(3, "a").await, bench.wait_for_any(4).await];
    let queue = |name| {
        let environment = bench.environments.environment(&named(name)).unwrap().unwrap();
        let queue = bench.environments.queue(&named(name), &environment);
        queue.iter().map(|queued| (queued.waiter.session.user.id, queued.any)).collect::<Vec<_>>()
    };
    let (second, third, fourth) = (person(2).id, person(3).id, person(4).id);
    assert_eq!(queue("a"), [(second, true), (third, false), (fourth, true)]);
    assert_eq!(queue("b"), [(second, true), (fourth, true)]);
    drop(waiting);
}

#[actix::test]
async fn a_queued_session_for_any_is_found_wherever_it_is() {
    let bench = Bench::with_large(&["a"]).await;
    let held = bench.take(1, "a").await;
    let (_, queued) = bench.any(2, QUEUE).await.unwrap();
    assert_eq!(bench.find(&queued), Some((None, SessionStatus::Queued)));
    bench.release_in(&named("a"), &held).await.unwrap();
    assert_eq!(bench.find(&queued), Some((Some("a".to_owned()), SessionStatus::Active)));
    bench.release_in(&named("a"), &queued).await.unwrap();
    assert_eq!(bench.find(&queued), Some((Some("a".to_owned()), SessionStatus::Released)));
    assert_eq!(bench.killed(5).find(&queued), Some((Some("a".to_owned()), SessionStatus::Released)));
}

#[actix::test]
async fn a_queued_claim_is_granted_at_once_where_an_environment_is_free() {
    let bench = Bench::with_large(&["a"]).await;
    let (name, session) = bench.any(2, QUEUE).await.unwrap();
    assert_eq!((name.as_str(), session.status()), ("a", SessionStatus::Active));
}

#[actix::test]
async fn releasing_and_not_polling_end_a_queued_session_for_any() {
    let bench = Bench::with_large(&["a"]).await;
    let held = bench.take(1, "a").await;
    let (leaves, forgotten) = (bench.any(2, QUEUE).await.unwrap().1, bench.any(3, QUEUE).await.unwrap().1);
    let somebody = bench.environments.leave_pool(&pipeline(), leaves.id, &person(9), false).await;
    assert!(matches!(somebody, Err(Failure::Rejected(Rejection::NotSessionHolder { .. }))));
    // The right ticket with another seed makes a different id.
    let forged = SessionId { seed: entropy::id_seed(), ..leaves.id };
    assert_eq!(bench.environments.leave_pool(&pipeline(), forged, &person(9), false).await.unwrap(), None);
    let left = bench.environments.leave_pool(&pipeline(), leaves.id, &person(2), false).await.unwrap();
    assert_eq!(left.unwrap().session.status(), SessionStatus::Released);
    bench.pass(60_000).await;
    assert_eq!(bench.environments.waiting_for_any(), 0);
    assert_eq!(bench.find(&leaves), Some((None, SessionStatus::Released)));
    assert_eq!(bench.find(&forgotten), Some((None, SessionStatus::Expired)));
    bench.release_in(&named("a"), &held).await.unwrap();
    assert_eq!(bench.holder_of(&named("a")), None);
    assert_eq!(bench.store.scan(b"p/", b"p0", 10).unwrap().len(), 0);
}

#[actix::test]
async fn sessions_queued_for_any_survive_a_kill_and_are_served_after_it() {
    let bench = Bench::with_large(&["a", "b"]).await;
    let a = bench.take(1, "a").await;
    bench.take(1, "b").await;
    let (first, second) = (bench.any(2, QUEUE).await.unwrap().1, bench.any(3, QUEUE).await.unwrap().1);
    let after = bench.killed(1_000);
    after.environments.resume_pools().await.unwrap();
    assert_eq!(after.find(&first), Some((None, SessionStatus::Queued)));
    after.release_in(&named("a"), &a).await.unwrap();
    assert_eq!(after.find(&first), Some((Some("a".to_owned()), SessionStatus::Active)));
    assert_eq!(after.find(&second), Some((None, SessionStatus::Queued)));

    // The server is killed while an environment is free for a waiter. The restart finds it free.
    let third = after.any(4, QUEUE).await.unwrap().1;
    after.environments.leave_pool(&pipeline(), second.id, &person(3), false).await.unwrap();
    let held = after.holder_of(&named("a")).unwrap();
    after.store.hold();
    let environments = after.environments.clone();
    let releasing = actix::spawn(async move {
        let release = Release { session: held.id.into(), by: held.user.clone(), any: false };
        environments.ask(&named("a"), release).await
    });
    after.let_others_run().await;
    let again = after.killed(1_000);
    again.environments.resume_pools().await.unwrap();
    again.let_others_run().await;
    let held = again.holder_of(&named("a")).unwrap();
    assert_eq!(held.id, first.id, "neither the release nor the grant had happened");
    again.release_in(&named("a"), &held).await.unwrap();
    assert_eq!(again.find(&third), Some((Some("a".to_owned()), SessionStatus::Active)));
    drop(releasing);
}

#[actix::test]
async fn a_wait_for_any_that_is_over_says_so() {
    let bench = Bench::with_large(&["a"]).await;
    bench.take(1, "a").await;
    tokio::time::pause();
    let waiting = bench.wait_for_any(2).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let refused = waiting.await.unwrap();
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::AllLocked { queue_length: 0 }))), "{refused:?}");
    assert_eq!(bench.environments.waiting_for_any(), 0);
}

#[actix::test]
async fn a_waiter_for_any_is_served_once_the_store_accepts_again() {
    let bench = Bench::with_large(&["a"]).await;
    let session = bench.any(1, AT_ONCE).await.unwrap().1;
    bench.release_in(&named("a"), &session).await.unwrap();
    bench.store.refuse_with(Some(StoreError::Overloaded));
    let environments = bench.environments.clone();
    let waiting = actix::spawn(async move { environments.claim_any(&pipeline(), large(), claim(2), LONG, None).await });
    bench.let_others_run().await;
    assert!(!waiting.is_finished());
    bench.store.refuse_with(None);
    bench.pass(1_000).await;
    assert_eq!(served(waiting).await.0, "a");
}

#[actix::test]
async fn an_environment_that_cannot_be_read_does_not_hold_up_waiters_for_any() {
    let bench = Bench::with_large(&["a", "b"]).await;
    let session = bench.any(1, AT_ONCE).await.unwrap().1;
    bench.release_in(&named("a"), &session).await.unwrap();
    bench.let_go_of_all().await;
    let good = bench.store.get(&crate::keys::environment(&named("b"))).unwrap().unwrap();
    bench.put(&named("b"), vec![255, 1, 2]);
    // b is the least recently used, so it is tried first.
    assert_eq!(bench.any(1, AT_ONCE).await.unwrap().0, "a");
    let refused = bench.any(1, AT_ONCE).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::AllLocked { .. }))), "{refused:?}");
    bench.put(&named("b"), good);
    bench.let_go_of_all().await;
    bench.configure(&named("b"), Configuration { labels: large(), ..Configuration::default() }).await;
    assert_eq!(bench.any(1, AT_ONCE).await.unwrap().0, "b", "it can be read again");
}

#[actix::test]
async fn a_taken_waiter_is_put_back_if_the_history_cannot_be_read() {
    let bench = Bench::over(Arc::new(MemoryStore::new()), 1);
    for name in ["a", "b"] {
        bench.configure(&named(name), Configuration { labels: large(), ..Configuration::default() }).await;
    }
    // A session of `a` that was once queued: dropping it requires reading its page.
    let first = bench.take(1, "a").await;
    let ClaimOutcome::Queued { session: queued, .. } =
        bench.environments.claim(&named("a"), claim(1), QUEUE, None).await.unwrap()
    else {
        panic!("not queued")
    };
    bench.release_in(&named("a"), &first).await.unwrap();
    bench.release_in(&named("a"), &queued).await.unwrap();
    // The first page has the numbers up to 7, and is dropped when the eighth session ends.
    let b = bench.take(1, "b").await;
    for _ in 3..=7 {
        let session = bench.take(1, "a").await;
        bench.release_in(&named("a"), &session).await.unwrap();
    }
    bench.let_go_of_all().await;
    let a = bench.take(1, "a").await;
    let waiting = bench.wait_for_any(2).await;
    let mut batch = Batch::default();
    batch.put(crate::keys::page(&named("a"), 0), vec![255]);
    bench.store.commit(batch).unwrap();
    assert!(matches!(bench.release_in(&named("a"), &a).await, Err(Failure::Store(StoreError::Read(_)))));
    bench.release_in(&named("b"), &b).await.unwrap();
    assert_eq!(served(waiting).await.0, "b");
}
