//! Events of analyses and fixes, also after a kill.

use serde_json::{Value, json};

use super::harness::{Harness, branch, place};
use crate::support::assert_has;

/// The one event of this type.
async fn event(harness: &Harness, kind: &str) -> Value {
    let found = harness.site.admin.get(&format!("/events?type={kind}")).await.ok().data();
    let [event] = found.as_array().unwrap().as_slice() else { panic!("not one {kind}: {found:#}") };
    event.clone()
}

#[tokio::test]
async fn what_was_found_and_what_was_proposed_are_told_of_with_who_asked_for_it() {
    let Some(mut harness) = Harness::new().await else { return };
    let deployment = harness.failed().await;
    let (ana, mia) = (harness.site.server.as_user("ana").await, harness.site.server.as_user("mia").await);
    let asked = ana.post(&format!("/deployments/{deployment}/analyses"), json!({ "waitSeconds": 60 })).await;
    let analysis = asked.has_status(200).data();
    let made = mia.post(&place(&analysis), json!({})).await.created().data();
    harness.site.server.kill();
    harness.site.start_again();
    let (found, proposed) =
        (event(&harness, "analysis.completed").await, event(&harness, "pull_request.created").await);
    for (event, by) in [(&found, "ana"), (&proposed, "mia")] {
        assert_has(event, json!({ "pipelineId": "web", "envName": "review-1", "deploymentId": deployment }));
        assert_has(&event["actor"], json!({ "kind": "user", "name": by }));
        assert!(event["actor"]["tokenId"].as_str().unwrap().starts_with("tok_"), "{event:#}");
        assert_eq!(event["data"]["analysisId"], analysis["analysisId"]);
    }
    assert_has(&found["data"], json!({ "status": "completed", "engine": "builtin", "category": "missing_command" }));
    assert_eq!(found["at"], analysis["completedAt"]);
    assert_has(&proposed["data"], json!({ "branch": branch(&analysis), "url": made["url"] }));
    assert_eq!(proposed["at"], made["createdAt"]);
}
