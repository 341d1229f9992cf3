//! Deployments: their records and orders agree with the decisions, whatever happens in between.

#![allow(clippy::unwrap_used)]

mod bounds;
mod forgetting;
mod log_parts;
mod reading;
mod restart;

use super::delivery::{Order, attempt, commit, end_of, stages};
use super::*;
use domain::{
    ApprovalId, ApprovalStatus, BeginStage, CancelStage, DecideApproval, DeploymentId, DeploymentRecord,
    DeploymentStatus, EndStage, ReportSteps, RetryStage, StageEnd, StageStatus, StepRun, StepStatus, Verdict,
};

impl Bench {
    /// A session of the environment that deploys in a pipeline with these stages.
    async fn deployed(&self, names: &[&str]) -> (Arc<Session>, DeploymentId) {
        self.pipeline.set(stages(names));
        let session = self.claim(1).await.unwrap();
        let record = self.deploy(&session).await.unwrap();
        (session, record.deployment.id)
    }

    async fn fail(&self, deployment: DeploymentId) {
        self.wall.fetch_add(1, Ordering::Relaxed);
        self.end(deployment, StageEnd::Failed(Arc::from("exit code 1"))).await;
    }

    async fn decide(&self, deployment: DeploymentId, verdict: Verdict) -> ApprovalId {
        let record = self.deployment(deployment).unwrap();
        let pending = |approval: &&domain::Approval| approval.status == ApprovalStatus::Pending;
        let approvals = record.stages.iter().filter_map(|stage| stage.approval.as_ref());
        let approval = approvals.into_iter().find(pending).unwrap().id;
        let decide = DecideApproval { approval, deployment, verdict, by: person(2), comment: Some(Arc::from("fine")) };
        self.wall.fetch_add(1, Ordering::Relaxed);
        self.environments.ask(&key(), decide).await.unwrap();
        approval
    }

    async fn retry(&self, session: &Session, id: DeploymentId, stage: &str) -> Result<DeploymentRecord, Failure> {
        self.environments.ask(&key(), retry(session, id, stage)).await
    }

    async fn cancel(&self, deployment: DeploymentId, stage: &str) -> DeploymentRecord {
        let stage = Identifier::parse(stage).unwrap();
        let cancel = CancelStage { target: deployment.into(), stage, by: person(1), any: false };
        self.environments.ask(&key(), cancel).await.unwrap()
    }

    fn status(&self, deployment: DeploymentId) -> DeploymentStatus {
        self.deployment(deployment).unwrap().deployment.status
    }

    /// The kinds of deployment records in the store.
    fn kinds(&self) -> String {
        self.traces().iter().map(|key| char::from(key[0])).collect()
    }
}

fn retry(session: &Session, id: DeploymentId, stage: &str) -> RetryStage {
    let stage = Identifier::parse(stage).unwrap();
    RetryStage { target: id.into(), session: session.id.into(), stage, by: session.user.clone(), any: false }
}

#[actix::test]
async fn the_records_of_a_deployment_become_durable_together_with_its_decision() {
    for (name, kinds) in [("build", "Dbr"), ("ask", "DbAar")] {
        let bench = Bench::with_environment().await;
        bench.pipeline.set(stages(&[name]));
        let session = bench.claim(1).await.unwrap();
        bench.store.hold();
        bench.in_the_background(async move |all| drop(all.ask(&key(), delivery::deploy(&session)).await)).await;
        assert_eq!(bench.kinds(), "");
        assert!(bench.store.release_one());
        assert_eq!(bench.kinds(), kinds, "{name}: all of it, with the first batch");
        let after = bench.killed(1_000);
        let environment = after.environments.environment(&key()).unwrap().unwrap();
        let current = environment.current_deployment().unwrap();
        let record = after.deployment(current.id).unwrap();
        assert_eq!((record.deployment.revision, record.stages.len()), (current.revision, 1));
        assert!(!bench.store.release_one(), "{name}: it was one batch");
    }
}

#[actix::test]
async fn a_deployment_without_stages_leaves_one_record_and_orders_nothing() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    let record = bench.deploy(&session).await.unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Succeeded);
    assert_eq!(bench.deployment(record.deployment.id), Some(record));
    assert_eq!(bench.kinds(), "D");
    assert_eq!(bench.orders.take(), []);
}

#[actix::test]
async fn nothing_is_run_or_stopped_before_it_is_durable_and_then_in_order() {
    let bench = Bench::with_environment().await;
    bench.pipeline.set(stages(&["build", "test"]));
    let session = bench.claim(1).await.unwrap();
    bench.store.hold();
    bench.in_the_background(async move |all| drop(all.ask(&key(), delivery::deploy(&session)).await)).await;
    assert_eq!(bench.orders.take(), []);
    bench.store.release_one();
    bench.let_others_run().await;
    let id = bench.orders.only_run();

    bench.in_the_background(async move |all| drop(all.ask(&key(), end_of(id, StageEnd::Succeeded)).await)).await;
    let force = claim(2);
    bench.in_the_background(async |all| drop(all.force_claim(&key(), force, Role::Admin, None).await)).await;
    assert_eq!(bench.orders.take(), []);
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), [Order::Run(key(), id, 1, 1), Order::Stop(key(), id)]);
}

#[actix::test]
async fn a_refused_decision_orders_nothing() {
    let bench = Bench::with_environment().await;
    bench.pipeline.set(stages(&["build"]));
    let session = bench.claim(1).await.unwrap();
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(bench.deploy(&session).await, Err(Failure::Store(StoreError::Overloaded))));
    bench.store.refuse_with(None);
    assert_eq!((bench.orders.take(), bench.kinds()), (vec![], String::new()));
    bench.deploy(&session).await.unwrap();
    assert_eq!(bench.orders.take().len(), 1);
}

#[actix::test]
async fn a_deployment_goes_through_its_stages_and_its_record_says_so() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build", "ask"]).await;
    bench.begin(id).await;
    let now = Timestamp::from_millis(1);
    let step = StepRun {
        name: Identifier::parse("step").unwrap(),
        source: None,
        status: StepStatus::Succeeded,
        exit_code: Some(0),
        started_at: Some(now),
        finished_at: Some(now),
    };
    let report = ReportSteps { of: attempt(id), steps: vec![step.clone()] };
    bench.environments.ask(&key(), report).await.unwrap();
    assert_eq!(bench.deployment(id).unwrap().stages[0].steps, std::slice::from_ref(&step));
    let end = EndStage { of: attempt(id), end: StageEnd::Succeeded, steps: vec![step] };
    bench.environments.ask(&key(), end).await.unwrap();
    assert_eq!((bench.status(id), bench.kinds().as_str()), (DeploymentStatus::AwaitingApproval, "DbAar"));
    bench.orders.take();
    bench.decide(id, Verdict::Approve).await;
    assert_eq!(bench.orders.take(), [Order::Run(key(), id, 1, 1)]);
    let end = EndStage { of: domain::StageAttempt { stage: 1, ..attempt(id) }, ..end_of(id, StageEnd::Succeeded) };
    bench.environments.ask(&key(), end).await.unwrap();
    let record = bench.deployment(id).unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Succeeded);
    assert!(record.stages.iter().all(|stage| stage.status == StageStatus::Succeeded));
    assert_eq!(bench.kinds(), "DbAa", "nothing here has not ended");
}

#[actix::test]
async fn a_retry_knows_how_its_deployment_ended_before_the_disk_does() {
    for leaves_memory in [false, true] {
        let bench = Bench::with_environment().await;
        let (session, id) = bench.deployed(&["build"]).await;
        if leaves_memory {
            bench.let_go_of_all().await;
        }
        bench.store.hold();
        let failed = end_of(id, StageEnd::Failed(Arc::from("exit code 1")));
        bench.in_the_background(async |all| drop(all.ask(&key(), failed).await)).await;
        let (environments, asked) = (bench.environments.clone(), retry(&session, id, "build"));
        let retrying = actix::spawn(async move { environments.ask(&key(), asked).await });
        bench.let_others_run().await;
        assert!(!retrying.is_finished(), "it was answered before it was durable");
        bench.orders.take();
        bench.store.release();
        let record = retrying.await.unwrap().unwrap();
        assert_eq!((record.stages[0].attempt, record.stages[0].status), (2, StageStatus::Queued));
        assert_eq!(bench.orders.take(), [Order::Run(key(), id, 0, 2)]);
    }
}

#[actix::test]
async fn a_deployment_of_another_environment_cannot_be_retried_here() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    bench.fail(id).await;
    bench.configure(&named("review-2"), Configuration::default()).await;
    let elsewhere = claim_at_once(&bench.environments, &named("review-2"), claim(1)).await.unwrap();
    let refused = bench.environments.ask(&named("review-2"), retry(&elsewhere, id, "build")).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::DeploymentNotFound))), "{refused:?}");
}

#[actix::test]
async fn a_waiting_retry_runs_the_old_definition_though_the_pipeline_has_changed_and_the_actor_has_left() {
    let bench = Bench::with_environment().await;
    let (session, id) = bench.deployed(&["build"]).await;
    bench.fail(id).await;
    bench.pipeline.stop(true);
    bench.retry(&session, id, "build").await.unwrap();
    bench.let_go_of_all().await;
    assert_eq!(bench.environments.resident(), 0);
    bench.orders.take();
    bench.pipeline.set(stages(&["other", "stages"]));
    bench.pipeline.stop(false);
    bench.environments.resume_pipeline(&pipeline()).await;
    bench.let_others_run().await;
    assert_eq!(bench.orders.take(), [Order::Run(key(), id, 0, 2)]);
    assert_eq!(bench.deployment(id).unwrap().stages[0].name.as_str(), "build");
}
