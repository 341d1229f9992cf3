//! Obstacles to a fix, and the resulting errors.

use serde_json::{Value, json};

use super::harness::{Harness, branch, place};
use crate::site::{Site, stage};
use crate::support::Setup;
use crate::support::model::setup;
use crate::support::recorded::{Recorded, Request, Response};

#[tokio::test]
async fn the_default_branch_is_never_pushed_to_whoever_names_it() {
    let Some(harness) = Harness::new().await else { return };
    let (analysis, main) = (harness.analysis().await, harness.git("rev-parse main"));
    let refused = harness.propose(&analysis, json!({ "branch": "main" })).await.refused(422, "invalid_request");
    assert_eq!(refused.faulty_fields(), ["branch"]);
    // The pipeline's default branch differs from the remote's.
    harness.sh("cd clone && git push -q origin HEAD:refs/heads/develop");
    harness.put_repository(json!({ "defaultBranch": "develop" })).await;
    // Also in the spelling of servers that ignore letter case.
    for name in ["main", "develop", "Main", "DEVELOP"] {
        let refused = harness.propose(&analysis, json!({ "branch": name })).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["branch"]);
    }
    assert_eq!((harness.git("rev-parse main"), harness.git("rev-parse develop")), (main.clone(), main));
    assert_eq!(harness.branches(), ["develop", "main"]);
}

#[tokio::test]
async fn a_branch_of_somebody_else_is_left_alone() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    let name = branch(&analysis);
    harness.sh(&format!("cd clone && git push -q origin HEAD:refs/heads/{name}"));
    let theirs = harness.git(&format!("rev-parse {name}"));
    harness.propose(&analysis, json!({})).await.refused(409, "branch_exists");
    assert_eq!(harness.git(&format!("rev-parse {name}")), theirs);
    let made = harness.propose(&analysis, json!({ "branch": "another" })).await.created().data();
    assert_eq!(made["branch"], "another");
}

#[tokio::test]
async fn a_remote_that_refuses_is_told_and_asked_again_takes_it() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    harness.hook("pre-receive", "echo 'no fixes on Sundays' >&2; exit 1");
    let refused = harness.propose(&analysis, json!({})).await.refused(502, "remote_failed").json();
    assert_eq!(refused["reason"], "refused");
    assert!(refused["detail"].as_str().unwrap().contains("pre-receive hook declined"), "{refused}");
    assert_eq!(harness.read(&analysis).await["pullRequest"], Value::Null);
    harness.hook("pre-receive", "exit 0");
    harness.propose(&analysis, json!({})).await.created();
}

#[tokio::test]
async fn a_remote_that_is_gone_or_has_no_such_branch_is_told() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    for wrong in [json!({ "url": "file:///nowhere/shop.git" }), json!({ "defaultBranch": "gone" })] {
        harness.put_repository(wrong).await;
        let refused = harness.propose(&analysis, json!({})).await.refused(502, "remote_failed").json();
        assert_eq!(refused["reason"], "not_found", "{refused}");
    }
    let log = harness.site.server.log();
    assert!(log.contains("remote_failed") && !log.contains("ERROR"), "no operator can mend it: {log}");
}

#[tokio::test]
async fn what_is_in_the_way_of_the_document_is_told() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    harness
        .sh("cd clone && ln -s /tmp .lockkeeper && git add -A && git commit -qm link && git push -q origin HEAD:main");
    let refused = harness.propose(&analysis, json!({})).await.refused(409, "repository_unusable").json();
    assert!(refused["detail"].as_str().unwrap().contains(".lockkeeper/analyses/"), "{refused}");
    assert_eq!(harness.branches(), ["main"]);
}

#[tokio::test]
async fn a_pipeline_without_a_repository_or_its_credential_is_told_what_to_do() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    harness.put_pipeline(Value::Null).await;
    let refused = harness.propose(&analysis, json!({})).await.refused(409, "repository_missing").json();
    assert!(refused["detail"].as_str().unwrap().contains("PUT"), "{refused}");
    harness.put_repository(json!({ "credential": "NO_SUCH_SECRET" })).await;
    let refused = harness.propose(&analysis, json!({})).await.refused(409, "credential_missing").json();
    assert!(refused["detail"].as_str().unwrap().contains("NO_SUCH_SECRET"), "{refused}");
    harness.put_repository(json!({ "provider": "github", "apiUrl": "http://127.0.0.1:9" })).await;
    harness.propose(&analysis, json!({})).await.refused(409, "credential_missing");
    harness.secret("GIT_TOKEN", "t").await;
    harness.put_repository(json!({ "provider": "github", "credential": "GIT_TOKEN" })).await;
    let refused = harness.propose(&analysis, json!({})).await.refused(409, "repository_unusable").json();
    assert!(refused["detail"].as_str().unwrap().contains("owner"), "{refused}");
    assert_eq!(harness.branches(), ["main"]);
}

#[tokio::test]
async fn repositories_of_this_machine_are_used_only_where_the_operator_allows_it() {
    let setup = Setup::default().variable("LOCKKEEPER_GIT_ALLOW_FILE_URLS", "false");
    let site = Site::start(setup, json!([stage("build", "exit 3")])).await;
    let repository = json!({ "provider": "git", "url": "file:///srv/shop.git" });
    let body = json!({ "stages": [stage("build", "exit 3")], "repository": repository });
    site.admin.put("/pipelines/web", body).await.ok();
    let deployment = site.run().await["deploymentId"].as_str().unwrap().to_owned();
    let asked = site.admin.post(&format!("/deployments/{deployment}/analyses"), json!({ "waitSeconds": 60 })).await;
    let refused = site.admin.post(&place(&asked.data()), json!({})).await.refused(409, "repository_unusable").json();
    assert!(refused["detail"].as_str().unwrap().contains("git.allow_file_urls"), "{refused}");
}

#[tokio::test]
async fn all_faults_of_a_request_are_told_at_once_and_unknown_analyses_are_not_found() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    let bad = json!({ "branch": "a..b", "title": "two\nlines", "draft": "yes", "colour": "red" });
    let mut fields = harness.propose(&analysis, bad).await.refused(422, "invalid_request").faulty_fields();
    fields.sort_unstable();
    assert_eq!(fields, ["branch", "colour", "draft", "title"]);
    for option in ["-f", "--upload-pack=x", "refs/heads/x", "HEAD"] {
        harness.propose(&analysis, json!({ "branch": option })).await.refused(422, "invalid_request");
    }
    let admin = &harness.site.admin;
    for unknown in ["anl_000000000000000000000000", "nonsense"] {
        let path = format!("/analyses/{unknown}/fix-pull-request");
        admin.post(&path, json!({})).await.refused(404, "analysis_not_found");
    }
}

#[tokio::test]
async fn an_analysis_that_still_runs_has_nothing_to_propose() {
    let model = Recorded::start(|_: Request| std::future::pending::<Response>()).await;
    let site = Site::start(setup(&model), json!([stage("build", "exit 3")])).await;
    let deployment = site.run().await["deploymentId"].as_str().unwrap().to_owned();
    let running = site.admin.post(&format!("/deployments/{deployment}/analyses"), json!({})).await.has_status(202);
    let refused = site.admin.post(&place(&running.data()), json!({})).await.refused(409, "analysis_not_completed");
    assert_eq!(refused.json()["analysisStatus"], "running");
}

#[tokio::test]
async fn a_server_without_git_says_what_its_operator_has_to_do() {
    let setup = Setup::default().variable("LOCKKEEPER_GIT_PROGRAM", "/nonexistent/git");
    let Some(harness) = Harness::start(setup).await else { return };
    let analysis = harness.analysis().await;
    let refused = harness.propose(&analysis, json!({})).await.refused(503, "git_unavailable");
    assert!(refused.json()["detail"].as_str().unwrap().contains("git.program"), "{refused:?}");
}
