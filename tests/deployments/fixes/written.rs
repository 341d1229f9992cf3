//! Patches that the builtin analysis writes itself, from the log and the files of the repository.

use serde_json::json;

use super::harness::{Harness, branch};

const NO_SUCH_VERSION: &str = "\
Collecting flask==3.0.0
ERROR: Could not find a version that satisfies the requirement requests==99.0 (from versions: 2.31.0, 2.32.0, 3.0.0b1)
ERROR: No matching distribution found for requests==99.0";

#[tokio::test]
async fn a_version_that_does_not_exist_is_replaced_and_the_fix_has_the_change() {
    let Some(harness) = Harness::printing(NO_SUCH_VERSION).await else { return };
    harness.push_file("requirements.txt", "flask==3.0.0\nrequests==99.0\n");
    let analysis = harness.analysis().await;
    assert_eq!(analysis["engine"], "builtin");
    let fix = &analysis["suggestedFix"];
    let summary = "Replace 99.0, which does not exist, by 2.32.0 as the version of requests in requirements.txt.";
    assert_eq!(fix["summary"], summary, "{analysis:#}");
    let patch = fix["patch"].as_str().unwrap();
    assert!(patch.ends_with("@@ -1,2 +1,2 @@\n flask==3.0.0\n-requests==99.0\n+requests==2.32.0\n"), "{patch}");
    harness.propose(&analysis, json!({})).await.created();
    let name = branch(&analysis);
    assert_eq!(harness.git(&format!("diff --name-only main {name}")), "requirements.txt");
    assert_eq!(harness.git(&format!("show {name}:requirements.txt")), "flask==3.0.0\nrequests==2.32.0");
}

#[tokio::test]
async fn without_a_file_that_it_fits_there_is_no_patch_but_the_advice() {
    let Some(harness) = Harness::printing(NO_SUCH_VERSION).await else { return };
    // Also for a link, which could point anywhere.
    harness.sh("echo requests==99.0 > outside.txt && ln -s ../outside.txt clone/requirements-dev.txt");
    harness.push_file("requirements.txt", "requests>=99\n");
    let analysis = harness.analysis().await;
    assert!(analysis["suggestedFix"]["summary"].is_string(), "{analysis:#}");
    assert!(analysis["suggestedFix"]["patch"].is_null(), "{analysis:#}");
}

#[tokio::test]
async fn a_patch_that_would_show_a_secret_is_not_shown() {
    let Some(harness) = Harness::printing(NO_SUCH_VERSION).await else { return };
    harness.secret("INDEX_TOKEN", "hunter2-hunter2").await;
    let index = "--extra-index-url https://ci:hunter2-hunter2@packages.example/simple";
    harness.push_file("requirements.txt", &format!("{index}\nrequests==99.0\n"));
    let analysis = harness.analysis().await;
    assert!(analysis["suggestedFix"]["patch"].is_null(), "{analysis:#}");
    assert!(!analysis.to_string().contains("hunter2"), "{analysis:#}");
}
