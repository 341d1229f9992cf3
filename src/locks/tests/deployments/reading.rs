//! Reads of deployments and approvals.

use super::*;
use crate::{ApprovalFilter, DeploymentFilter, ListFilter};
use domain::Environment;

impl Bench {
    fn found(&self, filter: &DeploymentFilter, offset: u64, limit: u64) -> (Vec<DeploymentId>, u64) {
        let page = self.environments.deployments(&pipeline().organization, filter, offset, limit).unwrap();
        (page.items.iter().map(|found| found.record.deployment.id).collect(), page.total)
    }

    fn approvals(&self, filter: &ApprovalFilter) -> Vec<ApprovalStatus> {
        let page = self.environments.approvals(&pipeline().organization, filter, 0, 50).unwrap();
        assert_eq!(page.total, page.items.len() as u64);
        page.items.iter().map(|found| found.record.approval.status).collect()
    }
}

#[actix::test]
async fn deployments_are_listed_newest_first_and_filtered() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.deploy(&session).await.unwrap().deployment.id);
    }
    bench.configure(&named("review-2"), Configuration::default()).await;
    bench.pipeline.set(stages(&["build"]));
    let elsewhere = claim_at_once(&bench.environments, &named("review-2"), claim(1)).await.unwrap();
    let running = bench.deploy_in(&named("review-2"), &elsewhere).await.unwrap().deployment.id;
    ids.push(running);
    ids.reverse();

    let all = DeploymentFilter::default();
    assert_eq!(bench.found(&all, 0, 50), (ids.clone(), 6));
    assert_eq!(bench.found(&all, 2, 3), (ids[2..5].to_vec(), 6));
    assert_eq!(bench.found(&all, 6, 3), (vec![], 6));
    let of = |environment: &str| DeploymentFilter {
        environment: Some(Identifier::parse(environment).unwrap()),
        ..all.clone()
    };
    assert_eq!(bench.found(&of("review-2"), 0, 50), (vec![running], 1));
    assert_eq!(bench.found(&of("review-1"), 1, 2), (ids[2..4].to_vec(), 5));
    let session = DeploymentFilter { session: Some(elsewhere.id), ..all.clone() };
    assert_eq!(bench.found(&session, 0, 50), (vec![running], 1));
    let status = DeploymentFilter { status: Some(DeploymentStatus::Running), ..all.clone() };
    assert_eq!(bench.found(&status, 0, 50), (vec![running], 1));
    let other = DeploymentFilter { pipeline: Some(Identifier::parse("other").unwrap()), ..all.clone() };
    assert_eq!(bench.found(&other, 0, 50), (vec![], 0));

    let stranger = Identifier::parse("acme-2").unwrap();
    assert_eq!(bench.environments.deployments(&stranger, &all, 0, 50).unwrap().total, 0);
    assert!(bench.environments.deployment(&stranger, running).unwrap().is_none());
}

#[actix::test]
async fn approvals_are_listed_newest_first_and_filtered_by_status() {
    let bench = Bench::with_environment().await;
    let (session, first) = bench.deployed(&["ask"]).await;
    bench.decide(first, Verdict::Reject).await;
    let second = bench.deploy(&session).await.unwrap().deployment.id;
    use ApprovalStatus::{Cancelled, Pending, Rejected};
    let all = ApprovalFilter::default();
    assert_eq!(bench.approvals(&all), [Pending, Rejected]);
    assert_eq!(bench.approvals(&ApprovalFilter { status: Some(Pending), ..all.clone() }), [Pending]);
    assert_eq!(bench.approvals(&ApprovalFilter { deployment: Some(first), ..all.clone() }), [Rejected]);
    let other = ApprovalFilter { pipeline: Some(Identifier::parse("other").unwrap()), ..all.clone() };
    assert_eq!(bench.approvals(&other), []);
    bench.release(&session).await.unwrap();
    assert_eq!(bench.approvals(&ApprovalFilter { deployment: Some(second), ..all }), [Cancelled]);
}

#[actix::test]
async fn a_deployment_is_never_shown_ahead_of_its_environment() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["ask", "build"]).await;
    let approval = bench.deployment(id).unwrap().stages[0].approval.clone().unwrap().id;
    bench.store.hold();
    let by = person(2);
    let decide = DecideApproval { approval, deployment: id, verdict: Verdict::Reject, by, comment: None };
    bench.in_the_background(async |all| drop(all.ask(&key(), decide).await)).await;
    // The store now has the change, but the actor, which publishes its environment, has not run yet.
    bench.store.release();
    let environment = bench.environments.environment(&key()).unwrap().unwrap();
    assert_eq!(environment.current_deployment().map(|deployment| deployment.id), Some(id));
    assert_eq!(bench.status(id), DeploymentStatus::AwaitingApproval);
    let failed = DeploymentFilter { status: Some(DeploymentStatus::Failed), ..DeploymentFilter::default() };
    assert_eq!(bench.found(&failed, 0, 50), (vec![], 0));
    assert_eq!(bench.approvals(&ApprovalFilter::default()), [ApprovalStatus::Pending]);

    bench.let_others_run().await;
    assert_eq!(bench.environments.environment(&key()).unwrap().unwrap().current_deployment(), None);
    assert_eq!(bench.found(&failed, 0, 50), (vec![id], 1));
    assert_eq!(bench.approvals(&ApprovalFilter::default()), [ApprovalStatus::Rejected]);
}

#[actix::test]
async fn a_watcher_of_a_deployment_is_woken_when_it_has_durably_changed() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    let mut watch = bench.environments.watch_deployment(id);
    let mut other = bench.environments.watch_deployment(DeploymentId(entropy::id_seed()));
    bench.store.hold();
    bench.in_the_background(async move |all| drop(all.ask(&key(), BeginStage(attempt(id))).await)).await;
    assert!(futures_util::FutureExt::now_or_never(watch.changed()).is_none());
    bench.store.release();
    watch.changed().await;
    assert_eq!(bench.deployment(id).unwrap().stages[0].status, StageStatus::Running);
    assert!(futures_util::FutureExt::now_or_never(other.changed()).is_none());
}

#[actix::test]
async fn the_files_of_a_deployment_are_needed_while_it_runs_or_can_be_retried() {
    let bench = Bench::with_environment().await;
    let organizations = [Identifier::parse("other").unwrap(), pipeline().organization];
    let needed = |id| bench.environments.holds_work(&organizations, id).unwrap();
    let (session, first) = bench.deployed(&["build"]).await;
    assert!(needed(first));
    bench.fail(first).await;
    assert!(needed(first));
    let second = bench.deploy(&session).await.unwrap().deployment.id;
    bench.end(second, StageEnd::Succeeded).await;
    assert!(!needed(second));
    assert!(!needed(DeploymentId(entropy::id_seed())));
    bench.release(&session).await.unwrap();
    assert!(!needed(first));
    bench.let_go_of_all().await;
    assert!(!needed(first));
    assert_eq!(bench.environments.resident(), 0, "asking keeps nothing in memory");
}

#[actix::test]
async fn organizations_are_known_by_their_deployments() {
    let bench = Bench::with_environment().await;
    assert_eq!(bench.environments.organizations_with_deployments().unwrap(), []);
    bench.deployed(&["build"]).await;
    let organization = pipeline().organization;
    let mut expected = vec![organization.clone()];
    for other in [format!("{organization}-2"), "zeta".to_owned()] {
        let organization = Identifier::parse(&other).unwrap();
        let pipeline = PipelineKey { organization: organization.clone(), ..pipeline() };
        let key = EnvironmentKey { pipeline, ..named("review-1") };
        bench.configure(&key, Configuration::default()).await;
        let session = claim_at_once(&bench.environments, &key, claim(1)).await.unwrap();
        bench.deploy_in(&key, &session).await.unwrap();
        expected.push(organization);
    }
    let mut found = bench.environments.organizations_with_deployments().unwrap();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[actix::test]
async fn an_environment_that_nobody_has_loaded_shows_how_far_its_deployment_is() {
    let bench = Bench::with_environment().await;
    bench.deployed(&["ask", "build"]).await;
    let stages = |environment: &Environment| {
        let run = environment.current_deployment().unwrap().run.clone();
        run.unwrap().stages.iter().map(|stage| stage.status).collect::<Vec<_>>()
    };
    let loaded = bench.environments.environment(&key()).unwrap().unwrap();
    assert_eq!(stages(&loaded), [StageStatus::AwaitingApproval, StageStatus::Pending]);
    let after = bench.killed(1_000);
    let environments = &after.environments;
    assert_eq!(stages(&environments.environment(&key()).unwrap().unwrap()), stages(&loaded));
    let named = ListFilter { names: [key().name].into(), ..ListFilter::default() };
    for filter in [ListFilter::default(), named] {
        let list = environments.list(&pipeline(), &filter, 0, 50).unwrap();
        assert_eq!((list.total, stages(&list.items[0].1)), (1, stages(&loaded)), "{filter:?}");
    }
}
