//! A full disk.

use reqwest::Method;
use serde_json::json;

use super::held::{Held, make_and_claim, make_and_try_claim};
use super::small_disk::SmallDisk;
use super::{EXIT_FAILED, until};
use crate::support::{Answer, Client, Server, Setup, at, refusal};

const SETTINGS: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n";
/// Twice the size of a small data directory with its reserve.
const DISK_MIB: u32 = 128;

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers_without_a_restart() {
    const MIB: u64 = 1024 * 1024;
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut server = Setup::default().settings(SETTINGS).start_at(disk.home());
    let mut held = Held::default();
    for number in 0..20 {
        held.claim_new(&server.admin(), &format!("early-{number}")).await;
    }
    server.admin().put(&at("wanted"), json!({})).await.created();
    let unasked = grant_unasked(&server.admin(), "unasked").await;
    wait_for_reserve(&disk, &server).await;

    disk.fill(3 * MIB);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;
    assert_refuses_writes(&server).await;
    held.assert_all_there(&server).await;
    let read = server.admin().session("unasked", &unasked).await.ok().data();
    assert_eq!(read["lockStatus"], "active", "a read that would have been noted");

    // A server that starts on a full disk serves reads too.
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
    assert_refuses_writes(&server).await;

    disk.make_room();
    let client = server.admin();
    let claim = || client.claim("wanted", json!({}));
    let taken = until("a claim that is taken", claim, |answer| answer.status != 503).await;
    held.note("wanted", &taken.created());
    assert_eq!(readiness(&server).await.status, 200);
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
}

/// A queued session that has got its lock, which its client has not read yet.
async fn grant_unasked(client: &Client, name: &str) -> String {
    let first = make_and_try_claim(client, name).await.unwrap().created().session();
    let queued = client.enqueue(name, json!({})).await.session();
    client.release(name, &first).await.ok();
    queued
}

pub async fn readiness(server: &Server) -> Answer {
    let client = server.anonymous();
    client.send(client.request(Method::GET, "/readyz")).await
}

async fn assert_refuses_writes(server: &Server) {
    let client = server.admin();
    for refused in [
        client.claim("wanted", json!({ "commitId": "c0ffee1" })).await,
        client.force_claim("early-0", json!({})).await,
        client.put(&at("another"), json!({})).await,
        client.post("/tokens", json!({ "name": "test", "user": "ana" })).await,
        readiness(server).await,
    ] {
        assert_eq!(refused.problem(), (503, "storage_full".to_owned()));
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    }
    let wanted = client.environment("wanted").await.ok().data();
    assert_eq!(wanted["lockStatus"], "unlocked");
    assert_eq!(client.environment("another").await.status, 404);
}

#[tokio::test]
async fn on_a_disk_without_a_byte_left_ends_and_starts_work_and_nothing_acknowledged_is_lost() {
    const ENVIRONMENTS: usize = 40;
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut server = Setup::default().settings(SETTINGS).start_at(disk.home());
    let client = server.admin();
    let mut sessions = Vec::new();
    for number in 0..ENVIRONMENTS {
        let name = format!("held-{number}");
        sessions.push((make_and_claim(&client, &name).await.created().session(), name));
    }
    for name in ["leased", "free"] {
        client.put(&at(name), json!({})).await.created();
    }
    let token = client.post("/tokens", json!({ "name": "leaked", "user": "ana" })).await.created().data();
    wait_for_reserve(&disk, &server).await;
    client.claim("leased", json!({ "ttlSeconds": 1 })).await.created();
    disk.fill(0);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;

    let mut released = 0;
    for round in 0..4 {
        // Including the space that the server has freed itself.
        disk.fill(0);
        let client = server.admin();
        assert_eq!(client.claim("free", json!({})).await.status, 503);
        for (session, name) in &sessions[released..released + ENVIRONMENTS / 5] {
            assert_eq!(client.release(name, session).await.ok().data()["lockStatus"], "released");
        }
        released += ENVIRONMENTS / 5;
        if round == 0 {
            let revoked = client.send(client.request(Method::DELETE, &token_path(&client, &token))).await;
            assert!(revoked.status.is_success(), "{}", revoked.text);
            let expired = || client.environment("leased");
            until("the end of a lease", expired, |answer| answer.data()["lockStatus"] == "unlocked").await;
        }
        server.kill();
        disk.fill(0);
        server.start_again();
        let client = server.admin();
        for (index, (session, name)) in sessions.iter().enumerate() {
            let expected = if index < released { "released" } else { "active" };
            assert_eq!(client.session(name, session).await.ok().data()["lockStatus"], expected, "{name}");
        }
        assert_eq!(client.environment("leased").await.ok().data()["lockStatus"], "unlocked");
    }
    // Also a stop on the full disk, and a start after it.
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    server.start_again();
    assert!(!server.log().contains("backup"), "{}", server.log());

    disk.make_room();
    let client = server.admin();
    let claim = || client.claim("held-0", json!({}));
    until("a claim that is taken", claim, |answer| answer.status == 201).await;
    wait_for_reserve(&disk, &server).await;
}

/// Waits for all space that is reserved for a full disk.
pub async fn wait_for_reserve(disk: &SmallDisk, server: &Server) {
    let log = disk.home().join("data/log");
    let held = || async { ["reserve-0", "reserve-3", "start.reserve"].iter().all(|name| log.join(name).exists()) };
    until("the reserve", held, |held| *held).await;
    until("an open store", || readiness(server), |answer| answer.status == 200).await;
}

fn token_path(client: &Client, token: &serde_json::Value) -> String {
    client.path(&format!("/tokens/{}", token["tokenId"].as_str().unwrap()))
}

#[tokio::test]
async fn a_disk_that_is_filled_at_once_loses_nothing_acknowledged() {
    const CLAIMS_MAX: usize = 20_000;
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut server = Setup::default().start_at(disk.home());
    let mut held = Held::default();
    held.claim_new(&server.admin(), "early").await;
    wait_for_reserve(&disk, &server).await;
    disk.fill(0);

    // Without reserved space, the log continues until it needs another file.
    let client = server.admin();
    let mut refused = None;
    for number in 0..CLAIMS_MAX {
        let name = format!("held-{number}");
        let answer = make_and_try_claim(&client, &name).await.unwrap();
        if answer.status != 201 {
            refused = Some(answer);
            break;
        }
        held.note(&name, &answer);
    }
    let refused = refused.expect("claims find no end of room on a full disk");
    assert_eq!(refused.problem(), (503, "storage_full".to_owned()));
    println!("refused after {} claims", held.len());
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
    disk.make_room();
    until("an open store", || readiness(&server), |answer| answer.status == 200).await;
    held.claim_new(&server.admin(), "late").await;
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
}

#[tokio::test]
async fn a_server_whose_own_log_has_no_room_left_serves_all_the_same() {
    let wrapper = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];
    let mut server = Setup::default().under(&wrapper).start();
    let mut held = Held::default();
    held.claim_new(&server.admin(), "held").await;
    // A message that cannot be written does not change the exit code.
    assert_eq!(refusal(&Setup::default().under(&wrapper), server.home()).0, EXIT_FAILED);
    assert_eq!(server.terminate().code(), Some(0));
    server.start_again();
    held.assert_all_there(&server).await;
}

#[tokio::test]
async fn on_a_full_disk_everything_can_be_removed_and_revoked() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = Setup::default().settings(SETTINGS).start_at(disk.home());
    let admin = server.admin();
    admin.post("/secrets", json!({ "name": "KEY", "value": "hunter22" })).await.created();
    admin.put("/pipelines/removed", json!({})).await.has_status(201);
    let approved = json!([{ "name": "asks", "approval": "always", "steps": [{ "name": "runs", "run": ["true"] }] }]);
    admin.put("/pipelines/web", json!({ "stages": approved })).await.ok();
    let session = admin.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
    admin.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    let pending = || admin.get("/approvals?status=pending");
    let approvals = until("an approval", pending, |found| found.data()[0]["approvalId"].is_string()).await;
    let approval = approvals.data()[0]["approvalId"].as_str().unwrap().to_owned();
    let webhook = json!({ "url": "https://hooks.example/x", "events": ["session.claimed"] });
    let webhook = admin.post("/webhooks", webhook).await.created().data()["webhookId"].as_str().unwrap().to_owned();
    let mut members = Vec::new();
    for name in ["left", "gone"] {
        let made = admin.post("/members", json!({ "name": name, "role": "viewer" })).await.created();
        members.push(made.data()["userId"].as_str().unwrap().to_owned());
    }
    let own = admin.get("/tokens?mine=true").await.ok().data();
    let bootstrap = own[0]["tokenId"].as_str().unwrap().to_owned();
    admin.put(&at("removed"), json!({})).await.created();
    wait_for_reserve(&disk, &server).await;
    disk.fill(0);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;
    admin.claim("review-2", json!({})).await.refused(503, "storage_full");
    let ends = [
        (Method::POST, format!("/approvals/{approval}/reject"), Some(json!({}))),
        (Method::DELETE, "/secrets/KEY".to_owned(), None),
        (Method::DELETE, format!("/webhooks/{webhook}"), None),
        (Method::DELETE, at("removed"), None),
        (Method::DELETE, "/pipelines/removed".to_owned(), None),
        (Method::PATCH, format!("/members/{}", members[0]), Some(json!({ "disabled": true }))),
        (Method::DELETE, format!("/members/{}", members[1]), None),
        // Last: it is the caller's own.
        (Method::DELETE, format!("/tokens/{bootstrap}"), None),
    ];
    for (method, path, body) in ends {
        let request = admin.request(method.clone(), &admin.path(&path));
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        let answer = admin.send(request).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.text);
    }
    assert_eq!(admin.get("/tokens").await.status, 401);
}
