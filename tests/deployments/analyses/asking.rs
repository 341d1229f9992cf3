//! Requesting, reading and listing analyses.

use reqwest::Method;
use serde_json::{Value, json};

use super::{analysed, ask, deployed, ended, failed, path_of};
use crate::site::{ENVIRONMENT, Site, id, stage};
use crate::support::waiting::column;
use crate::support::{ADMIN_TOKEN, Server, Setup, assert_fields, assert_has, assert_is_time};

const FIELDS: &str = "analysisId deploymentId pipelineId envName status engine rootCause confidence suggestedFix \
                      comparedWith alternatives pullRequest requestedBy createdAt completedAt error";

#[tokio::test]
async fn an_analysis_is_accepted_and_can_be_watched_until_it_is_completed() {
    let site = Site::with(json!([stage("build", "echo compiling; no-such-command-here --version")])).await;
    let deployment = failed(&site).await;
    let accepted = ask(&site, &deployment, json!({})).await;
    // It may have ended at the moment of the answer, but not before.
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let begun = accepted.data();
    assert_fields(&begun, FIELDS);
    assert_has(&begun, json!({ "deploymentId": deployment, "pipelineId": "web", "envName": ENVIRONMENT }));
    assert_has(&begun, json!({ "status": "running", "engine": "builtin", "rootCause": null, "completedAt": null }));
    assert_eq!(accepted.header("location"), site.admin.path(&path_of(&begun)));
    let done = ended(&site, &begun).await;
    assert_fields(&done, FIELDS);
    assert_has(&done, json!({ "status": "completed", "engine": "builtin", "error": null, "pullRequest": null }));
    assert_has(&done["requestedBy"], json!({ "name": "admin" }));
    assert_is_time(&done["createdAt"]);
    assert_is_time(&done["completedAt"]);
    assert_fields(&done["rootCause"], "category summary evidence");
    let confidence = done["confidence"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&confidence), "{done:#}");
    let found = site.admin.get(&path_of(&done)).await.ok();
    let again = site.admin.request(Method::GET, &site.admin.path(&path_of(&done)));
    site.admin.send(again.header("If-None-Match", found.header("etag"))).await.has_status(304);
}

#[tokio::test]
async fn an_analysis_that_ends_in_time_is_answered_with_its_end() {
    let site = Site::with(json!([stage("build", "exit 3")])).await;
    let deployment = failed(&site).await;
    let done = ask(&site, &deployment, json!({ "waitSeconds": 60, "engine": "builtin" })).await.has_status(200);
    assert_eq!(done.data()["status"], "completed");
    assert_eq!(done.header("location"), site.admin.path(&path_of(&done.data())));
    assert_eq!(site.admin.get(&path_of(&done.data())).await.ok().data(), done.data());
}

#[tokio::test]
async fn what_is_sent_again_under_its_key_makes_no_second_analysis() {
    let mut site = Site::with(json!([stage("build", "exit 3")])).await;
    let place = format!("/deployments/{}/analyses", failed(&site).await);
    let body = json!({ "waitSeconds": 60 });
    let first = site.admin.post_with_key(&place, "once", body.clone()).await.has_status(200);
    let again = site.admin.post_with_key(&place, "once", body.clone()).await.has_status(200);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((again.data(), again.header("location")), (first.data(), first.header("location")));
    site.admin.post_with_key(&place, "once", json!({})).await.refused(422, "idempotency_key_reused");
    site.server.kill();
    site.start_again();
    let after = site.admin.post_with_key(&place, "once", body).await.has_status(200);
    assert_eq!(after.data(), first.data());
    assert_eq!(site.admin.get(&place).await.json()["pagination"]["total"], 1);
}

#[tokio::test]
async fn only_a_deployment_that_failed_is_looked_into() {
    let script = "case $LOCKKEEPER_COMMIT in good) ;; *) while [ ! -e $TRACE ]; do sleep 0.05; done;; esac";
    let site = Site::with(json!([stage("build", script)])).await;
    let session = site.claim().await;
    let succeeded = deployed(&site, &session, "good").await["deploymentId"].as_str().unwrap().to_owned();
    let refused = ask(&site, &succeeded, json!({})).await.refused(409, "deployment_not_failed");
    assert_eq!(refused.json()["deploymentStatus"], "succeeded");
    let body = json!({ "commitId": "slow" });
    let running = id(&site.admin.deploy(ENVIRONMENT, &session, body).await.has_status(202));
    site.until_status(&running, "running").await;
    ask(&site, &running, json!({})).await.refused(409, "deployment_not_failed");
    site.stage(&running, "build", "cancel").await;
    site.until_status(&running, "cancelled").await;
    let refused = ask(&site, &running, json!({})).await.refused(409, "deployment_not_failed");
    assert!(refused.json()["detail"].as_str().unwrap().contains("cancelled"), "{refused:?}");
    ask(&site, "dep_000000000000000000000000", json!({})).await.refused(404, "deployment_not_found");
    ask(&site, "nonsense", json!({})).await.refused(404, "deployment_not_found");
}

#[tokio::test]
async fn analyses_are_listed_newest_first_and_by_what_they_are_of() {
    let site = Site::with(json!([stage("build", "exit 3")])).await;
    let session = site.claim().await;
    let mut made = Vec::new();
    for _ in 0..2 {
        let deployment = deployed(&site, &session, "c0ffee1").await["deploymentId"].as_str().unwrap().to_owned();
        made.push((deployment.clone(), analysed(&site, &deployment).await["analysisId"].clone()));
    }
    let (first, second) = (&made[0], &made[1]);
    let all = site.admin.get("/analyses").await.ok();
    assert_eq!(column(&all, "analysisId"), [second.1.clone(), first.1.clone()]);
    assert_eq!(all.json()["pagination"], json!({ "limit": 50, "offset": 0, "total": 2 }));
    for path in [format!("/analyses?deploymentId={}", first.0), format!("/deployments/{}/analyses", first.0)] {
        assert_eq!(column(&site.admin.get(&path).await.ok(), "analysisId"), std::slice::from_ref(&first.1));
    }
    let page = site.admin.get("/analyses?pipelineId=web&status=completed&limit=1&offset=1").await.ok();
    assert_eq!(column(&page, "analysisId"), std::slice::from_ref(&first.1));
    for none in ["/analyses?pipelineId=shop", "/analyses?status=failed", "/analyses?status=running"] {
        assert_eq!(column(&site.admin.get(none).await.ok(), "analysisId"), [Value::Null; 0]);
    }
    site.admin.get("/analyses?status=odd&colour=red").await.refused(400, "invalid_parameter");
    site.admin.get("/deployments/dep_000000000000000000000000/analyses").await.refused(404, "deployment_not_found");
    for unknown in ["/analyses/anl_000000000000000000000000", "/analyses/nonsense"] {
        site.admin.get(unknown).await.refused(404, "analysis_not_found");
    }
}

#[tokio::test]
async fn of_one_deployment_the_newest_twenty_analyses_are_kept() {
    let mut site = Site::with(json!([stage("build", "exit 3")])).await;
    let deployment = failed(&site).await;
    let first = analysed(&site, &deployment).await;
    for _ in 0..20 {
        analysed(&site, &deployment).await;
    }
    site.admin.get(&path_of(&first)).await.refused(404, "analysis_not_found");
    assert_eq!(site.admin.get("/analyses").await.json()["pagination"]["total"], 20);
    site.server.kill();
    site.start_again();
    analysed(&site, &deployment).await;
    assert_eq!(site.admin.get("/analyses").await.json()["pagination"]["total"], 20);
}

#[tokio::test]
async fn all_faults_of_a_request_are_told_at_once() {
    let site = Site::with(json!([stage("build", "exit 3")])).await;
    let deployment = failed(&site).await;
    let bad = json!({ "engine": "magic", "waitSeconds": 301, "colour": "red" });
    let mut fields = ask(&site, &deployment, bad).await.refused(422, "invalid_request").faulty_fields();
    fields.sort_unstable();
    assert_eq!(fields, ["colour", "engine", "waitSeconds"]);
    let refused = ask(&site, &deployment, json!({ "engine": "llm" })).await.refused(422, "invalid_request");
    assert!(refused.text.contains("analysis.llm_url"), "{refused:?}");
}

#[tokio::test]
async fn where_analysis_is_off_none_is_begun_and_those_there_are_can_be_read() {
    let mut site = Site::with(json!([stage("build", "exit 3")])).await;
    let deployment = failed(&site).await;
    let before = analysed(&site, &deployment).await;
    site.server.terminate();
    site.server.change_setup(|setup| setup.variable("LOCKKEEPER_ANALYSIS_ENGINE", "off"));
    site.start_again();
    ask(&site, &deployment, json!({})).await.refused(409, "analysis_disabled");
    assert_eq!(site.admin.get(&path_of(&before)).await.ok().data(), before);
}

#[tokio::test]
async fn another_organization_does_not_see_them() {
    let beta = "organization = { id = \"beta\" }\nmembers = [{ name = \"bea\", role = \"admin\" }]\n";
    let acme = include_str!("../../../config/acme.toml");
    // The bootstrap token belongs to the first organization.
    let setup = Setup::default().organization(acme).organization(beta);
    let mut site = Site::start(setup, json!([stage("build", "exit 3")])).await;
    let deployment = failed(&site).await;
    let analysis = analysed(&site, &deployment).await;
    site.server.terminate();
    let home = site.server.home().to_owned();
    let server: Server = Setup::default().organization(beta).organization(acme).start_at(&home);
    let bea = server.with_token(ADMIN_TOKEN).in_organization("beta");
    assert_eq!(bea.get("/analyses").await.ok().data(), json!([]));
    bea.get(&path_of(&analysis)).await.refused(404, "analysis_not_found");
    let place = format!("/deployments/{deployment}/analyses");
    bea.post(&place, json!({})).await.refused(404, "deployment_not_found");
    bea.post(&format!("{}/fix-pull-request", path_of(&analysis)), json!({})).await.refused(404, "analysis_not_found");
}
