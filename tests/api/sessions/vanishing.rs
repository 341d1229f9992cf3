//! Clients that disconnect while they wait: their places are free immediately, and no lock stays with a client that is
//! gone.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::waiting::{ANY, column};
use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{Client, Server, Setup, assert_has, at};

/// How often the end of a connection and the grant of a lock are made to coincide.
const ROUNDS: u64 = 120;
const NO_HTTP: &str = "no HTTP\r\n\r\n";

#[tokio::test]
async fn a_client_that_closes_its_connection_leaves_the_queue_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let path = sessions(&admin, "review-1");
    for (queue, keyed) in [(false, false), (false, true), (true, false)] {
        for end in [End::Close, End::HalfClose] {
            let mut wire = Wire::open(&server).await;
            let key = format!("{queue}-{end:?}");
            let body = json!({ "waitSeconds": 300, "queue": queue });
            post(&mut wire, &path, &body, keyed.then_some(&key)).await;
            admin.until_queue_is("review-1", 1).await;
            let left = end.of(wire).await;
            admin.until_queue_is("review-1", 0).await;
            if let Some(wire) = left {
                wire.closed().await;
            }
        }
    }
    admin.release("review-1", &held).await.ok();
    assert_has(&admin.environment("review-1").await.data(), json!({ "lockStatus": "unlocked", "queueLength": 0 }));
    let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(column(&history, "sessionId"), [held], "none of them ever had the lock");
}

/// The only kind that stays: the client can learn its id again with the key, and it expires when nobody has polled it
/// for a minute.
#[tokio::test]
async fn a_queued_session_with_a_key_is_kept_for_the_client_that_comes_back() {
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let body = json!({ "waitSeconds": 300, "queue": true });
    for end in [End::Close, End::HalfClose] {
        let mut wire = Wire::open(&server).await;
        let key = format!("{end:?}");
        post(&mut wire, &sessions(&admin, "review-1"), &body, Some(&key)).await;
        admin.until_queue_is("review-1", 1).await;
        let queued = column(&admin.queue("review-1").await.ok(), "sessionId");
        let _left = end.of(wire).await;
        let again = admin.until_answered(&key, &body).await.has_status(202);
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!([again.session()], queued[..]);
        assert_eq!(column(&admin.queue("review-1").await.ok(), "sessionId"), queued);
        admin.release("review-1", &again.session()).await.ok();
        admin.until_queue_is("review-1", 0).await;
    }
    admin.release("review-1", &held).await.ok();
}

#[tokio::test]
async fn a_queued_session_whose_client_vanishes_on_the_line_has_expired() {
    let server = Server::start();
    let admin = server.admin();
    admin.claim("review-1", json!({})).await.created();
    let mut wire = Wire::open(&server).await;
    post(&mut wire, &sessions(&admin, "review-1"), &json!({ "waitSeconds": 300, "queue": true }), None).await;
    admin.until_queue_is("review-1", 1).await;
    let id = admin.queue("review-1").await.ok().data()[0]["sessionId"].as_str().unwrap().to_owned();
    drop(wire);
    let ended = admin.until_session_is("review-1", &id, "expired").await;
    assert_has(&ended, json!({ "endReason": "vanished", "endedBy": null, "claimedAt": null, "queuePosition": null }));
}

#[tokio::test]
async fn one_that_has_sent_more_is_there_until_its_connection_ends() {
    let server = one_worker();
    let admin = server.admin();
    let path = sessions(&admin, "review-1");
    let request = format!("{}\r\n", head("GET", "/healthz"));
    let half = head("GET", "/healthz");
    let claim = format!("{}{{}}", head_of_json("POST", &path, 2));
    for more in ["", &request, &half, &request.repeat(40), &claim, NO_HTTP] {
        let mut held = admin.claim("review-1", json!({})).await.created().session();
        for (end, at_once) in End::ALL.into_iter().flat_map(|end| [(end, true), (end, false)]) {
            let mut wire = waiting(&server, &admin, &path).await;
            wire.send(more).await;
            if !at_once {
                read_by_now(&admin).await;
            }
            let _left = end.of(wire).await;
            admin.until_queue_is("review-1", 0).await;
        }
        let mut wire = waiting(&server, &admin, &path).await;
        wire.send(more).await;
        read_by_now(&admin).await;
        admin.release("review-1", &held).await.ok();
        held = wire.answer().await.unwrap().created().session();
        admin.release("review-1", &held).await.ok();
    }
}

#[tokio::test]
async fn one_that_goes_unread_gets_no_lock() {
    let server = one_worker();
    let admin = server.admin();
    let path = sessions(&admin, "review-1");
    for end in End::ALL {
        let held = admin.claim("review-1", json!({})).await.created().session();
        let mut wire = waiting(&server, &admin, &path).await;
        // After the first the server reads no more, so the second stays unread before the end.
        for _ in 0..2 {
            wire.send(NO_HTTP).await;
            read_by_now(&admin).await;
        }
        let _left = end.of(wire).await;
        admin.release("review-1", &held).await.ok();
        admin.until_environment("review-1", |found| found["lockStatus"] == "unlocked").await;
    }
}

#[tokio::test]
async fn one_that_hung_up_has_no_place_to_come_back_to() {
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let body = json!({ "waitSeconds": 50, "context": "back again" });
    let mut wire = Wire::open(&server).await;
    post(&mut wire, &sessions(&admin, "review-1"), &body, Some("key")).await;
    admin.until_queue_is("review-1", 1).await;
    let other = admin.enqueue("review-1", json!({ "context": "other" })).await.session();
    drop(wire);
    admin.until_queue_is("review-1", 1).await;
    let back = {
        let (admin, body) = (admin.clone(), body.clone());
        tokio::spawn(async move { admin.until_answered("key", &body).await })
    };
    admin.until_queue_is("review-1", 2).await;
    assert_eq!(column(&admin.queue("review-1").await.ok(), "context"), ["other", "back again"]);
    admin.release("review-1", &held).await.ok();
    admin.release("review-1", &other).await.ok();
    let granted = back.await.unwrap().created();
    assert_eq!(granted.header("idempotency-replayed"), "");
}

#[tokio::test]
async fn a_crowd_that_vanishes_does_not_hold_up_who_comes_after_it() {
    const CROWD: usize = 100;
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let path = sessions(&admin, "review-1");
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut wire = Wire::open(&server).await;
        post(&mut wire, &path, &json!({ "waitSeconds": 300 }), None).await;
        crowd.push(wire);
    }
    admin.until_queue_is("review-1", CROWD).await;
    let last = admin.wait_in_line("review-1", json!({ "waitSeconds": 50 }), CROWD + 1).await;
    drop(crowd);
    admin.release("review-1", &held).await.ok();
    // A disconnect that the server had not noticed yet is found when the client's turn comes.
    assert_eq!(last.await.unwrap().created().data()["lockStatus"], "active");
    admin.until_queue_is("review-1", 0).await;
}

#[tokio::test]
async fn one_cut_off_in_the_moment_of_the_release_leaves_the_lock_to_the_next() {
    let server = Server::start();
    let admin = server.admin();
    let mut random = SmallRng::seed_from_u64(1);
    let path = sessions(&admin, "review-1");
    let mut holder = admin.claim("review-1", json!({})).await.created().session();
    for round in 0..ROUNDS {
        let mut wire = Wire::open(&server).await;
        post(&mut wire, &path, &json!({ "waitSeconds": 300, "context": "cut off" }), None).await;
        admin.until_queue_is("review-1", 1).await;
        let next = admin.wait_in_line("review-1", json!({ "waitSeconds": 50 }), 2).await;
        let told = cut_off_in_the_moment(&mut random, wire, admin.release("review-1", &holder)).await;
        if let Some(session) = told {
            // The server was quicker, and its answer has arrived: that client has the lock, and may release it.
            admin.release("review-1", &session).await.ok();
        }
        let granted = next.await.unwrap().created();
        assert_eq!(granted.data()["lockStatus"], "active", "round {round}");
        holder = granted.session();
    }
}

#[tokio::test]
async fn one_cut_off_in_the_moment_of_the_release_leaves_the_lock_free() {
    let server = Server::start();
    let admin = server.admin();
    let mut random = SmallRng::seed_from_u64(2);
    for round in 0..ROUNDS {
        let held = admin.claim("review-1", json!({})).await.created().session();
        let mut wire = Wire::open(&server).await;
        let body = json!({ "waitSeconds": 300, "queue": round % 2 == 0 });
        post(&mut wire, &sessions(&admin, "review-1"), &body, None).await;
        admin.until_queue_is("review-1", 1).await;
        let told = cut_off_in_the_moment(&mut random, wire, admin.release("review-1", &held)).await;
        if let Some(session) = told {
            admin.release("review-1", &session).await.ok();
        }
        admin.until_environment("review-1", |found| found["lockStatus"] == "unlocked").await;
    }
    let history = admin.get(&format!("{}/history?limit=100", at("review-1"))).await.ok();
    for session in history.data().as_array().unwrap() {
        let ended = (session["lockStatus"].as_str().unwrap(), session["endReason"].as_str());
        assert!([("released", None), ("expired", Some("vanished"))].contains(&ended), "{session:#}");
    }
}

#[tokio::test]
async fn one_cut_off_while_it_waits_for_any_environment_leaves_it_free() {
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    let mut random = SmallRng::seed_from_u64(3);
    for round in 0..ROUNDS {
        // An undeliverable grant may still be held for a moment.
        let held = admin.claim("only", json!({ "waitSeconds": 50 })).await.created().session();
        let mut wire = Wire::open(&server).await;
        let body = json!({ "waitSeconds": 300, "queue": round % 2 == 0, "labels": { "only": "one" } });
        post(&mut wire, &admin.path(ANY), &body, None).await;
        let told = cut_off_in_the_moment(&mut random, wire, admin.release("only", &held)).await;
        if let Some(session) = told {
            admin.release("only", &session).await.ok();
        }
        admin.until_environment("only", |found| found["lockStatus"] == "unlocked").await;
    }
}

#[tokio::test]
async fn one_cut_off_in_the_moment_of_its_claim_leaves_the_lock_free() {
    let server = Server::start();
    let admin = server.admin();
    let mut random = SmallRng::seed_from_u64(4);
    for _ in 0..ROUNDS {
        let mut wire = Wire::open(&server).await;
        post(&mut wire, &sessions(&admin, "review-1"), &json!({}), None).await;
        if let Some(session) = cut_off_in_the_moment(&mut random, wire, async {}).await {
            admin.release("review-1", &session).await.ok();
        }
        admin.until_environment("review-1", |found| found["lockStatus"] == "unlocked").await;
    }
}

#[tokio::test]
async fn one_that_comes_back_with_its_key_has_what_it_was_granted_and_keeps_it() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let admin = server.admin();
    let mut random = SmallRng::seed_from_u64(5);
    for round in 0..ROUNDS {
        let key = format!("round-{round}");
        let body = json!({ "context": key });
        let mut wire = Wire::open(&server).await;
        post(&mut wire, &sessions(&admin, "review-1"), &body, Some(&key)).await;
        let told = cut_off_in_the_moment(&mut random, wire, async {}).await;
        let again = admin.until_answered(&key, &body).await.created();
        let session = again.session();
        assert!(told.is_none_or(|told| told == session));
        // It has no TTL, and its client knows about it: only a release ends it.
        let lock = admin.environment("review-1").await.ok().data()["lock"].clone();
        let expected = json!({ "sessionId": session, "context": key, "expiresAt": null });
        assert_has(&lock, expected);
        admin.release("review-1", &session).await.ok();
    }
}

#[tokio::test]
async fn a_grant_that_the_one_who_asks_never_heard_of_is_taken_back_in_time() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let admin = server.admin();
    let mut random = SmallRng::seed_from_u64(6);
    for round in 0..ROUNDS {
        let held = admin.claim("review-1", json!({})).await.created().session();
        let queued = admin.enqueue("review-1", json!({})).await.session();
        let place = format!("{}/sessions/{queued}", at("review-1"));
        let etag = admin.get(&place).await.ok().header("etag").to_owned();
        let mut wire = Wire::open(&server).await;
        let path = admin.path(&format!("{place}?waitSeconds=300"));
        wire.send(format!("{}If-None-Match: {etag}\r\n\r\n", head("GET", &path))).await;
        let told = cut_off_in_the_moment(&mut random, wire, admin.release("review-1", &held)).await;
        let lock = admin.until_environment("review-1", |found| found["queueLength"] == 0).await["lock"].clone();
        assert_eq!(lock["sessionId"], queued);
        // A holder that does not know of its lock would keep it permanently.
        assert_eq!(lock["expiresAt"].is_null(), told.is_some(), "round {round}: told {told:?}, {lock:#}");
        admin.release("review-1", &queued).await.ok();
    }
}

/// A client that half-closes its connection with its request looks like one that has died, so it is granted nothing,
/// not even for a moment, and is told why. Requests that do not hold a lock are executed.
#[tokio::test]
async fn one_that_closes_its_half_with_its_request_is_granted_nothing_and_told_why() {
    let server = Server::start();
    let admin = server.admin();
    let path = sessions(&admin, "review-1");
    for body in ["{}", r#"{"waitSeconds": 300}"#, r#"{"queue": true, "waitSeconds": 1}"#] {
        let mut wire = Wire::open(&server).await;
        wire.send_last(head_of_json("POST", &path, body.len()) + body).await;
        let told = wire.answer().await.unwrap().refused(408, "client_gone");
        assert!(told.json()["detail"].as_str().unwrap().contains("keep both directions open"), "{told:?}");
        wire.closed().await;
    }
    let held = admin.claim("review-1", json!({})).await.created();
    assert_eq!(held.data()["fencingToken"], 1, "nobody had the lock before");
    let session = admin.path(&format!("{}/sessions/{}", at("review-1"), held.session()));
    for (method, status) in [("GET", "active"), ("DELETE", "released")] {
        let mut wire = Wire::open(&server).await;
        wire.send_last(head(method, &session) + "\r\n").await;
        assert_eq!(wire.answer().await.unwrap().ok().data()["lockStatus"], status);
    }
}

/// Ends the connection while something else happens, and returns the session that the client still received, if any.
/// Only half of the connection is closed, so that this can be observed.
async fn cut_off_in_the_moment(
    random: &mut SmallRng,
    mut wire: Wire,
    meanwhile: impl Future<Output = impl Sized>,
) -> Option<String> {
    let delay = Duration::from_micros(random.random_range(0..3_000));
    let cut = async {
        // Timers are too coarse for this.
        let began = Instant::now();
        while began.elapsed() < delay {
            tokio::task::yield_now().await;
        }
        wire.finish().await;
        wire.answer().await
    };
    let (answer, _) = tokio::join!(cut, meanwhile);
    answer.filter(|answer| answer.status.is_success()).map(|answer| answer.session())
}

/// How a client disconnects.
#[derive(Debug, Clone, Copy)]
enum End {
    Close,
    /// It could still receive an answer, but it is unknown whether it will ever read it.
    HalfClose,
    Reset,
}

impl End {
    const ALL: [Self; 3] = [Self::Close, Self::HalfClose, Self::Reset];

    /// Returns the half that stays open.
    async fn of(self, mut wire: Wire) -> Option<Wire> {
        match self {
            Self::Close => drop(wire),
            Self::HalfClose => {
                wire.finish().await;
                return Some(wire);
            }
            Self::Reset => wire.reset(),
        }
        None
    }
}

/// Ensures that data sent first is read first, whoever sends it.
fn one_worker() -> Server {
    Setup::default().settings("workers = 1\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n").start()
}

/// With one worker, everything sent before this has been read after it.
async fn read_by_now(admin: &Client) {
    admin.environment("review-1").await.ok();
}

async fn waiting(server: &Server, admin: &Client, path: &str) -> Wire {
    let mut wire = Wire::open(server).await;
    post(&mut wire, path, &json!({ "waitSeconds": 300 }), None).await;
    admin.until_queue_is("review-1", 1).await;
    wire
}

fn sessions(client: &Client, environment: &str) -> String {
    client.path(&format!("{}/sessions", at(environment)))
}

async fn post(wire: &mut Wire, path: &str, body: &Value, key: Option<&str>) {
    let body = body.to_string();
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = head("POST", path);
    wire.send(format!("{head}{key}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")).await;
}

impl Client {
    /// Repeats a claim until the server has noticed that its first client is gone.
    async fn until_answered(&self, key: &str, body: &Value) -> crate::support::Answer {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let again = self.post_with_key(&format!("{}/sessions", at("review-1")), key, body.clone()).await;
            if again.status != 409 || again.problem().1 != "idempotency_key_in_flight" {
                return again;
            }
            assert!(Instant::now() < deadline, "the server does not see that its client is gone");
        }
    }
}
