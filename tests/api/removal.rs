//! A permission is lost immediately: also for half-sent requests, waits and streams.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::access::operations;
use crate::interventions::{gated, waiting};
use crate::support::wire::Wire;
use crate::support::{Client, Server, at};

/// Longer than anything here takes: an answer after this time was delayed.
const LONG: u64 = 300;

/// A member, their token and their path.
struct Newcomer {
    token: String,
    path: String,
    id: String,
}

async fn newcomer(admin: &Client, name: &str, role: &str) -> Newcomer {
    let member = admin.post("/members", json!({ "name": name, "role": role })).await.created().data();
    let made = admin.post("/tokens", json!({ "name": "test", "user": name })).await.created().data();
    let id = member["userId"].as_str().unwrap().to_owned();
    Newcomer { token: made["token"].as_str().unwrap().to_owned(), path: format!("/members/{id}"), id }
}

/// How a permission is lost, and how a request that needs it is then answered.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Removed,
    Demoted,
    Disabled,
}

impl Loss {
    async fn happens_to(self, newcomer: &Newcomer, admin: &Client, role: &str) {
        let lower = match role {
            "admin" => "maintainer",
            "maintainer" => "developer",
            _ => "viewer",
        };
        match self {
            Loss::Removed => _ = admin.delete(&newcomer.path).await.has_status(204),
            Loss::Demoted => {
                let patch = admin.request(Method::PATCH, &admin.path(&newcomer.path)).json(&json!({ "role": lower }));
                admin.send(patch).await.ok();
            }
            Loss::Disabled => {
                let patch = admin.request(Method::PATCH, &admin.path(&newcomer.path));
                admin.send(patch.json(&json!({ "disabled": true }))).await.ok();
            }
        }
    }

    const fn problem(self) -> (u16, &'static str) {
        match self {
            Loss::Removed | Loss::Disabled => (401, "invalid_token"),
            Loss::Demoted => (403, "permission_denied"),
        }
    }
}

#[tokio::test]
async fn a_half_sent_request_ends_with_the_lost_permission_and_does_nothing_whatever_the_operation() {
    let server = Server::start();
    let admin = server.admin();
    let with_bodies: Vec<_> = operations().into_iter().filter(|(_, _, body, _)| !body.is_null()).collect();
    assert!(with_bodies.len() > 25, "{}", with_bodies.len());
    for (place, (method, path, body, role)) in with_bodies.iter().enumerate() {
        for loss in [Loss::Removed, Loss::Demoted, Loss::Disabled] {
            // No role is lower.
            if matches!(loss, Loss::Demoted) && *role == "viewer" {
                continue;
            }
            let newcomer = newcomer(&admin, &format!("m-{place}-{loss:?}").to_lowercase(), role).await;
            let body = body.to_string();
            let first = &body[..1];
            let mut wire = Wire::open(&server).await;
            wire.send(format!(
                "{method} {} HTTP/1.1\r\nHost: lockkeeper\r\nAuthorization: Bearer {}\r\nExpect: 100-continue\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{first}",
                admin.path(path),
                newcomer.token,
                body.len()
            ))
            .await;
            // The server has read the head and found no fault.
            assert_eq!(wire.answer().await.unwrap().status, 100, "{method} {path}");
            loss.happens_to(&newcomer, &admin, role).await;
            // Immediately: it does not wait for the rest, which can have no effect any more.
            let answer = wire.answer().await.unwrap();
            assert_eq!(answer.problem(), (loss.problem().0, loss.problem().1.to_owned()), "{loss:?}: {method} {path}");
            let done = admin.get(&format!("/events?actor={}", newcomer.id)).await.ok().json();
            assert_eq!(done["pagination"]["total"], 0, "{loss:?}: {method} {path}: {done}");
        }
    }
}

#[tokio::test]
async fn who_is_demoted_between_head_and_body_has_the_new_role_also_where_the_request_is_still_allowed() {
    let server = Server::start();
    let admin = server.admin();
    let newcomer = newcomer(&admin, "max", "maintainer").await;
    let body = json!({ "priority": 10 }).to_string();
    let mut wire = Wire::open(&server).await;
    wire.send(format!(
        "POST {}/sessions HTTP/1.1\r\nHost: lockkeeper\r\nAuthorization: Bearer {}\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        admin.path(&at("review-1")),
        newcomer.token,
        body.len()
    ))
    .await;
    assert_eq!(wire.answer().await.unwrap().status, 100);
    Loss::Demoted.happens_to(&newcomer, &admin, "maintainer").await;
    wire.send(body).await;
    wire.answer().await.unwrap().refused(403, "permission_denied");
}

/// A request in a separate task: status and text of its answer.
fn spawn(client: &Client, request: reqwest::RequestBuilder) -> tokio::task::JoinHandle<(u16, String)> {
    let client = client.clone();
    tokio::spawn(async move {
        let answer = client.send(request).await;
        (answer.status.as_u16(), answer.text)
    })
}

#[tokio::test]
async fn every_wait_of_a_removed_member_ends_in_the_moment_of_the_removal() {
    let server = Server::start();
    gated(&server, true).await;
    let (admin, mia) = (server.admin(), server.as_user("mia").await);
    for name in ["review-1", "review-3"] {
        mia.claim(name, json!({})).await.created();
    }
    let (deployment, ..) = waiting(&mia).await;
    let zoe = newcomer(&admin, "zoe", "developer").await;
    let client = server.with_token(&zoe.token);
    let own = client.claim("review-2", json!({})).await.created().session();

    let known = async |path: &str| client.get(path).await.ok().header("etag").to_owned();
    let long_poll = |path: &str, etag: String| {
        let path = client.path(&format!("{path}?waitSeconds={LONG}"));
        spawn(&client, client.request(Method::GET, &path).header("If-None-Match", etag))
    };
    let post = |path: &str, body: Value| spawn(&client, client.request(Method::POST, &client.path(path)).json(&body));
    let own = format!("{}/sessions/{own}", at("review-2"));
    let polls = vec![
        long_poll(&at("review-2"), known(&at("review-2")).await),
        long_poll(&own, known(&own).await),
        long_poll(&deployment, known(&deployment).await),
        post(&format!("{}/sessions", at("review-1")), json!({ "waitSeconds": LONG })),
        post("/pipelines/web/ephemeral-environments/sessions", json!({ "waitSeconds": LONG })),
    ];
    let mut streams = Vec::new();
    for path in ["/events/stream", &format!("{deployment}/logs?follow=true")] {
        let stream = client.request(Method::GET, &client.path(path)).send().await.unwrap();
        assert_eq!(stream.status(), 200, "{path}");
        streams.push(stream);
    }
    mia.until_queue_is("review-1", 1).await;
    admin.delete(&zoe.path).await.has_status(204);
    for (place, answer) in join_all(polls).await.into_iter().enumerate() {
        let (status, text) = answer.unwrap();
        assert!(status == 401 && text.contains("invalid_token"), "wait {place}: {status} {text}");
    }
    for stream in streams {
        // It had begun, and ends.
        stream.bytes().await.ok();
    }
    mia.until_queue_is("review-1", 0).await;
}

#[tokio::test]
async fn waits_of_others_go_on_when_somebody_is_removed() {
    let server = Server::start();
    let (admin, mia) = (server.admin(), server.as_user("mia").await);
    let session = mia.claim("review-1", json!({})).await.created().session();
    let waits = server.as_user("ana").await.wait_in_line("review-1", json!({ "waitSeconds": LONG }), 1).await;
    let zoe = newcomer(&admin, "zoe", "developer").await;
    admin.delete(&zoe.path).await.has_status(204);
    mia.until_queue_is("review-1", 1).await;
    mia.release("review-1", &session).await.ok();
    waits.await.unwrap().created();
}

#[tokio::test]
async fn a_wait_ends_when_its_token_expires() {
    let server = Server::start();
    let (admin, mia) = (server.admin(), server.as_user("mia").await);
    mia.claim("review-1", json!({})).await.created();
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1_500);
    let made = admin.post("/tokens", json!({ "name": "x", "user": "ana", "expiresAt": soon.to_string() })).await;
    let ana = server.with_token(made.created().data()["token"].as_str().unwrap());
    ana.claim("review-1", json!({ "waitSeconds": LONG })).await.refused(401, "invalid_token");
    mia.until_queue_is("review-1", 0).await;
}
