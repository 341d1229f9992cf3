//! Deployments: their stages, the reports of the runner, cancelling and retrying.

use std::sync::Arc;

use super::*;
use crate::samples::{attempt, commit, end_stage, identifier, pipeline, request};

/// An environment with a lease of a minute, and a pipeline with this many stages.
fn site(stages: usize) -> Subject {
    let mut subject = Subject::with(Configuration::default());
    subject.ports.pipeline = pipeline(stages);
    let request = ClaimRequest { ttl_seconds: Some(60), ..request(1) };
    subject.run(0, Claim { request, ..claim(1) }).unwrap();
    subject
}

fn try_deploy(subject: &mut Subject, number: u64) -> Result<(DeploymentRecord, Outcome), Rejection> {
    let session = holder(subject).id.into();
    let (seed, commit) = (samples::seed(number), commit());
    subject.run(1, Deploy { session, by: person(1), seed, commit, fencing_token: None })
}

fn deploy(subject: &mut Subject, number: u64) -> DeploymentRecord {
    try_deploy(subject, number).unwrap().0
}

fn end(subject: &mut Subject, end: StageEnd) -> Outcome {
    let end = end_stage(&subject.environment, end);
    subject.run(2, end).unwrap().1
}

/// The deployment that an outcome has ended, as the actor finds it in the store.
fn ended(subject: &Subject, outcome: &Outcome) -> DeploymentRef {
    let blueprint = Some(subject.ports.pipeline.blueprint.clone());
    let record = outcome.deployments[0].clone();
    DeploymentRef { id: record.deployment.id, ended: Some(Box::new(EndedDeployment { record, blueprint })) }
}

fn retry(
    subject: &mut Subject,
    target: DeploymentRef,
    stage: &str,
    by: u8,
) -> Result<(DeploymentRecord, Outcome), Rejection> {
    let session = holder(subject).id.into();
    subject.run(3, RetryStage { target, session, stage: identifier(stage), by: person(by), any: by != 1 })
}

fn cancel(
    subject: &mut Subject,
    deployment: DeploymentId,
    stage: &str,
) -> Result<(DeploymentRecord, Outcome), Rejection> {
    let target = deployment.into();
    subject.run(4, CancelStage { target, stage: identifier(stage), by: person(1), any: false })
}

fn statuses(record: &DeploymentRecord) -> Vec<StageStatus> {
    record.stages.iter().map(|stage| stage.status).collect()
}

#[test]
fn a_deployment_without_stages_succeeds_at_once_and_leaves_nothing_of_them() {
    let mut subject = site(0);
    let (record, outcome) = try_deploy(&mut subject, 9).unwrap();
    assert_eq!((record.deployment.status, record.deployment.staged), (DeploymentStatus::Succeeded, false));
    assert!(outcome.blueprints.is_empty() && record.stages.is_empty());
}

#[test]
fn every_change_of_a_deployment_changes_it_and_its_session() {
    let mut subject = site(2);
    let mut deployment = deploy(&mut subject, 9).deployment;
    assert!(deployment.staged && deployment.run.is_none(), "its stages are stored apart");
    let mut session = holder(&subject).revision;
    let of = attempt(&subject.environment);
    let mut steps = subject.environment.current_deployment().unwrap().run.as_ref().unwrap().stages[0].steps.clone();
    steps[0].status = StepStatus::Running;
    let mut rises = |subject: &Subject, outcome: Outcome| {
        let changed = outcome.deployments[0].deployment.clone();
        assert!(changed.revision > deployment.revision && holder(subject).revision > session);
        (deployment, session) = (changed, holder(subject).revision);
    };
    let begun = subject.run(2, BeginStage(of)).unwrap().1;
    rises(&subject, begun);
    let reported = subject.run(2, ReportSteps { of, steps: steps.clone() }).unwrap().1;
    assert_eq!(reported.deployments[0].stages[0].steps, steps);
    rises(&subject, reported);
    let succeeded = end(&mut subject, StageEnd::Succeeded);
    rises(&subject, succeeded);
}

#[test]
fn a_stage_tells_when_it_begins_and_how_it_ends() {
    let mut subject = site(1);
    deploy(&mut subject, 9);
    let of = attempt(&subject.environment);
    let begun = subject.run(2, BeginStage(of)).unwrap().1;
    assert_eq!(types(&begun), [EventType::StageStarted]);
    let stage = StageData { stage: identifier("stage-1"), attempt: 1 };
    assert_eq!(begun.events[0].data, EventData::StageStarted(stage));
    let ended = end(&mut subject, StageEnd::Succeeded);
    assert_eq!(types(&ended), [EventType::StageSucceeded, EventType::DeploymentSucceeded]);
}

#[test]
fn a_report_of_another_attempt_or_stage_is_refused() {
    let mut subject = site(2);
    deploy(&mut subject, 9);
    let of = attempt(&subject.environment);
    for wrong in [
        StageAttempt { attempt: of.attempt + 1, ..of },
        StageAttempt { stage: 1, ..of },
        StageAttempt { deployment: DeploymentId(samples::seed(8)), ..of },
    ] {
        assert_eq!(subject.run(2, BeginStage(wrong)).map(|_| ()), Err(Rejection::DeploymentNotRunning));
    }
    subject.run(2, BeginStage(of)).unwrap();
}

#[test]
fn what_fails_while_it_is_being_stopped_is_cancelled() {
    for failure in [StageEnd::Failed("exit code 1".into()), StageEnd::Interrupted, StageEnd::Cancelled] {
        let mut subject = site(2);
        let deployment = deploy(&mut subject, 9).deployment.id;
        cancel(&mut subject, deployment, "stage-1").unwrap();
        let outcome = end(&mut subject, failure);
        let record = &outcome.deployments[0];
        assert_eq!((record.deployment.status, &record.deployment.error), (DeploymentStatus::Cancelled, &None));
        assert_eq!(statuses(record), [StageStatus::Cancelled, StageStatus::Skipped]);
    }
}

#[test]
fn what_finishes_although_it_was_told_to_stop_has_succeeded_if_no_stage_is_left() {
    for (stages, status) in [(1, DeploymentStatus::Succeeded), (2, DeploymentStatus::Cancelled)] {
        let mut subject = site(stages);
        let deployment = deploy(&mut subject, 9).deployment.id;
        cancel(&mut subject, deployment, "stage-1").unwrap();
        let outcome = end(&mut subject, StageEnd::Succeeded);
        assert_eq!(outcome.deployments[0].deployment.status, status);
    }
}

#[test]
fn steps_that_have_not_run_are_skipped_and_the_others_keep_how_they_ended() {
    let mut subject = site(1);
    deploy(&mut subject, 9);
    let mut end = end_stage(&subject.environment, StageEnd::Failed("exit code 1".into()));
    end.steps[0].status = StepStatus::Failed;
    let outcome = subject.run(2, end).unwrap().1;
    let steps: Vec<_> = outcome.deployments[0].stages[0].steps.iter().map(|step| step.status).collect();
    assert_eq!(steps, [StepStatus::Failed, StepStatus::Skipped]);
}

#[test]
fn an_error_keeps_as_much_as_there_is_room_for() {
    let mut subject = site(1);
    deploy(&mut subject, 9);
    let outcome = end(&mut subject, StageEnd::Failed("x".repeat(1_000).into()));
    let error = outcome.deployments[0].deployment.error.clone().unwrap();
    assert_eq!((error.len(), error.ends_with('…')), (256, true));
}

#[test]
fn after_a_crash_the_step_that_ran_is_cancelled_and_the_others_stay() {
    let mut subject = site(1);
    deploy(&mut subject, 9);
    let of = attempt(&subject.environment);
    subject.run(2, BeginStage(of)).unwrap();
    let mut steps = end_stage(&subject.environment, StageEnd::Cancelled).steps;
    steps[0].status = StepStatus::Running;
    subject.run(2, ReportSteps { of, steps }).unwrap();
    let outcome = subject.run(5, Swept(of)).unwrap().1;
    let steps = &outcome.deployments[0].stages[0].steps;
    assert_eq!([steps[0].status, steps[1].status], [StepStatus::Cancelled, StepStatus::Skipped]);
    assert_eq!((steps[0].finished_at, steps[1].finished_at), (Some(samples::at(5).at), None));
}

#[test]
fn fifty_deployments_wait_and_no_more() {
    let mut subject = site(1);
    for number in 0..=50 {
        deploy(&mut subject, 100 + number);
    }
    assert_eq!(try_deploy(&mut subject, 999).map(|_| ()), Err(Rejection::DeploymentQueueFull { limit: 50 }));
    end(&mut subject, StageEnd::Succeeded);
    deploy(&mut subject, 999);
}

#[test]
fn a_session_lists_its_last_hundred_deployments_and_counts_them_all() {
    let mut subject = site(0);
    for number in 0..100 {
        let (_, outcome) = try_deploy(&mut subject, 100 + number).unwrap();
        assert!(outcome.forgotten.is_empty(), "{number}");
    }
    let (_, outcome) = try_deploy(&mut subject, 500).unwrap();
    assert_eq!(outcome.forgotten, [DeploymentId(samples::seed(100))]);
    assert_eq!((holder(&subject).deployments.len(), holder(&subject).deployment_count), (100, 101));
}

#[test]
fn only_the_stage_that_a_deployment_is_at_is_cancelled() {
    let mut subject = site(3);
    let deployment = deploy(&mut subject, 9).deployment.id;
    end(&mut subject, StageEnd::Succeeded);
    for (stage, status) in [("stage-1", StageStatus::Succeeded), ("stage-3", StageStatus::Pending)] {
        let refused = cancel(&mut subject, deployment, stage).map(|_| ());
        assert_eq!(refused, Err(Rejection::StageNotRunning { status }));
    }
    let (record, _) = cancel(&mut subject, deployment, "stage-2").unwrap();
    assert_eq!(record.deployment.status, DeploymentStatus::Cancelling);
}

/// A deployment that failed in the second of three stages, while another one runs.
fn failed_beside_another() -> (Subject, DeploymentRef) {
    let mut subject = site(3);
    deploy(&mut subject, 9);
    end(&mut subject, StageEnd::Succeeded);
    let outcome = end(&mut subject, StageEnd::Failed("no".into()));
    let target = ended(&subject, &outcome);
    deploy(&mut subject, 10);
    (subject, target)
}

#[test]
fn a_retry_that_waits_is_repeated_without_effect_and_cancelled_by_the_stage_it_waits_for() {
    let (mut subject, target) = failed_beside_another();
    let id = target.id;
    let (waiting, outcome) = retry(&mut subject, target.clone(), "stage-2", 1).unwrap();
    assert_eq!(waiting.deployment.status, DeploymentStatus::Queued);
    assert_eq!(statuses(&waiting), [StageStatus::Succeeded, StageStatus::Pending, StageStatus::Pending]);
    assert_eq!(types(&outcome), [EventType::StageRetried]);
    let again = StageData { stage: identifier("stage-2"), attempt: 2 };
    assert_eq!(outcome.events[0].data, EventData::StageRetried(again));
    let (repeated, outcome) = retry(&mut subject, target.clone(), "stage-2", 1).unwrap();
    assert_eq!((repeated, outcome.events.len()), (waiting, 0));
    for (stage, status) in [("stage-1", StageStatus::Succeeded), ("stage-3", StageStatus::Pending)] {
        let refused = retry(&mut subject, target.clone(), stage, 1).map(|_| ());
        assert_eq!(refused, Err(Rejection::StageNotRetryable { status }));
    }
    let refused = cancel(&mut subject, id, "stage-3").map(|_| ());
    assert_eq!(refused, Err(Rejection::StageNotRunning { status: StageStatus::Pending }));
    let (cancelled, _) = cancel(&mut subject, id, "stage-2").unwrap();
    assert_eq!(cancelled.deployment.status, DeploymentStatus::Cancelled);
    assert_eq!(statuses(&cancelled), [StageStatus::Succeeded, StageStatus::Cancelled, StageStatus::Skipped]);
}

#[test]
fn a_retry_that_is_past_its_stage_is_not_repeated() {
    let mut subject = site(3);
    deploy(&mut subject, 9);
    let outcome = end(&mut subject, StageEnd::Failed("no".into()));
    let target = ended(&subject, &outcome);
    retry(&mut subject, target.clone(), "stage-1", 1).unwrap();
    end(&mut subject, StageEnd::Succeeded);
    for (stage, status) in [("stage-1", StageStatus::Succeeded), ("stage-2", StageStatus::Queued)] {
        let refused = retry(&mut subject, target.clone(), stage, 1).map(|_| ());
        assert_eq!(refused, Err(Rejection::StageNotRetryable { status }));
    }
}

#[test]
fn only_the_holders_own_retry_renews_its_lease() {
    for (by, renewed) in [(1, true), (2, false)] {
        let (mut subject, target) = failed_beside_another();
        let (before, revision) = (holder(&subject).expiry().unwrap().0.due, holder(&subject).revision);
        retry(&mut subject, target, "stage-2", by).unwrap();
        assert!(holder(&subject).revision > revision, "the session's ETag changes");
        assert_eq!(holder(&subject).expiry().unwrap().0.due > before, renewed, "person {by}");
    }
}

#[test]
fn four_retries_wait_and_no_more() {
    let mut subject = site(1);
    let mut targets = Vec::new();
    for number in 0..5 {
        deploy(&mut subject, 100 + number);
        let outcome = end(&mut subject, StageEnd::Failed("no".into()));
        targets.push(ended(&subject, &outcome));
    }
    deploy(&mut subject, 200);
    deploy(&mut subject, 201);
    let last = targets.pop().unwrap();
    for target in targets {
        retry(&mut subject, target, "stage-1", 1).unwrap();
    }
    assert_eq!(retry(&mut subject, last, "stage-1", 1).map(|_| ()), Err(Rejection::DeploymentQueueFull { limit: 4 }));
}

#[test]
fn who_retried_a_deployment_has_triggered_it_too() {
    let mut subject = site(1);
    let mut blueprint = (*pipeline(1).blueprint).clone();
    blueprint.self_approval = false;
    blueprint.stages[0].approval = ApprovalRule::Always;
    subject.ports.pipeline.blueprint = Arc::new(blueprint);
    deploy(&mut subject, 9);
    let decide = |subject: &mut Subject, verdict, by| {
        let deployment = subject.environment.current_deployment().unwrap();
        let approval = deployment.run.as_ref().unwrap().stages[0].approval.as_ref().unwrap().id;
        let deployment = deployment.id;
        subject.run(4, DecideApproval { approval, deployment, verdict, by: person(by), comment: None })
    };
    let outcome = decide(&mut subject, Verdict::Reject, 1).unwrap().1;
    let target = ended(&subject, &outcome);
    retry(&mut subject, target, "stage-1", 2).unwrap();
    for by in [1, 2] {
        assert_eq!(decide(&mut subject, Verdict::Approve, by).map(|_| ()), Err(Rejection::SelfApproval), "person {by}");
    }
    decide(&mut subject, Verdict::Approve, 3).unwrap();
}
