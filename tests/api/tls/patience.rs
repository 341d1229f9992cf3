//! Clients that stall with TLS: the same timeouts apply as without.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{Site, metric, until};
use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{Client, Server, at};

const BUNDLE: &str = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_off() {
    let site = Site::new();
    // Long enough for the handshake of a client that does not stall, even on a busy machine.
    let server = site.setup("[http]\nhead_timeout_seconds = 3\n").start();
    let hello = site.hello();
    let mut stalled = Vec::new();
    for sent in [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello] {
        for _ in 0..10 {
            let mut wire = Wire::open(&server).await;
            wire.send(sent).await;
            stalled.push(wire);
        }
    }
    let admin = site.admin(&server);
    admin.environment("review-1").await.ok();
    for wire in stalled {
        wire.closed().await;
    }
    let timed_out = "lockkeeper_tls_handshakes_total{outcome=\"timed_out\"}";
    until("all are counted", async || metric(&admin, timed_out).await == 40).await;
    until("it is logged", async || server.log().contains("it took longer than http.head_timeout_seconds")).await;
}

#[tokio::test]
async fn what_is_no_tls_is_turned_away_and_a_mere_look_is_not_counted() {
    let site = Site::new();
    let server = site.start();
    let admin = site.admin(&server);
    let mut head_of_noise = site.hello();
    head_of_noise[1..].fill(0xee);
    for noise in [b"\0\x01\x02\xff\r\n\r\n".to_vec(), head_of_noise, b"SSH-2.0-client\r\n".to_vec()] {
        let mut wire = Wire::open(&server).await;
        wire.send(noise).await;
        wire.closed().await;
    }
    drop(Wire::open(&server).await);
    let failed = "lockkeeper_tls_handshakes_total{outcome=\"failed\"}";
    until("all of them are counted", async || metric(&admin, failed).await == 3).await;
    let mut wire = site.wire(&server).await;
    wire.send("no HTTP\r\n\r\n").await;
    wire.answer().await.unwrap().has_status(400);
}

#[tokio::test]
async fn a_crowd_of_stalled_handshakes_keeps_nobody_out() {
    let site = Site::new();
    let settings = site.settings("[http]\nhead_timeout_seconds = 300\nmax_connections = 10\n");
    let server = crate::support::Setup::default().settings(&format!("workers = 1\n{settings}")).start();
    let hello = site.hello();
    let mut crowd = Vec::new();
    for n in 0..60 {
        let mut wire = Wire::open(&server).await;
        wire.send(&hello[..(n % 3) * 40]).await;
        crowd.push(wire);
    }
    let admin = site.admin(&server);
    // A connection whose bytes have just arrived is not closed yet; a moment later it is.
    until("others are served", async || admin.claim("review-1", json!({})).await.status != 503).await;
    assert_eq!(admin.environment("review-1").await.ok().data()["lockStatus"], "locked");
    let crowded = "lockkeeper_connections_cut_off_total{reason=\"crowded\"}";
    until("the crowd is gone", async || metric(&admin, crowded).await >= 50).await;
}

#[tokio::test]
async fn where_all_connections_wait_a_probe_is_answered() {
    let site = Site::new();
    let settings = site.settings("[http]\nmax_connections = 5\n");
    let server = crate::support::Setup::default().settings(&format!("workers = 1\n{settings}")).start();
    let path = server.admin().path(&format!("{}/sessions", at("review-1")));
    let mut first = site.wire(&server).await;
    first.send(head_of_json("POST", &path, 2) + "{}").await;
    let held = first.answer().await.unwrap().created().session();
    let body = r#"{"waitSeconds": 300}"#;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut wire = site.wire(&server).await;
        wire.send(head_of_json("POST", &path, body.len()) + body).await;
        waiting.push(wire);
    }
    let environment = server.admin().path(&at("review-1"));
    loop {
        first.send(head("GET", &environment) + "\r\n").await;
        if first.answer().await.unwrap().ok().data()["queueLength"] == 4 {
            break;
        }
    }
    // The idle one is closed for the last of them.
    let mut last = site.wire(&server).await;
    last.send(head("GET", &format!("{path}/{held}?waitSeconds=300")) + "If-None-Match: *\r\n\r\n").await;
    first.closed().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        let mut probe = site.wire(&server).await;
        probe.send(head("GET", path) + "\r\n").await;
        let answer = probe.answer().await.unwrap().ok();
        assert_eq!(answer.header("connection"), "close", "{path}");
    }
    let mut other = site.wire(&server).await;
    other.send(head("GET", &environment) + "\r\n").await;
    other.answer().await.unwrap().refused(503, "overloaded");
}

#[tokio::test]
async fn those_that_do_not_read_cost_little_and_are_cut_off() {
    const UNREAD: u64 = 100;
    let site = Site::new();
    let server = site.setup("[http]\nwrite_timeout_seconds = 1\n").start();
    let admin = site.admin(&server);
    admin.send(admin.request(reqwest::Method::GET, "/docs/swagger-ui-bundle.js")).await.ok();
    let before = resident_mb(&server);
    let mut unread = Vec::new();
    for _ in 0..UNREAD {
        let mut wire = site.wire(&server).await;
        wire.send(BUNDLE.repeat(8)).await;
        unread.push(wire);
    }
    let during = resident_mb(&server);
    let cut_off = "lockkeeper_connections_cut_off_total{reason=\"unread\"}";
    until("they are cut off", async || metric(&admin, cut_off).await == UNREAD).await;
    for wire in unread {
        wire.closed().await;
    }
    println!("before: {before} MB, during: {during} MB, after: {} MB", resident_mb(&server));
    assert!(during < before + 64, "{before} MB, then {during} MB");
}

#[tokio::test]
async fn one_that_reads_slowly_but_steadily_gets_everything() {
    let site = Site::new();
    let server = site.start();
    let admin = site.admin(&server);
    let bundle = admin.send(admin.request(reqwest::Method::GET, "/docs/swagger-ui-bundle.js")).await.ok().text;
    let mut wire = site.wire(&server).await;
    for _ in 0..2 {
        wire.send(BUNDLE).await;
        let mut answer = Vec::new();
        while !answer.ends_with(bundle.as_bytes()) {
            // Long enough for the server to notice that it cannot write more.
            admin.environment("review-1").await.ok();
            let mut piece = vec![0; 64 * 1024];
            let length = wire.stream().read(&mut piece).await.unwrap();
            assert!(length > 0 && answer.len() <= bundle.len() + 2_000, "{} bytes", answer.len());
            answer.extend_from_slice(&piece[..length]);
        }
    }
}

#[tokio::test]
async fn a_client_that_ends_in_any_way_waits_no_longer() {
    let site = Site::new();
    let server = site.start();
    let admin = site.admin(&server);
    let held = admin.claim("review-1", json!({})).await.created().session();
    // With an alert, by closing the connection, and with both.
    for (alert, connection) in [(true, false), (false, true), (true, true)] {
        let mut wire = wait(&site, &server, &admin).await;
        if alert {
            wire.stream().get_mut().1.send_close_notify();
            wire.stream().flush().await.unwrap();
        }
        if connection {
            socket2::SockRef::from(wire.stream().get_ref().0).shutdown(std::net::Shutdown::Write).unwrap();
        }
        wire.answer().await.unwrap().refused(408, "client_gone");
        admin.until_queue_is("review-1", 0).await;
    }
    drop(wait(&site, &server, &admin).await);
    admin.until_queue_is("review-1", 0).await;
    admin.release("review-1", &held).await.ok();
    assert_eq!(admin.environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn requests_sent_while_another_one_waits_are_all_answered_in_their_order() {
    const AHEAD: usize = 300;
    let site = Site::new();
    let server = site.start();
    let admin = site.admin(&server);
    let held = admin.claim("review-1", json!({})).await.created().session();
    let mut wire = wait(&site, &server, &admin).await;
    let next = |n: usize| format!("{}X-Request-Id: n{n}\r\n\r\n", head("GET", "/healthz"));
    wire.send((0..AHEAD).map(next).collect::<String>()).await;
    admin.release("review-1", &held).await.ok();
    wire.answer().await.unwrap().created();
    for n in 0..AHEAD {
        assert_eq!(wire.answer().await.unwrap().ok().header("x-request-id"), format!("n{n}"));
    }
}

#[tokio::test]
async fn a_stop_answers_what_is_under_way_and_waits_for_no_handshake() {
    let site = Site::new();
    let mut server = site.setup("[http]\nhead_timeout_seconds = 300\ndrain_seconds = 600\n").start();
    let admin = site.admin(&server);
    admin.claim("review-1", json!({})).await.created();
    let mut waiting = wait(&site, &server, &admin).await;
    let path = admin.path(&format!("{}/sessions", at("review-2")));
    let body = r#"{"context": "slow"}"#;
    let mut slow = site.wire(&server).await;
    let head_of_slow = head_of_json("POST", &path, body.len());
    slow.send(head_of_slow.replacen("Content-Type", "Expect: 100-continue\r\nContent-Type", 1)).await;
    slow.answer().await.unwrap().has_status(100);
    let mut stalled = Wire::open(&server).await;
    stalled.send(&site.hello()[..20]).await;
    let mut probe = site.wire(&server).await;
    let ask = format!("{}\r\n", head("GET", "/readyz"));
    probe.send(&ask).await;
    probe.answer().await.unwrap().ok();

    server.signal("-TERM");
    waiting.answer().await.unwrap().refused(503, "shutting_down");
    slow.send(body).await;
    let claimed = slow.answer().await.unwrap().created();
    assert_eq!(claimed.header("connection"), "close");
    assert_eq!(server.wait().code(), Some(0));
    stalled.closed().await;
    assert!(!server.log().contains("raise http.drain_seconds"), "{}", server.log());
    server.start_again();
    let environment = site.admin(&server).environment("review-2").await.ok().data();
    assert_eq!(environment["lock"]["sessionId"], claimed.session());
}

/// A claim that waits for review-1.
async fn wait(site: &Site, server: &Server, admin: &Client) -> Wire<TlsStream<TcpStream>> {
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    let body = r#"{"waitSeconds": 300}"#;
    let mut wire = site.wire(server).await;
    wire.send(head_of_json("POST", &path, body.len()) + body).await;
    admin.until_queue_is("review-1", 1).await;
    wire
}

fn resident_mb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}
