//! Cancelled, released, taken over: a running deployment ends with everything it has started, and only then the next
//! one begins.

use serde_json::{Value, json};

use crate::site::{ENVIRONMENT, Site, id, is_alive, stage};
use crate::support::assert_has;

/// Ignores SIGTERM, and so do its children.
const STUBBORN: &str = "trap '' TERM; sleep 600 & echo $! >> $TRACE; echo ready; while :; do sleep 0.1; done";
/// Leaves a process behind in a separate session, whose parent is gone.
const DETACHING: &str = "(setsid sh -c 'echo $$ >> $TRACE; exec sleep 600' </dev/null >/dev/null 2>&1 &) ; \
                         while [ ! -s $TRACE ]; do sleep 0.05; done; echo ready; ";

#[tokio::test]
async fn a_step_that_ignores_term_is_killed_with_all_it_has_started() {
    let site = Site::with(json!([stage("stubborn", STUBBORN), stage("after", "echo never")])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    let cancelling = site.stage(&deployment, "stubborn", "cancel").await.has_status(202).data();
    assert_has(&cancelling, json!({ "status": "cancelling" }));
    assert_eq!(cancelling["stages"][0]["status"], "cancelling");
    let cancelled = site.finished(&deployment).await;
    assert_has(&cancelled, json!({ "status": "cancelled", "error": null }));
    assert_eq!(cancelled["stages"][0]["status"], "cancelled");
    assert_eq!(cancelled["stages"][1]["status"], "skipped");
    assert!(!is_alive(&site.traced()[0]));
    // Cancelling is idempotent, and an ended stage cannot be cancelled.
    site.stage(&deployment, "stubborn", "cancel").await.has_status(200);
    site.stage(&deployment, "after", "cancel").await.refused(409, "stage_not_running");
    site.stage(&deployment, "odd", "cancel").await.refused(404, "stage_not_found");
}

#[tokio::test]
async fn a_step_that_has_detached_a_process_does_not_outlive_its_end() {
    let site = Site::with(json!([stage("detach", DETACHING)])).await;
    let done = site.run().await;
    assert_eq!(done["status"], "succeeded");
    let traced = site.traced();
    assert_eq!(traced.len(), 1);
    assert!(!is_alive(&traced[0]), "it went on by itself");
}

#[tokio::test]
async fn a_detached_process_dies_with_a_step_that_is_cancelled() {
    let site = Site::with(json!([stage("detach", &format!("{DETACHING} sleep 600"))])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    site.stage(&deployment, "detach", "cancel").await.has_status(202);
    assert_eq!(site.finished(&deployment).await["status"], "cancelled");
    assert!(!is_alive(&site.traced()[0]));
}

/// Steps record their start, and then continuously that they are alive.
const TICKING: &str = "trap '' TERM; echo begin $LOCKKEEPER_COMMIT $(date +%s%N) >> $TRACE; echo ready; \
                       while :; do echo alive $LOCKKEEPER_COMMIT $(date +%s%N) >> $TRACE; sleep 0.02; done";
const QUICK: &str = "echo begin $LOCKKEEPER_COMMIT $(date +%s%N) >> $TRACE";

#[tokio::test]
async fn after_a_force_claim_the_next_deployment_begins_only_when_the_old_one_is_gone() {
    let script = format!("if [ $LOCKKEEPER_COMMIT = old ]; then {TICKING}; else {QUICK}; fi");
    let site = Site::with(json!([stage("only", &script)])).await;
    let session = site.admin.claim(ENVIRONMENT, json!({ "commitId": "old" })).await.created();
    let old = session.data()["deployments"][0]["deploymentId"].as_str().unwrap().to_owned();
    site.until_printed(&old, "ready").await;
    let ben = site.server.as_user("ben").await;
    let forced = ben.force_claim(ENVIRONMENT, json!({ "commitId": "new" })).await.created().data();
    let new = forced["deployments"][0]["deploymentId"].as_str().unwrap();
    assert_eq!(forced["deployments"][0]["status"], "queued", "the old one has not ended");
    assert_eq!(site.finished(new).await["status"], "succeeded");
    assert_eq!(site.deployment(&old).await["status"], "cancelled");

    let traced = site.traced();
    let time = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let last_of_old = traced.iter().filter(|line| line.contains(" old ")).map(|line| time(line)).max().unwrap();
    let first_of_new = traced.iter().filter(|line| line.contains(" new ")).map(|line| time(line)).min().unwrap();
    assert!(last_of_old < first_of_new, "both were there at once:\n{}", traced.join("\n"));
    let tokens = [&site.deployment(&old).await, &site.deployment(new).await].map(|found| found["fencingToken"].clone());
    assert_eq!(tokens, [1, 2]);
}

#[tokio::test]
async fn a_release_cancels_what_its_session_runs_and_what_it_has_queued() {
    let site = Site::with(json!([stage("long", "echo $$ >> $TRACE; echo ready; sleep 600")])).await;
    let session = site.claim().await;
    let running = site.deploy(&session).await;
    let queued = site.deploy(&session).await;
    site.until_printed(&running, "ready").await;
    let released = site.admin.release(ENVIRONMENT, &session).await.ok().data();
    assert_eq!(released["deployments"][1]["status"], "cancelled");
    assert_eq!(site.finished(&running).await["status"], "cancelled");
    assert_eq!(site.deployment(&queued).await["status"], "cancelled");
    assert_eq!(site.traced().len(), 1, "the second never ran");
    assert!(!is_alive(&site.traced()[0]));
    let ended = site.admin.session(ENVIRONMENT, &session).await.data();
    assert_eq!(ended["deployments"][0]["status"], "cancelled", "the history tells how it ended");
}

#[tokio::test]
async fn only_its_owner_or_a_maintainer_cancels_a_stage() {
    let site = Site::with(json!([stage("long", "sleep 600")])).await;
    let (ana, ben) = (site.server.as_user("ana").await, site.server.as_user("ben").await);
    let mia = site.server.as_user("mia").await;
    let session = ana.claim(ENVIRONMENT, json!({})).await.created().session();
    let path = |deployment: &str| format!("/deployments/{deployment}/stages/long/cancel");
    for (who, status) in [(&ana, 202), (&mia, 202)] {
        let deployed = ana.deploy(ENVIRONMENT, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
        let deployment = id(&deployed);
        ben.post(&path(&deployment), json!({})).await.refused(403, "not_session_holder");
        who.post(&path(&deployment), json!({})).await.has_status(status);
        site.finished(&deployment).await;
    }
    let vic = site.server.as_user("vic").await;
    let any = site.admin.get("/deployments").await.data()[0]["deploymentId"].clone();
    let refused = vic.post(&path(any.as_str().unwrap()), json!({})).await;
    refused.refused(403, "permission_denied");
}

#[tokio::test]
async fn a_deployment_that_waits_for_its_turn_is_cancelled_by_its_first_stage() {
    let site = Site::with(json!([stage("long", "sleep 600"), stage("next", "true")])).await;
    let session = site.claim().await;
    let first = site.deploy(&session).await;
    let second = site.deploy(&session).await;
    assert_eq!(site.deployment(&second).await["status"], "queued");
    site.stage(&second, "next", "cancel").await.refused(409, "stage_not_running");
    let cancelled = site.stage(&second, "long", "cancel").await.has_status(200).data();
    assert_has(&cancelled, json!({ "status": "cancelled", "startedAt": Value::Null }));
    site.stage(&first, "long", "cancel").await.has_status(202);
    assert_eq!(site.finished(&first).await["status"], "cancelled");
}
