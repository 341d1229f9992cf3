//! Findings of the builtin engine in real deployments.

use serde_json::{Value, json};

use super::{analysed, deployed, failed};
use crate::site::{Site, sh, stage, stage_with};
use crate::support::assert_has;

/// The log line that a piece of evidence refers to, read like any reader would.
async fn line_named(site: &Site, deployment: &str, evidence: &Value) -> String {
    let (stage, step) = (evidence["stage"].as_str().unwrap(), evidence["step"].as_str().unwrap());
    let log = site.admin.get(&format!("/deployments/{deployment}/logs?stage={stage}&step={step}")).await.ok().text;
    let number = usize::try_from(evidence["line"].as_u64().unwrap()).unwrap();
    log.lines().nth(number - 1).unwrap_or_else(|| panic!("no line {number} in {log}")).to_owned()
}

#[tokio::test]
async fn a_missing_command_is_found_in_the_line_that_says_so() {
    let build =
        json!({ "name": "build", "steps": [sh("echo first"), sh("echo second; echo third; frobnicate --all")] });
    let site = Site::with(json!([build])).await;
    let deployment = failed(&site).await;
    let analysis = analysed(&site, &deployment).await;
    assert_has(&analysis["rootCause"], json!({ "category": "missing_command" }));
    let evidence = &analysis["rootCause"]["evidence"][0];
    assert_has(evidence, json!({ "stage": "build", "step": "step-2", "line": 3 }));
    assert!(evidence["text"].as_str().unwrap().contains("frobnicate"), "{evidence}");
    assert_eq!(line_named(&site, &deployment, evidence).await, evidence["text"].as_str().unwrap());
    assert!(analysis["rootCause"]["summary"].as_str().unwrap().contains("frobnicate"), "{analysis:#}");
    assert!(analysis["confidence"].as_f64().unwrap() > 0.5, "{analysis:#}");
    assert!(!analysis["suggestedFix"]["summary"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_step_that_was_killed_a_time_out_and_a_program_that_is_not_there_are_told_apart() {
    let site = Site::with(json!([stage("run", "echo working; exit 137")])).await;
    let category = |analysis: &Value| analysis["rootCause"]["category"].as_str().unwrap().to_owned();
    let session = site.claim().await;
    let run = async |stages: Value| {
        site.put_stages(stages).await;
        let deployment = deployed(&site, &session, "c0ffee1").await;
        assert_eq!(deployment["status"], "failed", "{deployment:#}");
        analysed(&site, deployment["deploymentId"].as_str().unwrap()).await
    };
    let killed = run(json!([stage("run", "echo working; exit 137")])).await;
    assert!(["out_of_memory", "killed"].contains(&&*category(&killed)), "{killed:#}");
    let late = run(json!([stage_with("slow", "echo begun; sleep 600", json!({ "timeoutSeconds": 1 }))])).await;
    assert_eq!(category(&late), "timeout", "{late:#}");
    let absent = run(json!([{ "name": "one", "steps": [{ "run": ["no-such-program", "x"] }] }])).await;
    assert_eq!(category(&absent), "missing_command", "{absent:#}");
    let tests = run(json!([stage("test", "echo 'test result: FAILED. 3 passed; 1 failed'; exit 101")])).await;
    assert_eq!(category(&tests), "test_failure", "{tests:#}");
}

#[tokio::test]
async fn a_failure_is_compared_with_the_last_success_of_its_environment() {
    let script = "echo 'warning: connection refused, retrying'; [ $LOCKKEEPER_COMMIT = good ] || frobnicate";
    let site = Site::with(json!([stage("build", script)])).await;
    let session = site.claim().await;
    let first = deployed(&site, &session, "bad").await;
    let alone = analysed(&site, first["deploymentId"].as_str().unwrap()).await;
    assert_eq!(alone["comparedWith"], Value::Null);
    let good = deployed(&site, &session, "good").await;
    assert_eq!(good["status"], "succeeded");
    // A success in another environment is not considered.
    site.admin.claim("review-2", json!({ "commitId": "good" })).await.created();
    let second = deployed(&site, &session, "bad").await;
    let analysis = analysed(&site, second["deploymentId"].as_str().unwrap()).await;
    let expected = json!({ "deploymentId": good["deploymentId"], "commitId": "good" });
    assert_eq!(analysis["comparedWith"], expected);
    assert_has(&analysis["rootCause"], json!({ "category": "missing_command" }));
}

#[tokio::test]
async fn after_a_retry_the_lines_of_the_last_attempt_are_looked_at() {
    let script = "if [ -e $TRACE ]; then echo again; frobnicate; else touch $TRACE; echo 'bind: address already in use'; exit 1; fi";
    let site = Site::with(json!([stage("build", script)])).await;
    let deployment = failed(&site).await;
    site.stage(&deployment, "build", "retry").await;
    site.until(&deployment, |found| found["status"] == "failed" && found["stages"][0]["attempt"] == 2).await;
    let analysis = analysed(&site, &deployment).await;
    assert_has(&analysis["rootCause"], json!({ "category": "missing_command" }));
    let evidence = &analysis["rootCause"]["evidence"][0];
    assert_eq!(line_named(&site, &deployment, evidence).await, evidence["text"].as_str().unwrap());
}
