//! Owns the work of the clients in a turn: claim and release separate names, compete for one hot lock, or read.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::compare::http_lock::{HttpClient, HttpLock};
use crate::compare::peer::{Claim, Client, Fault, Peer};
use crate::compare::turn::{CostSource, Ledger, Turn, TurnState, measure};
use crate::engine::{Operation, share_of};
use crate::random::Random;
use crate::sync::locked;

/// The first and the longest pause of a poller. Pauses double in between, and each is randomized by up to half, as
/// pollers do to avoid synchronized retries.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Cycle,
    Hot,
    ReadEnvironment,
    ReadSession,
}

/// The number of clients, the length of the turn, and the number of names.
#[derive(Clone, Copy)]
pub struct WorkSize {
    pub clients: u32,
    pub names: u32,
    pub length: Duration,
}

impl Work {
    pub fn unit(self) -> Operation {
        match self {
            // A cycle ends with its release.
            Self::Cycle => Operation::Release,
            Self::Hot => Operation::Handoff,
            Self::ReadEnvironment | Self::ReadSession => Operation::Read,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Hot => "hot lock",
            Self::ReadEnvironment => "read environment",
            Self::ReadSession => "read session",
        }
    }
}

/// The parameters common to all kinds of work in one turn.
pub struct Contest<'a> {
    size: WorkSize,
    state: Arc<TurnState>,
    cost: &'a CostSource,
}

impl<'a> Contest<'a> {
    pub fn new(size: WorkSize, ledger: &Arc<Mutex<Ledger>>, cost: &'a CostSource) -> Self {
        Self { size, state: TurnState::new(ledger), cost }
    }

    /// Each client has separate names, so that no claim is ever refused.
    pub async fn cycle(self, peer: &impl Peer) -> Result<Turn, Fault> {
        let mut running = JoinSet::new();
        for (number, client) in connect(peer, self.size.clients).await? {
            running.spawn(keep_cycling(
                client,
                share_of(number, self.size.clients, self.size.names),
                self.state.clone(),
            ));
        }
        Ok(measure(self.state, running, self.size.length, self.cost).await)
    }

    /// All clients compete for one name: the one after those of `cycle`.
    pub async fn hot(self, peer: &impl Peer) -> Result<Turn, Fault> {
        let last_release = Arc::new(Mutex::new(None));
        let mut running = JoinSet::new();
        for (number, client) in connect(peer, self.size.clients).await? {
            let contender = Contender { number, name: self.size.names + 1, last_release: Arc::clone(&last_release) };
            running.spawn(keep_fighting(client, contender, self.state.clone()));
        }
        Ok(measure(self.state, running, self.size.length, self.cost).await)
    }

    /// Measures reads over HTTP only: the peers have no comparable reads.
    pub async fn read(self, peer: &HttpLock, work: Work) -> Result<Turn, Fault> {
        let mut preparing = JoinSet::new();
        for (number, mut client) in connect(peer, self.size.clients).await? {
            let (peer, names) = (peer.clone(), share_of(number, self.size.clients, self.size.names));
            // Concurrently: a server may close a connection that is idle while others prepare.
            preparing.spawn(async move {
                let mut requests = Vec::new();
                for name in names {
                    requests.push(match work {
                        Work::ReadSession => peer.read_session(&mut client, name).await?,
                        Work::ReadEnvironment | Work::Cycle | Work::Hot => peer.read_environment(name),
                    });
                }
                Ok((client, requests))
            });
        }
        let mut running = JoinSet::new();
        for (client, requests) in all(preparing).await? {
            running.spawn(keep_reading(client, requests, self.state.clone()));
        }
        Ok(measure(self.state, running, self.size.length, self.cost).await)
    }
}

async fn keep_cycling(mut client: impl Client, names: Range<u32>, state: Arc<TurnState>) -> Result<(), Fault> {
    for name in names.cycle() {
        if state.closing() {
            break;
        }
        let asked = Instant::now();
        let Claim::Granted(token) = client.claim(name).await? else { return Err(Fault::Busy) };
        let granted = Instant::now();
        state.took(Operation::Claim, granted - asked);
        state.ledger().granted(name, token);
        client.release().await?;
        state.took(Operation::Release, granted.elapsed());
    }
    Ok(())
}

struct Contender {
    number: u32,
    name: u32,
    last_release: Arc<Mutex<Option<Instant>>>,
}

async fn keep_fighting(mut client: impl Client, contender: Contender, state: Arc<TurnState>) -> Result<(), Fault> {
    let mut random = Random::branch(contender.number.into(), 0);
    let mut pause = FIRST_PAUSE;
    let mut asked = Instant::now();
    while !state.closing() {
        match client.claim_waiting(contender.name).await? {
            Claim::Busy => {
                tokio::time::sleep(around(&mut random, pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Claim::Granted(token) => {
                state.took(Operation::Claim, asked.elapsed());
                contender.hold(token, &state).await;
                let releasing = Instant::now();
                client.release().await?;
                state.took(Operation::Release, releasing.elapsed());
                pause = FIRST_PAUSE;
                asked = Instant::now();
            }
        }
    }
    Ok(())
}

impl Contender {
    async fn hold(&self, token: Option<u64>, state: &TurnState) {
        let released = locked(&self.last_release).take();
        if let Some(released) = released {
            state.took(Operation::Handoff, released.elapsed());
        }
        state.ledger().granted(self.name, token);
        state.ledger().holds(self.number);
        // Lets a second grant be seen while this one is held; otherwise the release would always come first.
        tokio::task::yield_now().await;
        state.ledger().releases(self.number);
        *locked(&self.last_release) = Some(Instant::now());
    }
}

async fn keep_reading(mut client: HttpClient, requests: Vec<Vec<u8>>, state: Arc<TurnState>) -> Result<(), Fault> {
    for request in requests.iter().cycle() {
        if state.closing() {
            break;
        }
        let asked = Instant::now();
        client.read(request).await?;
        state.took(Operation::Read, asked.elapsed());
    }
    Ok(())
}

/// Opens the connections concurrently, as a fleet does.
async fn connect<P: Peer>(peer: &P, clients: u32) -> Result<Vec<(u32, P::Client)>, Fault> {
    let mut connecting = JoinSet::new();
    for number in 0..clients {
        let peer = peer.clone();
        connecting.spawn(async move { peer.connect(number).await.map(|client| (number, client)) });
    }
    all(connecting).await
}

/// The results of all tasks, or the first fault.
async fn all<T: Send + 'static>(mut tasks: JoinSet<Result<T, Fault>>) -> Result<Vec<T>, Fault> {
    let mut made = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok(one) => made.push(one?),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    Ok(made)
}

/// A random pause between half and one and a half times the given one.
fn around(random: &mut Random, pause: Duration) -> Duration {
    pause.mul_f64(0.5 + random.below(1_000_000) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_and_stay_within_half_of_what_was_asked() {
        let mut random = Random::branch(3, 0);
        let pauses: Vec<Duration> = (0..100).map(|_| around(&mut random, Duration::from_millis(10))).collect();
        assert!(pauses.iter().all(|pause| (5..=15).contains(&pause.as_millis())));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
