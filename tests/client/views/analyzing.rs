//! `analyze`: the cause of a failure, and a fix on a branch.

use std::process::Command;

use serde_json::json;

use super::{deploy, finished, put_stages};
use crate::program::User;
use crate::support::Server;

#[tokio::test]
async fn a_failure_is_explained_with_its_evidence() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let script = "test $LOCKKEEPER_COMMIT = good1 || frobnicate --all";
    put_stages(&server, json!([{ "name": "build", "steps": [{ "run": ["sh", "-c", script] }] }])).await;
    let good = deploy(&admin, "good1").await;
    finished(&admin, &good).await;
    user.run(&["analyze", &good]).with_code(1).complains("nothing to analyse");
    admin.delete("/pipelines/web/ephemeral-environments/review-1/lock").await.ok();
    let bad = deploy(&admin, "bad1").await;
    finished(&admin, &bad).await;
    let shown = user.run(&["analyze", "review-1"]).ok();
    let shown = shown.says("the command `frobnicate` is not installed").says("category:     missing command");
    shown
        .says("Evidence:\n  build/step-1 line 1")
        .says("last success: good1")
        .says("Suggested fix: install `frobnicate`");
    let analysis = user.json(&["analyze", &bad, "--engine", "builtin"]);
    assert_eq!((&analysis["status"], &analysis["deploymentId"]), (&json!("completed"), &json!(bad)));
    user.run(&["analyze", &bad, "--engine", "nope"]).with_code(2);
    user.run(&["analyze", &bad, "--draft"]).with_code(2);
    user.run(&["analyze", "dep_000000000000000000000000"]).with_code(66);
    User::member(&server, "vic").await.run(&["analyze", &bad]).with_code(77);
}

#[tokio::test]
async fn a_fix_is_proposed_on_a_branch() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let (seed, remote) = (server.home().join("seed"), server.home().join("remote.git"));
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        let ran = Command::new("git").args(who).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
    };
    let (seed, remote) = (seed.to_str().unwrap(), remote.to_str().unwrap());
    git(&["init", "-q", "-b", "main", seed]);
    git(&["-C", seed, "commit", "-q", "--allow-empty", "-m", "begin"]);
    git(&["clone", "-q", "--bare", seed, remote]);
    let repository = json!({ "provider": "git", "url": format!("file://{remote}"), "defaultBranch": "main" });
    let stages = json!([{ "name": "build", "steps": [{ "run": ["sh", "-c", "frobnicate"] }] }]);
    admin.put("/pipelines/web", json!({ "stages": stages, "repository": repository })).await.ok();
    let deployment = deploy(&admin, "bad1").await;
    finished(&admin, &deployment).await;
    user.run(&["analyze", &deployment, "--fix", "--branch", "fix/missing-tool"])
        .ok()
        .says("Pull request: ")
        .says("(branch fix/missing-tool)");
    let branches = Command::new("git").args(["-C", remote, "branch", "--list"]).output().unwrap();
    assert!(String::from_utf8(branches.stdout).unwrap().contains("fix/missing-tool"));
}
