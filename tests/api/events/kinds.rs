//! Every kind of change records its event, in the name of its initiator.
//!
//! A scene makes changes of some kinds over the API and returns the events they should have recorded. To add one, write
//! its function and call it below.

#[path = "kinds/configuring.rs"]
mod configuring;
#[path = "kinds/deployments.rs"]
mod deployments;
#[path = "kinds/outside.rs"]
mod outside;
#[path = "kinds/sessions.rs"]
mod sessions;
#[path = "kinds/users.rs"]
mod users;

use std::collections::BTreeSet;

use domain::EventType;
use serde_json::{Value, json};

use self::users::{Expected, Users, system};
use super::all_events;

/// Kinds of changes that need git, which a machine may not have.
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
    let users = Users::log_in().await;
    let mut expected = vec![system("environment.created").at("web", "review-1")];
    expected.extend(environments(&users).await);
    expected.extend(sessions::ends(&users).await);
    expected.extend(sessions::queue(&users).await);
    expected.extend(sessions::any(&users).await);
    expected.extend(deployments::without_stages(&users).await);
    expected.extend(deployments::approved(&users).await);
    expected.extend(deployments::rejected_and_retried(&users).await);
    expected.extend(deployments::cancelled(&users).await);
    expected.extend(configuring::pipelines(&users).await);
    expected.extend(configuring::secrets(&users).await);
    expected.extend(configuring::people(&users).await);
    expected.extend(configuring::browsers(&users).await);
    expected.extend(configuring::jobs(&users).await);
    expected.extend(outside::webhooks(&users).await);
    let has_git = std::process::Command::new("git").arg("--version").output().is_ok();
    if has_git {
        expected.extend(outside::registries(&users).await);
        expected.extend(outside::fixes(&users).await);
    } else {
        println!("skipped: git is not installed, so {} were not made", WITH_GIT.join(", "));
    }

    let events = all_events(&users.mia.client, "").await;
    let client = &users.mia.client;
    let document = client.send(client.request(reqwest::Method::GET, "/api/v1/openapi.json")).await.ok().json();
    for event in &events {
        assert_described(&document, event);
    }
    for expected in &expected {
        expected.check(&events);
    }
    let seen: BTreeSet<_> = expected.iter().map(|expected| expected.kind).collect();
    let known = EventType::ALL.iter().map(|notice| notice.as_str());
    let missing: Vec<_> = known.filter(|kind| !seen.contains(kind)).collect();
    let skipped = if has_git { &[] } else { WITH_GIT };
    assert_eq!(missing, skipped, "a kind is without a scene");
}

async fn environments(users: &Users) -> Vec<Expected> {
    let place = "/pipelines/web/ephemeral-environments/made";
    let made = users.mia.act("PUT", place, json!({ "description": "new" })).await;
    let changed = users.mia.act("PUT", place, json!({ "description": "newer" })).await;
    // A request without effect records no event.
    let same = users.mia.act("PUT", place, json!({ "description": "newer" })).await;
    let deleted = users.mia.act("DELETE", place, Value::Null).await;
    let events = all_events(&users.mia.client, "&envName=made").await;
    assert!(events.iter().all(|event| event["requestId"] != same.request), "{events:#?}");
    vec![
        made.by("environment.created").at("web", "made"),
        changed.by("environment.updated").at("web", "made"),
        deleted.by("environment.deleted").at("web", "made"),
    ]
}

/// The details are those that the document lists for the event's type.
fn assert_described(document: &Value, event: &Value) {
    let mapping = &document["components"]["schemas"]["Event"]["discriminator"]["mapping"];
    let schema = |reference: &Value| {
        let path = reference.as_str().unwrap_or_else(|| panic!("not described: {event}"));
        document.pointer(path.trim_start_matches('#')).unwrap()
    };
    let described = schema(&schema(&mapping[event["type"].as_str().unwrap()])["properties"]["data"]["$ref"]);
    let data = event["data"].as_object().unwrap();
    for required in described["required"].as_array().into_iter().flatten() {
        assert!(data.contains_key(required.as_str().unwrap()), "{required} is missing in {event}");
    }
    for (name, value) in data {
        let property = &described["properties"][name];
        let property = if property["$ref"].is_string() { schema(&property["$ref"]) } else { property };
        let fits = match property["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_u64(),
            Some("boolean") => value.is_boolean(),
            _ => false,
        };
        assert!(fits, "{name} is not described in {property} of {event}");
        assert!(property["enum"].as_array().is_none_or(|names| names.contains(value)), "{name} of {event}");
    }
}
