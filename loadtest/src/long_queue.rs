//! Owns the `long-queue` scenario: many clients wait for one lock, which then goes through all of them. Reports what a
//! waiter costs the server in memory, and how long a release takes to reach the next, side by side for queues of several
//! lengths; checks that all are served, in order, with rising fencing tokens.

mod measured;
mod requests;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::answer::{Grant, problem_code};
use crate::connection::{Connection, ExchangeError};
use crate::options::QueuePlan;
use crate::server_memory;
use measured::{Measured, Memory, Served};
use requests::{Requests, queue_length, queued_session};

/// Connections opened at once: within what a listening socket holds for a server that is busy accepting.
const OPENING_AT_ONCE: usize = 128;
/// As long as the server lets anybody wait: for one to join the queue, and for all to be served.
const PATIENCE: Duration = Duration::from_secs(300);
/// A short queue is run through several times in a row, so that its p99 is more than its slowest.
const FEWEST_HANDOFFS: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("a request was answered {0} {1}")]
    Refused(u16, String),
    #[error("an answer could not be read")]
    Unreadable,
    #[error("number {0} did not join the queue in time; has the server room for as many connections?")]
    NotJoined(usize),
    #[error("a waiter was answered before its turn")]
    TooSoon,
    #[error("{served} of {waiters} waiters were served in time")]
    NotServed { served: usize, waiters: usize },
    #[error("the server's memory cannot be read: {0}")]
    Memory(std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// What was measured: for each round, each length.
pub struct Outcome(Vec<Vec<Measured>>);

impl Outcome {
    pub fn is_clean(&self) -> bool {
        measured::is_clean(&self.0)
    }

    pub fn report(&self, plan: &QueuePlan, out: &mut impl Write) -> std::io::Result<()> {
        measured::report(plan, &self.0, out)
    }
}

pub async fn run(plan: &QueuePlan, stopped: watch::Receiver<bool>) -> Result<Outcome, Fault> {
    let mut rounds = Vec::new();
    for number in 1..=plan.rounds {
        let mut round = Vec::new();
        for &waiters in &plan.waiters {
            let mut stopped = stopped.clone();
            let measured = tokio::select! {
                measured = measure(plan, waiters) => measured?,
                _ = stopped.wait_for(|stopped| *stopped) => return Err(Fault::Interrupted),
            };
            eprintln!("round {number}/{}: {}", plan.rounds, measured.describe());
            round.push(measured);
        }
        rounds.push(round);
    }
    Ok(Outcome(rounds))
}

/// A queue of one length, on connections of its own.
async fn measure(plan: &QueuePlan, waiters: usize) -> Result<Measured, Fault> {
    let requests = Arc::new(Requests::new(plan, PATIENCE.as_secs()));
    let mut own = Connection::open(plan.address).await?;
    expect(&mut own, &requests.put, &[200, 201]).await?;
    let before = plan.memory()?;
    let mut connections = open_all(plan, &requests, waiters).await?;
    let connected = plan.memory()?;

    let mut queue = Queue::join(plan, &mut own, &requests, connections).await?;
    let waiting = plan.memory()?;
    let memory = before.zip(connected).zip(waiting);
    let memory = memory.map(|((before, connected), waiting)| Memory { before, connected, waiting });
    let mut measured = Measured::new(waiters, memory);
    loop {
        connections = queue.run_through(&mut own, &requests, &mut measured).await?;
        if measured.handoffs.len() >= FEWEST_HANDOFFS || !measured.violations.is_empty() {
            return Ok(measured);
        }
        queue = Queue::join(plan, &mut own, &requests, connections).await?;
    }
}

/// Each with one answered request behind it, as any that is kept open: the server has its buffers for it.
async fn open_all(plan: &QueuePlan, requests: &Arc<Requests>, waiters: usize) -> Result<Vec<Connection>, Fault> {
    let permits = Arc::new(Semaphore::new(OPENING_AT_ONCE));
    let mut opening = JoinSet::new();
    for _ in 0..waiters {
        let (permits, requests, address) = (permits.clone(), requests.clone(), plan.address);
        opening.spawn(async move {
            let _permit = permits.acquire().await;
            let mut connection = Connection::open(address).await?;
            expect(&mut connection, &requests.read, &[200]).await?;
            Ok::<_, Fault>(connection)
        });
    }
    let mut connections = Vec::with_capacity(waiters);
    while let Some(opened) = opening.join_next().await {
        connections.push(opened.expect("a task that opens a connection neither panics nor is aborted")?);
    }
    Ok(connections)
}

/// Those who wait for a lock that we hold.
struct Queue {
    holder: String,
    token: u64,
    queued: Vec<String>,
    waiters: usize,
    all_served: mpsc::Receiver<Result<(Served, Connection), Fault>>,
}

impl Queue {
    /// Takes the lock and lets the others queue up for it: each comes when the one before it is seen there, so that their
    /// order is known.
    async fn join(
        plan: &QueuePlan,
        own: &mut Connection,
        requests: &Arc<Requests>,
        connections: Vec<Connection>,
    ) -> Result<Self, Fault> {
        expect(own, &requests.claim_at_once, &[201]).await?;
        let grant = Grant::parse(own.body()).ok_or(Fault::Unreadable)?;
        let (holder, token) = (grant.session_id.to_owned(), grant.fencing_token);
        let waiters = connections.len();
        let (served, all_served) = mpsc::channel(waiters.max(1));
        let mut queue = Self { holder, token, queued: Vec::with_capacity(plan.queued), waiters, all_served };
        for (place, connection) in connections.into_iter().enumerate() {
            tokio::spawn(wait_and_release(connection, place, requests.clone(), served.clone()));
            queue.until_joined(own, requests, place + 1).await?;
        }
        for _ in 0..plan.queued {
            expect(own, &requests.claim_queued, &[202]).await?;
            queue.queued.push(queued_session(own.body()).ok_or(Fault::Unreadable)?);
        }
        Ok(queue)
    }

    async fn until_joined(&mut self, own: &mut Connection, requests: &Requests, length: usize) -> Result<(), Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            expect(own, &requests.read, &[200]).await?;
            if queue_length(own.body()).ok_or(Fault::Unreadable)? >= length {
                return Ok(());
            }
            match self.all_served.try_recv() {
                Ok(Err(fault)) => return Err(fault),
                Ok(Ok(_)) => return Err(Fault::TooSoon),
                Err(_) if Instant::now() >= deadline => return Err(Fault::NotJoined(length)),
                Err(_) => {}
            }
        }
    }

    /// Lets go of the lock, and waits until all have had it. Gives their connections back.
    async fn run_through(
        mut self,
        own: &mut Connection,
        requests: &Requests,
        measured: &mut Measured,
    ) -> Result<Vec<Connection>, Fault> {
        let released = Instant::now();
        expect(own, &requests.release(&self.holder), &[200]).await?;
        let (mut seen, mut connections) = (Vec::with_capacity(self.waiters), Vec::with_capacity(self.waiters));
        let collect = async {
            while let Some(outcome) = self.all_served.recv().await {
                let (served, connection) = outcome?;
                seen.push(served);
                connections.push(connection);
            }
            Ok::<_, Fault>(())
        };
        match tokio::time::timeout(PATIENCE, collect).await {
            Ok(collected) => collected?,
            Err(_) => return Err(Fault::NotServed { served: seen.len(), waiters: self.waiters }),
        }
        for session in &self.queued {
            expect(own, &requests.release(session), &[200]).await?;
        }
        measured.add(seen, self.token, released);
        Ok(connections)
    }
}

async fn wait_and_release(
    mut connection: Connection,
    place: usize,
    requests: Arc<Requests>,
    served: mpsc::Sender<Result<(Served, Connection), Fault>>,
) {
    let outcome = async {
        expect(&mut connection, &requests.claim_waiting, &[201]).await?;
        let granted = Instant::now();
        let grant = Grant::parse(connection.body()).ok_or(Fault::Unreadable)?;
        let (release, token) = (requests.release(grant.session_id), grant.fencing_token);
        let released = Instant::now();
        expect(&mut connection, &release, &[200]).await?;
        Ok((Served { place, token, granted, released }, connection))
    };
    // Nobody listens any more only if the run has failed already.
    served.send(outcome.await).await.ok();
}

async fn expect(connection: &mut Connection, request: &[u8], statuses: &[u16]) -> Result<(), Fault> {
    let status = connection.exchange(request).await?;
    if statuses.contains(&status) {
        return Ok(());
    }
    Err(Fault::Refused(status, problem_code(connection.body()).unwrap_or_default().to_owned()))
}

impl QueuePlan {
    fn memory(&self) -> Result<Option<u64>, Fault> {
        self.server_pid.map(server_memory::read).transpose().map_err(Fault::Memory)
    }
}
