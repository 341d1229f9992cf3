//! The history: neither the list nor the store ever misses a session. Also the sessions and the utilisation in a
//! period.

#![allow(clippy::unwrap_used)]

use super::delivery::end_of;
use super::*;
use domain::{Context, Delete, DeploymentStatus, Period, StageEnd};

impl Bench {
    /// Begins and ends this many sessions.
    pub(super) async fn sessions(&self, count: u64) {
        for _ in 0..count {
            let session = self.claim(1).await.unwrap();
            self.release(&session).await.unwrap();
        }
    }

    /// The numbers of a page of sessions, newest first, and the total.
    fn listed(&self, offset: u64, limit: u64) -> (Vec<u64>, u64) {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        let history = self.environments.history(&key(), &environment, offset, limit).unwrap().unwrap();
        (history.items.iter().map(token).collect(), history.total)
    }

    fn session_numbered(&self, number: u64) -> Session {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        let history = self.environments.history(&key(), &environment, 0, 1_000).unwrap().unwrap();
        history.items.into_iter().find(|session| token(session) == number).unwrap()
    }

    fn records(&self) -> usize {
        self.store.scan(b"h/", b"h0", usize::MAX).unwrap().len()
    }

    pub(super) async fn force_claim(&self, who: u8) {
        let force = claim(who);
        self.environments.force_claim(&key(), force, Role::Admin, None).await.unwrap();
    }

    /// Starts work without waiting for its end, while the store is held back.
    pub(super) async fn in_the_background(&self, work: impl AsyncFnOnce(Environments) + 'static) {
        let environments = self.environments.clone();
        actix::spawn(async move { work(environments).await });
        self.let_others_run().await;
    }
}

/// The newest `retention` numbers, newest first.
fn remembered(ended: u64, retention: u64) -> Vec<u64> {
    (1..=ended).rev().take(retention as usize).collect()
}

#[actix::test]
async fn the_history_is_exact_at_every_length_whatever_it_keeps() {
    for retention in [1, 7, 8, 9, 20] {
        let bench = Bench::over(Arc::new(MemoryStore::new()), retention);
        bench.make().await;
        let mut ids = Vec::new();
        for ended in 0..=40 {
            let expected = remembered(ended, retention);
            let total = expected.len() as u64;
            let context = format!("{ended} ended, {retention} kept");
            assert_eq!(bench.listed(0, 50), (expected.clone(), total), "{context}");
            assert_eq!(bench.listed(0, 3).0, expected[..expected.len().min(3)], "{context}: first page");
            let pages: Vec<_> = (0..total).step_by(3).flat_map(|offset| bench.listed(offset, 3).0).collect();
            assert_eq!(pages, expected, "{context}: page by page");
            assert_eq!(
                bench.listed(total.saturating_sub(1), 3).0,
                expected.last().copied().into_iter().collect::<Vec<_>>()
            );
            assert_eq!(bench.listed(total, 3), (vec![], total), "{context}: past the end");
            assert_eq!(bench.listed(u64::MAX, 3), (vec![], total), "{context}: far past the end");
            let environment = bench.environments.environment(&key()).unwrap().unwrap();
            for (number, id) in (1..).zip(&ids) {
                let found = bench.environments.session(&key(), &environment, *id, person(1).id).unwrap();
                assert_eq!(found.is_some(), expected.contains(&number), "{context}: session {number}");
            }
            let pages = expected.first().map_or(0, |newest| newest / 8 + 1 - expected.last().unwrap() / 8);
            assert_eq!(bench.records() as u64, pages, "{context}: records");

            let session = bench.claim(1).await.unwrap();
            let holding: Vec<_> = [ended + 1].into_iter().chain(expected).collect();
            assert_eq!(bench.listed(0, 50), (holding, total + 1), "{context}, one holds it");
            bench.release(&session).await.unwrap();
            ids.push(session.id);
        }
    }
}

#[actix::test]
async fn an_actor_that_comes_back_in_the_middle_of_a_page_goes_on_with_it() {
    let bench = Bench::with_environment().await;
    for ended in 1..=20 {
        bench.sessions(1).await;
        bench.let_go_of_all().await;
        assert_eq!(bench.environments.resident(), 0);
        assert_eq!(bench.listed(0, 50), (remembered(ended, 50), ended));
    }
    let after = bench.killed(1_000);
    after.sessions(5).await;
    assert_eq!(after.listed(0, 50), (remembered(25, 50), 25));
}

#[actix::test]
async fn a_session_whose_deployment_outlived_it_is_written_again_though_its_page_is_full() {
    for leaves_memory in [false, true] {
        let bench = Bench::with_environment().await;
        bench.sessions(2).await;
        let deployment = bench.deploying().await;
        for _ in 0..20 {
            bench.force_claim(2).await;
        }
        assert_eq!(bench.session_numbered(3).deployments[0].status, DeploymentStatus::Cancelling);
        if leaves_memory {
            bench.let_go_of_all().await;
        }
        bench.end(deployment, StageEnd::Cancelled).await;
        assert_eq!(bench.session_numbered(3).deployments[0].status, DeploymentStatus::Cancelled);
        assert_eq!(bench.listed(0, 50), (remembered(23, 50), 23));
        bench.force_claim(3).await;
        let after = bench.killed(1_000);
        assert_eq!(after.listed(0, 50), (remembered(24, 50), 24));
        assert_eq!(after.session_numbered(3).deployments[0].status, DeploymentStatus::Cancelled);
    }
}

#[actix::test]
async fn the_history_is_whole_whichever_commits_under_way_survive_a_crash() {
    let bench = Bench::with_environment().await;
    bench.sessions(5).await;
    let deployment = bench.deploying().await;
    bench.store.hold();
    for _ in 0..12 {
        let force = claim(2);
        bench.in_the_background(async |all| drop(all.force_claim(&key(), force, Role::Admin, None).await)).await;
    }
    let end = end_of(deployment, StageEnd::Succeeded);
    bench.in_the_background(async |all| drop(all.ask(&key(), end).await)).await;
    for _ in 0..4 {
        let force = claim(3);
        bench.in_the_background(async |all| drop(all.force_claim(&key(), force, Role::Admin, None).await)).await;
    }

    let mut durable = 0;
    loop {
        let after = bench.killed(1_000);
        let newest = 6 + durable - u64::from(durable > 12);
        assert_eq!(after.listed(0, 50), (remembered(newest, 50), newest), "{durable} durable");
        let status = after.session_numbered(6).deployments[0].status;
        assert_eq!(status == DeploymentStatus::Succeeded, durable > 12, "{durable} durable: {status:?}");
        after.force_claim(4).await;
        assert_eq!(after.listed(0, 50), (remembered(newest + 1, 50), newest + 1), "{durable} durable, and one more");
        if !bench.store.release_one() {
            break;
        }
        durable += 1;
    }
    assert_eq!(durable, 17);
    bench.store.release();
    bench.let_others_run().await;
    bench.force_claim(5).await;
    assert_eq!(bench.listed(0, 50), (remembered(23, 50), 23), "the actor itself goes on where it was");
}

#[actix::test]
async fn a_refused_end_of_a_session_leaves_its_page_as_it_was() {
    let bench = Bench::with_environment().await;
    bench.sessions(9).await;
    let session = bench.claim(1).await.unwrap();
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(bench.release(&session).await.is_err());
    bench.store.refuse_with(None);
    assert_eq!(bench.listed(0, 50), (remembered(10, 50), 10));
    bench.release(&session).await.unwrap();
    bench.sessions(1).await;
    assert_eq!(bench.listed(0, 50), (remembered(11, 50), 11));
}

#[actix::test]
async fn a_session_beyond_the_retention_is_not_found_though_its_page_is_still_there() {
    let bench = Bench::over(Arc::new(MemoryStore::new()), 2);
    bench.make().await;
    let old = bench.claim(1).await.unwrap();
    bench.release(&old).await.unwrap();
    bench.sessions(1).await;
    assert_eq!(bench.release(&old).await.unwrap().id, old.id, "releasing again is no fault");
    bench.sessions(1).await;
    let refused = bench.release(&old).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::SessionNotFound))), "{refused:?}");
}

#[actix::test]
async fn a_lowered_retention_cuts_the_history_at_the_next_change() {
    let bench = Bench::with_environment().await;
    bench.sessions(700).await;
    assert_eq!(bench.records(), 88);
    let after = Bench::over(Arc::new(bench.store.crash()), 9);
    assert_eq!(after.listed(0, 50), ((692..=700).rev().collect(), 9), "readers see no more at once");
    after.sessions(1).await;
    after.let_others_run().await;
    assert_eq!(after.listed(0, 50), ((693..=701).rev().collect(), 9));
    assert_eq!(after.records(), 2, "what nobody can see is gone");
}

#[actix::test]
async fn deleting_drops_the_history_however_long_and_keeps_the_fencing_token() {
    for length in [1, 7, 8, 1_203] {
        let bench = Bench::over(Arc::new(MemoryStore::new()), 1_000_000);
        bench.make().await;
        bench.sessions(length - 1).await;
        let old = bench.claim(1).await.unwrap();
        bench.release(&old).await.unwrap();
        bench.environments.ask(&key(), Delete { expected: None }).await.unwrap();
        assert!(bench.environments.environment(&key()).unwrap().is_none());
        bench.let_others_run().await;
        assert_eq!(bench.records(), 0, "every record of it is gone");

        bench.make().await;
        assert_eq!(bench.listed(0, 50), (vec![], 0));
        let environment = bench.environments.environment(&key()).unwrap().unwrap();
        assert!(bench.environments.session(&key(), &environment, old.id, person(1).id).unwrap().is_none());
        assert!(bench.release(&old).await.is_err(), "it is not there for the actor either");
        bench.sessions(3).await;
        assert_eq!(bench.listed(0, 50), (vec![length + 3, length + 2, length + 1], 3));
        assert_eq!(bench.session_numbered(length + 1).fencing_token(), Some(token(&old) + 1));
    }
}

#[actix::test]
async fn an_environment_deleted_and_made_again_before_the_disk_knows_begins_without_history() {
    let bench = Bench::with_environment().await;
    bench.sessions(3).await;
    bench.store.hold();
    bench.in_the_background(async |all| drop(all.ask(&key(), Delete { expected: None }).await)).await;
    let configure = Configure { configuration: Configuration::default(), expected: None };
    bench.in_the_background(async |all| drop(all.configure(&key(), configure).await)).await;
    for _ in 0..3 {
        let force = claim(2);
        bench.in_the_background(async |all| drop(all.force_claim(&key(), force, Role::Admin, None).await)).await;
    }
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.listed(0, 50), (vec![6, 5, 4], 3));
    let page = bench.store.get(&crate::keys::page(&key(), 0)).unwrap().unwrap();
    let page = records::Page::read(page).unwrap();
    assert!(page.sessions(1..=3).unwrap().is_empty(), "what was deleted came back into the store");
}

#[actix::test]
async fn a_page_that_cannot_be_read_says_so_and_nothing_is_lost() {
    let bench = Bench::with_environment().await;
    bench.sessions(10).await;
    let session = bench.claim(1).await.unwrap();
    bench.let_go_of_all().await;
    let place = crate::keys::page(&key(), 1);
    let good = bench.store.get(&place).unwrap().unwrap();
    let write = |record| {
        let mut batch = Batch::default();
        batch.put(place.clone(), record);
        bench.store.commit(batch).unwrap();
    };
    write(vec![255, 1, 2]);
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    assert!(matches!(bench.environments.history(&key(), &environment, 0, 5), Err(StoreError::Read(_))));
    assert!(matches!(bench.release(&session).await, Err(Failure::Store(StoreError::Read(_)))));
    write(good);
    bench.release(&session).await.unwrap();
    assert_eq!(bench.listed(0, 50), (remembered(11, 50), 11));
}

#[actix::test]
async fn the_store_accepts_a_page_of_the_largest_sessions() {
    let bench = Bench::with_environment().await;
    let commit = CommitId::parse(&"c".repeat(128)).unwrap();
    for _ in 0..16 {
        let context = Some(Context::parse(&"\u{1f512}".repeat(1024)).unwrap());
        let session = claim_at_once(&bench.environments, &key(), ClaimRequest { context, ..claim(1) }).await.unwrap();
        for _ in 0..100 {
            let deploy = Deploy { commit: commit.clone(), ..delivery::deploy(&session) };
            bench.environments.ask(&key(), deploy).await.unwrap();
        }
        bench.release(&session).await.unwrap();
    }
    assert_eq!(bench.listed(0, 50).1, 16);
    let page = bench.store.get(&crate::keys::page(&key(), 1)).unwrap().unwrap();
    assert!(page.len() < 256 * 1024, "{} bytes, and the environment is to fit into the same batch", page.len());
}

const SECOND: i64 = 1_000;

impl Bench {
    /// Begins a session at one second of the wall clock and ends it at another.
    async fn held(&self, key: &EnvironmentKey, who: u8, from: i64, to: i64) {
        self.wall.store(from * SECOND, Ordering::Relaxed);
        let session = claim_at_once(&self.environments, key, claim(who)).await.unwrap();
        self.wall.store(to * SECOND, Ordering::Relaxed);
        self.release_in(key, &session).await.unwrap();
    }

    /// The numbers of the sessions between two seconds, newest first, and the total.
    fn within(&self, from: i64, to: i64, offset: u64, limit: u64) -> (Vec<u64>, u64) {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        let found = self.environments.history_within(&key(), &environment, seconds(from, to), offset, limit);
        let found = found.unwrap().unwrap();
        (found.items.iter().map(token).collect(), found.total)
    }
}

fn seconds(from: i64, to: i64) -> Period {
    Period { from: Timestamp::from_millis(from * SECOND), to: Timestamp::from_millis(to * SECOND) }
}

#[actix::test]
async fn a_history_of_a_period_has_the_sessions_that_had_the_lock_in_it() {
    let bench = Bench::with_environment().await;
    // More sessions than are read per step; session n lasts from second 10 n to 10 n + 5.
    for number in 1..=300 {
        bench.held(&key(), 1, 10 * number, 10 * number + 5).await;
    }
    assert_eq!(bench.within(0, 9_999, 0, 2), (vec![300, 299], 300));
    assert_eq!(bench.within(0, 9_999, 299, 2), (vec![1], 300));
    assert_eq!(bench.within(2_996, 9_999, 0, 9), (vec![300], 1));
    assert_eq!(bench.within(1_003, 1_022, 0, 9), (vec![102, 101, 100], 3), "also those that had begun or go on");
    assert_eq!(bench.within(1_003, 1_022, 1, 1), (vec![101], 3));
    assert_eq!(bench.within(1_006, 1_009, 0, 9), (vec![], 0));
    assert_eq!(bench.within(0, 10, 0, 9), (vec![], 0), "it begins when the period has ended");
    bench.wall.store(4_000 * SECOND, Ordering::Relaxed);
    bench.claim(1).await.unwrap();
    assert_eq!(bench.within(5_000, 6_000, 0, 9), (vec![301], 1), "the present one has no end yet");
}

#[actix::test]
async fn utilisation_counts_every_environment_of_the_pipelines_asked_for() {
    let bench = Bench::with_environment().await;
    for name in ["review-2", "review-3"] {
        bench.configure(&named(name), Configuration::default()).await;
    }
    bench.held(&key(), 1, 100, 160).await;
    bench.held(&key(), 2, 200, 230).await;
    bench.held(&named("review-2"), 1, 300, 310).await;
    let found = bench.environments.utilisation(&[pipeline()], seconds(130, 3_000)).unwrap();
    let figures = found.utilisation.environments.iter();
    let figures: Vec<_> =
        figures.map(|used| (used.key.name.to_string(), used.sessions, used.locked_millis / SECOND)).collect();
    let expected = [("review-1", 2, 60), ("review-2", 1, 10), ("review-3", 0, 0)];
    assert_eq!(figures, expected.map(|(name, sessions, seconds)| (name.to_owned(), sessions, seconds)));
    let holders = found.utilisation.holders(9);
    let holders: Vec<_> = holders.iter().map(|holder| (holder.user.id, holder.locked_millis / SECOND)).collect();
    assert_eq!((holders, found.truncated), (vec![(person(1).id, 40), (person(2).id, 30)], false));
    let none = bench.environments.utilisation(&[], seconds(0, 3_000)).unwrap();
    assert!(none.utilisation.environments.is_empty() && !none.truncated);
}
