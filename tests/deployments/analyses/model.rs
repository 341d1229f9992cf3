//! The engine that asks a model, with a real server whose answers the test sets.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;

use super::{analysed, ask, ended, failed};
use crate::site::{Site, stage};
use crate::support::assert_has;
use crate::support::model::{finding, says, setup};
use crate::support::recorded::{Recorded, Request, Response};

#[tokio::test]
async fn a_model_is_asked_with_its_key_and_its_answer_is_the_finding() {
    let model = Recorded::start(|_: Request| async { says(&finding(None)) }).await;
    let site = Site::start(setup(&model), json!([stage("build", "echo '$TOKEN is not set'; exit 1")])).await;
    let deployment = failed(&site).await;
    let analysis = analysed(&site, &deployment).await;
    assert_has(&analysis, json!({ "status": "completed", "engine": "llm", "confidence": 0.5 }));
    let evidence = json!([{ "stage": "build", "step": "step-1", "line": 1, "text": "$TOKEN is not set" }]);
    let cause = json!({ "category": "missing_variable", "summary": "the answer of a model", "evidence": evidence });
    assert_eq!(analysis["rootCause"], cause);
    assert_eq!(analysis["suggestedFix"], json!({ "summary": "set it", "patch": null }));
    let asked = model.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((&*asked[0].method, &*asked[0].path), ("POST", "/v1/chat/completions"));
    assert_eq!(asked[0].header("authorization"), "Bearer sk-of-the-operator");
    assert_eq!(asked[0].json()["model"], "small");
    assert!(asked[0].body.contains("$TOKEN is not set"));
    let builtin = ask(&site, &deployment, json!({ "engine": "builtin", "waitSeconds": 60 })).await.has_status(200);
    assert_eq!(builtin.data()["engine"], "builtin");
    assert_eq!(model.asked().len(), 1, "the builtin asks nobody");
}

#[tokio::test]
async fn where_the_model_fails_the_builtin_answers_and_says_so() {
    let model = Recorded::start(|_: Request| async { Response::json(500, &json!({})) }).await;
    let site = Site::start(setup(&model), json!([stage("build", "frobnicate")])).await;
    let deployment = failed(&site).await;
    let analysis = analysed(&site, &deployment).await;
    assert_has(&analysis, json!({ "status": "completed", "engine": "builtin" }));
    assert_eq!(analysis["rootCause"]["category"], "missing_command");
    assert_eq!(model.asked().len(), 1);
    assert!(!site.server.log().contains("sk-of-the-operator"));
}

#[tokio::test]
async fn no_secret_goes_to_the_model_wherever_it_stands() {
    let model = Recorded::start(|_: Request| async { says(&finding(None)) }).await;
    let script = "echo \"pushing with $PUSH_KEY\"; echo plainly-written-secret; exit 1";
    let site = Site::start(setup(&model), json!([stage("build", script)])).await;
    for (name, value, pipeline) in [
        ("PUSH_KEY", "of-the-organization", None),
        ("PUSH_KEY", "of-the-pipeline-alone", Some("web")),
        ("OTHER", "plainly-written-secret", None),
    ] {
        let body = json!({ "name": name, "value": value, "pipelineId": pipeline });
        site.admin.post("/secrets", body).await.created();
    }
    let deployment = failed(&site).await;
    let analysis = analysed(&site, &deployment).await;
    assert_eq!(analysis["engine"], "llm", "{analysis:#}");
    let asked = model.asked();
    assert!(asked[0].body.contains("pushing with"), "{asked:?}");
    for secret in ["of-the-organization", "of-the-pipeline-alone", "plainly-written-secret"] {
        assert!(!asked[0].body.contains(secret), "{secret} in {asked:?}");
        assert!(!analysis.to_string().contains(secret), "{secret} in {analysis:#}");
    }
}

/// A model that answers only as often as permitted.
async fn reluctant_model() -> (Recorded, Arc<Semaphore>) {
    let leave = Arc::new(Semaphore::new(0));
    let held = leave.clone();
    let model = Recorded::start(move |_: Request| {
        let held = held.clone();
        async move {
            held.acquire().await.unwrap().forget();
            says(&finding(None))
        }
    });
    (model.await, leave)
}

#[tokio::test]
async fn a_crowd_is_told_to_come_again_and_those_who_were_accepted_are_served() {
    let (model, leave) = reluctant_model().await;
    let site = Site::start(setup(&model), json!([stage("build", "echo x; exit 1")])).await;
    let session = site.claim().await;
    let mut deployments = Vec::new();
    for _ in 0..2 {
        let deployment = super::deployed(&site, &session, "c0ffee1").await;
        deployments.push(deployment["deploymentId"].as_str().unwrap().to_owned());
    }
    let mut accepted = Vec::new();
    // Half of the organization's share: the rest is for other members.
    for deployment in deployments.iter().flat_map(|deployment| [deployment; 8]) {
        accepted.push(ask(&site, deployment, json!({})).await.has_status(202).data());
    }
    let refused = ask(&site, &deployments[0], json!({})).await.refused(503, "overloaded");
    assert!(!refused.header("retry-after").is_empty());
    leave.add_permits(accepted.len());
    for analysis in &accepted {
        assert_eq!(ended(&site, analysis).await["engine"], "llm");
    }
}

#[tokio::test]
async fn a_deployment_that_was_run_again_before_its_turn_came_is_not_looked_into() {
    let (model, leave) = reluctant_model().await;
    let script = "echo x; [ $LOCKKEEPER_COMMIT = second ] && [ -e $TRACE ]";
    let site = Site::start(setup(&model), json!([stage("build", script)])).await;
    let session = site.claim().await;
    let first = super::deployed(&site, &session, "first").await["deploymentId"].as_str().unwrap().to_owned();
    let second = super::deployed(&site, &session, "second").await["deploymentId"].as_str().unwrap().to_owned();
    // As many as run concurrently, and one that waits for its turn.
    let mut before = Vec::new();
    for _ in 0..4 {
        before.push(ask(&site, &first, json!({})).await.has_status(202).data());
    }
    let waiting = ask(&site, &second, json!({})).await.has_status(202).data();
    std::fs::write(&site.trace, "").unwrap();
    site.stage(&second, "build", "retry").await;
    site.until_status(&second, "succeeded").await;
    leave.add_permits(before.len());
    let failed = ended(&site, &waiting).await;
    assert_has(&failed, json!({ "status": "failed", "rootCause": null, "confidence": null, "suggestedFix": null }));
    assert!(failed["error"].as_str().unwrap().contains("was retried"), "{failed:#}");
    for analysis in &before {
        assert_eq!(ended(&site, analysis).await["status"], "completed");
    }
    assert_eq!(model.asked().len(), before.len());
    let place = format!("{}/fix-pull-request", super::path_of(&failed));
    let refused = site.admin.post(&place, json!({})).await.refused(409, "analysis_not_completed");
    assert_eq!(refused.json()["analysisStatus"], "failed");
}
