//! Logs: in pages, as JSON, and while they are written.

use delivery::logs::{Logs, Section};
use domain::{DeploymentId, Identifier, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::{NOBODYS, gated, waiting};
use crate::support::wire::{Wire, head};
use crate::support::{Client, Server};

/// Writes the output of a step, while none is running.
fn write(server: &Server, deployment: &str, texts: &[&[u8]]) {
    let logs = Logs::open(&server.data_dir().join("logs"), u64::MAX).unwrap();
    let id: DeploymentId = deployment.rsplit('/').next().unwrap().parse().unwrap();
    let at = Timestamp::from_millis(1_794_735_000_123);
    let section = Section { stage: "gate".into(), step: "step-1".into(), attempt: 1 };
    let mut step = logs.append(&Identifier::parse("acme").unwrap(), id).unwrap().step(section, u64::MAX);
    for text in texts {
        step.write(at, text);
        step.idle(at);
    }
    step.finish(at);
}

async fn get(client: &Client, path: &str) -> (reqwest::header::HeaderMap, Vec<u8>) {
    let answer = client.request(Method::GET, &client.path(path)).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    (answer.headers().clone(), answer.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn a_log_is_answered_as_it_was_written() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    let place = format!("{path}/logs");
    let none = ana.get(&place).await.ok();
    assert_eq!((&*none.text, none.header("lockkeeper-next-offset")), ("", "0"));
    write(&server, &path, &[b"one\ntwo\n", b"\xff\x1b[31m three", b"\r\nfour"]);
    let (headers, bytes) = get(&ana, &place).await;
    assert_eq!(bytes, b"one\ntwo\n\xff\x1b[31m three\r\nfour");
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(get(&ana, &format!("{place}?format=text&follow=false")).await.1, bytes);

    let (headers, lines) = get(&ana, &format!("{place}?format=json")).await;
    assert_eq!(headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> =
        String::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(headers["lockkeeper-next-offset"], lines.len().to_string());
    let first = json!({ "line": 0, "at": "2026-11-15T09:30:00.123Z", "stage": "gate", "step": "step-1", "attempt": 1,
                        "text": "one", "partial": false });
    assert_eq!(lines[0], first);
    assert!(lines.iter().any(|line| line["text"].as_str().unwrap().contains('\u{fffd}')), "{lines:?}");
}

#[tokio::test]
async fn a_long_log_is_read_in_pages_or_in_one() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    let text: String =
        (0..20_000).map(|number| format!("line {number} of a log that is longer than a piece\n")).collect();
    write(&server, &path, &[text.as_bytes()]);
    let place = format!("{path}/logs");
    assert!(get(&ana, &place).await.1 == text.as_bytes());

    let mut next = format!("{}?limit=7000&stage=gate", ana.path(&place));
    let (mut pages, mut read) = (0, String::new());
    loop {
        let page = ana.send(ana.request(Method::GET, &next)).await.ok();
        read += &page.text;
        pages += 1;
        let Some(link) = page.link("next") else {
            assert_eq!(page.header("lockkeeper-next-offset"), "20000");
            break;
        };
        assert!(link.contains(&format!("offset={}", page.header("lockkeeper-next-offset"))), "{link}");
        next = link;
    }
    assert!(pages == 3 && read == text);
    assert_eq!(get(&ana, &format!("{place}?stage=after")).await.1, b"");
    for wrong in ["limit=0", "limit=100001", "offset=-1", "format=xml", "follow=yes", "stage=/", "page=1"] {
        ana.get(&format!("{place}?{wrong}")).await.refused(400, "invalid_parameter");
    }
    ana.get(&format!("{NOBODYS}/logs")).await.refused(404, "deployment_not_found");
}

#[tokio::test]
async fn head_says_what_get_would_and_waits_for_nothing() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    write(&server, &path, &[b"one\ntwo\n"]);
    for (query, next) in [("", "2"), ("?limit=1", "1"), ("?follow=true", "")] {
        let head = ana.send(ana.request(Method::HEAD, &ana.path(&format!("{path}/logs{query}")))).await.ok();
        assert_eq!((&*head.text, head.header("lockkeeper-next-offset")), ("", next), "{query}");
        assert_eq!(head.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(head.link("next").is_some(), query == "?limit=1");
    }
}

#[tokio::test]
async fn a_client_that_knows_no_chunks_gets_none() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    write(&server, &path, &[b"one\ntwo\n"]);
    ana.post(&format!("{path}/stages/gate/cancel"), json!({})).await.ok();
    for query in ["", "?follow=true"] {
        let old =
            ana.request(Method::GET, &ana.path(&format!("{path}/logs{query}"))).version(reqwest::Version::HTTP_10);
        let answer = old.header("Connection", "keep-alive").send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers().get("transfer-encoding")), (200, None), "{query}");
        assert_eq!(answer.text().await.unwrap(), "one\ntwo\n");
    }
}

#[tokio::test]
async fn who_follows_a_log_is_answered_until_the_deployment_has_finished() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    write(&server, &path, &[b"before\n"]);
    let request = ana.request(Method::GET, &ana.path(&format!("{path}/logs?follow=true")));
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "before\n");
    write(&server, &path, &[b"after\n"]);
    ana.post(&format!("{path}/stages/gate/cancel"), json!({})).await.ok();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "after\n");
    assert_eq!(answer.chunk().await.unwrap(), None);
    assert_eq!(get(&ana, &format!("{path}/logs?follow=true&offset=1")).await.1, b"after\n");
    assert_eq!(get(&ana, &format!("{path}/logs?follow=true&limit=1")).await.1, b"before\n");
}

#[tokio::test]
async fn who_follows_a_log_does_not_hold_up_the_end_of_the_server() {
    let mut server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, ..) = waiting(&ana).await;
    write(&server, &path, &[b"before\n"]);
    let request = ana.request(Method::GET, &ana.path(&format!("{path}/logs?follow=true")));
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "before\n");
    server.signal("-TERM");
    assert_eq!(answer.chunk().await.unwrap(), None, "the answer ends as it should");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("stopped before all requests were answered"), "{}", server.log());
}

#[tokio::test]
async fn nor_does_who_follows_one_and_does_not_read() {
    let mut server = Server::start();
    gated(&server, true).await;
    let admin = server.admin();
    let (path, ..) = waiting(&admin).await;
    // More than fits into the sockets between them.
    let line = [b'x'; 99].into_iter().chain([b'\n']).collect::<Vec<_>>();
    write(&server, &path, &[&line.repeat(200_000)]);
    let mut wire = Wire::open(&server).await;
    wire.send(format!("{}\r\n", head("GET", &admin.path(&format!("{path}/logs?follow=true"))))).await;
    wire.answer().await.unwrap().ok();
    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("stopped before all requests were answered"), "{}", server.log());
}

#[tokio::test]
async fn five_hundred_of_one_member_follow_and_their_places_are_free_when_they_have_gone() {
    let server = Server::start();
    gated(&server, true).await;
    let admin = server.admin();
    let (path, ..) = waiting(&admin).await;
    let follow = admin.path(&format!("{path}/logs?follow=true"));
    let ask = format!("{}\r\n", head("GET", &follow));
    let mut followers = Vec::new();
    // Half of the organization's places.
    for _ in 0..500 {
        let mut wire = Wire::open(&server).await;
        wire.send(&ask).await;
        wire.answer().await.unwrap().ok();
        followers.push(wire);
    }
    let refused = admin.send(admin.request(Method::GET, &follow)).await.refused(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    followers.pop();
    // The server learns of it with a delay, and only from the connection: nothing is written to this log.
    let mut answer = loop {
        let answer = admin.request(Method::GET, &follow).send().await.unwrap();
        if answer.status() == 200 {
            break answer;
        }
    };
    admin.post(&format!("{path}/stages/gate/cancel"), json!({})).await.ok();
    assert_eq!(answer.chunk().await.unwrap(), None);
}
