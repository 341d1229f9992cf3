//! No process of a step is left, whatever it started and whichever process was killed.

use std::process::{Command, Stdio};

use domain::StageEnd;

use super::harness::{
    FOR_EVER, Harness, Report, SHORT, deployment, environment, failed, is_gone, job, sh, until_gone, within_reason,
};

/// Starts a process that leaves its group, its session, its variables and its directory, ignores TERM, and has a child;
/// it creates the file `told` after printing their ids.
pub const DETACHES: &str = r#"d=$PWD; cd / && env -i /usr/bin/setsid sh -c 'trap "" TERM; sleep 1000 & echo child $!;
    echo detached $$; : > "$0"; while :; do sleep 1000; done' "$d/told" & "#;

#[tokio::test]
async fn what_a_step_leaves_behind_is_gone_before_its_end_is_reported() {
    let mut harness = Harness::new(1, SHORT);
    let (end, _) = harness.run(job(1, vec![sh(&format!("{DETACHES} until [ -e told ]; do :; done"))])).await;
    let gone = [harness.number_after(1, "detached ").await, harness.number_after(1, "child ").await].map(is_gone);
    assert_eq!((end, gone), (StageEnd::Succeeded, [true, true]));
    assert!(harness.text(1).contains("that the step left behind"));
}

#[tokio::test]
async fn what_has_detached_itself_is_gone_when_a_stage_is_cancelled() {
    let mut harness = Harness::new(1, SHORT);
    harness.runner.start(job(1, vec![sh(&format!("{DETACHES} exec sleep 1000"))]));
    let pids = [harness.number_after(1, "detached ").await, harness.number_after(1, "child ").await];
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
    assert_eq!(pids.map(is_gone), [true, true]);
}

#[tokio::test]
async fn processes_that_are_gone_before_they_are_seen_are_gone_for_good() {
    let mut harness = Harness::new(1, SHORT);
    // Each starts the next and ends, in its own group and in new ones.
    let script = "trap '' TERM; f() { f & }; f; g() { setsid sh -c \"$1\" sh \"$1\" & }; \
                  g 'setsid sh -c \"$1\" sh \"$1\" &'; echo ready; exec sleep 1000";
    harness.runner.start(job(1, vec![sh(script)]));
    harness.line(1, "ready").await;
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
}

#[tokio::test]
async fn when_the_supervisor_is_killed_the_rest_is_found() {
    let mut harness = Harness::new(1, FOR_EVER);
    let script = "setsid sleep 1000 & echo left $!; echo supervisor $PPID; exec sleep 1000";
    harness.runner.start(job(1, vec![sh(script)]));
    let left = harness.number_after(1, "left ").await;
    let supervisor = harness.number_after(1, "supervisor ").await;
    assert_eq!(std::fs::read_to_string(format!("/proc/{supervisor}/comm")).unwrap(), "lk-step\n");
    kill_hard(supervisor);
    let (_, end, _) = harness.end().await;
    assert_eq!(end, failed("step `step-1` was ended, since its supervisor was killed"));
    assert!(is_gone(left) && is_gone(supervisor));
}

#[test]
fn when_the_server_is_gone_its_steps_end_at_once() {
    let server = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (harness, pids) = server.block_on(async {
        let harness = Harness::new(1, FOR_EVER);
        harness.runner.start(job(1, vec![sh(&format!("{DETACHES} echo supervisor $PPID; exec sleep 1000"))]));
        let pids = [
            harness.number_after(1, "detached ").await,
            harness.number_after(1, "child ").await,
            harness.number_after(1, "supervisor ").await,
        ];
        (harness, pids)
    });
    server.shutdown_background();
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        for pid in pids {
            until_gone(pid).await;
        }
    });
    drop(harness);
}

#[tokio::test]
async fn what_an_earlier_run_of_the_server_left_is_swept() {
    let mut harness = Harness::new(1, FOR_EVER);
    let mut left = Command::new("sh")
        .args(["-c", "env -i /usr/bin/sleep 1000 & echo $!; wait"])
        .env("LOCKKEEPER_DEPLOYMENT", deployment(1).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = left.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    let child = line.trim().parse::<i32>().unwrap();
    let dir = harness.work_dir.join(deployment(1).to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let mut inside = Command::new("sleep").arg("1000").current_dir(&dir).spawn().unwrap();
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    harness.runner.sweep(environment("web"), deployment(1));
    assert_eq!(harness.hear().await, Report::Swept(deployment(1)));
    assert!(left.try_wait().unwrap().is_some() && inside.try_wait().unwrap().is_some() && is_gone(child));
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(harness.text(1).starts_with("lockkeeper: killed 3 processes"));
}

#[tokio::test]
async fn stopping_what_is_not_known_sweeps() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.stop(&environment("web"), deployment(1));
    assert_eq!(harness.hear().await, Report::Swept(deployment(1)));
}

#[tokio::test]
async fn what_is_run_again_after_a_sweep_is_not_swept_once_more() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.host.wanted.send_replace(None);
    harness.runner.sweep(environment("web"), deployment(1));
    assert_eq!(harness.hear().await, Report::Swept(deployment(1)));
    // Told to stop before its end is known; and as soon as that is known, it is retried.
    harness.runner.stop(&environment("web"), deployment(1));
    harness.host.wanted.send_replace(Some(true));
    harness.runner.start(job(1, vec![sh("echo ready; until [ -e go ]; do :; done")]));
    harness.line(1, "ready").await;
    harness.runner.sweep(environment("web"), deployment(2));
    loop {
        match harness.hear().await {
            Report::Swept(id) if id == deployment(2) => break,
            Report::Begun(_) | Report::Progress(..) => {}
            reports @ (Report::Swept(_) | Report::Ended(..)) => panic!("{reports:?}"),
        }
    }
    std::fs::write(harness.work_dir.join(deployment(1).to_string()).join("go"), "").unwrap();
    assert_eq!(harness.end().await.1, StageEnd::Succeeded);
}

#[tokio::test]
async fn a_supervisor_that_is_asked_to_end_stays_with_its_step_which_hears_such_signals() {
    let mut harness = Harness::new(1, SHORT);
    let script = "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -QUIT $PPID; echo here";
    let (end, _) = harness.run(job(1, vec![sh(script), sh("kill -HUP $$")])).await;
    assert_eq!(end, failed("step `step-2` was killed by signal 1"));
    assert_eq!(harness.text(1).lines().next(), Some("here"));
}

#[tokio::test]
async fn a_supervisor_that_was_stopped_ends_its_step_all_the_same() {
    let mut harness = Harness::new(1, FOR_EVER);
    for (number, ends) in [(1, false), (2, true)] {
        harness.runner.start(job(number, vec![sh("kill -STOP $PPID; echo ready; exec sleep 1000")]));
        harness.line(number, "ready").await;
        if ends {
            within_reason(harness.runner.shut_down(SHORT)).await;
        } else {
            harness.runner.stop(&environment("web"), deployment(number));
            assert_eq!(harness.end().await.1, StageEnd::Cancelled);
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_leaves_nothing_running_and_reports_no_end() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh(&format!("{DETACHES} exec sleep 1000"))]));
    harness.runner.start(job(2, vec![sh("echo never")]));
    let pids = [harness.number_after(1, "detached ").await, harness.number_after(1, "child ").await];
    assert_eq!((harness.runner.running(), harness.runner.waiting()), (1, 1));
    within_reason(harness.runner.shut_down(SHORT)).await;
    assert_eq!((pids.map(is_gone), harness.runner.running(), harness.runner.waiting()), ([true, true], 0, 0));
    harness.runner.start(job(3, vec![sh("echo never")]));
    while let Ok(reports) = harness.reports.try_recv() {
        assert!(matches!(reports, Report::Begun(id) | Report::Progress(id, _) if id == deployment(1)), "{reports:?}");
    }
}

#[tokio::test]
async fn a_server_that_ends_waits_for_what_is_nearly_done() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.runner.start(job(1, vec![sh("echo ready; until [ -e go ]; do :; done")]));
    harness.line(1, "ready").await;
    let go = harness.work_dir.join(deployment(1).to_string()).join("go");
    let runner = harness.runner.clone();
    let ended = tokio::spawn(async move { runner.shut_down(FOR_EVER).await });
    tokio::task::yield_now().await;
    std::fs::write(go, "").unwrap();
    within_reason(ended).await.unwrap();
    assert_eq!(harness.end().await.1, StageEnd::Succeeded);
}

fn kill_hard(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}
