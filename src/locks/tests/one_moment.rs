//! Consistent reads: the store has a deletion shortly before its view is published.

#![allow(clippy::unwrap_used)]

use super::*;
use domain::{Delete, Heartbeat};

impl Bench {
    /// Deletes the environment. The store already has the deletion, but readers do not see it yet.
    async fn deleted_and_not_published(&self) {
        self.store.hold();
        self.in_the_background(async |all| drop(all.ask(&key(), Delete { expected: None }).await)).await;
        self.store.release();
    }
}

#[actix::test]
async fn a_history_is_not_shorter_than_its_total_when_the_environment_is_deleted_under_it() {
    let bench = Bench::with_environment().await;
    bench.sessions(20).await;
    bench.deleted_and_not_published().await;
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let read = bench.environments.history(&key(), &environment, 0, 50).unwrap();
    assert_eq!(read.map(|torn| (torn.items.len(), torn.total)), None, "it is to be read again");
    bench.environments.caught_up(&key()).await.unwrap();
    assert_eq!(bench.environments.environment(&key()).unwrap(), None);
}

#[actix::test]
async fn a_history_is_not_shorter_than_its_total_when_it_is_trimmed_under_it() {
    let bench = Bench::over(Arc::new(MemoryStore::new()), 3);
    bench.make().await;
    bench.sessions(10).await;
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    bench.sessions(20).await;
    let read = bench.environments.history(&key(), &environment, 0, 50).unwrap();
    assert_eq!(read.map(|torn| (torn.items.len(), torn.total)), None, "it is to be read again");
    bench.environments.caught_up(&key()).await.unwrap();
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let read = bench.environments.history(&key(), &environment, 0, 50).unwrap().unwrap();
    assert_eq!((read.items.len(), read.total), (3, 3));
}

#[actix::test]
async fn a_session_that_went_with_its_environment_is_not_missed_in_one_that_exists() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    bench.release(&session).await.unwrap();
    bench.deleted_and_not_published().await;
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let missed = bench.environments.session(&key(), &environment, session.id, person(1).id).unwrap();
    assert_eq!(missed, None, "the store is ahead of what readers see");
    bench.environments.caught_up(&key()).await.unwrap();
    assert_eq!(bench.environments.environment(&key()).unwrap(), None);
}

#[actix::test]
async fn a_change_that_needs_no_disk_is_not_shown_before_an_earlier_one_that_waits_in_line() {
    let bench = Bench::with_environment().await;
    let (other, first) = (named("other"), bench.claim(1).await.unwrap());
    bench.configure(&other, Configuration::default()).await;
    let (one, two) = (bench.wait_in_line(2).await, bench.wait_in_line(3).await);
    bench.store.hold();
    let (by, session) = (first.user.clone(), first.id.into());
    let heartbeat = Heartbeat { session, by, fencing_token: None };
    bench.in_the_background(async |all| drop(all.ask(&key(), heartbeat).await)).await;
    bench.in_the_background(async |all| drop(claim_at_once(&all, &named("other"), claim(4)).await)).await;
    one.abort();
    bench.let_others_run().await;
    // The heartbeat is durable now; the settlements after it wait for the other environment's claim.
    assert!(bench.store.release_one());
    bench.let_others_run().await;
    two.abort();
    bench.let_others_run().await;
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.queue_length(), 0, "a place that was given up is shown again");
}

#[actix::test]
async fn nothing_to_catch_up_with_is_not_waited_for() {
    let bench = Bench::new();
    bench.environments.caught_up(&key()).await.unwrap();
    bench.make().await;
    bench.sessions(1).await;
    bench.environments.caught_up(&key()).await.unwrap();
    bench.let_go_of_all().await;
    bench.environments.caught_up(&key()).await.unwrap();
}

#[actix::test]
async fn a_raised_retention_brings_back_no_more_than_there_is() {
    let bench = Bench::over(Arc::new(MemoryStore::new()), 3);
    bench.make().await;
    bench.sessions(30).await;
    let after = Bench::over(Arc::new(bench.store.crash()), 1_000);
    let environment = after.environments.environment(&key()).unwrap().unwrap();
    for limit in [50, 2] {
        let read = after.environments.history(&key(), &environment, 0, limit).unwrap().unwrap();
        assert_eq!((read.items.len() as u64, read.total), (limit.min(7), 7), "the sessions 24 to 30 share a page");
    }
}
