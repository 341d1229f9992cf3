//! The server dies during deployments: no process continues, and every deployment ends in a state that says what to do.

use std::process::Command;

use serde_json::json;

use crate::site::{ENVIRONMENT, Site, is_alive, stage, stage_with};
use crate::support::assert_has;

/// Moves to a new session, detached from its starter, and continuously records that it is alive.
const DETACHED: &str = "date +%s%N > $TRACE.begin; rm -f $TRACE; \
                        setsid sh -c 'echo $$ > $TRACE; while :; do date +%s%N >> $TRACE.$$; sleep 0.02; done' & \
                        while [ ! -s $TRACE ]; do sleep 0.02; done; echo ready; wait";

#[tokio::test]
async fn a_step_in_a_session_of_its_own_does_not_outlive_a_server_that_is_killed() {
    let mut site = Site::with(json!([stage("detached", DETACHED)])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    let next = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    let pid = site.traced()[0].clone();
    assert!(is_alive(&pid));
    site.server.kill();
    site.start_again();
    let failed = site.finished(&deployment).await;
    assert_eq!(failed["status"], "failed");
    let error = failed["error"].as_str().unwrap();
    assert!(error.starts_with("interrupted: ") && error.contains("`detached`"), "{error}");
    assert!(!is_alive(&pid), "it went on deploying by itself");
    assert_eq!(failed["stages"][0]["status"], "failed");
    // The waiting deployment has begun now that the environment is free, and the failed one can be retried.
    site.until_printed(&next, "ready").await;
    let (last_of_old, first_of_new) = (written(&site, &pid), written(&site, "begin"));
    assert!(last_of_old < first_of_new, "the old one was still there when the next began");
    site.stage(&next, "detached", "cancel").await.has_status(202);
    site.finished(&next).await;
    site.stage(&deployment, "detached", "retry").await.has_status(202);
    site.until(&deployment, |found| found["stages"][0]["attempt"] == 2).await;
}

/// The last time in nanoseconds written by a step to a file next to `$TRACE`; it may have been killed while writing
/// another.
fn written(site: &Site, name: &str) -> u64 {
    let text = std::fs::read_to_string(site.trace.with_extension(name)).unwrap();
    let (whole, _) = text.rsplit_once('\n').unwrap_or_else(|| panic!("no time: {text:?}"));
    whole.rsplit('\n').next().unwrap().parse().unwrap()
}

/// The direct children of a process, of all its threads.
fn children_of(pid: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default()).collect()
}

#[tokio::test]
async fn supervisors_that_are_killed_with_their_server_leave_nothing_that_goes_on() {
    let mut site = Site::with(json!([stage("detached", DETACHED)])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    let pid = site.traced()[0].clone();
    // An attacker on the server may kill all processes that it started itself.
    let children = children_of(site.server.pid());
    assert!(!children.trim().is_empty());
    site.server.kill();
    for child in children.split_whitespace() {
        Command::new("kill").args(["-9", child]).stderr(std::process::Stdio::null()).status().unwrap();
    }
    site.start_again();
    assert_eq!(site.finished(&deployment).await["status"], "failed");
    assert!(!is_alive(&pid), "the new server did not find what the old one left");
}

#[tokio::test]
async fn an_idempotent_stage_is_started_again_once_the_old_tree_is_gone() {
    let script = "echo begin $(date +%s%N) >> $TRACE; if [ -e been-here ]; then exit 0; fi; touch been-here; echo ready; \
                  while :; do echo alive $(date +%s%N) >> $TRACE; sleep 0.02; done";
    let mut site = Site::with(json!([stage_with("again", script, json!({ "idempotent": true }))])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    site.server.kill();
    site.start_again();
    let done = site.finished(&deployment).await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    assert_eq!(done["stages"][0]["attempt"], 2);
    let traced = site.traced();
    let second = traced.iter().rposition(|line| line.starts_with("begin")).unwrap();
    assert_eq!(second, traced.len() - 1, "the first was still there: {:?}", &traced[second..]);
}

#[tokio::test]
async fn a_kill_in_each_state_leaves_one_that_can_be_understood() {
    let stages = json!([
        stage("build", "while [ ! -e $TRACE.build ]; do sleep 0.02; done"),
        stage_with("deploy", "echo deployed", json!({ "approval": "always" })),
    ]);
    let mut site = Site::with(stages).await;
    let session = site.claim().await;
    let running = site.deploy(&session).await;
    let queued = site.deploy(&session).await;
    site.until(&running, |found| found["stages"][0]["status"] == "running").await;
    site.server.kill();
    site.start_again();
    // The running one was interrupted; the queued one has begun.
    assert!(site.finished(&running).await["error"].as_str().unwrap().starts_with("interrupted: "));
    site.until(&queued, |found| found["stages"][0]["status"] == "running").await;
    std::fs::write(site.trace.with_extension("build"), "").unwrap();

    // The deployment waiting for its approval continues to wait.
    site.until_status(&queued, "awaiting_approval").await;
    site.server.kill();
    site.start_again();
    assert_eq!(site.deployment(&queued).await["status"], "awaiting_approval");
    let approval = site.admin.get("/approvals?status=pending").await.ok().data()[0]["approvalId"].clone();
    site.admin.post(&format!("/approvals/{}/approve", approval.as_str().unwrap()), json!({})).await.ok();
    assert_eq!(site.finished(&queued).await["status"], "succeeded");

    // An ended deployment is unchanged.
    let ended = site.deployment(&running).await;
    site.server.kill();
    site.start_again();
    assert_eq!(site.deployment(&running).await, ended);
}

#[tokio::test]
async fn a_kill_while_a_stage_is_being_cancelled_ends_as_cancelled() {
    let stubborn = "trap '' TERM; echo $$ > $TRACE; echo ready; while :; do sleep 0.05; done";
    let mut site = Site::with(json!([stage("stubborn", stubborn)])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    site.stage(&deployment, "stubborn", "cancel").await.has_status(202);
    site.server.kill();
    site.start_again();
    assert_has(&site.finished(&deployment).await, json!({ "status": "cancelled", "error": null }));
    assert!(!is_alive(&site.traced()[0]));
}

#[tokio::test]
async fn a_server_that_is_asked_to_stop_takes_its_steps_down_and_says_so_afterwards() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\ndrain_seconds = 1\n";
    let setup = crate::support::Setup::default().settings(settings);
    let mut site = Site::start(setup, json!([stage("long", "echo $$ > $TRACE; echo ready; sleep 600")])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    assert!(site.server.terminate().success());
    assert!(!is_alive(&site.traced()[0]), "it outlived its server");
    site.start_again();
    assert!(site.finished(&deployment).await["error"].as_str().unwrap().starts_with("interrupted: "));
    assert_eq!(site.admin.environment(ENVIRONMENT).await.data()["lockStatus"], "locked", "the session goes on");
}

#[tokio::test]
async fn what_waited_for_a_place_to_run_is_run_after_a_kill() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\nmax_running_steps = 1\n";
    let setup = crate::support::Setup::default().settings(settings);
    let script = "echo ready; [ $LOCKKEEPER_ENVIRONMENT = review-2 ] || sleep 600";
    let mut site = Site::start(setup, json!([stage("only", script)])).await;
    let session = site.claim().await;
    let running = site.deploy(&session).await;
    site.until_printed(&running, "ready").await;
    let waiting = site.admin.claim("review-2", json!({ "commitId": "c0ffee1" })).await.created().data();
    let waiting = waiting["deployments"][0]["deploymentId"].as_str().unwrap().to_owned();
    let found = site.deployment(&waiting).await;
    assert_eq!((&found["status"], &found["stages"][0]["status"]), (&json!("running"), &json!("queued")));
    site.server.kill();
    site.start_again();
    let done = site.finished(&waiting).await;
    assert_eq!((&done["status"], &done["stages"][0]["attempt"]), (&json!("succeeded"), &json!(1)), "it had not begun");
    assert!(site.finished(&running).await["error"].as_str().unwrap().starts_with("interrupted: "));
}

#[tokio::test]
async fn a_reset_that_a_kill_has_cut_off_takes_the_environment_out_of_service_and_says_why() {
    let script = "[ $LOCKKEEPER_COMMIT = main ] || exit 0; echo $$ > $TRACE; sleep 600";
    let mut site = Site::with(json!([stage("only", script)])).await;
    let reset = json!({ "onRelease": { "commitId": "main" } });
    site.admin.put(&crate::support::at(ENVIRONMENT), reset.clone()).await.ok();
    let session = site.claim().await;
    site.admin.release(ENVIRONMENT, &session).await.ok();
    let environment = crate::support::at(ENVIRONMENT);
    let resetting = site.admin.environment(ENVIRONMENT).await.data();
    assert_eq!(resetting["lockStatus"], "resetting");
    let deployment = resetting["currentDeployment"]["deploymentId"].as_str().unwrap().to_owned();
    site.until(&deployment, |found| found["stages"][0]["status"] == "running").await;
    site.server.kill();
    site.start_again();
    let found = site.admin.until(&environment, |found| found["lockStatus"] != "resetting").await;
    assert_eq!(found["lockStatus"], "disabled");
    assert!(found["disabledReason"].as_str().unwrap().contains("interrupted: "), "{found:#}");
    assert_eq!(site.deployment(&deployment).await["sessionId"], serde_json::Value::Null);
    // The member who repairs it puts it back into service.
    site.admin.put(&environment, reset).await.ok();
    site.claim().await;
}

#[tokio::test]
async fn a_start_that_cannot_have_its_address_leaves_deployments_alone() {
    let mut site = Site::with(json!([stage("long", "echo ready; sleep 600")])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    site.server.kill();
    let before = site.server.log();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = crate::support::lockkeeper(&["serve", "--listen", &address, "--config"]);
    command.arg(site.server.home().join("settings.toml")).arg("--data-dir").arg(site.server.data_dir());
    let refused = command.output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("cannot listen on") && !told.contains("resumed unfinished deployments"), "{told}");
    site.start_again();
    assert!(site.server.log()[before.len()..].contains("resumed unfinished deployments"));
    assert!(site.finished(&deployment).await["error"].as_str().unwrap().starts_with("interrupted: "));
}
