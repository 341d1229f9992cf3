//! Owns the threads that make the load. Each has a runtime of its own for its share of the clients, so that nothing is
//! locked or woken across threads while load runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Client, Shared, Workload};
use crate::environments::{Share, share_of};
use crate::options::Plan;
use crate::request::Requests;
use crate::tally::Tally;

/// For requests that are under way when a workload ends.
const GRACE: Duration = Duration::from_secs(5);

pub struct Generator {
    threads: Vec<Thread>,
}

struct Thread {
    orders: mpsc::Sender<Order>,
    handle: JoinHandle<()>,
}

struct Order {
    workload: Workload,
    until: Instant,
    done: oneshot::Sender<Tally>,
}

#[derive(Debug, thiserror::Error)]
#[error("a thread of the load generator has died; this is a fault of loadtest")]
pub struct ThreadLost;

impl Generator {
    pub fn start(plan: &Arc<Plan>, stop: &watch::Receiver<bool>) -> std::io::Result<Self> {
        let threads = (0..plan.threads)
            .map(|index| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let (orders, received) = mpsc::channel(1);
                let (plan, stop) = (plan.clone(), stop.clone());
                let handle = std::thread::Builder::new()
                    .name(format!("load-{index}"))
                    .spawn(move || run_thread(&runtime, &plan, index, received, stop))?;
                Ok(Thread { orders, handle })
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { threads })
    }

    /// Runs a workload on all connections until it is done, the time has come or the run is stopped.
    pub async fn perform(&self, workload: Workload, until: Instant) -> Result<Tally, ThreadLost> {
        let mut answers = Vec::with_capacity(self.threads.len());
        for thread in &self.threads {
            let (done, answer) = oneshot::channel();
            thread.orders.send(Order { workload, until, done }).await.map_err(|_| ThreadLost)?;
            answers.push(answer);
        }
        let mut merged = Tally::default();
        for answer in answers {
            merged.merge(answer.await.map_err(|_| ThreadLost)?);
        }
        Ok(merged)
    }

    pub fn finish(self) {
        for Thread { orders, handle } in self.threads {
            drop(orders);
            // A thread that has panicked has said so itself, and its missing answer was reported as `ThreadLost`.
            _ = handle.join();
        }
    }
}

fn run_thread(
    runtime: &Runtime,
    plan: &Plan,
    index: u32,
    mut orders: mpsc::Receiver<Order>,
    mut stop: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared::new(plan.address, Requests::new(plan), plan.prefix.clone(), plan.other_clients));
    let mut clients: Vec<Client> = (index..plan.connections)
        .step_by(plan.threads as usize)
        .map(|connection| share_of(connection, plan.connections, plan.environments))
        .map(|numbers| Client::new(shared.clone(), Share::new(numbers)))
        .collect();
    runtime.block_on(async {
        while let Some(order) = orders.recv().await {
            clients = perform(clients, &shared, &order, &mut stop).await;
            let tally = std::mem::take(&mut *shared.tally());
            // Nobody listens any more only if the run is being torn down, and then the orders end, too.
            _ = order.done.send(tally);
        }
    });
}

async fn perform(
    clients: Vec<Client>,
    shared: &Shared,
    order: &Order,
    stop: &mut watch::Receiver<bool>,
) -> Vec<Client> {
    shared.closing.store(false, Ordering::Relaxed);
    let mut returned = Vec::with_capacity(clients.len());
    let mut abandon = Vec::with_capacity(clients.len());
    let mut running = JoinSet::new();
    for client in clients {
        let (sender, abandoned) = oneshot::channel();
        abandon.push(sender);
        running.spawn(perform_one(client, order.workload, abandoned));
    }
    // One timer for all: a deadline for each request would cost more than the rest of it.
    tokio::select! {
        () = collect(&mut running, &mut returned) => return returned,
        () = tokio::time::sleep_until(order.until) => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
    shared.closing.store(true, Ordering::Relaxed);
    if tokio::time::timeout(GRACE, collect(&mut running, &mut returned)).await.is_err() {
        drop(abandon);
        collect(&mut running, &mut returned).await;
    }
    returned
}

async fn perform_one(mut client: Client, workload: Workload, abandoned: oneshot::Receiver<()>) -> Client {
    let in_time = tokio::select! {
        biased;
        () = client.perform(workload) => true,
        _ = abandoned => false,
    };
    if !in_time {
        client.abandoned();
    }
    client
}

async fn collect(running: &mut JoinSet<Client>, returned: &mut Vec<Client>) {
    while let Some(client) = running.join_next().await {
        returned.push(client.expect("a client neither panics nor is aborted"));
    }
}
