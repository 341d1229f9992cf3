//! Owns the workloads that read: `readers` and `history`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::engine::{Client, Fault, LoadTest, Operation, PREPARATION_LIMIT, Segment, Work, clients, share_of};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::wire::Terms;
use crate::workloads::kind::{Kind, MAX_ENVIRONMENTS, largest, sizes};

/// Many readers, alone and beside a few writers that claim and release the same environments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readers {
    readers: u32,
    writers: u32,
    environments: u32,
}

impl Kind for Readers {
    fn check(&self, _common: &Common) -> Result<(), String> {
        within("readers", self.readers.into(), 1, 10_000)?;
        within("writers", self.writers.into(), 1, 10_000)?;
        within("environments", self.environments.into(), self.writers.into(), MAX_ENVIRONMENTS)
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.readers + self.writers
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let (readers, environments) = (self.readers, self.environments);
        test.environments(1..=environments, "{}").await?;
        test.connect(readers + self.writers).await?;
        for _ in 0..test.common.rounds {
            let mut rates = Vec::new();
            for (phase, writers) in [("readers alone", 0), ("beside writers", self.writers)] {
                let load = clients(readers + writers, move |client| async move {
                    if client.number < readers {
                        read(client, environments).await;
                    } else {
                        let share = share_of(client.number - readers, writers, environments);
                        write(client, share).await;
                    }
                });
                let seen = test.measure(test.segment(phase), load).await?;
                test.figure(phase, "reads per second", "/s", seen.rate(Operation::Read));
                let cycles = seen.rate(Operation::Release).filter(|_| writers > 0);
                test.figure(phase, "cycles per second", "/s", cycles);
                rates.push(seen.rate(Operation::Read).unwrap_or(0.0));
            }
            test.ratio("reads beside writers against alone", quotient(rates[1], rates[0]));
        }
        Ok(())
    }
}

/// Reads the environments in turn.
pub async fn read(mut client: Client, environments: u32) {
    let mut environment = client.number % environments + 1;
    while client.turn().await {
        environment = environment % environments + 1;
        _ = client.read(environment).await;
    }
}

/// Claims and releases in a closed loop, even if the readers' loop is open.
async fn write(mut client: Client, share: Range<u32>) {
    let claim = client.thread.requests.claim(Terms::default());
    for environment in share.cycle() {
        if !client.goes_on() {
            return;
        }
        _ = client.cycle(environment, &claim).await;
    }
}

const LIMIT: u32 = 50;
const FILLING_CONNECTIONS: u32 = 64;

/// The first and the last page of an environment's history, with few and with very many sessions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Number of sessions, one per phase; the server must keep as many.
    sessions: Vec<u32>,
}

impl Kind for History {
    fn check(&self, common: &Common) -> Result<(), String> {
        sizes("sessions", &self.sessions, 10_000_000)?;
        within("sessions", largest(&self.sessions).into(), 1, common.retention())
    }

    fn connections(&self, common: &Common) -> u32 {
        common.connections.max(FILLING_CONNECTIONS)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=self.sessions.len() as u32, "{}").await?;
        for (environment, &sessions) in (1..).zip(&self.sessions) {
            let text = format!("making {sessions} sessions");
            let segment = Segment { phase: text.clone(), limit: PREPARATION_LIMIT, rate: None, settle: Duration::ZERO };
            test.measure(segment, filling(environment, sessions.into())).await?;
            test.forget_phase(&text);
        }
        for _ in 0..test.common.rounds {
            let mut slow = Vec::new();
            for (environment, &sessions) in (1..).zip(&self.sessions) {
                let phase = format!("{sessions} sessions");
                let load = paging(test.common.connections, environment, sessions);
                let seen = test.measure(test.segment(&phase), load).await?;
                let [first, last] = [Operation::FirstPage, Operation::LastPage].map(|page| seen.quantile(page, 0.5));
                test.figure(&phase, "first page p50", "µs", first);
                test.figure(&phase, "last page p50", "µs", last);
                slow.push([first.unwrap_or(0.0), last.unwrap_or(0.0)]);
            }
            let (few, many) = (self.sessions[0], self.sessions[self.sessions.len() - 1]);
            for (page, name) in ["first page", "last page"].into_iter().enumerate().filter(|_| few != many) {
                let name = format!("{name} p50 of {many} sessions against {few}");
                test.ratio(&name, quotient(slow[slow.len() - 1][page], slow[0][page]));
                test.aim_ratio(&name, Goal::AtMost(2.0));
            }
        }
        Ok(())
    }
}

/// Fills a history. Each session is force-claimed from the previous one: one request per session, and many can be in
/// flight.
fn filling(environment: u32, sessions: u64) -> Work {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    clients(FILLING_CONNECTIONS, move |mut client| {
        let counts = counts.clone();
        async move {
            let [begun, ended] = &*counts;
            while begun.fetch_add(1, Ordering::Relaxed) < sessions && client.goes_on() {
                if client.add_session(environment).await.is_err() {
                    return;
                }
                // The last session still holds the lock.
                if ended.fetch_add(1, Ordering::Relaxed) + 1 == sessions
                    && let Ok(Some(holder)) = client.read(environment).await.map(|seen| seen.holder)
                {
                    _ = client.release(environment, holder).await;
                }
            }
        }
    })
}

/// Reads the last page, which must exist: a shorter history would be faster to read, and prove nothing.
fn paging(connections: u32, environment: u32, sessions: u32) -> Work {
    let expected = u64::from(sessions.div_ceil(LIMIT));
    clients(connections, move |mut client| async move {
        let [first, last] = [1, expected].map(|page| client.thread.requests.history_page(page, LIMIT));
        while client.turn().await {
            let Ok(pages) = client.page(Operation::FirstPage, environment, &first).await else { continue };
            if pages != expected {
                client.error(format!("the history has {pages} pages, not the {expected} that were made"));
                return;
            }
            _ = client.page(Operation::LastPage, environment, &last).await;
        }
    })
}
