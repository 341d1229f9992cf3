//! Owns the threads that generate the load. Each has a separate runtime for its share of the clients, so that no lock
//! or wake-up crosses threads while load runs.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::recorder::Recorder;
use crate::engine::schedule::Arrivals;
use crate::engine::tally::Tally;
use crate::history::{Moment, Record};
use crate::sync::locked;
use crate::wire::{Connection, Requests, Scope};

pub type Work = Arc<dyn Fn(Arc<ClientThread>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

pub fn work<F>(of_thread: impl Fn(Arc<ClientThread>) -> F + Send + Sync + 'static) -> Work
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |thread| Box::pin(of_thread(thread)))
}

pub struct LoadThreads {
    pub clients: Vec<Arc<ClientThread>>,
    threads: Vec<Thread>,
}

struct Thread {
    orders: mpsc::Sender<Order>,
    handle: JoinHandle<()>,
}

struct Order {
    work: Work,
    arrivals: Option<Arc<Arrivals>>,
    until: tokio::time::Instant,
    /// The time for requests in flight at the deadline.
    grace: Duration,
    done: oneshot::Sender<()>,
}

#[derive(Debug, thiserror::Error)]
#[error("a thread of the load generator has died; this is a fault of loadtest")]
pub struct ThreadLost;

impl LoadThreads {
    pub fn start(clients: Vec<Arc<ClientThread>>, stop: &watch::Receiver<bool>) -> std::io::Result<Self> {
        let threads = clients
            .iter()
            .map(|thread| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let (orders, received) = mpsc::channel(1);
                let (thread, stop) = (thread.clone(), stop.clone());
                let handle = std::thread::Builder::new()
                    .name(format!("load-{}", thread.thread))
                    .spawn(move || run_thread(&runtime, &thread, received, stop))?;
                Ok(Thread { orders, handle })
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { clients, threads })
    }

    /// Runs until the work is done, the deadline passes or the run is stopped, and then until requests in flight have
    /// finished.
    pub async fn perform(
        &self,
        work: &Work,
        arrivals: Option<Arc<Arrivals>>,
        until: tokio::time::Instant,
        grace: Duration,
    ) -> Result<(), ThreadLost> {
        let mut answers = Vec::with_capacity(self.threads.len());
        for thread in &self.threads {
            let (done, answer) = oneshot::channel();
            let order = Order { work: work.clone(), arrivals: arrivals.clone(), until, grace, done };
            thread.orders.send(order).await.map_err(|_| ThreadLost)?;
            answers.push(answer);
        }
        for answer in answers {
            answer.await.map_err(|_| ThreadLost)?;
        }
        Ok(())
    }

    pub fn take_tally(&self) -> Tally {
        let mut merged = Tally::default();
        for thread in &self.clients {
            merged.merge(std::mem::take(&mut *thread.tally()));
        }
        merged
    }

    pub fn take_records(&self) -> Vec<Record> {
        let mut all = Vec::new();
        for thread in &self.clients {
            let records = thread.take_records();
            if all.is_empty() { all = records } else { all.extend(records) }
        }
        all
    }

    pub fn finish(self) {
        for Thread { orders, handle } in self.threads {
            drop(orders);
            // A thread that panicked has printed its message, and its missing answer was reported as `ThreadLost`.
            _ = handle.join();
        }
    }
}

fn run_thread(
    runtime: &Runtime,
    thread: &Arc<ClientThread>,
    mut orders: mpsc::Receiver<Order>,
    mut stop: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        while let Some(order) = orders.recv().await {
            thread.open(order.arrivals.clone());
            perform(thread, &order, &mut stop).await;
            // Fails only if the run is being torn down, which ends the orders, too.
            _ = order.done.send(());
        }
    });
}

async fn perform(thread: &Arc<ClientThread>, order: &Order, stop: &mut watch::Receiver<bool>) {
    let mut working = (order.work)(thread.clone());
    // One timer for all clients: a deadline per request would cost more than the rest of the request.
    let done = tokio::select! {
        () = &mut working => true,
        () = tokio::time::sleep_until(order.until) => false,
        _ = stop.wait_for(|stopped| *stopped) => false,
    };
    thread.close();
    if !done && tokio::time::timeout(order.grace, &mut working).await.is_err() {
        // Each client dropped here records its request as unanswered.
        drop(working);
        while thread.clients.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Initial capacity; a long segment rarely has to grow it.
const FIRST_RECORDS: usize = 64 * 1024;

pub struct ClientThread {
    pub thread: u32,
    pub threads: u32,
    pub address: SocketAddr,
    pub scope: Arc<Scope>,
    pub requests: Requests,
    /// The origin of all moments.
    pub origin: Instant,
    pub recorder: Arc<Recorder>,
    pub in_flight: AtomicU64,
    pub waiting: AtomicU64,
    pub clients: AtomicU64,
    closing: AtomicBool,
    /// Almost never contended while load runs, because nearly all users are on one thread. Shared, because histograms
    /// for each of 20,000 clients would take gigabytes.
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
        scope: Arc<Scope>,
        origin: Instant,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            thread,
            threads,
            address,
            requests: Requests::new(&scope),
            scope,
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

    /// Tells the clients to finish their requests in flight and begin no new ones.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some(arrivals) = locked(&self.arrivals).as_ref() {
            arrivals.close();
        }
    }

    pub fn open(&self, arrivals: Option<Arc<Arrivals>>) {
        *locked(&self.arrivals) = arrivals;
        self.closing.store(false, Ordering::Relaxed);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn arrivals(&self) -> Option<Arc<Arrivals>> {
        locked(&self.arrivals).clone()
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }

    pub fn record(&self, record: Record) {
        if self.recorder.keeps(&record) {
            locked(&self.records).push(record);
        }
    }

    pub fn take_records(&self) -> Vec<Record> {
        std::mem::replace(&mut *locked(&self.records), Vec::with_capacity(FIRST_RECORDS))
    }

    pub fn take_connection(&self) -> Option<Connection> {
        locked(&self.idle).pop()
    }

    pub fn keep_connection(&self, connection: Connection) {
        locked(&self.idle).push(connection);
    }

    /// Drops the idle connections: they are dead, since the server was killed.
    pub fn drop_connections(&self) {
        locked(&self.idle).clear();
    }

    pub fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Moment(u64::try_from(since).unwrap_or(u64::MAX))
    }
}
