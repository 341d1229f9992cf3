//! Every kind of change leaves its event, in the name of whoever made it.
//!
//! A scene makes changes of some kinds over the API and says which events they should have left. To add one, write its
//! function and call it below.

#[path = "kinds/cast.rs"]
mod cast;
#[path = "kinds/configuring.rs"]
mod configuring;
#[path = "kinds/deployments.rs"]
mod deployments;
#[path = "kinds/outside.rs"]
mod outside;
#[path = "kinds/sessions.rs"]
mod sessions;

use std::collections::BTreeSet;

use lockkeeper::domain::Notice;
use serde_json::{Value, json};

use self::cast::{Cast, Expected, system};
use super::all_events;

/// Kinds of changes that take a git, which a machine may not have.
const WITH_GIT: &[&str] = &[
    "registry.created",
    "registry.updated",
    "registry.synced",
    "registry.deleted",
    "analysis.completed",
    "pull_request.created",
];

#[tokio::test]
async fn every_kind_of_change_leaves_its_event() {
    let cast = Cast::assemble().await;
    let mut expected = vec![system("environment.created").at("web", "review-1")];
    expected.extend(environments(&cast).await);
    expected.extend(sessions::ends(&cast).await);
    expected.extend(sessions::queue(&cast).await);
    expected.extend(sessions::any(&cast).await);
    expected.extend(deployments::without_stages(&cast).await);
    expected.extend(deployments::approved(&cast).await);
    expected.extend(deployments::rejected_and_retried(&cast).await);
    expected.extend(deployments::cancelled(&cast).await);
    expected.extend(configuring::pipelines(&cast).await);
    expected.extend(configuring::secrets(&cast).await);
    expected.extend(configuring::people(&cast).await);
    expected.extend(outside::webhooks(&cast).await);
    let has_git = std::process::Command::new("git").arg("--version").output().is_ok();
    if has_git {
        expected.extend(outside::registries(&cast).await);
        expected.extend(outside::fixes(&cast).await);
    } else {
        println!("skipped: git is not installed, so {} were not made", WITH_GIT.join(", "));
    }

    let events = all_events(&cast.mia.client, "").await;
    for expected in &expected {
        expected.check(&events);
    }
    let seen: BTreeSet<_> = expected.iter().map(|expected| expected.kind).collect();
    let known = Notice::ALL.iter().map(|notice| notice.as_str());
    let missing: Vec<_> = known.filter(|kind| !seen.contains(kind)).collect();
    let skipped = if has_git { &[] } else { WITH_GIT };
    assert_eq!(missing, skipped, "a kind is without a scene");
}

async fn environments(cast: &Cast) -> Vec<Expected> {
    let place = "/pipelines/web/ephemeral-environments/made";
    let made = cast.mia.act("PUT", place, json!({ "description": "new" })).await;
    let changed = cast.mia.act("PUT", place, json!({ "description": "newer" })).await;
    // What changes nothing is no event.
    let same = cast.mia.act("PUT", place, json!({ "description": "newer" })).await;
    let deleted = cast.mia.act("DELETE", place, Value::Null).await;
    let events = all_events(&cast.mia.client, "&envName=made").await;
    assert!(events.iter().all(|event| event["requestId"] != same.request), "{events:#?}");
    vec![
        made.by("environment.created").at("web", "made"),
        changed.by("environment.updated").at("web", "made"),
        deleted.by("environment.deleted").at("web", "made"),
    ]
}
