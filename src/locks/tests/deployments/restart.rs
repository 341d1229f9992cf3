//! Unfinished deployments after a restart, and deployments that a stopped pipeline holds back until it is resumed.

use super::*;
use domain::Swept;

impl Bench {
    /// Kills and restarts the server; returns the number of recovered environments and the orders.
    async fn restarted(&self) -> (Bench, usize, Vec<Order>) {
        let after = self.killed(1_000);
        let found = after.environments.recover().await.unwrap();
        let orders = after.orders.take();
        (after, found, orders)
    }
}

#[actix::test]
async fn a_stage_that_had_not_begun_is_ordered_again() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    let (after, found, orders) = bench.restarted().await;
    assert_eq!((found, orders), (1, vec![Order::Run(key(), id, 0, 1)]));
    after.begin(id).await;
    after.end(id, StageEnd::Succeeded).await;
    assert_eq!(after.status(id), DeploymentStatus::Succeeded);
}

#[actix::test]
async fn a_stage_that_ran_is_swept_first_and_then_counts_as_interrupted() {
    let bench = Bench::with_environment().await;
    let (session, id) = bench.deployed(&["build"]).await;
    bench.begin(id).await;
    let (after, found, orders) = bench.restarted().await;
    assert_eq!((found, orders), (1, vec![Order::Sweep(key(), id)]));
    let next = after.deploy(&session).await.unwrap();
    assert_eq!((next.deployment.status, after.orders.take()), (DeploymentStatus::Queued, vec![]), "it may still run");
    after.environments.ask(&key(), Swept(attempt(id))).await.unwrap();
    assert!(after.deployment(id).unwrap().deployment.error.unwrap().starts_with("interrupted"));
    assert_eq!(after.orders.take(), [Order::Run(key(), next.deployment.id, 0, 1)]);
}

#[actix::test]
async fn an_idempotent_stage_is_run_again_after_it_was_swept() {
    let bench = Bench::with_environment().await;
    let mut blueprint = stages(&["build"]);
    blueprint.stages[0].idempotent = true;
    bench.pipeline.set(blueprint);
    let session = bench.claim(1).await.unwrap();
    let id = bench.deploy(&session).await.unwrap().deployment.id;
    bench.begin(id).await;
    let (after, _, orders) = bench.restarted().await;
    assert_eq!(orders, [Order::Sweep(key(), id)]);
    after.environments.ask(&key(), Swept(attempt(id))).await.unwrap();
    assert_eq!(after.orders.take(), [Order::Run(key(), id, 0, 2)]);
}

#[actix::test]
async fn a_stopping_deployment_is_swept_before_the_next_one_starts() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    bench.begin(id).await;
    let force = ClaimRequest { commit: Some(commit()), ..claim(2) };
    let next =
        bench.environments.force_claim(&key(), force, Role::Admin, None).await.unwrap().session.deployments[0].id;
    let (after, _, orders) = bench.restarted().await;
    assert_eq!(orders, [Order::Sweep(key(), id)]);
    after.environments.ask(&key(), Swept(attempt(id))).await.unwrap();
    assert_eq!(after.status(id), DeploymentStatus::Cancelled);
    assert_eq!(after.orders.take(), [Order::Run(key(), next, 0, 1)]);
}

#[actix::test]
async fn an_approval_is_still_waited_for() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["ask"]).await;
    let (after, found, orders) = bench.restarted().await;
    assert_eq!((found, orders), (1, vec![]));
    let approval = after.decide(id, Verdict::Approve).await;
    let found = after.environments.approval(&pipeline().organization, approval).unwrap().unwrap();
    assert_eq!((found.record.approval.status, found.environment), (ApprovalStatus::Approved, key()));
    assert_eq!(found.record.approval.comment.as_deref(), Some("fine"));
    assert_eq!(after.orders.take(), [Order::Run(key(), id, 0, 1)]);
}

#[actix::test]
async fn an_approval_that_was_not_durable_was_not_given() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["ask"]).await;
    let approval = bench.deployment(id).unwrap().stages[0].approval.clone().unwrap().id;
    bench.store.hold();
    let decide = DecideApproval { approval, deployment: id, verdict: Verdict::Approve, by: person(2), comment: None };
    bench.in_the_background(async |all| drop(all.ask(&key(), decide).await)).await;
    let (after, _, orders) = bench.restarted().await;
    assert_eq!((after.status(id), orders), (DeploymentStatus::AwaitingApproval, vec![]));
    assert_eq!(bench.orders.take(), [], "nor was anything run for it");
}

#[actix::test]
async fn a_deployment_held_back_by_a_stopped_pipeline_starts_only_if_the_pipeline_was_resumed() {
    let bench = Bench::with_environment().await;
    bench.pipeline.stop(true);
    let (_, id) = bench.deployed(&["build"]).await;
    let (after, found, orders) = bench.restarted().await;
    assert_eq!((found, orders), (1, vec![]));
    after.pipeline.stop(false);
    after.environments.resume_pipeline(&pipeline()).await;
    after.let_others_run().await;
    assert_eq!(after.orders.take(), [Order::Run(key(), id, 0, 1)]);

    bench.pipeline.stop(false);
    let (_, _, orders) = bench.restarted().await;
    assert_eq!(orders, [Order::Run(key(), id, 0, 1)]);
}

#[actix::test]
async fn a_reset_that_had_begun_is_recovered_too() {
    let bench = Bench::new();
    bench.configure(&key(), Configuration { on_release: Some(commit()), ..Configuration::default() }).await;
    bench.pipeline.set(stages(&["clean"]));
    let session = bench.claim(1).await.unwrap();
    bench.release(&session).await.unwrap();
    let id = bench.orders.only_run();
    bench.begin(id).await;
    let (after, _, orders) = bench.restarted().await;
    assert_eq!(orders, [Order::Sweep(key(), id)]);
    assert_eq!(after.deployment(id).unwrap().session, None);
}

#[actix::test]
async fn environments_without_unfinished_deployments_are_not_loaded() {
    let bench = Bench::with_environment().await;
    let (session, id) = bench.deployed(&["build"]).await;
    bench.end(id, StageEnd::Succeeded).await;
    bench.pipeline.set(Default::default());
    bench.deploy(&session).await.unwrap();
    let (after, found, orders) = bench.restarted().await;
    assert_eq!((found, orders), (0, vec![]));
    assert_eq!(after.environments.resident(), 0);
}

#[actix::test]
async fn many_environments_are_recovered() {
    let bench = Bench::new();
    bench.pipeline.set(stages(&["build"]));
    for number in 0..200 {
        let key = named(&format!("review-{number}"));
        bench.configure(&key, Configuration::default()).await;
        let claim = ClaimRequest { commit: Some(commit()), ..claim(1) };
        claim_at_once(&bench.environments, &key, claim).await.unwrap();
    }
    let (_, found, orders) = bench.restarted().await;
    assert_eq!((found, orders.len()), (200, 200));
}

#[actix::test]
async fn a_start_on_a_full_disk_sweeps_running_stages_and_starts_waiting_ones_when_there_is_room() {
    let full = || Some(StoreError::Full { path: "log".to_owned(), min_free_mb: 128 });
    let bench = Bench::with_environment().await;
    let (_, ran) = bench.deployed(&["build"]).await;
    bench.begin(ran).await;
    let after = bench.killed(1_000);
    after.store.refuse_with(full());
    after.environments.recover().await.unwrap();
    assert_eq!(after.orders.take(), [Order::Sweep(key(), ran)]);
    assert_eq!(after.status(ran), DeploymentStatus::Running);

    let bench = Bench::with_environment().await;
    bench.pipeline.stop(true);
    let (_, waits) = bench.deployed(&["build"]).await;
    bench.pipeline.stop(false);
    let after = bench.killed(1_000);
    after.store.refuse_with(full());
    after.environments.recover().await.unwrap();
    for _ in 0..3 {
        after.pass(10_000).await;
    }
    assert_eq!((after.status(waits), after.orders.take()), (DeploymentStatus::Queued, vec![]));
    after.store.refuse_with(None);
    after.pass(10_000).await;
    assert_eq!(after.orders.take(), [Order::Run(key(), waits, 0, 1)]);
}

#[actix::test]
async fn an_environment_whose_deployment_records_are_missing_says_so() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    bench.let_go_of_all().await;
    let mut batch = Batch::default();
    batch.delete(crate::keys::blueprint(&pipeline().organization, id));
    bench.store.commit(batch).unwrap();
    let failed = bench.environments.recover().await;
    assert!(matches!(&failed, Err(Failure::Store(StoreError::Read(what))) if what.contains(&id.to_string())));
}

/// Environments whose deployments were created while the pipeline was stopped, in the order of the deployments.
async fn held_back(names: &[&str]) -> (Bench, Vec<(EnvironmentKey, DeploymentId)>) {
    let bench = Bench::new();
    bench.pipeline.set(stages(&["build"]));
    bench.pipeline.stop(true);
    let mut waiting = Vec::new();
    for name in names {
        bench.configure(&named(name), Configuration::default()).await;
        let session = claim_at_once(&bench.environments, &named(name), claim(1)).await.unwrap();
        let record = bench.deploy_in(&named(name), &session).await.unwrap();
        assert_eq!(record.deployment.status, DeploymentStatus::Queued);
        waiting.push((named(name), record.deployment.id));
    }
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), []);
    (bench, waiting)
}

fn ordered(waiting: &[(EnvironmentKey, DeploymentId)]) -> Vec<Order> {
    waiting.iter().map(|(key, id)| Order::Run(key.clone(), *id, 0, 1)).collect()
}

#[actix::test]
async fn held_back_deployments_start_in_the_order_in_which_they_were_made() {
    for leaves_memory in [false, true] {
        let (bench, waiting) = held_back(&["review-3", "review-1", "review-2"]).await;
        if leaves_memory {
            bench.let_go_of_all().await;
        }
        bench.pipeline.stop(false);
        bench.environments.resume_pipeline(&pipeline()).await;
        bench.let_others_run().await;
        assert_eq!(bench.orders.take(), ordered(&waiting));
        bench.environments.resume_pipeline(&pipeline()).await;
        bench.let_others_run().await;
        assert_eq!(bench.orders.take(), [], "it starts once");
    }
}

#[actix::test]
async fn resuming_another_pipeline_starts_nothing() {
    let (bench, _) = held_back(&["review-1"]).await;
    let other = PipelineKey { pipeline: Identifier::parse("other").unwrap(), ..pipeline() };
    bench.environments.resume_pipeline(&other).await;
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), []);
}

#[actix::test]
async fn a_full_mailbox_does_not_lose_the_signal() {
    let (bench, waiting) = held_back(&["review-1"]).await;
    bench.pipeline.stop(false);
    let (environments, key) = (&bench.environments, key());
    let many = futures_util::future::join_all((0..200).map(|_| claim_at_once(environments, &key, claim(2))));
    let resume = environments.resume_pipeline(&key.pipeline);
    let (outcomes, ()) = futures_util::future::join(many, resume).await;
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(Failure::Overloaded))), "the mailbox was not full");
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), ordered(&waiting));
}

#[actix::test]
async fn a_resumption_that_the_store_refuses_is_retried() {
    let (bench, waiting) = held_back(&["review-1"]).await;
    bench.pipeline.stop(false);
    bench.store.refuse_with(Some(StoreError::Overloaded));
    bench.environments.resume_pipeline(&pipeline()).await;
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), []);
    bench.store.refuse_with(None);
    bench.pass(10_000).await;
    assert_eq!(bench.orders.take(), ordered(&waiting));
}

#[actix::test]
async fn a_deployment_that_just_missed_the_resumption_still_starts() {
    let bench = Bench::with_environment().await;
    bench.pipeline.set(stages(&["build"]));
    let session = bench.claim(1).await.unwrap();
    bench.pipeline.stop_when_next_asked();
    let record = bench.deploy(&session).await.unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Queued);
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), [Order::Run(key(), record.deployment.id, 0, 1)]);
}

#[actix::test]
async fn an_environment_that_is_no_longer_held_back_is_not_signalled() {
    let (bench, waiting) = held_back(&["review-1"]).await;
    bench.cancel(waiting[0].1, "build").await;
    bench.pipeline.stop(false);
    bench.environments.resume_pipeline(&pipeline()).await;
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), []);
    assert_eq!(bench.kinds(), "Db", "nothing is left to be taken up");
}
