//! A job of a crowd: claims, waits for its turn, uses its environment for a moment and releases it; or disconnects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::connection::{Answer, Broken, Connection, Request};
use super::fleet::{ENVIRONMENTS, Fleet, Wants};
use super::record::{Fate, Grant, JobId, Moment, Record, context_of, job_of};

/// The server's maximum wait.
const WAIT_SECONDS: u32 = 300;
/// Frees the lock of a job that disconnected and could not release it.
const SHORT_TTL_SECONDS: u32 = 1;

/// A job's use of its environment.
#[derive(Clone)]
pub enum Hold {
    Nothing,
    Moment,
    Deploy,
    Until(watch::Receiver<bool>),
}

impl Hold {
    pub fn of(number: usize) -> Self {
        match number % 3 {
            0 => Hold::Nothing,
            1 => Hold::Moment,
            _ => Hold::Deploy,
        }
    }
}

/// When a job closes its connection without notice.
#[derive(Clone)]
pub enum Cut {
    /// When it is told to.
    Told(watch::Receiver<bool>),
    /// After this many releases by any job.
    AfterReleases(usize),
    /// When the release that makes it next is sent, or this many moments later.
    AtGrant(usize),
    /// When it has its lock.
    Holding,
}

/// The jobs that disconnect at their grant, and how they are notified.
#[derive(Default)]
pub struct CutSignals {
    of: Mutex<HashMap<JobId, Arc<Notify>>>,
}

/// The data shared by all jobs.
pub struct JobContext {
    address: String,
    record: Arc<Record>,
    signals: Arc<CutSignals>,
}

pub struct Job {
    pub id: JobId,
    hold: Hold,
    cut: Option<Cut>,
    request: Request,
    place: JobContext,
}

impl Job {
    pub fn new(fleet: &Fleet, wants: Wants, hold: Hold) -> Self {
        Self::with(fleet, &Arc::default(), wants, hold, None)
    }

    pub fn with(fleet: &Fleet, signals: &Arc<CutSignals>, wants: Wants, hold: Hold, cut: Option<Cut>) -> Self {
        // A job that leaves before it can have a lock needs no TTL to free it.
        let needs_ttl = cut.as_ref().is_some_and(|cut| !matches!(cut, Cut::Told(_)));
        let request = |id| {
            let mut body = json!({ "context": context_of(id), "waitSeconds": WAIT_SECONDS });
            if needs_ttl {
                body["ttlSeconds"] = json!(SHORT_TTL_SECONDS);
            }
            Request::new("POST", &wants.path(), Some(wants.body(body)))
        };
        let fate = match cut {
            None => Fate::Served,
            Some(Cut::Told(_)) => Fate::LeftUnserved,
            Some(Cut::AfterReleases(_) | Cut::AtGrant(_) | Cut::Holding) => Fate::CutOff,
        };
        let id = fleet.record.add(fate, |id| request(id).to_string());
        if let Some(Cut::AtGrant(_)) = cut {
            signals.of.lock().unwrap().insert(id, Arc::default());
        }
        let place = JobContext {
            address: fleet.server.address.clone(),
            record: fleet.record.clone(),
            signals: signals.clone(),
        };
        Self { id, hold, cut, request: request(id), place }
    }

    /// Returns once it has a connection.
    pub async fn start(self) -> JoinHandle<()> {
        let connection = Connection::open(&self.place.address).await.unwrap();
        tokio::spawn(self.run(connection))
    }

    async fn run(self, mut connection: Connection) {
        self.note(Moment::Claims);
        let answer = tokio::select! {
            () = self.cut_off() => None,
            answer = connection.ask(&self.request) => Some(answer),
        };
        let Some(answer) = answer else { return self.vanish(connection) };
        let Some(session) = self.expect(answer, 201) else { return };
        let grant = Grant::of(&session);
        self.note(Moment::Holds(grant.clone()));
        if self.cut.is_some() {
            return self.vanish(connection);
        }
        self.use_lock(&mut connection, &grant).await;
        self.tip_off_next(&mut connection, &grant).await;
        self.note(Moment::Releases);
        let release = format!("/{}/sessions/{}", grant.environment, grant.session);
        let answer = connection.ask(&Request::new("DELETE", &release, None)).await;
        self.expect(answer, 200);
    }

    /// Completes when the job is to disconnect while it waits, if ever.
    async fn cut_off(&self) {
        match &self.cut {
            None | Some(Cut::Holding) => std::future::pending().await,
            Some(Cut::Told(told)) => _ = told.clone().wait_for(|told| *told).await.unwrap(),
            Some(Cut::AfterReleases(count)) => self.place.record.until_releases(*count).await,
            Some(Cut::AtGrant(moments)) => {
                let tip = self.place.signals.of.lock().unwrap()[&self.id].clone();
                tip.notified().await;
                for _ in 0..*moments {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn vanish(&self, connection: Connection) {
        if self.id.is_multiple_of(2) {
            connection.reset()
        } else {
            drop(connection)
        }
        self.note(Moment::CutOff(Timestamp::now()));
    }

    async fn use_lock(&self, connection: &mut Connection, grant: &Grant) {
        match &self.hold {
            Hold::Nothing => {}
            Hold::Moment => tokio::task::yield_now().await,
            Hold::Deploy => {
                let path = format!("/{}/sessions/{}/deploy", grant.environment, grant.session);
                let deploy = Request::new("POST", &path, Some(json!({ "commitId": "c0ffee1" })));
                let answer = connection.ask(&deploy).await;
                if let Some(deployment) = self.expect(answer, 202) {
                    assert_eq!(deployment["fencingToken"], grant.token);
                }
            }
            Hold::Until(told) => _ = told.clone().wait_for(|told| *told).await.unwrap(),
        }
    }

    /// If the next waiter is to disconnect at its grant, now is the time.
    async fn tip_off_next(&self, connection: &mut Connection, grant: &Grant) {
        if self.place.signals.of.lock().unwrap().is_empty() {
            return;
        }
        let queue = Request::new("GET", &format!("/{}/queue?limit=1", grant.environment), None);
        let answer = connection.ask(&queue).await;
        let Some(first) = self.expect(answer, 200) else { return };
        let next = first[0]["context"].as_str().and_then(job_of);
        if let Some(tip) = next.and_then(|next| self.place.signals.of.lock().unwrap().get(&next).cloned()) {
            tip.notify_one();
        }
    }

    /// The data of the answer, if it has the expected status.
    fn expect(&self, answer: Result<Answer, Broken>, status: u16) -> Option<Value> {
        let told = match answer {
            Ok(mut answer) if answer.status == status => return Some(answer.body["data"].take()),
            Ok(answer) => answer.told(),
            Err(Broken) => "the server closed the connection".to_owned(),
        };
        self.note(Moment::Refused(told));
        None
    }

    fn note(&self, moment: Moment) {
        self.place.record.note(self.id, moment);
    }
}

/// The five jobs that hold all environments until told to release them.
pub async fn gate(fleet: &Fleet, open: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let mut keepers = Vec::new();
    for number in 0..ENVIRONMENTS {
        let job = Job::new(fleet, Wants::Named(number), Hold::Until(open.clone()));
        keepers.push(job.start().await);
        fleet.until_locked(number).await;
    }
    keepers
}
