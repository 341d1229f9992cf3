//! No process of a confined step outlives its end, whichever process is killed.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::harness::{Boxed, Who, everybody, process_with, processes_with};

/// Starts a process that leaves its group, its session, its variables and its directory, and ignores TERM.
fn detaching(marker: &str) -> String {
    format!(
        "(cd / && env -i /usr/bin/setsid sh -c 'trap \"\" TERM; sleep {marker} & echo begun; wait; sleep {marker}') & "
    )
}

fn marker(boxed: &Boxed) -> String {
    format!("5{}.25", boxed.server.pid())
}

fn gone_soon(marker: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !processes_with(marker).is_empty() {
        assert!(Instant::now() < deadline, "{:?} are still there", processes_with(marker));
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_server_and_the_supervisor_are_killed() {
    for who in everybody().into_iter().filter(|who| *who != Who::Bare) {
        let mut boxed = Boxed::start(who, "best").await;
        let marker = marker(&boxed);
        let script = format!("{} exec sleep 1000", detaching(&marker));
        let deployment = boxed.begin(&boxed.acme, "review-1", &script).await;
        boxed.acme.until_printed(&deployment, "begun").await;
        assert!(!processes_with(&marker).is_empty(), "{who:?}");
        let supervisor = process_with(&format!("supervise-step\0{deployment}"));
        let mut kill = Command::new("kill");
        kill.arg("-9").arg(boxed.server.pid().to_string()).arg(supervisor.to_string());
        assert!(kill.status().unwrap().success());
        boxed.server.wait();
        // The server is not restarted: the kernel does it.
        gone_soon(&marker);
    }
}

#[tokio::test]
async fn what_a_confined_step_leaves_behind_ends_with_it() {
    for who in everybody() {
        let boxed = Boxed::start(who, "best").await;
        let marker = marker(&boxed);
        let (status, log) = boxed.run(&boxed.acme, &format!("{} sleep 0.3", detaching(&marker))).await;
        assert_eq!((status.as_str(), processes_with(&marker)), ("succeeded", Vec::new()), "{who:?}: {log}");
        assert!(log.contains("that the step left behind"), "{who:?}: {log}");
    }
}

#[tokio::test]
async fn a_confined_step_that_is_cancelled_may_clean_up_and_is_gone_then() {
    for who in everybody() {
        let boxed = Boxed::start(who, "best").await;
        let marker = marker(&boxed);
        let script = format!("trap 'echo cleaned; exit 0' TERM; {} while :; do sleep 0.05; done", detaching(&marker));
        let deployment = boxed.begin(&boxed.acme, "review-1", &script).await;
        boxed.acme.until_printed(&deployment, "begun").await;
        boxed.acme.post(&format!("/deployments/{deployment}/stages/only/cancel"), json!({})).await.has_status(202);
        let end = boxed.finished(&boxed.acme, &deployment).await;
        assert_eq!((&end["status"], processes_with(&marker)), (&json!("cancelled"), Vec::new()), "{who:?}");
        assert!(boxed.log(&boxed.acme, &deployment).await.contains("cleaned"), "{who:?}");
    }
}

#[tokio::test]
async fn a_confined_step_tells_how_it_ended() {
    for who in everybody() {
        let boxed = Boxed::start(who, "best").await;
        for (script, told) in [
            ("exit 3", "the step exited with code 3"),
            ("kill -9 $$", "the step was killed by signal 9"),
            ("exec /no/such/program", "exited with code 127"),
        ] {
            let (status, log) = boxed.run(&boxed.acme, script).await;
            assert!(status == "failed" && log.contains(told), "{who:?}: {log}");
        }
    }
}
