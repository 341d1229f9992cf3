//! The sessions of a whole organization: the list is correct, and listing loads no environment.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{ListedSession, SessionFilter};
use domain::{Labels, ReleaseLock, SessionId, SessionStatus};
use store::durable_up_to;

const LONG: WaitPolicy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
const QUEUE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: true };

impl Bench {
    async fn learn(&self) {
        let organization = pipeline().organization;
        let learned =
            self.environments.learn_sessions(&organization, |learn| async move { learn().map_err(Failure::from) });
        learned.await.unwrap();
    }

    async fn page(&self, filter: SessionFilter, offset: u64, limit: u64) -> (Vec<ListedSession>, u64) {
        self.learn().await;
        let list = self.environments.sessions(&pipeline().organization, &filter, offset, limit).unwrap();
        durable_up_to(&*self.store, list.durable_at).await;
        (list.page.items, list.page.total)
    }

    async fn sessions_listed(&self, filter: SessionFilter) -> Vec<ListedSession> {
        let (items, total) = self.page(filter, 0, 100).await;
        assert_eq!(items.len() as u64, total);
        items
    }

    async fn ids(&self) -> Vec<SessionId> {
        self.sessions_listed(SessionFilter::default()).await.iter().map(|listed| listed.session.id).collect()
    }

    /// The ids of all sessions, newest first, found by reading every environment and pool.
    fn ids_by_reading_everything(&self) -> Vec<SessionId> {
        let all = self.environments.list(&pipeline(), &ListFilter::default(), 0, 1_000).unwrap().items;
        let mut sessions: Vec<_> = all
            .iter()
            .flat_map(|(_, environment)| {
                let waiting = environment.queue.iter().filter(|waiter| waiter.kept_by == domain::KeptBy::Polling);
                environment
                    .lock
                    .clone()
                    .into_iter()
                    .chain(waiting.map(|waiter| Arc::new(waiter.session.clone())))
                    .collect::<Vec<_>>()
            })
            .collect();
        sessions.extend(self.environments.waiters_for_any().iter().map(|waiter| Arc::new(waiter.session.clone())));
        sessions.sort_by_key(|session| std::cmp::Reverse((session.created_at, session.id)));
        sessions.into_iter().map(|session| session.id).collect()
    }

    async fn with_three() -> Self {
        let bench = Self::new();
        for name in ["a", "b", "c"] {
            bench.configure(&named(name), Configuration::default()).await;
        }
        bench
    }

    async fn hold(&self, who: u8, name: &str) -> Arc<Session> {
        self.pass(1).await;
        claim_at_once(&self.environments, &named(name), claim(who)).await.unwrap()
    }

    async fn queue_for(&self, who: u8, name: &str) -> Arc<Session> {
        self.pass(1).await;
        queued(self.environments.claim(&named(name), claim(who), QUEUE, None).await.unwrap())
    }

    async fn queue_for_any(&self, who: u8) -> Arc<Session> {
        self.pass(1).await;
        queued(self.environments.claim_any(&pipeline(), Labels::new(), claim(who), QUEUE, None).await.unwrap())
    }
}

fn queued(outcome: ClaimOutcome) -> Arc<Session> {
    match outcome {
        ClaimOutcome::Queued { session, .. } => session,
        ClaimOutcome::Granted { .. } => panic!("granted, not queued: {outcome:?}"),
    }
}

#[actix::test]
async fn who_holds_and_who_waits_is_listed_newest_first_wherever_it_is() {
    let bench = Bench::with_three().await;
    let (a, b, c) = (bench.hold(1, "a").await, bench.hold(2, "b").await, bench.hold(1, "c").await);
    let waits = bench.queue_for(3, "a").await;
    let any = bench.queue_for_any(2).await;
    let listed = bench.sessions_listed(SessionFilter::default()).await;
    let shown: Vec<_> = listed
        .iter()
        .map(|listed| {
            let place = listed.environment.as_ref().map(Identifier::as_str);
            (listed.session.id, place, listed.session.status(), listed.waiting.map(|waiting| waiting.position))
        })
        .collect();
    let active = |session: &Session, name| (session.id, Some(name), SessionStatus::Active, None);
    assert_eq!(
        shown,
        [
            (any.id, None, SessionStatus::Queued, Some(1)),
            (waits.id, Some("a"), SessionStatus::Queued, Some(1)),
            active(&c, "c"),
            active(&b, "b"),
            active(&a, "a"),
        ]
    );
    assert!(listed.iter().all(|listed| listed.pipeline == pipeline()));
}

#[actix::test]
async fn filters_select_and_the_total_counts_what_they_select() {
    let bench = Bench::with_three().await;
    let (a, b) = (bench.hold(1, "a").await, bench.hold(2, "b").await);
    let waits = bench.queue_for(1, "b").await;
    bench.hold(3, "c").await;
    let any = bench.queue_for_any(1).await;
    let all = SessionFilter::default;
    let named = |text: &str| Some(Identifier::parse(text).unwrap());
    for (filter, expected) in [
        (SessionFilter { user: Some(person(1).id), ..all() }, vec![any.id, waits.id, a.id]),
        (SessionFilter { user_named: Some("person-1".to_owned()), ..all() }, vec![any.id, waits.id, a.id]),
        (SessionFilter { user_named: Some(person(2).id.to_string()), ..all() }, vec![b.id]),
        (SessionFilter { user_named: Some("person-9".to_owned()), ..all() }, vec![]),
        (SessionFilter { status: Some(SessionStatus::Queued), ..all() }, vec![any.id, waits.id]),
        (SessionFilter { status: Some(SessionStatus::Active), user: Some(person(1).id), ..all() }, vec![a.id]),
        (SessionFilter { environment: named("b"), ..all() }, vec![waits.id, b.id]),
        (SessionFilter { pipeline: named("shop"), ..all() }, vec![]),
        (
            SessionFilter { pipeline: named("web"), status: Some(SessionStatus::Queued), ..all() },
            vec![any.id, waits.id],
        ),
    ] {
        let found: Vec<_> =
            bench.sessions_listed(filter.clone()).await.iter().map(|listed| listed.session.id).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[actix::test]
async fn pages_follow_each_other_and_all_say_the_same_total() {
    let bench = Bench::new();
    let mut expected = Vec::new();
    for number in 0..7 {
        let name = format!("e-{number}");
        bench.configure(&named(&name), Configuration::default()).await;
        // Some sessions begin in the same millisecond.
        let session = claim_at_once(&bench.environments, &named(&name), claim(1)).await.unwrap();
        expected.push((session.created_at, session.id));
        bench.pass(number % 2).await;
    }
    expected.sort_by_key(|session| std::cmp::Reverse(*session));
    for limit in 1..=8 {
        let mut found = Vec::new();
        for offset in (0..7).step_by(limit) {
            let (items, total) = bench.page(SessionFilter::default(), offset as u64, limit as u64).await;
            assert_eq!(total, 7);
            found.extend(items.into_iter().map(|listed| (listed.session.created_at, listed.session.id)));
        }
        assert_eq!(found, expected, "by {limit}");
    }
    assert_eq!(bench.page(SessionFilter::default(), u64::MAX, 100).await, (vec![], 7));
}

#[actix::test]
async fn what_was_there_before_the_first_question_is_listed_and_no_resting_environment_is_woken() {
    let bench = Bench::with_three().await;
    let (a, b) = (bench.hold(1, "a").await, bench.hold(2, "b").await);
    let waits = bench.queue_for(3, "b").await;
    bench.let_go_of_all().await;
    assert_eq!(bench.environments.resident(), 1, "only the one with a queue stays");
    assert_eq!(bench.ids().await, [waits.id, b.id, a.id]);
    assert_eq!(bench.environments.resident(), 1);

    let after = bench.killed(0);
    assert_eq!(after.ids().await, [waits.id, b.id, a.id], "after a restart");
    assert_eq!(after.environments.resident(), 0);
}

#[actix::test]
async fn whoever_has_an_answer_finds_it_in_the_list() {
    let bench = Bench::with_three().await;
    bench.learn().await;
    for _ in 0..20 {
        let session = bench.hold(1, "a").await;
        assert_eq!(bench.ids().await, [session.id]);
        let waits = bench.queue_for(2, "a").await;
        assert_eq!(bench.ids().await, [waits.id, session.id]);
        bench.environments.ask(&named("a"), ReleaseLock { by: person(1), any: false }).await.unwrap();
        assert_eq!(bench.ids().await, [waits.id]);
        bench.release_in(&named("a"), &waits).await.unwrap();
        assert_eq!(bench.ids().await, []);
    }
    let left = bench.environments.indexed(&pipeline().organization);
    assert_eq!(left, 0, "an environment without sessions leaves nothing behind");
}

#[actix::test]
async fn a_lock_that_is_not_durable_yet_is_not_listed() {
    let bench = Bench::with_three().await;
    bench.learn().await;
    let held = bench.hold(1, "a").await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &named("b"), claim(2)).await });
    let environments = bench.environments.clone();
    let releasing =
        actix::spawn(async move { environments.ask(&named("a"), ReleaseLock { by: person(1), any: false }).await });
    bench.let_others_run().await;
    let list = bench.environments.sessions(&pipeline().organization, &SessionFilter::default(), 0, 10).unwrap();
    let ids: Vec<_> = list.page.items.iter().map(|listed| listed.session.id).collect();
    assert_eq!(ids, [held.id]);
    bench.store.release();
    let claimed = claiming.await.unwrap().unwrap();
    releasing.await.unwrap().unwrap();
    assert_eq!(bench.ids().await, [claimed.id]);
}

#[actix::test]
async fn a_queued_session_in_a_pool_is_shown_only_when_its_place_is_durable() {
    let bench = Bench::with_three().await;
    for name in ["a", "b", "c"] {
        bench.hold(1, name).await;
    }
    bench.environments.resume_pools().await.unwrap();
    bench.queue_for_any(2).await;
    bench.learn().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let queueing =
        actix::spawn(async move { environments.claim_any(&pipeline(), Labels::new(), claim(3), QUEUE, None).await });
    bench.let_others_run().await;
    let list = bench.environments.sessions(&pipeline().organization, &SessionFilter::default(), 0, 10).unwrap();
    let environments = bench.environments.clone();
    let shown = actix::spawn(async move { environments.shown_durably(list.durable_at).await });
    bench.let_others_run().await;
    assert!(!shown.is_finished(), "the list has a place that could still be lost");
    bench.store.release();
    shown.await.unwrap().unwrap();
    queued(queueing.await.unwrap().unwrap());
}

#[actix::test]
async fn a_waiter_of_a_pool_that_gets_an_environment_is_listed_once_under_the_same_id() {
    let bench = Bench::with_three().await;
    for name in ["a", "b", "c"] {
        bench.hold(1, name).await;
    }
    let any = bench.queue_for_any(2).await;
    assert_eq!(bench.ids().await.len(), 4);
    bench.environments.ask(&named("b"), ReleaseLock { by: person(1), any: false }).await.unwrap();
    let of_second = bench.sessions_listed(SessionFilter { user: Some(person(2).id), ..SessionFilter::default() }).await;
    assert_eq!(of_second.len(), 1);
    assert_eq!((of_second[0].session.id, of_second[0].session.status()), (any.id, SessionStatus::Active));
    assert_eq!(of_second[0].environment.as_ref().map(Identifier::as_str), Some("b"));
}

#[actix::test]
async fn a_claim_that_waits_on_its_connection_has_no_session_to_list_and_listing_holds_no_place() {
    let bench = Bench::with_three().await;
    let held = bench.hold(1, "a").await;
    let environments = bench.environments.clone();
    let waiting = actix::spawn(async move { environments.claim(&named("a"), claim(2), LONG, None).await });
    bench.let_others_run().await;
    assert_eq!(bench.ids().await, [held.id]);
    let polled = bench.queue_for(3, "a").await;
    for _ in 0..4 {
        bench.pass(20_000).await;
        bench.sessions_listed(SessionFilter { user: Some(person(3).id), ..SessionFilter::default() }).await;
    }
    assert_eq!(bench.ids().await, [held.id], "{} was not polled", polled.id);
    waiting.abort();
}

#[actix::test]
async fn organizations_do_not_see_each_other() {
    let bench = Bench::with_three().await;
    let own = bench.hold(1, "a").await;
    // The other organization's name begins with this one's.
    let other = PipelineKey { organization: Identifier::parse("acme-2").unwrap(), ..pipeline() };
    let theirs = EnvironmentKey { pipeline: other.clone(), name: Identifier::parse("a").unwrap() };
    bench.configure(&theirs, Configuration::default()).await;
    let session = claim_at_once(&bench.environments, &theirs, claim(1)).await.unwrap();
    bench.environments.claim_any(&other, Labels::new(), claim(1), QUEUE, None).await.unwrap();
    assert_eq!(bench.ids().await, [own.id]);
    let learned =
        bench.environments.learn_sessions(&other.organization, |learn| async move { learn().map_err(Failure::from) });
    learned.await.unwrap();
    let listed = bench.environments.sessions(&other.organization, &SessionFilter::default(), 0, 10).unwrap();
    assert_eq!(listed.page.total, 2);
    assert!(listed.page.items.iter().any(|listed| listed.session.id == session.id));
}

#[actix::test]
async fn a_first_question_that_is_given_up_does_not_harm_the_next() {
    let bench = Bench::with_three().await;
    let held = bench.hold(1, "a").await;
    let organization = pipeline().organization;
    let failed = bench.environments.learn_sessions(&organization, |_| async { Err(Failure::Overloaded) }).await;
    assert!(matches!(failed, Err(Failure::Overloaded)));
    bench.environments.ask(&named("a"), ReleaseLock { by: person(1), any: false }).await.unwrap();
    let next = bench.hold(2, "b").await;
    assert_eq!(bench.ids().await, [next.id], "{} has ended", held.id);
}

/// Random commands, and a first list at a random moment: the list always agrees with the environments.
#[actix::test]
async fn the_list_is_always_what_the_environments_say() {
    for seed in 0..12_u64 {
        let mut bench = Bench::with_three().await;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for step in 0..60 {
            let (who, name) = (next(3) as u8 + 1, ["a", "b", "c"][next(3) as usize]);
            match next(10) {
                0..=2 => _ = claim_at_once(&bench.environments, &named(name), claim(who)).await,
                3 => _ = bench.environments.claim(&named(name), claim(who), QUEUE, None).await,
                4 => _ = bench.environments.claim_any(&pipeline(), Labels::new(), claim(who), QUEUE, None).await,
                5..=6 => _ = bench.environments.ask(&named(name), ReleaseLock { by: person(who), any: true }).await,
                7 => bench.let_go_of_all().await,
                8 => bench.pass(next(40_000) as i64).await,
                _ => {
                    bench = bench.killed(next(1_000) as i64);
                    bench.environments.resume_pools().await.unwrap();
                }
            }
            bench.pass(1).await;
            if step as u64 >= seed * 3 {
                assert_eq!(bench.ids().await, bench.ids_by_reading_everything(), "seed {seed}, step {step}");
            }
        }
    }
}
