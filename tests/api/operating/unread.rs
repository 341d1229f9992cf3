//! Clients that send requests without reading, that crowd the server, or that pipeline too much: they are disconnected,
//! cost little meanwhile, and do not keep others from being served. None of them needs a token.

use serde_json::json;

use crate::support::waiting::until;
use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{Server, Setup, at};

/// Short, so that tests of timeouts are quick.
const IMPATIENT: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\nwrite_timeout_seconds = 1\n";
const BUNDLE: &str = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn three_hundred_that_do_not_read_cost_little_and_are_cut_off() {
    let server = Setup::default().settings(IMPATIENT).start();
    warm(&server).await;
    let before = Memory::of(&server);
    let mut unread = Vec::new();
    for _ in 0..300 {
        let mut wire = Wire::open(&server).await;
        wire.send(BUNDLE.repeat(8)).await;
        unread.push(wire);
    }
    let during = Memory::of(&server);
    until_cut_off(&server, "unread", 300).await;
    // Only now the test reads, to find that nothing more comes.
    for wire in unread {
        wire.closed().await;
    }
    println!("before: {before}; during: {during}; after: {}", Memory::of(&server));
    assert!(during.resident_mb < before.resident_mb + 64, "before: {before}; during: {during}");
    get(&server, "/healthz").await;
}

#[tokio::test]
async fn requests_sent_far_ahead_of_their_answers_do_not_pile_up() {
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let server = Setup::default().settings(IMPATIENT).start();
    warm(&server).await;
    let before = Memory::of(&server);
    let mut senders = Vec::new();
    for _ in 0..20 {
        let mut wire = Wire::open(&server).await;
        senders.push(tokio::spawn(async move {
            // It cannot send all of it, and is disconnected while it tries.
            wire.send(BUNDLE.repeat(8) + &REQUEST.repeat(300_000)).await;
        }));
    }
    let mut most = before.resident_mb;
    while senders.iter().any(|sender| !sender.is_finished()) {
        most = most.max(Memory::of(&server).resident_mb);
        tokio::task::yield_now().await;
    }
    until_cut_off(&server, "unread", 20).await;
    println!("before {} MB, at most {most} MB", before.resident_mb);
    assert!(most < before.resident_mb + 64, "{} MB, then {most} MB", before.resident_mb);
}

#[tokio::test]
async fn a_crowd_that_does_not_read_keeps_no_probe_out() {
    let settings = format!("workers = 1\n{IMPATIENT}max_connections = 50\n").replace("seconds = 1", "seconds = 300");
    let server = Setup::default().settings(&settings).start();
    let mut crowd = Vec::new();
    for _ in 0..120 {
        let mut wire = Wire::open(&server).await;
        wire.send(BUNDLE.repeat(8)).await;
        crowd.push(wire);
    }
    get(&server, "/healthz").await;
    // Others are served as soon as the server notices that the crowd does not read.
    until("others are served", async || server.admin().claim("review-1", json!({})).await.status != 503).await;
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "locked");
}

#[tokio::test]
async fn where_all_connections_wait_a_probe_is_answered_and_others_are_told_to_come_again() {
    let settings = format!("workers = 1\n{IMPATIENT}max_connections = 10\n");
    let server = Setup::default().settings(&settings).start();
    let mut first = Wire::open(&server).await;
    let path = server.admin().path(&format!("{}/sessions", at("review-1")));
    first.send(head_of_json("POST", &path, 2) + "{}").await;
    let held = first.answer().await.unwrap().created().session();
    let mut waiting = Vec::new();
    for _ in 0..9 {
        let mut wire = Wire::open(&server).await;
        let body = r#"{"waitSeconds": 300}"#;
        wire.send(head_of_json("POST", &path, body.len()) + body).await;
        waiting.push(wire);
    }
    let queue = server.admin().path(&at("review-1"));
    loop {
        first.send(head("GET", &queue) + "\r\n").await;
        if first.answer().await.unwrap().ok().data()["queueLength"] == 9 {
            break;
        }
    }
    // The tenth is idle, and makes room for a new one, whose request then keeps the place.
    let mut last = Wire::open(&server).await;
    last.send(head("GET", &format!("{queue}/sessions/{held}?waitSeconds=300")) + "If-None-Match: *\r\n\r\n").await;
    first.closed().await;
    get(&server, "/healthz").await;

    let mut refused = Wire::open(&server).await;
    refused.send(head("GET", &queue) + "\r\n").await;
    let answer = refused.answer().await.unwrap().refused(503, "overloaded");
    assert_eq!((answer.header("retry-after"), answer.header("connection")), ("1", "close"));
    refused.closed().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(&server, path).await.header("connection"), "close", "{path}");
    }
    // No waiter has lost its place.
    drop(last);
    until("there is room", async || server.admin().release("review-1", &held).await.status != 503).await;
    let mut granted = 0;
    for mut wire in waiting {
        let session = wire.answer().await.unwrap().created().session();
        server.admin().release("review-1", &session).await.ok();
        granted += 1;
    }
    assert_eq!(granted, 9);
}

#[tokio::test]
async fn one_that_does_not_read_does_not_hold_up_the_end_of_the_server() {
    let settings =
        format!("{IMPATIENT}drain_seconds = 600\n").replace("write_timeout_seconds = 1", "write_timeout_seconds = 300");
    let mut server = Setup::default().settings(&settings).start();
    warm(&server).await;
    let mut unread = Wire::open(&server).await;
    unread.send(BUNDLE.repeat(8)).await;
    // It is being answered.
    unread.read_some().await;
    assert!(server.terminate().success());
    assert!(!server.log().contains("raise http.drain_seconds"), "{}", server.log());
}

#[tokio::test]
async fn requests_sent_while_another_one_waits_are_all_answered_in_their_order() {
    const AHEAD: usize = 300;
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    let body = r#"{"waitSeconds": 300}"#;
    let next = |n: usize| format!("{}X-Request-Id: n{n}\r\n\r\n", head("GET", "/healthz"));
    for together in [true, false] {
        let mut wire = Wire::open(&server).await;
        let claim = head_of_json("POST", &path, body.len()) + body;
        let ahead: String = (0..AHEAD).map(next).collect();
        if together {
            wire.send(claim + &ahead).await;
        } else {
            wire.send(claim).await;
            wire.send(ahead).await;
        }
        admin.until_queue_is("review-1", 1).await;
        let holder = admin.environment("review-1").await.ok().data()["lock"]["sessionId"].clone();
        admin.release("review-1", holder.as_str().unwrap_or(&held)).await.ok();
        wire.answer().await.unwrap().created();
        for n in 0..AHEAD {
            assert_eq!(wire.answer().await.unwrap().ok().header("x-request-id"), format!("n{n}"));
        }
    }
}

/// The server's resident memory, and the kernel's memory for all TCP connections of this machine.
struct Memory {
    resident_mb: u64,
    kernel_mb: u64,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MB resident, {} MB in the kernel", self.resident_mb, self.kernel_mb)
    }
}

impl Memory {
    fn of(server: &Server) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let sockets = std::fs::read_to_string("/proc/net/sockstat").unwrap();
        let pages = sockets.lines().find(|line| line.starts_with("TCP:")).unwrap().rsplit(' ').next().unwrap();
        Self {
            resident_mb: resident.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024,
            kernel_mb: pages.parse::<u64>().unwrap() * 4 / 1024,
        }
    }
}

/// Requests the files that are unpacked only once.
async fn warm(server: &Server) {
    get(server, "/docs/swagger-ui-bundle.js").await;
}

async fn get(server: &Server, path: &str) -> crate::support::Answer {
    let mut wire = Wire::open(server).await;
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    wire.answer().await.unwrap().ok()
}

async fn until_cut_off(server: &Server, reason: &str, expected: u64) {
    let series = format!("lockkeeper_connections_cut_off_total{{reason=\"{reason}\"}} ");
    loop {
        let metrics = get(server, "/metrics").await.text;
        let count =
            metrics.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap());
        if count == expected {
            return;
        }
        assert!(count < expected, "{count} cut off");
    }
}
