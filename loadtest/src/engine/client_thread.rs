//! Owns what the clients of one thread share: where the server is, what is counted and recorded, the connections that are
//! kept open from one segment of load to the next.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::engine::arrivals::Arrivals;
use crate::engine::client::Client;
use crate::engine::recorder::Recorder;
use crate::engine::tally::Tally;
use crate::history::{Moment, Record};
use crate::wire::connection::Connection;
use crate::wire::request::{Place, Requests};

/// Room for this many records is there from the start; a long segment grows it, rarely.
const FIRST_RECORDS: usize = 64 * 1024;

pub struct ClientThread {
    pub thread: u32,
    pub threads: u32,
    pub address: SocketAddr,
    pub place: Arc<Place>,
    pub requests: Requests,
    /// Moments count from here.
    pub origin: Instant,
    pub recorder: Arc<Recorder>,
    pub in_flight: AtomicU64,
    pub waiting: AtomicU64,
    pub clients: AtomicU64,
    closing: AtomicBool,
    /// Never contended while load runs, as nearly all who lock these are on one thread. Shared, because histograms for
    /// each of 20,000 clients would take gigabytes.
    tally: Mutex<Tally>,
    records: Mutex<Vec<Record>>,
    idle: Mutex<Vec<Connection>>,
    arrivals: Mutex<Option<Arc<Arrivals>>>,
}

impl ClientThread {
    pub fn new(
        thread: u32,
        threads: u32,
        address: SocketAddr,
        place: Arc<Place>,
        origin: Instant,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            thread,
            threads,
            address,
            requests: Requests::new(&place),
            place,
            origin,
            recorder,
            in_flight: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            tally: Mutex::default(),
            records: Mutex::new(Vec::with_capacity(FIRST_RECORDS)),
            idle: Mutex::default(),
            arrivals: Mutex::default(),
        }
    }

    /// Lets this thread's share of so many clients do the same, until all are done.
    pub async fn clients<F>(self: &Arc<Self>, count: u32, work: impl Fn(Client) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = JoinSet::new();
        for number in (self.thread..count).step_by(self.threads as usize) {
            running.spawn(work(Client::new(self.clone(), number)));
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("a client neither panics nor is aborted");
        }
    }

    /// Finish what is begun, begin nothing.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some(arrivals) = self.lock(&self.arrivals).as_ref() {
            arrivals.close();
        }
    }

    pub fn open(&self, arrivals: Option<Arc<Arrivals>>) {
        *self.lock(&self.arrivals) = arrivals;
        self.closing.store(false, Ordering::Relaxed);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn arrivals(&self) -> Option<Arc<Arrivals>> {
        self.lock(&self.arrivals).clone()
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.lock(&self.tally)
    }

    pub fn record(&self, record: Record) {
        if self.recorder.keeps(&record) {
            self.lock(&self.records).push(record);
        }
    }

    pub fn take_records(&self) -> Vec<Record> {
        std::mem::replace(&mut *self.lock(&self.records), Vec::with_capacity(FIRST_RECORDS))
    }

    pub fn take_connection(&self) -> Option<Connection> {
        self.lock(&self.idle).pop()
    }

    pub fn keep_connection(&self, connection: Connection) {
        self.lock(&self.idle).push(connection);
    }

    /// The server has gone, and they with it.
    pub fn drop_connections(&self) {
        self.lock(&self.idle).clear();
    }

    pub fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Moment(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn lock<'a, T>(&self, what: &'a Mutex<T>) -> MutexGuard<'a, T> {
        what.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
