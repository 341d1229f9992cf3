//! How steps end, on their own or from outside.

use domain::{StageEnd, StepStatus};

use super::harness::{FOR_EVER, Harness, SHORT, deployment, environment, failed, job, run, sh};
use super::statuses;

#[tokio::test]
async fn the_first_step_that_fails_ends_the_stage() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (end, steps) = harness.run(job(1, vec![sh("echo one"), sh("exit 3"), sh("echo three")])).await;
    assert_eq!(end, failed("step `step-2` exited with code 3"));
    let expected = [(StepStatus::Succeeded, Some(0)), (StepStatus::Failed, Some(3)), (StepStatus::Skipped, None)];
    assert_eq!(statuses(&steps), expected);
    assert_eq!(harness.text(1), "one\nlockkeeper: the step exited with code 3\n");
}

#[tokio::test]
async fn a_step_that_is_killed_says_by_which_signal() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (end, steps) = harness.run(job(1, vec![sh("kill -9 $$")])).await;
    assert_eq!(end, failed("step `step-1` was killed by signal 9"));
    assert_eq!(statuses(&steps), [(StepStatus::Failed, None)]);
}

#[tokio::test]
async fn a_step_that_cannot_start_says_why() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (end, _) = harness.run(job(1, vec![run(&["no-such-program"])])).await;
    assert_eq!(end, failed("step `step-1` could not be started: the program `no-such-program` was not found"));
    let (end, _) = harness.run(job(2, vec![run(&["/etc/passwd"])])).await;
    assert_eq!(end, failed("step `step-1` could not be started: the program `/etc/passwd` may not be executed"));
    let (end, _) = harness.run(job(3, vec![run(&["/x".repeat(300).as_str()])])).await;
    let StageEnd::Failed(reason) = end else { panic!("it cannot have started") };
    assert!(reason.len() <= 250);
}

#[tokio::test]
async fn a_stage_that_takes_too_long_is_ended() {
    let mut harness = Harness::new(1, FOR_EVER);
    let mut slow = job(1, vec![sh("exec sleep 1000"), sh("echo never")]);
    let mut blueprint = (*slow.order.blueprint).clone();
    blueprint.stages[0].timeout_seconds = 1;
    slow.order.blueprint = blueprint.into();
    let (end, steps) = harness.run(slow).await;
    assert_eq!(end, failed("the stage took longer than its 1 s"));
    assert_eq!(statuses(&steps), [(StepStatus::Failed, None), (StepStatus::Skipped, None)]);
    assert_eq!(harness.text(1), "lockkeeper: terminated: the stage took longer than its 1 s\n");
}

#[tokio::test]
async fn a_step_that_is_cancelled_may_clean_up() {
    let mut harness = Harness::new(1, FOR_EVER);
    let script = "trap 'sh -c \"echo cleaned\"; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    harness.runner.start(job(1, vec![sh(script), sh("echo never")]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(1));
    let (_, end, steps) = harness.end().await;
    assert_eq!(end, StageEnd::Cancelled);
    assert_eq!(statuses(&steps), [(StepStatus::Cancelled, Some(0)), (StepStatus::Skipped, None)]);
    harness.line(1, "cleaned").await;
}

#[tokio::test]
async fn a_step_that_ignores_term_is_killed() {
    let mut harness = Harness::new(1, SHORT);
    harness.runner.start(job(1, vec![sh("trap '' TERM; echo ready; while :; do sleep 1000; done")]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
}

#[tokio::test]
async fn a_step_that_has_stopped_itself_ends_too() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("echo ready; kill -STOP $$; echo never")]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
    assert!(!harness.text(1).contains("never"));
}

#[tokio::test]
async fn the_output_of_an_organization_that_has_to_rest_is_complete() {
    let mut harness = Harness::shared(16 << 20);
    harness.set_variables(&[("TOKEN", "hunter2-and-more", true)]);
    let (end, _) = harness.run(job(1, vec![sh("seq 400000; echo $TOKEN")])).await;
    assert_eq!(end, StageEnd::Succeeded);
    let mut expected: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    expected.push_str("***\n");
    assert!(harness.text(1) == expected, "its log differs from its output");
}
