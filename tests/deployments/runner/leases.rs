//! Steps of a server that may have lost their environment to another machine: running ones are ended, and no other one
//! starts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{Action, StageEnd, StepStatus};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::harness::{
    FOR_EVER, Harness, Report, SHORT, deployment, environment, failed, is_gone, job, sh, until_gone, within_reason,
};
use super::requests::{answer, answering, call};
use super::statuses;
use super::trees::DETACHES;

/// Long enough for a busy machine to deliver a beat in time.
const LEASE: Duration = Duration::from_secs(3);
/// The number of times the host is asked during one lease.
const ASKED_PER_LEASE: u32 = 10;
const ENDED: &str = "step `step-1` was ended: the server could not show for 3 s that it still owns this environment";

fn detaching() -> Action {
    sh(&format!("{DETACHES} echo supervisor $PPID; exec sleep 1000"))
}

/// The pids of everything that `detaching` starts, and of the supervisor, which is last.
async fn pids(harness: &Harness) -> [i32; 3] {
    let [detached, child, supervisor] =
        ["detached ", "child ", "supervisor "].map(|word| harness.number_after(1, word));
    [detached.await, child.await, supervisor.await]
}

#[tokio::test]
async fn a_step_ends_with_all_its_processes_when_the_server_may_not_own_it_any_more() {
    let mut harness = Harness::leased(LEASE);
    harness.runner.start(job(1, vec![detaching(), sh("echo never")]));
    let pids = pids(&harness).await;
    harness.host.owns.store(false, Ordering::SeqCst);
    let (_, end, steps) = harness.end().await;
    assert_eq!((end, pids.map(is_gone)), (failed(ENDED), [true; 3]));
    assert_eq!(statuses(&steps), [(StepStatus::Failed, None), (StepStatus::Skipped, None)]);
    let remark = ENDED.replace("step `step-1`", "lockkeeper: the step");
    assert_eq!(harness.text(1).lines().last(), Some(&*remark));
}

#[test]
fn the_steps_of_a_frozen_server_end_by_themselves() {
    let server = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (harness, pids) = server.block_on(async {
        let harness = Harness::leased(LEASE);
        harness.runner.start(job(1, vec![detaching()]));
        let pids = pids(&harness).await;
        (harness, pids)
    });
    // From here on the server's tasks do not run, but its end of the lifeline is open.
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        for pid in pids {
            until_gone(pid).await;
        }
    });
    drop((server, harness));
}

#[tokio::test]
async fn a_step_outlives_its_lease_while_the_server_owns_it() {
    let mut harness = Harness::leased(LEASE);
    harness.runner.start(job(1, vec![sh("echo ready; until [ -e go ]; do sleep 0.05; done")]));
    harness.line(1, "ready").await;
    harness.host.asked(3 * ASKED_PER_LEASE).await;
    std::fs::write(harness.work_dir.join(deployment(1).to_string()).join("go"), "").unwrap();
    assert_eq!(harness.end().await.1, StageEnd::Succeeded);
}

#[tokio::test]
async fn a_supervisor_that_was_stopped_for_longer_than_the_lease_kills_before_it_reads_old_beats() {
    let mut harness = Harness::leased(LEASE);
    harness.runner.start(job(1, vec![detaching()]));
    let pids = pids(&harness).await;
    let supervisor = Pid::from_raw(pids[2]).unwrap();
    kill_process(supervisor, Signal::STOP).unwrap();
    harness.host.asked(2 * ASKED_PER_LEASE).await;
    assert_eq!(pids.map(is_gone), [false; 3]);
    kill_process(supervisor, Signal::CONT).unwrap();
    assert_eq!((harness.end().await.1, pids.map(is_gone)), (failed(ENDED), [true; 3]));
}

#[tokio::test]
async fn a_cancelled_step_counts_as_cancelled_although_its_lease_ends_it() {
    let mut harness = Harness::leased(LEASE);
    harness.runner.start(job(1, vec![sh("trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done")]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(1));
    harness.line(1, "asked").await;
    // Its grace period never ends.
    harness.host.owns.store(false, Ordering::SeqCst);
    let (_, end, steps) = harness.end().await;
    assert_eq!((end, statuses(&steps)), (StageEnd::Cancelled, vec![(StepStatus::Cancelled, None)]));
}

#[tokio::test]
async fn no_step_starts_until_the_server_certainly_owns_its_environment() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (address, request) = answering(answer("200 OK", "")).await;
    let first = sh("echo first; until [ -e go ]; do sleep 0.05; done");
    harness.host.owns.store(false, Ordering::SeqCst);
    harness.runner.start(job(1, vec![first, Action::Http(call(address)), sh("echo third")]));
    harness.host.asked(3).await;
    assert_eq!(harness.text(1), "");
    harness.host.owns.store(true, Ordering::SeqCst);
    harness.line(1, "first").await;
    harness.host.owns.store(false, Ordering::SeqCst);
    std::fs::write(harness.work_dir.join(deployment(1).to_string()).join("go"), "").unwrap();
    harness.host.asked(3).await;
    assert!(!request.is_finished());
    harness.host.owns.store(true, Ordering::SeqCst);
    assert_eq!(harness.end().await.1, StageEnd::Succeeded);
    within_reason(request).await.unwrap();
    assert_eq!(harness.text(1).lines().last(), Some("third"));
}

#[tokio::test]
async fn a_step_that_waits_for_the_server_to_own_its_environment_can_be_cancelled() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.owns.store(false, Ordering::SeqCst);
    harness.runner.start(job(1, vec![sh("echo ran"), sh("echo ran")]));
    harness.host.asked(2).await;
    harness.runner.stop(&environment("web"), deployment(1));
    let (_, end, steps) = harness.end().await;
    assert_eq!(end, StageEnd::Cancelled);
    assert_eq!(statuses(&steps), [(StepStatus::Cancelled, None), (StepStatus::Skipped, None)]);
    assert!(!harness.text(1).contains("ran"));
}

#[tokio::test]
async fn a_step_that_waits_for_the_server_to_own_its_environment_takes_time_of_its_stage() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.owns.store(false, Ordering::SeqCst);
    let mut waiting = job(1, vec![sh("echo ran")]);
    let mut blueprint = (*waiting.order.blueprint).clone();
    blueprint.stages[0].timeout_seconds = 1;
    waiting.order.blueprint = blueprint.into();
    let (end, _) = harness.run(waiting).await;
    assert_eq!(end, failed("the stage took longer than its 1 s"));
    assert!(!harness.text(1).contains("ran"));
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_to_own_an_environment() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.owns.store(false, Ordering::SeqCst);
    harness.runner.start(job(1, vec![sh("echo ran")]));
    harness.host.asked(2).await;
    assert!(within_reason(harness.runner.shut_down(SHORT)).await);
    while let Ok(report) = harness.reports.try_recv() {
        assert!(matches!(report, Report::Begun(_) | Report::Progress(..)), "{report:?}");
    }
    assert!(!harness.text(1).contains("ran"));
}

#[tokio::test]
async fn a_request_under_way_is_not_interrupted() {
    let mut harness = Harness::leased(LEASE);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    harness.runner.start(job(1, vec![Action::Http(call(address))]));
    let (mut stream, _) = within_reason(listener.accept()).await.unwrap();
    within_reason(stream.read_buf(&mut Vec::new())).await.unwrap();
    harness.host.owns.store(false, Ordering::SeqCst);
    stream.write_all(answer("200 OK", "").unwrap().as_bytes()).await.unwrap();
    assert_eq!(harness.end().await.1, StageEnd::Succeeded);
}
