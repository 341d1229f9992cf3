//! Resuming a pipeline starts every deployment that it held back.

use super::*;

/// Environments with a deployment made while the pipeline was stopped, in the order of the deployments.
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
