//! The stages of a deployment, one case at a time.

use std::sync::Arc;

use crate::deployment::ERROR_BYTES_MAX;
use crate::samples::{Subject, attempt, claim, commit, end_stage, identifier, person, pipeline};
use crate::*;

/// An environment that person 1 has claimed and deployed, in a pipeline with this many stages; the second needs an
/// approval.
fn deployed(stages: usize, self_approval: bool) -> (Subject, DeploymentRecord) {
    let mut subject = Subject::with(Configuration::default());
    let mut blueprint = (*pipeline(stages).blueprint).clone();
    blueprint.self_approval = self_approval;
    if let Some(stage) = blueprint.stages.get_mut(1) {
        stage.approval = ApprovalRule::Always;
    }
    subject.ports.pipeline.blueprint = Arc::new(blueprint);
    subject.run(0, claim(1)).unwrap();
    let record = deploy(&mut subject, 100);
    (subject, record)
}

fn deploy(subject: &mut Subject, number: u64) -> DeploymentRecord {
    let session = subject.environment.lock.as_ref().unwrap().id.into();
    let seed = samples::seed(number);
    subject.run(1, Deploy { session, by: person(1), seed, commit: commit(), fencing_token: None }).unwrap().0
}

/// The runner executes the deployment's current stage.
fn run_stage(subject: &mut Subject, end: StageEnd) -> Outcome {
    let of = attempt(&subject.environment);
    subject.run(2, BeginStage(of)).unwrap();
    let end = end_stage(&subject.environment, end);
    subject.run(3, end).unwrap().1
}

fn decide(subject: &mut Subject, verdict: Verdict, by: u8) -> Result<ApprovalRecord, Rejection> {
    let deployment = subject.environment.current_deployment().unwrap();
    let (_, stage) = deployment.run.as_ref().unwrap().active().unwrap();
    let (approval, deployment) = (stage.approval.as_ref().unwrap().id, deployment.id);
    let comment = Some(Arc::from("looks good"));
    Ok(subject.run(4, DecideApproval { approval, deployment, verdict, by: person(by), comment })?.0)
}

fn ended(outcome: &Outcome, blueprint: &Arc<Blueprint>) -> DeploymentRef {
    let record = outcome.deployments[0].clone();
    let (id, blueprint) = (record.deployment.id, Some(blueprint.clone()));
    DeploymentRef { id, ended: Some(Box::new(EndedDeployment { record, blueprint })) }
}

fn retry(subject: &mut Subject, target: DeploymentRef, stage: &str) -> Result<DeploymentRecord, Rejection> {
    let session = subject.environment.lock.as_ref().unwrap().id.into();
    let retry = RetryStage { target, session, stage: identifier(stage), by: person(1), any: false };
    Ok(subject.run(5, retry)?.0)
}

fn statuses(record: &DeploymentRecord) -> Vec<StageStatus> {
    record.stages.iter().map(|stage| stage.status).collect()
}

#[test]
fn stages_run_in_order_and_wait_for_their_approval() {
    let (mut subject, record) = deployed(3, true);
    assert_eq!(statuses(&record), [StageStatus::Queued, StageStatus::Pending, StageStatus::Pending]);
    let outcome = run_stage(&mut subject, StageEnd::Succeeded);
    assert_eq!(outcome.deployments[0].deployment.status, DeploymentStatus::AwaitingApproval);
    assert_eq!((outcome.effects.len(), outcome.approvals.len()), (0, 1), "nothing runs before it is approved");
    let approved = decide(&mut subject, Verdict::Approve, 2).unwrap();
    assert_eq!(approved.approval.decided_by, Some(person(2)));
    run_stage(&mut subject, StageEnd::Succeeded);
    let outcome = run_stage(&mut subject, StageEnd::Succeeded);
    assert_eq!(outcome.deployments[0].deployment.status, DeploymentStatus::Succeeded);
    assert_eq!(statuses(&outcome.deployments[0]), [StageStatus::Succeeded; 3]);
}

#[test]
fn who_triggered_it_approves_it_only_where_the_pipeline_says_so() {
    let (mut subject, _) = deployed(2, false);
    run_stage(&mut subject, StageEnd::Succeeded);
    assert_eq!(decide(&mut subject, Verdict::Approve, 1), Err(Rejection::SelfApproval));
    assert!(decide(&mut subject, Verdict::Approve, 2).is_ok());
    let (mut subject, _) = deployed(2, true);
    run_stage(&mut subject, StageEnd::Succeeded);
    assert!(decide(&mut subject, Verdict::Approve, 1).is_ok());
}

#[test]
fn a_rejected_stage_fails_its_deployment_and_says_by_whom() {
    let (mut subject, record) = deployed(3, false);
    run_stage(&mut subject, StageEnd::Succeeded);
    assert!(decide(&mut subject, Verdict::Reject, 1).is_ok(), "one may reject what one triggered");
    assert_eq!(subject.environment.current_deployment(), None);
    let last = subject.environment.last_deployment.clone().unwrap();
    assert_eq!((last.id, last.status), (record.deployment.id, DeploymentStatus::Failed));
    let listed = &subject.environment.lock.as_ref().unwrap().deployments[0];
    assert_eq!(listed.error.as_deref(), Some("stage `stage-2` was rejected by person-1: looks good"));
}

#[test]
fn a_stage_that_fails_skips_the_rest_and_can_be_run_again() {
    let (mut subject, _) = deployed(3, true);
    let blueprint = subject.ports.pipeline.blueprint.clone();
    let outcome = run_stage(&mut subject, StageEnd::Failed("step `step-1` exited with code 3".into()));
    let failed = &outcome.deployments[0];
    assert_eq!(failed.deployment.error.as_deref(), Some("stage `stage-1`: step `step-1` exited with code 3"));
    assert_eq!(statuses(failed), [StageStatus::Failed, StageStatus::Skipped, StageStatus::Skipped]);
    let target = ended(&outcome, &blueprint);
    let skipped = retry(&mut subject, target.clone(), "stage-2");
    assert_eq!(skipped, Err(Rejection::StageNotRetryable { status: StageStatus::Skipped }));
    assert_eq!(retry(&mut subject, target.clone(), "stage-9"), Err(Rejection::StageNotFound));
    let retried = retry(&mut subject, target, "stage-1").unwrap();
    assert_eq!((retried.stages[0].attempt, retried.stages[0].status), (2, StageStatus::Queued));
    assert_eq!((&retried.deployment.error, retried.deployment.finished_at), (&None, None));
}

#[test]
fn what_is_run_again_waits_for_what_came_before_it() {
    let (mut subject, first) = deployed(1, true);
    let blueprint = subject.ports.pipeline.blueprint.clone();
    let second = deploy(&mut subject, 200);
    assert_eq!(second.deployment.status, DeploymentStatus::Queued);
    let outcome = run_stage(&mut subject, StageEnd::Cancelled);
    let target = ended(&outcome, &blueprint);
    assert_eq!(target.id, first.deployment.id);
    let retried = retry(&mut subject, target.clone(), "stage-1").unwrap();
    assert_eq!(retried.deployment.status, DeploymentStatus::Queued, "the second has begun");
    run_stage(&mut subject, StageEnd::Succeeded);
    assert_eq!(subject.environment.current_deployment().map(|d| d.id), Some(first.deployment.id));
}

#[test]
fn nothing_starts_in_a_stopped_pipeline_and_what_runs_goes_on() {
    let (mut subject, first) = deployed(3, true);
    subject.ports.pipeline.stopped = true;
    let waiting = deploy(&mut subject, 200);
    run_stage(&mut subject, StageEnd::Succeeded);
    decide(&mut subject, Verdict::Approve, 2).unwrap();
    run_stage(&mut subject, StageEnd::Succeeded);
    run_stage(&mut subject, StageEnd::Succeeded);
    let last = subject.environment.last_deployment.clone().unwrap();
    assert_eq!((last.id, last.status), (first.deployment.id, DeploymentStatus::Succeeded));
    assert_eq!(subject.environment.current_deployment(), None);
    subject.ports.pipeline.stopped = false;
    subject.run(9, Resume).unwrap();
    assert_eq!(subject.environment.current_deployment().map(|d| d.id), Some(waiting.deployment.id));
}

#[test]
fn a_deployment_that_waits_is_cancelled_by_its_first_stage() {
    let (mut subject, _) = deployed(2, true);
    let target: DeploymentRef = deploy(&mut subject, 200).deployment.id.into();
    let cancel = |stage| CancelStage { target: target.clone(), stage: identifier(stage), by: person(1), any: false };
    let second = subject.run(6, cancel("stage-2")).map(|(record, _)| record);
    assert_eq!(second, Err(Rejection::StageNotRunning { status: StageStatus::Pending }));
    let (record, _) = subject.run(6, cancel("stage-1")).unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Cancelled);
    assert_eq!(statuses(&record), [StageStatus::Cancelled, StageStatus::Skipped]);
}

#[test]
fn a_release_ends_a_pending_approval() {
    let (mut subject, _) = deployed(2, true);
    run_stage(&mut subject, StageEnd::Succeeded);
    let session = subject.environment.lock.as_ref().unwrap().id.into();
    let (_, outcome) = subject.run(7, Release { session, by: person(1), any: false }).unwrap();
    assert_eq!(outcome.approvals[0].approval.status, ApprovalStatus::Cancelled);
    assert_eq!(outcome.deployments[0].deployment.status, DeploymentStatus::Cancelled);
    assert_eq!((subject.environment.leaving, outcome.effects), (None, vec![]), "nothing of it runs");
}

#[test]
fn what_the_server_left_behind_fails_or_is_run_again_if_that_does_no_harm() {
    for idempotent in [false, true] {
        let (mut subject, record) = deployed(1, true);
        let mut blueprint = (*subject.ports.pipeline.blueprint).clone();
        blueprint.stages[0].idempotent = idempotent;
        subject.ports.pipeline.blueprint = Arc::new(blueprint);
        let end = end_stage(&subject.environment, StageEnd::Succeeded);
        subject.run(2, end).unwrap();
        let id = deploy(&mut subject, 200).deployment.id;
        assert_ne!(id, record.deployment.id);
        let of = attempt(&subject.environment);
        subject.run(3, BeginStage(of)).unwrap();
        let (_, outcome) = subject.run(4, Recover).unwrap();
        assert_eq!(outcome.effects, [Effect::Sweep(id)], "first of all it must be gone");
        let (_, outcome) = subject.run(5, Swept(of)).unwrap();
        let status = outcome.deployments[0].deployment.status;
        let runs_again = matches!(outcome.effects[..], [Effect::RunStage(ref order)] if order.attempt == 2);
        if idempotent {
            assert_eq!((status, runs_again), (DeploymentStatus::Running, true));
        } else {
            assert_eq!((status, runs_again), (DeploymentStatus::Failed, false));
            assert!(outcome.deployments[0].deployment.error.as_deref().unwrap().starts_with("interrupted: "));
        }
    }
}

#[test]
fn a_stage_that_the_runner_had_not_begun_is_simply_run_after_a_start() {
    let (mut subject, record) = deployed(1, true);
    let (_, outcome) = subject.run(4, Recover).unwrap();
    assert!(matches!(&outcome.effects[..], [Effect::RunStage(order)] if order.deployment == record.deployment.id));
}

#[test]
fn an_error_is_cut_to_what_a_page_of_the_history_can_hold() {
    let (mut subject, _) = deployed(1, true);
    let outcome = run_stage(&mut subject, StageEnd::Failed("ä".repeat(500).into()));
    let error = outcome.deployments[0].deployment.error.clone().unwrap();
    assert!(error.len() <= ERROR_BYTES_MAX && error.ends_with('…'), "{error}");
}

#[test]
fn a_strangers_deployment_is_not_cancelled() {
    let (mut subject, record) = deployed(1, true);
    let target: DeploymentRef = record.deployment.id.into();
    let by = |by: u8, any| CancelStage { target: target.clone(), stage: identifier("stage-1"), by: person(by), any };
    assert!(matches!(subject.run(2, by(2, false)), Err(Rejection::NotSessionHolder { .. })));
    let (record, outcome) = subject.run(2, by(2, true)).unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Cancelling);
    assert_eq!(outcome.effects, [Effect::Stop(target.id)]);
}

#[test]
fn what_is_cancelled_between_two_stages_can_be_run_again_from_the_second() {
    let (mut subject, record) = deployed(2, true);
    let blueprint = subject.ports.pipeline.blueprint.clone();
    let of = attempt(&subject.environment);
    subject.run(2, BeginStage(of)).unwrap();
    let target = record.deployment.id.into();
    subject.run(2, CancelStage { target, stage: identifier("stage-1"), by: person(1), any: false }).unwrap();
    // The stage succeeded before it could be stopped.
    let end = end_stage(&subject.environment, StageEnd::Succeeded);
    let (_, outcome) = subject.run(3, end).unwrap();
    assert_eq!(outcome.deployments[0].deployment.status, DeploymentStatus::Cancelled);
    assert_eq!(statuses(&outcome.deployments[0]), [StageStatus::Succeeded, StageStatus::Cancelled]);
    let target = ended(&outcome, &blueprint);
    let retried = retry(&mut subject, target, "stage-2").unwrap();
    assert_eq!(statuses(&retried), [StageStatus::Succeeded, StageStatus::AwaitingApproval]);
}

/// Makes the pipeline use a step that cannot be resolved.
fn unresolved(subject: &mut Subject) {
    let reference = StepReference::parse("tools/build@1").unwrap();
    let used = Action::Uses(Box::new(Use { reference, with: Default::default() }));
    let mut blueprint = (*pipeline(1).blueprint).clone();
    blueprint.stages[0].steps = vec![Step::own(identifier("build"), used)];
    let why = Some(Arc::from("there is no registry `tools`"));
    subject.ports.pipeline = PipelineNow { stopped: false, blueprint: Arc::new(blueprint), unresolved: why };
}

#[test]
fn a_deployment_whose_steps_cannot_be_had_fails_at_once_and_the_next_one_starts() {
    let mut subject = Subject::with(Configuration::default());
    unresolved(&mut subject);
    subject.run(0, claim(1)).unwrap();
    let record = deploy(&mut subject, 100);
    assert_eq!(record.deployment.status, DeploymentStatus::Failed);
    assert_eq!(record.deployment.error.as_deref(), Some("there is no registry `tools`"));
    assert!(record.stages.is_empty() && !record.deployment.staged && record.deployment.started_at.is_some());
    assert_eq!(subject.environment.last_deployment.as_ref().unwrap().status, DeploymentStatus::Failed);
    subject.ports.pipeline = pipeline(1);
    assert_eq!(deploy(&mut subject, 101).deployment.status, DeploymentStatus::Running);
}

#[test]
fn what_was_cancelled_before_its_steps_could_be_had_cannot_be_run_again() {
    let mut subject = Subject::with(Configuration::default());
    unresolved(&mut subject);
    subject.ports.pipeline.stopped = true;
    subject.run(0, claim(1)).unwrap();
    let id = deploy(&mut subject, 100).deployment.id;
    let stage = subject.ports.pipeline.blueprint.stages[0].name.clone();
    let cancel = CancelStage { target: id.into(), stage: stage.clone(), by: person(1), any: false };
    let (_, outcome) = subject.run(1, cancel).unwrap();
    let target = ended(&outcome, &subject.ports.pipeline.blueprint.clone());
    subject.ports.pipeline.stopped = false;
    let again = retry(&mut subject, target, stage.as_str()).unwrap();
    assert_eq!(again.deployment.status, DeploymentStatus::Failed);
    assert!(again.deployment.error.unwrap().contains("deploy again"));
    assert!(subject.environment.current_deployment().is_none());
}
