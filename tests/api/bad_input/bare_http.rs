//! Requests that an HTTP client would not send: broken, endless and stalling ones.

use super::assert_untouched;
use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{Server, Setup, at};

/// Short, so that tests of timeouts are quick.
const IMPATIENT: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\nhead_timeout_seconds = 1\n";

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_given_up_on() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\nbody_timeout_seconds = 1\n";
    let server = Setup::default().settings(settings).start();
    let admin = server.admin();
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    let mut wire = Wire::open(&server).await;
    wire.send(head_of_json("POST", &path, 10)).await;
    wire.send("{").await;
    admin.environment("review-1").await.ok();
    wire.answer().await.unwrap().refused(408, "request_timeout");
    wire.closed().await;
    assert_untouched(&admin).await;
}

#[tokio::test]
async fn a_body_that_ends_early_or_is_badly_cut_is_no_claim() {
    let server = Server::start();
    let admin = server.admin();
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    let mut short = Wire::open(&server).await;
    short.send(head_of_json("POST", &path, 100)).await;
    short.send("{}").await;
    short.finish().await;
    short.answer().await.unwrap().refused(400, "bad_request");
    let mut cut = Wire::open(&server).await;
    let head = head("POST", &path);
    cut.send(format!("{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{{}}")).await;
    cut.answer().await.unwrap().refused(400, "bad_request");
    assert_untouched(&admin).await;
    // Bytes after the length of a body are the next request, an invalid one.
    let mut long = Wire::open(&server).await;
    long.send(head_of_json("POST", &path, 2)).await;
    long.send("{}{}\r\n\r\n").await;
    long.answer().await.unwrap().created();
    long.answer().await.unwrap().has_status(400);
    long.closed().await;
}

#[tokio::test]
async fn what_is_no_http_is_turned_away_and_others_are_still_served() {
    let server = Server::start();
    let path = server.admin().path(&format!("{}/sessions", at("review-1")));
    let claim = |header: &str| format!("{}Content-Type: application/json\r\n{header}\r\n\r\n{{}}", head("POST", &path));
    let heads = |count: usize| (0..count).map(|n| format!("X-{n}: x\r\n")).collect::<String>();
    let cases: [(u16, Vec<u8>); 15] = [
        (400, b"\0\x01\x02\xff\r\n\r\n".to_vec()),
        (400, b"\x16\x03\x01\0\xc8\x01\0\0\xc4\x03\x03 no TLS here \r\n\r\n".to_vec()),
        (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        (400, b"GET /healthz HTTP/9.9\r\n\r\n".to_vec()),
        (400, b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        (400, b"GET /healthz HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n".to_vec()),
        (400, format!("{}X: {}\0\r\n\r\n", head("GET", "/healthz"), "x").into_bytes()),
        (400, claim("Content-Length: -2").into_bytes()),
        (400, claim("Content-Length: 99999999999999999999999").into_bytes()),
        (400, claim("Content-Length: 2\r\nContent-Length: 3").into_bytes()),
        (400, claim("Content-Length: 2\r\nTransfer-Encoding: chunked").into_bytes()),
        (400, claim("Transfer-Encoding: gzip").into_bytes()),
        (400, head("GET", &format!("/{}", "x".repeat(70_000))).into_bytes()),
        (431, format!("{}X: {}\r\n\r\n", head("GET", "/healthz"), "x".repeat(200_000)).into_bytes()),
        (431, format!("{}{}\r\n", head("GET", "/healthz"), heads(200)).into_bytes()),
    ];
    for (status, mut bytes) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        if !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            bytes.extend_from_slice(b"\r\n");
        }
        let mut wire = Wire::open(&server).await;
        wire.send(&bytes).await;
        let answer = wire.answer().await;
        assert_eq!(answer.map(|answer| answer.status.as_u16()), Some(status), "{shown}");
        wire.closed().await;
        server.admin().environment("review-1").await.ok();
    }
    assert_untouched(&server.admin()).await;
}

#[tokio::test]
async fn a_client_that_stops_within_a_head_is_let_go_and_others_are_still_served() {
    let server = Setup::default().settings(&format!("{IMPATIENT}keep_alive_seconds = 1\n")).start();
    let mut stalled = Vec::new();
    for bytes in ["", "G", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: "] {
        for _ in 0..20 {
            let mut wire = Wire::open(&server).await;
            wire.send(bytes).await;
            stalled.push(wire);
        }
    }
    server.admin().environment("review-1").await.ok();
    for wire in stalled {
        wire.closed().await;
    }
    server.admin().environment("review-1").await.ok();
}

#[tokio::test]
async fn a_client_that_stops_within_a_later_head_is_let_go_and_a_busy_one_is_not() {
    let server = Setup::default().settings(&format!("{IMPATIENT}keep_alive_seconds = 5\n")).start();
    let mut stalled = Wire::open(&server).await;
    stalled.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(stalled.answer().await.unwrap().status, 200);
    stalled.send("GET /healthz HT").await;
    let mut busy = Wire::open(&server).await;
    let keep_busy = async {
        loop {
            busy.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert_eq!(busy.answer().await.expect("a client that keeps asking was cut off").status, 200);
        }
    };
    tokio::select! {
        () = stalled.closed() => {}
        () = keep_busy => {}
    }
}

#[tokio::test]
async fn odd_paths_lead_nowhere() {
    let server = Server::start();
    let list = server.admin().path("/pipelines/web/ephemeral-environments");
    let long = "x".repeat(30_000);
    let cases = [
        ("//healthz".to_owned(), "route_not_found"),
        ("/healthz/x".to_owned(), "route_not_found"),
        ("/docs/../../etc/passwd".to_owned(), "route_not_found"),
        ("/docs/%2e%2e/%2e%2e/etc/passwd".to_owned(), "route_not_found"),
        ("/api/v1".to_owned(), "route_not_found"),
        ("/api/v2/organizations/acme/pipelines".to_owned(), "route_not_found"),
        ("/organizations/acme/pipelines".to_owned(), "route_not_found"),
        (format!("/{long}"), "route_not_found"),
        (format!("{list}/../web"), "route_not_found"),
        (format!("{list}/review-1//sessions"), "route_not_found"),
        (format!("{list}/review-1/history/x"), "route_not_found"),
        (format!("{list}//"), "route_not_found"),
        (format!("{list}/.."), "environment_not_found"),
        (format!("{list}/%2e%2e"), "environment_not_found"),
        (format!("{list}/review-1%2Fhistory"), "environment_not_found"),
        (format!("{list}/review-1%2f..%2freview-2"), "environment_not_found"),
        (format!("{list}/REVIEW-1"), "environment_not_found"),
        (format!("{list}/review-1%20"), "environment_not_found"),
        (format!("{list}/%zz"), "environment_not_found"),
        (format!("{list}/%"), "environment_not_found"),
        (format!("{list}/{long}"), "environment_not_found"),
        (format!("{list}/review-1/sessions/..%2F..%2Freview-2"), "session_not_found"),
        (format!("{list}/sessions/ses_"), "route_not_found"),
        (format!("{list}/sessions/ses_%00"), "session_not_found"),
        (format!("{list}/sessions/ses_%2F..%2Freview-2"), "session_not_found"),
        (format!("{list}/sessions/{long}"), "route_not_found"),
        (format!("{list}/review-1/queue/x"), "route_not_found"),
        (list.replace("acme", "%61cme%2f"), "organization_not_found"),
        (list.replace("acme", "..%2facme"), "organization_not_found"),
        (list.replace("web", "%00"), "pipeline_not_found"),
    ];
    for (path, code) in cases {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("{}\r\n", head("GET", &path))).await;
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.problem(), (404, code.to_owned()), "{path:.80}");
    }
    let mut wire = Wire::open(&server).await;
    wire.send(format!("{}\r\n", head("GET", &format!("{list}/%72eview%2D1")))).await;
    assert_eq!(wire.answer().await.unwrap().ok().data()["envName"], "review-1");
}

#[tokio::test]
async fn a_request_to_upgrade_has_the_body_that_its_length_says_and_nothing_after_it_is_executed() {
    let server = Server::start();
    let admin = server.admin();
    let sessions = |environment: &str| admin.path(&format!("{}/sessions", at(environment)));
    let next = head_of_json("POST", &sessions("review-2"), 2) + "{}";
    for (protocol, length, body) in
        [("websocket", "Content-Length: 2\r\n", "{}"), ("WebSocket", "", ""), ("h2c", "Content-Length: 2\r\n", "{}")]
    {
        let head = head("POST", &sessions("review-1"));
        let mut wire = Wire::open(&server).await;
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
        wire.send(format!("{head}{upgrade}Content-Type: application/json\r\n{length}\r\n{body}{next}")).await;
        let answer = wire.answer().await.unwrap().created();
        assert_eq!(answer.header("connection"), "close", "{protocol}: we do not upgrade, and say that we close");
        if protocol != "h2c" {
            wire.closed().await;
            assert_eq!(admin.environment("review-2").await.ok().data()["lockStatus"], "unlocked", "{protocol}");
        }
        admin.release("review-1", &answer.session()).await.ok();
    }
    // A body that looks like a request is a body.
    let inner = format!("{}\r\n", head("DELETE", &admin.path(&at("review-2"))));
    for protocol in ["websocket", "h2c"] {
        let head = head("POST", &sessions("review-1"));
        let mut wire = Wire::open(&server).await;
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\nContent-Type: application/json\r\n");
        wire.send(format!("{head}{upgrade}Content-Length: {}\r\n\r\n{inner}", inner.len())).await;
        wire.answer().await.unwrap().refused(400, "malformed_json");
        assert!(wire.answer().await.is_none(), "{protocol}");
    }
    admin.environment("review-2").await.ok();
}
