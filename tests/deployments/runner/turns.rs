//! The order of stages when there are more of them than places.

use domain::{StageEnd, StepStatus};

use super::harness::{FOR_EVER, Harness, Report, deployment, environment, job, sh};
use super::statuses;

#[tokio::test]
async fn a_busy_pipeline_does_not_keep_another_waiting() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("echo ready; until [ -e go ]; do :; done")]));
    for number in 2..=4 {
        harness.runner.start(job(number, vec![sh("true")]));
    }
    let mut other = job(9, vec![sh("true")]);
    other.environment = environment("shop");
    harness.runner.start(other);
    harness.line(1, "ready").await;
    assert_eq!((harness.runner.running(), harness.runner.waiting()), (1, 4));
    std::fs::write(harness.work_dir.join(deployment(1).to_string()).join("go"), "").unwrap();
    let mut order = Vec::new();
    while order.len() < 5 {
        if let Report::Begun(deployment) = harness.hear().await {
            order.push(deployment);
        }
    }
    assert_eq!(order, [1, 2, 9, 3, 4].map(deployment));
}

#[tokio::test]
async fn what_is_stopped_while_it_waits_never_begins() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("echo ready; exec sleep 1000")]));
    harness.runner.start(job(2, vec![sh("echo never")]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(2));
    let (which, end, steps) = harness.end().await;
    assert_eq!((which, end), (deployment(2), StageEnd::Cancelled));
    assert_eq!(statuses(&steps), [(StepStatus::Skipped, None)]);
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.0, deployment(1));
    assert_eq!(harness.text(2), "");
}

#[tokio::test]
async fn what_is_stopped_while_it_is_about_to_begin_says_that_it_has_ended() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.wanted.send_replace(None);
    harness.runner.start(job(1, vec![sh("echo never")]));
    assert_eq!(harness.hear().await, Report::Begun(deployment(1)));
    harness.runner.stop(&environment("web"), deployment(1));
    harness.host.wanted.send_replace(Some(false));
    let (_, end, steps) = harness.end().await;
    assert_eq!((end, statuses(&steps)), (StageEnd::Cancelled, vec![(StepStatus::Skipped, None)]));
    assert_eq!(harness.text(1), "");
}
