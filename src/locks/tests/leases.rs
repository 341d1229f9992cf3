//! Expiry: the clock it uses, and its behaviour across restarts.

#![allow(clippy::unwrap_used)]

use super::*;
use domain::{EndedHow, Expiry, Heartbeat, SessionStatus};

impl Bench {
    async fn claim_for(&self, who: u8, ttl_seconds: u32) -> Arc<Session> {
        let claim = ClaimRequest { ttl_seconds: Some(ttl_seconds), ..claim(who) };
        claim_at_once(&self.environments, &key(), claim).await.unwrap()
    }

    async fn heartbeat(&self, session: &Session) -> Result<Arc<Session>, Failure> {
        let heartbeat = Heartbeat { session: session.id.into(), by: session.user.clone(), fencing_token: None };
        self.environments.ask(&key(), heartbeat).await
    }

    fn history(&self) -> Vec<Session> {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        self.environments.history(&key(), &environment, 0, 50).unwrap().unwrap().items
    }

    /// Moves the wall clock only.
    fn set_wall(&self, by_millis: i64) {
        self.wall.fetch_add(by_millis, Ordering::Relaxed);
    }
}

#[actix::test]
async fn a_lease_runs_out_and_a_heartbeat_renews_it() {
    let bench = Bench::with_environment().await;
    let session = bench.claim_for(1, 10).await;
    bench.pass(9_999).await;
    let renewed = bench.heartbeat(&session).await.unwrap();
    assert_eq!(renewed.expiry().unwrap().0.at, Timestamp::from_millis(1_000_000 + 19_999));
    bench.pass(9_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
    bench.pass(1).await;
    assert_eq!(bench.holder(), None);
    let ended = bench.history()[0].ended.clone().unwrap();
    assert_eq!((ended.by, ended.how), (None, EndedHow::Expired(Expiry::Ttl)));
    let refused = bench.heartbeat(&session).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::SessionEnded { .. }))), "{refused:?}");
}

#[actix::test]
async fn a_wall_clock_that_jumps_frees_nothing_early_and_holds_nothing_longer() {
    let bench = Bench::with_environment().await;
    let session = bench.claim_for(1, 10).await;
    bench.set_wall(86_400_000);
    bench.pass(9_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id), "the clock was set ahead");
    bench.pass(1).await;
    assert_eq!(bench.holder(), None);

    let session = bench.claim_for(1, 10).await;
    bench.set_wall(-86_400_000);
    bench.pass(9_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
    bench.pass(1).await;
    assert_eq!(bench.holder(), None, "the clock was set back");
}

#[actix::test]
async fn a_clock_jump_does_not_matter_while_the_environment_is_out_of_memory() {
    let bench = Bench::with_environment().await;
    let session = bench.claim_for(1, 100).await;
    for _ in 0..2 {
        bench.environments.dismiss_unused();
        bench.let_others_run().await;
    }
    assert_eq!(bench.environments.resident(), 0);
    bench.set_wall(86_400_000);
    bench.pass(99_000).await;
    assert!(bench.heartbeat(&session).await.is_ok(), "the actor came back, and the lease had run out");
    bench.pass(99_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
    bench.pass(1).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn leases_run_out_in_environments_that_are_not_in_memory_too() {
    let bench = Bench::with_environment().await;
    bench.claim_for(1, 10).await;
    for _ in 0..2 {
        bench.environments.dismiss_unused();
        bench.let_others_run().await;
    }
    assert_eq!(bench.environments.resident(), 0);
    bench.pass(10_000).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn a_lease_does_not_run_out_because_the_server_was_down() {
    for (ttl, left) in [(10, 10_000), (3_600, 30_000)] {
        let bench = Bench::with_environment().await;
        let session = bench.claim_for(1, ttl).await;
        let after = bench.killed(86_400_000);
        after.pass(left - 1).await;
        assert_eq!(after.holder().map(|holder| holder.id), Some(session.id), "TTL {ttl}");
        after.pass(1).await;
        assert_eq!(after.holder(), None, "TTL {ttl}");
    }
}

#[actix::test]
async fn after_a_short_stop_a_lease_has_what_was_left_of_it() {
    let bench = Bench::with_environment().await;
    let session = bench.claim_for(1, 3_600).await;
    let after = bench.killed(600_000);
    after.pass(2_999_999).await;
    assert_eq!(after.holder().map(|holder| holder.id), Some(session.id));
    after.pass(1).await;
    assert_eq!(after.holder(), None);

    let session = after.claim_for(1, 3_600).await;
    let before = after.killed(-86_400_000);
    before.pass(3_599_999).await;
    assert_eq!(before.holder().map(|holder| holder.id), Some(session.id));
    before.pass(1).await;
    assert_eq!(before.holder(), None, "a wall clock that was set back while the server was down gave it more");
}

const HOUR: i64 = 3_600_000;

#[actix::test]
async fn a_lease_lasts_as_long_after_a_start_whatever_the_wall_clock_was_set_to() {
    for wall in [2 * HOUR, -2 * HOUR] {
        let bench = Bench::with_environment().await;
        let session = bench.claim_for(1, 120).await;
        bench.pass(100_000).await;
        bench.heartbeat(&session).await.unwrap();
        let after = bench.with_wall_set(wall, 1_000);
        after.pass(118_999).await;
        assert_eq!(after.holder().map(|holder| holder.id), Some(session.id), "the wall clock was set by {wall}");
        after.pass(1).await;
        assert_eq!(after.holder(), None, "the wall clock was set by {wall}");
    }
}

#[actix::test]
async fn a_hold_lasts_as_long_after_a_start_whatever_the_wall_clock_was_set_to() {
    let limited = Configuration { max_hold_seconds: Some(60), ..Configuration::default() };
    for (wall, set_after) in [(2 * HOUR, false), (2 * HOUR, true), (-2 * HOUR, false), (-2 * HOUR, true)] {
        let bench = Bench::new();
        let first = if set_after { Configuration::default() } else { limited.clone() };
        bench.configure(&key(), first).await;
        let session = bench.claim(1).await.unwrap();
        bench.pass(9_000).await;
        let after = bench.with_wall_set(wall, 1_000);
        after.configure(&key(), limited.clone()).await;
        let until = after.holder().unwrap().expiry().unwrap().0.at.as_millis();
        assert_eq!(until - after.wall.load(Ordering::Relaxed), 50_000, "what people are told");
        after.pass(49_999).await;
        assert_eq!(
            after.holder().map(|holder| holder.id),
            Some(session.id),
            "{wall}, set after the start: {set_after}"
        );
        after.pass(1).await;
        assert_eq!(after.holder(), None, "{wall}, set after the start: {set_after}");
    }
}

#[actix::test]
async fn after_a_start_of_the_machine_a_lease_and_a_hold_begin_anew() {
    for wall in [-2 * HOUR, 1_000, 48 * HOUR] {
        let bench = Bench::new();
        bench.configure(&key(), Configuration { max_hold_seconds: Some(200), ..Configuration::default() }).await;
        let session = bench.claim_for(1, 120).await;
        bench.pass(100_000).await;
        let after = bench.rebooted(wall);
        after.pass(119_999).await;
        after.heartbeat(&session).await.unwrap();
        after.pass(80_000).await;
        assert_eq!(after.holder().map(|holder| holder.id), Some(session.id), "{wall}");
        after.pass(1).await;
        assert_eq!(after.holder(), None, "{wall}");
    }
}

#[actix::test]
async fn a_sooner_deadline_is_found_after_a_start() {
    let bench = Bench::with_environment().await;
    let session = bench.claim_for(1, 3_600).await;
    bench.configure(&key(), Configuration { max_hold_seconds: Some(60), ..Configuration::default() }).await;
    let after = bench.killed(1_000);
    after.pass(58_999).await;
    assert_eq!(after.holder().map(|holder| holder.id), Some(session.id));
    after.pass(1).await;
    assert_eq!(after.holder(), None, "though nobody has asked for the environment since");
}

#[actix::test]
async fn a_maximal_hold_ends_a_session_whatever_it_does() {
    let bench = Bench::new();
    bench.configure(&key(), Configuration { max_hold_seconds: Some(60), ..Configuration::default() }).await;
    let session = bench.claim_for(1, 30).await;
    for _ in 0..3 {
        bench.pass(19_000).await;
        bench.heartbeat(&session).await.unwrap();
    }
    bench.pass(3_000).await;
    assert_eq!(bench.holder(), None);
    assert_eq!(bench.history()[0].ended.as_ref().unwrap().how, EndedHow::Expired(Expiry::MaxHold));
}

#[actix::test]
async fn a_limit_set_while_the_lock_is_held_applies_to_the_holder_too() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    bench.pass(50_000).await;
    bench.configure(&key(), Configuration { max_hold_seconds: Some(60), ..Configuration::default() }).await;
    bench.pass(9_999).await;
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
    bench.pass(1).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn an_expiry_that_the_store_refuses_is_retried_until_it_succeeds() {
    let bench = Bench::with_environment().await;
    bench.claim_for(1, 10).await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    bench.pass(10_000).await;
    assert!(bench.holder().is_some());
    bench.store.refuse_with(None);
    bench.pass(1_000).await;
    assert_eq!(bench.holder(), None);
}

#[actix::test]
async fn a_deadline_that_no_longer_applies_is_removed() {
    let bench = Bench::with_environment().await;
    assert_eq!(bench.environments.armed_deadlines(), 0);
    let session = bench.claim_for(1, 10).await;
    assert_eq!(bench.environments.armed_deadlines(), 1);
    assert_eq!(bench.store.scan(b"l/", b"l0", 10).unwrap().len(), 1);
    bench.release(&session).await.unwrap();
    assert_eq!(bench.environments.armed_deadlines(), 0);
    assert_eq!(bench.store.scan(b"l/", b"l0", 10).unwrap().len(), 0);
    assert_eq!(bench.killed(5).environments.armed_deadlines(), 0);
}

#[actix::test]
async fn an_expired_lock_passes_to_the_next_in_line() {
    let bench = Bench::with_environment().await;
    bench.claim_for(1, 10).await;
    let environments = bench.environments.clone();
    let policy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
    let waiting = actix::spawn(async move { environments.claim(&key(), claim(2), policy, None).await });
    bench.let_others_run().await;
    bench.pass(10_000).await;
    let next = granted(waiting.await.unwrap().unwrap());
    assert_eq!((next.user.id, token(&next), next.status()), (person(2).id, 2, SessionStatus::Active));
}

mod reset {
    //! The reset after a release, with stages.

    use super::*;
    use domain::{DeploymentId, LockStatus, StageEnd};

    async fn resetting() -> (Bench, DeploymentId) {
        let bench = Bench::new();
        bench.pipeline.set(delivery::stages(&["clean"]));
        let on_release = Some(CommitId::parse("c1ea4").unwrap());
        bench.configure(&key(), Configuration { on_release, ..Configuration::default() }).await;
        let session = bench.claim(1).await.unwrap();
        bench.release(&session).await.unwrap();
        let environment = bench.environments.environment(&key()).unwrap().unwrap();
        assert_eq!(environment.lock_status(), LockStatus::Resetting);
        let deployment = environment.current_deployment().unwrap();
        assert_eq!(deployment.commit.as_str(), "c1ea4");
        (bench, deployment.id)
    }

    #[actix::test]
    async fn an_environment_is_not_granted_until_its_reset_has_ended() {
        let (bench, deployment) = resetting().await;
        let refused = bench.claim(2).await;
        assert!(matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentResetting { .. }))), "{refused:?}");
        let environments = bench.environments.clone();
        let policy = WaitPolicy { wait: Duration::from_secs(300), queue: false };
        let waiting = actix::spawn(async move { environments.claim(&key(), claim(3), policy, None).await });
        bench.let_others_run().await;
        assert!(!waiting.is_finished());
        let after = bench.killed(10);
        assert!(after.holder().is_none() && after.claim(2).await.is_err(), "it is still being reset after a restart");
        bench.end(deployment, StageEnd::Succeeded).await;
        assert_eq!(token(&granted(waiting.await.unwrap().unwrap())), 2);
    }

    #[actix::test]
    async fn a_reset_that_fails_takes_the_environment_out_of_service_until_it_is_enabled() {
        let (bench, deployment) = resetting().await;
        bench.end(deployment, StageEnd::Failed(Arc::from("exit code 1"))).await;
        let refused = bench.claim(2).await;
        let Err(Failure::Rejected(Rejection::EnvironmentDisabled { reason })) = refused else { panic!("{refused:?}") };
        assert!(reason.unwrap().contains("exit code 1"));
        bench.make().await;
        assert_eq!(token(&bench.claim(2).await.unwrap()), 2);
        assert_eq!(bench.environments.environment(&key()).unwrap().unwrap().disabled_reason, None);
    }
}
