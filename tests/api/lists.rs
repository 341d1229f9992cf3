//! Every list: `limit`, `offset` and `total` are correct, and all pages together are complete.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, Setup, at};
use crate::webhooks::{deliveries, until};

#[tokio::test]
async fn every_list_in_pages_of_one_is_the_whole_list() {
    let server = Setup::default().reaching_loopback().start();
    let admin = server.admin();
    let lists = filled(&admin).await;
    let document = server.anonymous();
    let document = document.send(document.request(Method::GET, "/api/v1/openapi.json")).await.ok().json();
    let described = described_lists(&document);
    let tried: BTreeSet<_> = lists.iter().map(|(template, _)| (*template).to_owned()).collect();
    assert_eq!(described, tried, "each list that the document describes is tried");
    for (template, path) in lists {
        let whole = admin.get(&path).await.ok().json();
        let total = whole["pagination"]["total"].as_u64().unwrap();
        assert!(total >= 2, "{template} has {total}");
        assert_eq!(whole["data"].as_array().unwrap().len() as u64, total, "{template}: all fit");
        assert!(whole["pagination"]["limit"].as_u64().unwrap() >= total, "{template}: {}", whole["pagination"]);
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut found = Vec::new();
        for offset in 0..total {
            let answer = admin.get(&format!("{path}{joint}limit=1&offset={offset}")).await.ok();
            let page = answer.json();
            let pagination = &page["pagination"];
            assert_eq!(
                (&pagination["limit"], &pagination["offset"], &pagination["total"]),
                (&json!(1), &json!(offset), &json!(total)),
                "{template}"
            );
            assert_eq!(answer.link("next").is_some(), offset + 1 < total, "{template} at {offset}");
            assert_eq!(page["data"].as_array().unwrap().len(), 1, "{template} at {offset}");
            found.push(page["data"][0].clone());
        }
        let ids = |entries: &[Value]| entries.iter().map(id).collect::<Vec<_>>();
        assert_eq!(ids(&found), ids(whole["data"].as_array().unwrap()), "{template}");
        let beyond = admin.get(&format!("{path}{joint}limit=1&offset={total}")).await.ok().json();
        assert_eq!((&beyond["data"], &beyond["pagination"]["total"]), (&json!([]), &json!(total)), "{template}");
    }
}

/// The identifying field of a list's entry.
fn id(entry: &Value) -> String {
    const NAMES: [&str; 13] = [
        "eventId",
        "deliveryId",
        "deploymentId",
        "analysisId",
        "approvalId",
        "sessionId",
        "registryId",
        "webhookId",
        "tokenId",
        "memberId",
        "envName",
        "name",
        "version",
    ];
    NAMES.iter().map(|name| format!("{} ", entry[name])).collect()
}

/// The paths of all operations whose answer has `pagination`.
fn described_lists(document: &Value) -> BTreeSet<String> {
    let mut lists = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let schema = &item["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let named = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        let schema = named.map_or(schema, |name| &document["components"]["schemas"][name]);
        if !schema["properties"]["pagination"].is_null() {
            lists.insert(path.trim_start_matches("/api/v1/organizations/{orgId}").to_owned());
        }
    }
    lists
}

/// At least two entries in each list, and the path of each list.
async fn filled(admin: &Client) -> Vec<(&'static str, String)> {
    let step = |version: &str| json!({ "name": "greet", "version": version, "run": ["false"] });
    let registry = json!({ "name": "tools", "steps": [step("1"), step("2")] });
    let registry = admin.post("/step-registries", registry).await.created().data()["registryId"].clone();
    admin.post("/step-registries", json!({ "name": "more", "steps": [step("1")] })).await.created();
    admin.post("/secrets", json!({ "name": "A", "value": "one-long-value" })).await.created();
    admin.post("/secrets", json!({ "name": "B", "value": "one-long-value" })).await.created();
    // No receiver listens there: deliveries are attempted and kept.
    let hook = json!({ "url": "http://127.0.0.1:9/", "events": ["pipeline.*"] });
    let webhook = admin.post("/webhooks", hook.clone()).await.created().data()["webhookId"].clone();
    admin.post("/webhooks", hook).await.created();
    admin.post("/tokens", json!({ "name": "second" })).await.created();

    let stages = json!({ "stages": [{ "name": "ask", "approval": "always", "steps": [{ "run": ["false"] }] }] });
    admin.put("/pipelines/gated", stages).await.created();
    let failing = json!({ "stages": [{ "name": "fail", "steps": [{ "run": ["false"] }] }] });
    admin.put("/pipelines/failing", failing).await.created();
    let mut deployment = Value::Null;
    for name in ["one", "two"] {
        for pipeline in ["gated", "failing"] {
            let environment = format!("/pipelines/{pipeline}/ephemeral-environments/{name}");
            admin.put(&environment, json!({})).await.created();
            let session = admin.post(&format!("{environment}/sessions"), json!({})).await.created().session();
            let wait = if pipeline == "failing" { 60 } else { 0 };
            let body = json!({ "commitId": "c0ffee1", "waitSeconds": wait });
            let deployed = admin.post(&format!("{environment}/sessions/{session}/deploy"), body).await;
            if pipeline == "failing" {
                deployment = deployed.ok().data()["deploymentId"].clone();
            }
        }
    }
    let analyses = format!("/deployments/{}/analyses", deployment.as_str().unwrap());
    for _ in 0..2 {
        admin.post(&analyses, json!({ "waitSeconds": 60 })).await.ok();
    }
    for _ in 0..2 {
        let session = admin.claim("review-1", json!({})).await.created().session();
        admin.release("review-1", &session).await.ok();
    }
    admin.claim("review-2", json!({})).await.created();
    for _ in 0..2 {
        admin.enqueue("review-2", json!({})).await.session();
    }
    let webhook = webhook.as_str().unwrap();
    until(|| deliveries(admin, webhook), |found| found.len() == 2).await;
    vec![
        ("/pipelines", "/pipelines".to_owned()),
        ("/pipelines/{pipelineId}/ephemeral-environments", at("").trim_end_matches('/').to_owned()),
        ("/pipelines/{pipelineId}/ephemeral-environments/{envName}/history", format!("{}/history", at("review-1"))),
        ("/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue", format!("{}/queue", at("review-2"))),
        ("/sessions", "/sessions".to_owned()),
        ("/deployments", "/deployments".to_owned()),
        ("/deployments/{deploymentId}/analyses", analyses),
        ("/analyses", "/analyses".to_owned()),
        ("/approvals", "/approvals".to_owned()),
        ("/secrets", "/secrets".to_owned()),
        ("/step-registries", "/step-registries".to_owned()),
        ("/step-registries/{registryId}/steps", format!("/step-registries/{}/steps", registry.as_str().unwrap())),
        ("/webhooks", "/webhooks".to_owned()),
        ("/webhooks/{webhookId}/deliveries", format!("/webhooks/{webhook}/deliveries")),
        ("/tokens", "/tokens".to_owned()),
        ("/members", "/members".to_owned()),
        ("/events", "/events?type=pipeline.*".to_owned()),
    ]
}
