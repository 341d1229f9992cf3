//! How often a refusing store is retried: a full disk must not keep a processor busy.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::services::signals::Signal;
use domain::{EndedHow, Expiry, Labels};

/// The maximum number of attempts in ten minutes, with pauses from one second growing to twenty.
const TRIES_IN_TEN_MINUTES: u64 = 80;

fn full_disk() -> StoreError {
    StoreError::Full { path: "/data".to_owned(), min_free_mb: 128 }
}

impl Bench {
    /// Passes ten minutes, in which the timer runs far more often than anything is due.
    async fn pass_ten_minutes(&self) {
        for _ in 0..6_000 {
            self.wall.fetch_add(100, Ordering::Relaxed);
            self.steady.fetch_add(100, Ordering::Relaxed);
            self.environments.elapse();
            tokio::task::yield_now().await;
        }
        self.let_others_run().await;
    }
}

#[actix::test]
async fn a_lease_that_cannot_be_ended_is_tried_with_growing_pauses_and_ends_when_there_is_room() {
    let bench = Bench::with_environment().await;
    let lease = ClaimRequest { ttl_seconds: Some(5), ..claim(1) };
    let session = claim_at_once(&bench.environments, &key(), lease).await.unwrap();
    bench.store.refuse_with(Some(full_disk()));
    bench.pass(5_000).await;
    // The timer runs repeatedly while no time passes.
    for _ in 0..100 {
        bench.pass(0).await;
    }
    assert_eq!(bench.store.refused(), 1, "tried again without a pause");
    bench.pass_ten_minutes().await;
    let tries = bench.store.refused();
    assert!((20..TRIES_IN_TEN_MINUTES).contains(&tries), "{tries} tries in ten minutes");

    bench.store.refuse_with(None);
    bench.pass(20_000).await;
    assert_eq!(bench.holder(), None);
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    let history = bench.environments.history(&key(), &environment, 0, 1).unwrap().unwrap();
    assert_eq!(history.items[0].id, session.id);
    assert_eq!(history.items[0].ended.as_ref().map(|ended| ended.how), Some(EndedHow::Expired(Expiry::Ttl)));
}

#[actix::test]
async fn whatever_else_the_store_takes_ends_the_pause() {
    let bench = Bench::with_environment().await;
    let lease = ClaimRequest { ttl_seconds: Some(5), ..claim(1) };
    claim_at_once(&bench.environments, &key(), lease).await.unwrap();
    bench.store.refuse_with(Some(full_disk()));
    bench.pass(5_000).await;
    bench.pass_ten_minutes().await;
    bench.store.refuse_with(None);
    bench.make().await;
    bench.configure(&key(), Configuration { deploy_on_claim: false, ..Configuration::default() }).await;
    bench.pass(0).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn environments_that_cannot_be_granted_are_not_offered_to_and_fro() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.configure(&named(name), Configuration::default()).await;
    }
    let policy = WaitPolicy { wait: Duration::from_secs(3_600), queue: false };
    let waiting = |who| {
        let environments = bench.environments.clone();
        actix::spawn(async move { environments.claim_any(&pipeline(), Labels::new(), claim(who), policy, None).await })
    };
    bench.store.refuse_with(Some(full_disk()));
    let waiters = [waiting(1), waiting(2)];
    for _ in 0..20 {
        bench.pass(0).await;
    }
    let at_once = bench.store.refused();
    assert!(at_once <= 6, "{at_once} tries at once: each waiter and each environment");
    bench.pass_ten_minutes().await;
    let tries = bench.store.refused();
    assert!(tries < 3 * 2 * TRIES_IN_TEN_MINUTES, "{tries} tries in ten minutes");

    bench.store.refuse_with(None);
    bench.pass(20_000).await;
    for waiting in waiters {
        granted(waiting.await.unwrap().unwrap());
    }
}

#[actix::test]
async fn clients_that_have_gone_are_let_go_with_growing_pauses() {
    let bench = Bench::with_environment().await;
    bench.claim(1).await.unwrap();
    let queued = WaitPolicy { wait: Duration::ZERO, queue: true };
    bench.environments.claim(&key(), claim(2), queued, None).await.unwrap();
    bench.store.refuse_with(Some(full_disk()));
    // Nobody polls the session, so it has expired, and its end is refused.
    bench.pass_ten_minutes().await;
    let tries = bench.store.refused();
    assert!((20..TRIES_IN_TEN_MINUTES).contains(&tries), "{tries} tries in ten minutes");
    bench.store.refuse_with(None);
    bench.pass(20_000).await;
    assert_eq!(bench.queue_length(), 0);
}

#[actix::test]
async fn whatever_a_full_disk_refuses_a_lease_ends_as_long_as_the_disk_takes_its_end() {
    let bench = Bench::with_environment().await;
    let lease = ClaimRequest { ttl_seconds: Some(5), ..claim(1) };
    let session = claim_at_once(&bench.environments, &key(), lease).await.unwrap();
    bench.store.refuse_all_but_ends(full_disk());
    let seen = || bench.environments.services().signal(&key(), Signal::Seen(session.id));
    assert!(seen());
    bench.let_others_run().await;
    assert_eq!(bench.store.refused(), 1, "the store has taken what is no end");
    bench.pass(4_000).await;
    assert!(seen());
    bench.pass(1_000).await;
    assert_eq!(bench.holder(), None, "a refused change kept the lease from ending");
}

#[actix::test]
async fn a_lease_ends_although_its_environment_could_not_be_loaded_when_it_ran_out() {
    let bench = Bench::with_environment().await;
    let lease = ClaimRequest { ttl_seconds: Some(5), ..claim(1) };
    claim_at_once(&bench.environments, &key(), lease).await.unwrap();
    bench.let_go_of_all().await;
    let good = bench.store.get(&super::super::keys::environment(&key())).unwrap().unwrap();
    bench.put(&key(), vec![255, 1, 2]);
    for _ in 0..30 {
        bench.pass(2_000).await;
    }
    bench.put(&key(), good);
    bench.pass(20_000).await;
    assert_eq!(bench.holder(), None);
}
