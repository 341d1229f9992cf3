//! Owns `history`: the first and the last page of an environment's history, of one with few sessions and one with very
//! many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::engine::{Client, Fault, LoadTest, Operation, PREPARATION_LIMIT, Segment, Work, clients};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::workloads::kind::{Kind, sizes};

/// Of a page.
const LIMIT: u32 = 50;
const FILLING_CONNECTIONS: u32 = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// How many the environment has, one number for each phase; the server must keep as many.
    sessions: Vec<u32>,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        sizes("sessions", &self.sessions, 10_000_000)?;
        let most = self.sessions.iter().copied().max().unwrap_or(0);
        within("sessions", most.into(), 1, common.retention())
    }

    fn connections(&self, common: &Common) -> u32 {
        common.connections.max(FILLING_CONNECTIONS)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let environments = self.sessions.len() as u32;
        test.environments(1..=environments, "{}").await?;
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
                let seen =
                    test.measure(test.segment(&phase), paging(test.common.connections, environment, sessions)).await?;
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

/// Each takes the lock from the one before: one request for a session, and many can be under way.
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
                if ended.fetch_add(1, Ordering::Relaxed) + 1 == sessions {
                    free(&mut client, environment).await;
                }
            }
        }
    })
}

/// The last one still holds the lock.
async fn free(client: &mut Client, environment: u32) {
    if let Ok(Some(holder)) = client.read(environment).await.map(|seen| seen.holder) {
        _ = client.release(environment, holder).await;
    }
}

/// The last page is where it must be: a shorter history would be read faster, and prove nothing.
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
