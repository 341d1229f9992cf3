//! Everything stored about a deployment is dropped with its session.

use super::*;
use domain::Delete;

impl Bench {
    fn remembering(retention: u64) -> Self {
        Self::over(Arc::new(MemoryStore::new()), retention)
    }

    /// Whether any key or record of the store contains this id.
    fn speaks_of(&self, seed: domain::IdSeed) -> bool {
        let inverted = seed.0.map(|byte| !byte);
        let has = |bytes: &[u8]| bytes.windows(12).any(|part| part == seed.0 || part == inverted);
        let audit = |key: &[u8]| key.starts_with(b"E");
        let all = self.store.scan(b"", &[255], usize::MAX).unwrap();
        all.iter().any(|(key, value)| !audit(key) && (has(key) || has(value)))
    }

    /// A session whose deployment is approved, fails, is retried, and is released.
    async fn eventful_session(&self) -> (DeploymentId, Vec<ApprovalId>) {
        let (session, id) = self.deployed(&["ask"]).await;
        let mut approvals = vec![self.decide(id, Verdict::Approve).await];
        self.fail(id).await;
        self.retry(&session, id, "ask").await.unwrap();
        approvals.push(self.decide(id, Verdict::Reject).await);
        self.release(&session).await.unwrap();
        (id, approvals)
    }
}

#[actix::test]
async fn nothing_is_left_of_the_deployments_of_a_dropped_session() {
    for leaves_memory in [false, true] {
        let bench = Bench::remembering(1);
        bench.make().await;
        let (id, approvals) = bench.eventful_session().await;
        for approval in &approvals {
            assert!(bench.environments.approval(&pipeline().organization, *approval).unwrap().is_some());
        }
        let plain = bench.claim(1).await.unwrap();
        bench.pipeline.set(Default::default());
        let unstaged = bench.deploy(&plain).await.unwrap().deployment.id;
        bench.release(&plain).await.unwrap();
        if leaves_memory {
            bench.let_go_of_all().await;
        }
        bench.sessions(16).await;
        assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
        let seeds = [id.0, unstaged.0].into_iter().chain(approvals.iter().map(|approval| approval.0));
        // The environment names its last deployment, whether or not that deployment is still stored.
        assert_eq!(seeds.filter(|seed| bench.speaks_of(*seed)).collect::<Vec<_>>(), [unstaged.0]);
    }
}

#[actix::test]
async fn nothing_is_left_of_deployments_dropped_before_they_were_durable() {
    let bench = Bench::remembering(1);
    bench.make().await;
    bench.pipeline.set(stages(&["ask"]));
    bench.sessions(6).await;
    bench.store.hold();
    for who in 0..20 {
        let force = ClaimRequest { commit: Some(commit()), ..claim(who) };
        bench.in_the_background(async |all| drop(all.force_claim(&key(), force, Role::Admin, None).await)).await;
    }
    bench.store.release();
    bench.let_others_run().await;
    let holder = bench.holder().unwrap();
    bench.pipeline.set(Default::default());
    bench.release(&holder).await.unwrap();
    bench.sessions(16).await;
    assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
}

#[actix::test]
async fn a_deployment_that_outlives_the_retention_is_kept_until_it_has_ended() {
    for leaves_memory in [false, true] {
        let bench = Bench::remembering(1);
        bench.make().await;
        let (_, id) = bench.deployed(&["build"]).await;
        bench.begin(id).await;
        for _ in 0..20 {
            bench.force_claim(2).await;
        }
        if leaves_memory {
            bench.let_go_of_all().await;
        }
        assert_eq!((bench.status(id), bench.kinds().as_str()), (DeploymentStatus::Cancelling, "Dbr"));
        bench.end(id, StageEnd::Cancelled).await;
        assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
    }
}

#[actix::test]
async fn a_deployment_that_its_session_no_longer_lists_is_dropped() {
    let bench = Bench::with_environment().await;
    let (session, first) = bench.deployed(&["ask"]).await;
    bench.decide(first, Verdict::Reject).await;
    bench.pipeline.set(Default::default());
    let mut later = Vec::new();
    for _ in 0..100 {
        later.push(bench.deploy(&session).await.unwrap().deployment.id);
    }
    assert!(bench.deployment(first).is_none());
    assert_eq!(bench.kinds(), "D".repeat(100));
    let refused = bench.retry(&session, first, "ask").await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::DeploymentNotFound))), "{refused:?}");
    bench.deploy(&session).await.unwrap();
    assert!(bench.deployment(later[0]).is_none() && bench.deployment(later[1]).is_some());
}

#[actix::test]
async fn a_retry_of_a_dropped_deployment_finds_nothing_though_the_store_still_shows_it() {
    let bench = Bench::with_environment().await;
    let (session, first) = bench.deployed(&["build"]).await;
    bench.fail(first).await;
    bench.pipeline.set(Default::default());
    for _ in 0..99 {
        bench.deploy(&session).await.unwrap();
    }
    bench.store.hold();
    let deploy = delivery::deploy(&session);
    bench.in_the_background(async |all| drop(all.ask(&key(), deploy).await)).await;
    assert!(bench.deployment(first).is_some());
    let (environments, asked) = (bench.environments.clone(), retry(&session, first, "build"));
    let retrying = actix::spawn(async move { environments.ask(&key(), asked).await });
    bench.let_others_run().await;
    bench.store.release();
    let refused = retrying.await.unwrap();
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::DeploymentNotFound))), "{refused:?}");
}

#[actix::test]
async fn of_resets_only_the_last_is_kept() {
    let bench = Bench::new();
    bench.configure(&key(), Configuration { on_release: Some(commit()), ..Configuration::default() }).await;
    bench.pipeline.set(stages(&["clean"]));
    for _ in 0..3 {
        let session = bench.claim(1).await.unwrap();
        bench.release(&session).await.unwrap();
        let environment = bench.environments.environment(&key()).unwrap().unwrap();
        bench.end(environment.current_deployment().unwrap().id, StageEnd::Succeeded).await;
        assert_eq!(bench.kinds(), "Db");
    }
    bench.environments.ask(&key(), Delete { expected: None }).await.unwrap();
    bench.let_others_run().await;
    assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
}

#[actix::test]
async fn deleting_an_environment_drops_all_its_deployments_however_many() {
    let bench = Bench::with_environment().await;
    bench.pipeline.set(stages(&["build"]));
    for _ in 0..9 {
        let session = bench.claim(1).await.unwrap();
        for _ in 0..100 {
            let id = bench.deploy(&session).await.unwrap().deployment.id;
            bench.end(id, StageEnd::Succeeded).await;
        }
        bench.release(&session).await.unwrap();
    }
    assert_eq!(bench.traces().len(), 1_800);
    bench.store.hold();
    bench.in_the_background(async |all| drop(all.ask(&key(), Delete { expected: None }).await)).await;
    bench.store.release_one();
    let left = bench.traces().len();
    assert!((1..1_800).contains(&left), "it is done piece by piece: {left} left");
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
    assert!(bench.store.scan(b"h/", b"h0", usize::MAX).unwrap().is_empty());
}

#[actix::test]
async fn a_deployment_retried_many_times_keeps_its_newest_approvals_and_all_that_it_shows() {
    let bench = Bench::with_environment().await;
    let (session, id) = bench.deployed(&["ask-first", "ask-again"]).await;
    let first = bench.decide(id, Verdict::Approve).await;
    bench.end(id, StageEnd::Succeeded).await;
    let mut again = Vec::new();
    for _ in 0..70 {
        again.push(bench.decide(id, Verdict::Reject).await);
        bench.retry(&session, id, "ask-again").await.unwrap();
    }
    let kept = |id: &ApprovalId| bench.environments.approval(&pipeline().organization, *id).unwrap().is_some();
    assert!(kept(&first), "it is the one that its stage shows");
    assert!(!kept(&again[0]) && again[8..].iter().all(kept));
    bench.release(&session).await.unwrap();
    bench.environments.ask(&key(), Delete { expected: None }).await.unwrap();
    bench.let_others_run().await;
    assert_eq!(bench.traces(), Vec::<Vec<u8>>::new());
}
