//! The pushed branch, and the answer.

use serde_json::{Value, json};

use super::harness::{Harness, branch, place};
use crate::support::{Setup, assert_fields, assert_is_time};

const PATCH: &str =
    "--- a/settings.toml\n+++ b/settings.toml\n@@ -1,2 +1,2 @@\n-retries = 1\n+retries = 3\n timeout = 5\n";

#[tokio::test]
async fn without_a_patch_a_branch_with_the_analysis_as_a_document_is_pushed() {
    let Some(harness) = Harness::new().await else { return };
    let main = harness.git("rev-parse main");
    let analysis = harness.analysis().await;
    let made = harness.propose(&analysis, json!({})).await.created();
    let pull_request = made.data();
    assert_fields(&pull_request, "analysisId url branch number createdAt");
    let name = branch(&analysis);
    assert_eq!(pull_request["branch"], name);
    assert_eq!(pull_request["url"], format!("{}#{name}", harness.url()));
    assert_eq!((&pull_request["number"], &pull_request["analysisId"]), (&Value::Null, &analysis["analysisId"]));
    assert_is_time(&pull_request["createdAt"]);
    let (id, deployment) = (analysis["analysisId"].as_str().unwrap(), analysis["deploymentId"].as_str().unwrap());
    assert_eq!(made.header("location"), harness.site.admin.path(&format!("/analyses/{id}")));
    assert_eq!(harness.git(&format!("rev-parse {name}~1")), main, "one commit above the default branch");
    assert_eq!(harness.git("rev-parse main"), main);
    let file = format!(".lockkeeper/analyses/{id}.md");
    assert_eq!(harness.git(&format!("diff --name-only main {name}")), file);
    let document = harness.git(&format!("show {name}:{file}"));
    for part in [
        &format!("# Why {deployment} failed"),
        "- Category: `missing_command`",
        "Stage `build`, step `step-1`, line 2:",
        "frobnicate",
    ] {
        assert!(document.contains(part), "{part} in {document}");
    }
    let message = harness.git(&format!("log -1 --format=%an%n%B {name}"));
    let expected = format!(
        "Lockkeeper\nFix the failed deployment of acme/web/review-1 (missing_command)\n\n\
         Lockkeeper-Deployment: {deployment}\nLockkeeper-Analysis: {id}"
    );
    assert_eq!(message.trim_end(), expected);
    let shown = harness.read(&analysis).await["pullRequest"].clone();
    assert_fields(&shown, "url branch number createdAt");
    assert_eq!((&shown["url"], &shown["createdAt"]), (&pull_request["url"], &pull_request["createdAt"]));
}

#[tokio::test]
async fn a_patch_is_applied_to_what_the_default_branch_has_now() {
    let Some(harness) = Harness::suggesting(PATCH).await else { return };
    let analysis = harness.analysis().await;
    assert_eq!(analysis["suggestedFix"]["patch"], PATCH, "{analysis:#}");
    harness.sh("cd clone && echo later > other && git add -A && git commit -qm later && git push -q origin HEAD:main");
    let body = json!({ "branch": "fix/retries", "title": "Try three times" });
    let made = harness.propose(&analysis, body).await.created().data();
    assert_eq!(made["branch"], "fix/retries");
    assert_eq!(harness.git("show fix/retries:settings.toml"), "retries = 3\ntimeout = 5");
    assert_eq!(harness.git("diff --name-only main fix/retries"), "settings.toml");
    assert_eq!(harness.git("rev-parse fix/retries~1"), harness.git("rev-parse main"));
    assert_eq!(harness.git("log -1 --format=%s fix/retries"), "Try three times");
}

#[tokio::test]
async fn a_patch_that_does_not_apply_is_not_shown() {
    let elsewhere = PATCH.replace("retries = 1", "retries = 2");
    let Some(harness) = Harness::suggesting(&elsewhere).await else { return };
    let analysis = harness.analysis().await;
    assert!(analysis["suggestedFix"]["summary"].is_string(), "{analysis:#}");
    assert!(analysis["suggestedFix"]["patch"].is_null(), "{analysis:#}");
    harness.propose(&analysis, json!({})).await.created();
    let changed = harness.git(&format!("diff --name-only main {}", branch(&analysis)));
    assert_eq!(changed, format!(".lockkeeper/analyses/{}.md", analysis["analysisId"].as_str().unwrap()));
}

#[tokio::test]
async fn a_patch_that_no_longer_applies_lies_beside_the_document_that_says_why() {
    let Some(harness) = Harness::suggesting(PATCH).await else { return };
    let analysis = harness.analysis().await;
    assert_eq!(analysis["suggestedFix"]["patch"], PATCH, "{analysis:#}");
    harness.sh("cd clone && echo retries=7 > settings.toml && git commit -qam later && git push -q origin HEAD:main");
    harness.propose(&analysis, json!({})).await.created();
    let (name, id) = (branch(&analysis), analysis["analysisId"].as_str().unwrap());
    let folder = ".lockkeeper/analyses";
    let changed = harness.git(&format!("diff --name-only main {name}"));
    assert_eq!(changed, format!("{folder}/{id}.md\n{folder}/{id}.patch"));
    assert_eq!(harness.git(&format!("show {name}:{folder}/{id}.patch")), PATCH.trim_end());
    let document = harness.git(&format!("show {name}:{folder}/{id}.md"));
    assert!(document.contains("It was not applied:") && document.contains("does not apply"), "{document}");
}

#[tokio::test]
async fn a_patch_of_what_build_servers_run_is_left_for_people_to_look_at() {
    // Git drops the first directory of a name, whatever it is.
    for first in ["b", "elsewhere"] {
        let workflow = format!("--- /dev/null\n+++ {first}/.github/workflows/ci.yml\n@@ -0,0 +1 @@\n+on: push\n");
        let Some(harness) = Harness::suggesting(&workflow).await else { return };
        let analysis = harness.analysis().await;
        harness.propose(&analysis, json!({})).await.created();
        let changed = harness.git(&format!("diff --name-only main {}", branch(&analysis)));
        assert!(!changed.contains("workflows") && changed.contains(".patch"), "{changed}");
        let id = analysis["analysisId"].as_str().unwrap();
        let document = harness.git(&format!("show {}:.lockkeeper/analyses/{id}.md", branch(&analysis)));
        assert!(document.contains("it changes .github/workflows/ci.yml"), "{document}");
    }
}

#[tokio::test]
async fn an_analysis_has_one_pull_request_however_often_and_at_once_it_is_asked_for() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    let ask = || harness.propose(&analysis, json!({}));
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    let mut statuses: Vec<_> = [&a, &b, &c].iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201], "{a:?} {b:?} {c:?}");
    assert_eq!((a.data(), b.data()), (b.data(), c.data()));
    let other = harness.propose(&analysis, json!({ "branch": "another" })).await.has_status(200);
    assert_eq!(other.data(), a.data(), "it has one already");
    assert_eq!(harness.branches(), [branch(&analysis), "main".to_owned()]);
}

#[tokio::test]
async fn what_is_sent_again_under_its_key_gets_its_first_answer() {
    let Some(harness) = Harness::new().await else { return };
    let (analysis, admin) = (harness.analysis().await, &harness.site.admin);
    let first = admin.post_with_key(&place(&analysis), "once", json!({})).await.created();
    let again = admin.post_with_key(&place(&analysis), "once", json!({})).await.created();
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((again.data(), again.header("location")), (first.data(), first.header("location")));
}

#[tokio::test]
async fn what_has_become_a_secret_since_does_not_leave_in_a_document() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    assert!(analysis.to_string().contains("frobnicate"));
    harness.secret("TOOL", "frobnicate").await;
    harness.propose(&analysis, json!({})).await.created();
    let pushed = harness.git(&format!("show {}", branch(&analysis)));
    assert!(pushed.contains("***") && !pushed.contains("frobnicate"), "{pushed}");
}

#[tokio::test]
async fn a_fix_that_takes_long_is_accepted_and_seen_at_the_analysis_when_it_is_there() {
    let setup = Setup::default().variable("LOCKKEEPER_HTTP_ANSWER_TIMEOUT_SECONDS", "1");
    let Some(harness) = Harness::start(setup).await else { return };
    let analysis = harness.analysis().await;
    harness.sh("mkfifo acme/shop.git/wait");
    harness.hook("pre-receive", "read go < wait; exit 0");
    let accepted = harness.propose(&analysis, json!({})).await.has_status(202);
    assert_eq!(accepted.data()["pullRequest"], Value::Null);
    let place = format!("/analyses/{}", analysis["analysisId"].as_str().unwrap());
    assert_eq!(accepted.header("location"), harness.site.admin.path(&place));
    harness.sh("echo go > acme/shop.git/wait");
    let seen = harness.site.admin.until(&place, |found| found["pullRequest"] != Value::Null).await;
    assert_eq!(seen["pullRequest"]["branch"], branch(&analysis));
}
