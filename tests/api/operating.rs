//! The operator's view: health, metrics, the documents, the log, clear refusals to start, and a clean end.

mod doctor;
mod explorer;
mod flooding;
mod keys;
mod limits;
mod metrics;
mod protection;
pub mod pruning;
mod reloading;
mod starting;
mod unread;

use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{ADMIN_TOKEN, Answer, Server, Setup, at};
use reqwest::Method;
use serde_json::{Value, json};

const ACME: &str = include_str!("../../config/acme.toml");
const SMALL: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n";

#[tokio::test]
async fn health_readiness_and_metrics_need_no_token() {
    let server = Server::start();
    let admin = server.admin();
    admin.claim("review-1", json!({})).await.created();
    admin.claim("review-1", json!({})).await.refused(409, "environment_locked");
    assert_eq!(get(&server, "/healthz").await.ok().json(), json!({ "status": "alive" }));
    assert_eq!(get(&server, "/readyz").await.ok().json(), json!({ "status": "ready" }));
    let metrics = get(&server, "/metrics").await.ok();
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    let route = r#"route="/{envName}/sessions",method="POST""#;
    for line in [
        format!("lockkeeper_http_requests_total{{{route},status=\"2xx\"}} 1"),
        format!("lockkeeper_http_requests_total{{{route},status=\"4xx\"}} 1"),
        format!("lockkeeper_http_request_seconds_count{{{route}}} 2"),
        r#"lockkeeper_problems_total{code="environment_locked"} 1"#.to_owned(),
        r#"lockkeeper_events_total{type="session.claimed"} 1"#.to_owned(),
        "lockkeeper_storage_refusing_writes 0".to_owned(),
        format!("lockkeeper_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "# TYPE lockkeeper_log_sync_seconds histogram".to_owned(),
    ] {
        assert!(metrics.text.lines().any(|found| found == line), "{line} is not in\n{}", metrics.text);
    }
}

#[tokio::test]
async fn every_code_has_a_page_that_its_problems_point_to() {
    let server = Server::start();
    let document = get(&server, "/api/v1/openapi.json").await.ok().json();
    let codes = document["components"]["schemas"]["ProblemCode"]["enum"].clone();
    for code in codes.as_array().unwrap() {
        let code = code.as_str().unwrap();
        let page = get(&server, &format!("/problems/{code}")).await.ok();
        assert!(page.text.contains(code) && page.header("content-type").starts_with("text/plain"), "{page:?}");
    }
    let problem = get(&server, "/problems/nonsense").await.refused(404, "problem_not_found").json();
    get(&server, problem["type"].as_str().unwrap()).await.ok();
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let server = Server::start();
    let admin = server.admin();
    admin.claim("review-1", json!({})).await.created();
    let list = "/pipelines/web/ephemeral-environments";
    for path in [
        "/healthz".to_owned(),
        "/problems/overloaded".to_owned(),
        admin.path("/pipelines"),
        admin.path(&format!("{list}?limit=1")),
        admin.path(&at("review-1")),
        admin.path(&format!("{}/queue?limit=1", at("review-1"))),
        admin.path(&at("nowhere")),
        "/nowhere".to_owned(),
    ] {
        let get = admin.send(admin.request(Method::GET, &path)).await;
        let head = admin.send(admin.request(Method::HEAD, &path)).await;
        assert_eq!((head.status, &*head.text), (get.status, ""), "{path}");
        for name in ["content-type", "content-length", "etag", "link"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn no_token_reaches_the_log() {
    let mut server = Setup::default().settings(&format!("{SMALL}[log]\nfilter = \"trace\"\n")).start();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "hush-name", "user": "ana" })).await.created().data();
    let ana_token = made["token"].as_str().unwrap().to_owned();
    let ana = server.with_token(&ana_token);
    let body = json!({ "commitId": "hush-commit", "context": "hush-context" });
    let session = ana.claim("review-1", body.clone()).await.created().session();
    ana.claim("review-1", body.clone()).await.refused(409, "environment_locked");
    let queued = ana.claim("review-1", json!({ "queue": true, "context": "hush-context" })).await.has_status(202);
    ana.release("review-1", &queued.session()).await.ok();
    ana.claim_any(json!({ "labels": { "hush-label": "hush-value" } })).await.refused(404, "environment_not_found");
    ana.deploy("review-1", &session, json!({ "commitId": "hush-deployed" })).await.has_status(202);
    admin.put(&at("new"), json!({ "variables": { "PASSWORD": "hush-variable" } })).await.created();
    // Including wrong uses: mistyped, invalid, in the wrong place, in an invalid body.
    let typo = ana_token.replacen(&ana_token[3..5], "??", 1);
    server.with_token(&typo).get("/pipelines").await.refused(401, "invalid_token");
    ana.get(&format!("/pipelines?token={ana_token}")).await.refused(400, "invalid_parameter");
    let path = ana.path(&format!("{}/sessions", at("review-1")));
    for bad in ["{\"context\": \"hush-context", "{\"hush-field\": 1}", "hush-text"] {
        let request = ana.request(Method::POST, &path).header("content-type", "application/json");
        assert!(ana.send(request.body(bad)).await.status.is_client_error());
    }
    let mut wire = Wire::open(&server).await;
    wire.send(format!("{}bad header\r\n\r\n", head("GET", "/healthz"))).await;
    wire.answer().await.unwrap().has_status(400);
    let id = made["tokenId"].as_str().unwrap();
    admin.delete(&format!("/tokens/{id}")).await.has_status(204);
    ana.get("/pipelines").await.refused(401, "invalid_token");
    assert!(server.terminate().success());

    let log = server.log();
    assert!(log.contains("TRACE") && log.contains(id), "the log has been kept");
    for secret in [&ADMIN_TOKEN[3..], &ana_token[3..], &typo[5..], "hush-"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_server_ends() {
    let mut server = Server::start();
    let admin = server.admin();
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    let body = r#"{"context": "slow"}"#;
    let mut slow = Wire::open(&server).await;
    let head_of_slow = head_of_json("POST", &path, body.len());
    slow.send(head_of_slow.replacen("Content-Type", "Expect: 100-continue\r\nContent-Type", 1)).await;
    slow.answer().await.unwrap().has_status(100);
    slow.send(&body[..5]).await;
    let mut probe = Wire::open(&server).await;
    let ask = format!("{}\r\n", head("GET", "/readyz"));
    probe.send(&ask).await;
    probe.answer().await.unwrap().ok();

    server.signal("-TERM");
    let told = loop {
        probe.send(&ask).await;
        // Idle connections are closed when the server is told to end; it remains reachable until it ends.
        let Some(answer) = probe.answer().await else {
            probe = Wire::open(&server).await;
            continue;
        };
        if !answer.status.is_success() {
            break answer.refused(503, "shutting_down");
        }
    };
    assert_eq!((told.header("connection"), told.header("retry-after")), ("close", "1"));
    // Slower than the server closes idle connections while it ends.
    for byte in &body.as_bytes()[5..] {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        slow.send([*byte]).await;
    }
    let claimed = slow.answer().await.unwrap().created();
    assert_eq!(claimed.header("connection"), "close");
    assert_eq!(server.wait().code(), Some(0));
    server.start_again();
    let environment = server.admin().environment("review-1").await.ok().data();
    assert_eq!(environment["lock"]["sessionId"], claimed.session());
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_up_the_end() {
    let settings = format!("{SMALL}[http]\ndrain_seconds = 0\n");
    let mut server = Setup::default().settings(&settings).start();
    let path = server.admin().path(&format!("{}/sessions", at("review-1")));
    let mut slow = Wire::open(&server).await;
    let head_of_slow = head_of_json("POST", &path, 10);
    slow.send(head_of_slow.replacen("Content-Type", "Expect: 100-continue\r\nContent-Type", 1)).await;
    slow.answer().await.unwrap().has_status(100);
    server.signal("-INT");
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.log().contains("raise http.drain_seconds"), "{}", server.log());
    server.start_again();
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lock"], Value::Null);
}

async fn get(server: &Server, path: &str) -> Answer {
    let anonymous = server.anonymous();
    anonymous.send(anonymous.request(Method::GET, path)).await
}
