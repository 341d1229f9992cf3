//! The sessions of a whole organization.

use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, Setup, assert_fields, assert_has, at};

const ANY: &str = "/pipelines/web/ephemeral-environments/sessions";
const STAGING: &str = "/pipelines/shop/ephemeral-environments/staging-1";

fn ids(list: &Answer) -> Vec<String> {
    let data = list.data();
    data.as_array().unwrap().iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
}

async fn listed(client: &Client, query: &str) -> Vec<String> {
    let list = client.get(&format!("/sessions{query}")).await.ok();
    let ids = ids(&list);
    assert_eq!(list.json()["pagination"]["total"], ids.len(), "{query}");
    ids
}

#[tokio::test]
async fn everybody_s_sessions_are_listed_newest_first_over_all_pipelines() {
    let server = Server::start();
    let (ana, ben, vic) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("vic").await);
    assert_eq!(listed(&vic, "").await, Vec::<String>::new());
    let first = ana.claim("review-1", json!({ "context": "PR 412" })).await.created().session();
    let staging = ben.post(&format!("{STAGING}/sessions"), json!({})).await.created().session();
    let queued = ben.claim("review-1", json!({ "queue": true })).await.has_status(202).session();
    let list = vic.get("/sessions").await.ok();
    assert_eq!(ids(&list), [queued.clone(), staging.clone(), first.clone()]);
    assert_eq!(list.json()["pagination"], json!({ "limit": 50, "offset": 0, "total": 3 }));
    let data = list.data();
    assert_has(
        &data[0],
        json!({ "pipelineId": "web", "envName": "review-1", "lockStatus": "queued", "queuePosition": 1 }),
    );
    assert_has(&data[1], json!({ "pipelineId": "shop", "envName": "staging-1", "lockStatus": "active" }));
    assert_has(&data[2], json!({ "pipelineId": "web", "lockStatus": "active", "context": "PR 412" }));
    // The same fields as the session itself, plus its pipeline.
    let mut own = ana.session("review-1", &first).await.ok().data();
    own["pipelineId"] = json!("web");
    assert_eq!(data[2], own);

    for (query, expected) in [
        ("?lockStatus=active", vec![&staging, &first]),
        ("?lockStatus=queued", vec![&queued]),
        ("?user=ben", vec![&queued, &staging]),
        ("?user=ben&lockStatus=active", vec![&staging]),
        ("?user=nobody", vec![]),
        ("?mine=true", vec![]),
        ("?mine=false&pipelineId=web", vec![&queued, &first]),
        ("?pipelineId=none", vec![]),
        ("?envName=staging-1", vec![&staging]),
        ("?envName=review-1&pipelineId=shop", vec![]),
    ] {
        assert_eq!(listed(&vic, query).await, expected.into_iter().cloned().collect::<Vec<_>>(), "{query}");
    }
    assert_eq!(listed(&ana, "?mine=true&lockStatus=active").await, [first.as_str()]);
    assert_eq!(listed(&ben, "?mine=true").await, [queued, staging.clone()]);
    let by_id = own["user"]["userId"].as_str().unwrap();
    assert_eq!(listed(&vic, &format!("?user={by_id}")).await, [first.as_str()]);

    ana.release("review-1", &first).await.ok();
    assert_eq!(listed(&ben, "?mine=true&lockStatus=active").await.len(), 2, "the queued one has the lock now");
    assert_eq!(listed(&ana, "?mine=true").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_session_that_waits_for_any_environment_belongs_to_it() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(ana.post(ANY, json!({})).await.created().data());
    }
    let waits = ben.post(ANY, json!({ "queue": true })).await.has_status(202).session();
    let list = ben.get("/sessions?mine=true").await.ok();
    assert_eq!(ids(&list), [waits.as_str()]);
    assert_has(
        &list.data()[0],
        json!({ "pipelineId": "web", "envName": null, "lockStatus": "queued", "queuePosition": 1 }),
    );
    assert_eq!(listed(&ben, "?envName=review-1&lockStatus=queued").await, Vec::<String>::new());
    let free = held[1]["envName"].as_str().unwrap();
    ana.release(free, held[1]["sessionId"].as_str().unwrap()).await.ok();
    let list = ben.get("/sessions?mine=true").await.ok();
    assert_eq!(ids(&list), [waits], "under the same id");
    assert_has(&list.data()[0], json!({ "envName": free, "lockStatus": "active", "queuePosition": null }));
}

#[tokio::test]
async fn limit_offset_and_total_say_the_truth_and_links_lead_on() {
    let server = Server::start();
    let admin = server.admin();
    let mut made = Vec::new();
    for number in 0..5 {
        admin.put(&at(&format!("e-{number}")), json!({})).await.created();
        made.insert(0, admin.claim(&format!("e-{number}"), json!({})).await.created().session());
    }
    let mut found = Vec::new();
    let mut next = Some(admin.path("/sessions?lockStatus=active&limit=2"));
    while let Some(path) = next {
        let list = admin.send(admin.request(reqwest::Method::GET, &path)).await.ok();
        assert_eq!(list.json()["pagination"]["total"], 5);
        found.extend(ids(&list));
        next = list.link("next");
    }
    assert_eq!(found, made);
    let beyond = admin.get("/sessions?offset=9").await.ok().json();
    assert_eq!((&beyond["data"], &beyond["pagination"]["total"]), (&json!([]), &json!(5)));
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let server = Server::start();
    let vic = server.as_user("vic").await;
    let refused = vic.get("/sessions?mine=yes&lockStatus=released&envName=-&limit=0&state=x").await;
    let refused = refused.refused(400, "invalid_parameter");
    let mut fields = refused.faulty_fields();
    fields.sort_unstable();
    assert_eq!(fields, ["envName", "limit", "lockStatus", "mine", "state"]);
    assert!(refused.text.contains("must be one of active, queued"), "{refused:?}");
}

#[tokio::test]
async fn the_list_is_the_same_after_a_kill() {
    let mut server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let first = ana.claim("review-1", json!({})).await.created().session();
    let ended = ana.claim("review-2", json!({})).await.created().session();
    ana.release("review-2", &ended).await.ok();
    let queued = ben.claim("review-1", json!({ "queue": true })).await.has_status(202).session();
    let any = ben.post(ANY, json!({ "queue": true, "labels": { "size": "small" } })).await;
    let got = any.created().session();
    let expected = [got, queued, first];
    assert_eq!(listed(&ana, "").await, expected);
    server.kill();
    server.start_again();
    assert_eq!(listed(&ana.at(&server), "").await, expected);
}

#[tokio::test]
async fn another_organization_s_sessions_are_not_seen() {
    let beta = "organization = { id = \"acme-2\" }\nmembers = [{ name = \"bea\", role = \"admin\" }]\n\
                [[pipelines]]\nid = \"web\"\nenvironments = [{ name = \"review-1\" }]\n";
    let acme = include_str!("../../../config/acme.toml");
    let server = Setup::default().organization(beta).organization(acme).start();
    let bea = server.admin().in_organization("acme-2");
    let session = bea.claim("review-1", json!({})).await.created().session();
    assert_eq!(listed(&bea, "").await, [session]);
    bea.clone().in_organization("acme").get("/sessions").await.refused(404, "organization_not_found");
}

#[tokio::test]
async fn an_item_has_the_members_of_a_session_and_its_pipeline() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let mut expected = ana.claim("review-1", json!({})).await.created().data();
    expected["pipelineId"] = Value::from("web");
    let names: Vec<_> = expected.as_object().unwrap().keys().cloned().collect();
    assert_fields(&ana.get("/sessions").await.ok().data()[0], &names.join(" "));
}
