//! The server is killed repeatedly during a crowd that keeps retrying: every job gets exactly one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::connection::{Answer, Broken, Connection, Request};
use super::fleet::{Fleet, Wants};
use super::from_variable;
use super::record::{Fate, Grant, JobId, Moment, Record, context_of};

/// The time between two kills, however long a start takes.
const PACE: Duration = Duration::from_secs(1);
/// The pause before a retry, which the server requests while an earlier request is in progress.
const COME_AGAIN: Duration = Duration::from_millis(10);

#[tokio::test]
async fn with_its_key_every_job_gets_one_lock_however_often_the_server_is_killed() {
    let kills = from_variable("LOCKKEEPER_TEST_CROWD_KILLS").unwrap_or(6);
    let at_once = from_variable("LOCKKEEPER_TEST_CROWD_JOBS").unwrap_or(100);
    println!("LOCKKEEPER_TEST_CROWD_KILLS={kills} LOCKKEEPER_TEST_CROWD_JOBS={at_once}");
    let Fleet { mut server, record } = Fleet::start().await;
    let (address, addresses) = watch::channel(server.address.clone());
    let shared = Arc::new(ClientContext { record: record.clone(), ..ClientContext::default() });
    let running: Vec<_> = (0..at_once)
        .map(|_| Client { addresses: addresses.clone(), connection: None, shared: shared.clone() })
        .map(|client| tokio::spawn(client.work()))
        .collect();
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace.tick().await;
    for _ in 0..kills {
        pace.tick().await;
        let restart = tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again();
            server
        });
        server = restart.await.unwrap();
        address.send_replace(server.address.clone());
    }
    shared.closing.store(true, Ordering::Relaxed);
    for worker in running {
        worker.await.unwrap();
    }
    let fleet = Fleet { server, record };
    let story = fleet.check().await;
    let sessions: usize = story.histories.iter().map(|history| history.sessions.len()).sum();
    let ClientContext { broken, replayed, .. } = &*shared;
    println!(
        "{kills} kills, {} jobs, {sessions} sessions; {} requests without an answer, {} answers given again",
        fleet.record.jobs(),
        broken.load(Ordering::Relaxed),
        replayed.load(Ordering::Relaxed)
    );
    assert_eq!(sessions, fleet.record.jobs());
}

#[derive(Default)]
struct ClientContext {
    record: Arc<Record>,
    /// Whether no new jobs start.
    closing: AtomicBool,
    broken: AtomicUsize,
    replayed: AtomicUsize,
}

/// Does one job after another, over all restarts of the server.
struct Client {
    addresses: watch::Receiver<String>,
    connection: Option<Connection>,
    shared: Arc<ClientContext>,
}

/// How a job waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitMode {
    OnTheLine,
    Asking,
}

impl Client {
    async fn work(mut self) {
        while !self.shared.closing.load(Ordering::Relaxed) {
            let mut job = None;
            let id = self.shared.record.add(Fate::Served, |id| job.insert(plan(id)).2.to_string());
            let (wants, way, claim) = job.unwrap();
            self.serve(id, wants, way, &claim).await;
        }
    }

    async fn serve(&mut self, id: JobId, wants: Wants, way: WaitMode, claim: &Request) {
        self.note(id, Moment::Claims);
        let answer = self.until_answered(claim).await;
        if answer.replayed {
            self.shared.replayed.fetch_add(1, Ordering::Relaxed);
        }
        let session = match (answer.status, way) {
            (201, _) => answer.body["data"].clone(),
            (202, WaitMode::Asking) => {
                self.note(id, Moment::Queued);
                match self.ask_for_turn(wants, &answer.body["data"]).await {
                    Ok(session) => session,
                    Err(told) => return self.note(id, Moment::Refused(told)),
                }
            }
            _ => return self.note(id, Moment::Refused(answer.told())),
        };
        let grant = Grant::of(&session);
        self.note(id, Moment::Holds(grant.clone()));
        tokio::task::yield_now().await;
        self.note(id, Moment::Releases);
        let path = format!("/{}/sessions/{}", grant.environment, grant.session);
        let released = self.until_answered(&Request::new("DELETE", &path, None)).await;
        if released.status != 200 || released.body["data"]["lockStatus"] != "released" {
            self.note(id, Moment::Refused(released.told()));
        }
    }

    /// Polls a queued session until it has its lock.
    async fn ask_for_turn(&mut self, wants: Wants, session: &Value) -> Result<Value, String> {
        let path = format!("{}/{}?waitSeconds=30", wants.path(), session["sessionId"].as_str().unwrap());
        let mut etag = "\"none\"".to_owned();
        loop {
            let ask = Request::new("GET", &path, None).header("If-None-Match", &etag);
            let answer = self.until_answered(&ask).await;
            match (answer.status, answer.body["data"]["lockStatus"].as_str()) {
                (200, Some("active")) => return Ok(answer.body["data"].clone()),
                (200, Some("queued")) => etag = answer.etag.unwrap(),
                (304, _) => {}
                _ => return Err(answer.told()),
            }
        }
    }

    async fn until_answered(&mut self, request: &Request) -> Answer {
        loop {
            let Some(connection) = self.connect().await else { continue };
            match connection.ask(request).await {
                Ok(answer) if answer.status == 503 || answer.body["code"] == "idempotency_key_in_flight" => {
                    tokio::time::sleep(COME_AGAIN).await;
                }
                Ok(answer) => return answer,
                Err(Broken) => {
                    self.shared.broken.fetch_add(1, Ordering::Relaxed);
                    self.connection = None;
                }
            }
        }
    }

    /// The existing connection, or a new one; if the server does not answer, waits for its next start.
    async fn connect(&mut self) -> Option<&mut Connection> {
        if self.connection.is_none() {
            let address = self.addresses.borrow_and_update().clone();
            match Connection::open(&address).await {
                Ok(connection) => self.connection = Some(connection),
                Err(Broken) => self.addresses.changed().await.unwrap(),
            }
        }
        self.connection.as_mut()
    }

    fn note(&self, id: JobId, moment: Moment) {
        self.shared.record.note(id, moment);
    }
}

fn plan(id: JobId) -> (Wants, WaitMode, Request) {
    let wants = Wants::of(id);
    let way = if id.is_multiple_of(3) { WaitMode::Asking } else { WaitMode::OnTheLine };
    let context = context_of(id);
    let body = match way {
        WaitMode::OnTheLine => json!({ "context": context, "waitSeconds": 300 }),
        WaitMode::Asking => json!({ "context": context, "queue": true }),
    };
    let claim = Request::new("POST", &wants.path(), Some(wants.body(body)));
    (wants, way, claim.header("Idempotency-Key", &format!("key-of-{context}")))
}
