//! Owns `hot`: one environment, and all clients want it all the time. It never rests, so what is measured is how fast a
//! lock goes from hand to hand.

use serde::Deserialize;

use crate::engine::{Client, Fault, LoadTest, Operation, clients};
use crate::report::quotient;
use crate::settings::Common;
use crate::wire::{LONGEST_WAIT_SECONDS, Terms};
use crate::workloads::kind::{Kind, only_closed, sizes};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// How many want it, one number for each phase.
    waiters: Vec<u32>,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        sizes("waiters", &self.waiters, 10_000)
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.waiters.iter().copied().max().unwrap_or(0)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=1, "{}").await?;
        test.connect(self.waiters.iter().copied().max().unwrap_or(1)).await?;
        for _ in 0..test.common.rounds {
            for &waiters in &self.waiters {
                let phase = format!("{waiters} waiters");
                let seen = test.measure(test.segment(&phase), clients(waiters, |client| contend(client, 1))).await?;
                test.figure(&phase, "handoffs per second", "/s", quotient(seen.handoffs as f64, seen.seconds));
                let cpu = seen.cpu_per(seen.count(Operation::Release));
                test.figure(&phase, "server CPU per cycle", "µs", cpu);
                test.figure(&phase, "handoff p50", "µs", seen.quantile(Operation::Handoff, 0.5));
                test.figure(&phase, "handoff p99", "µs", seen.quantile(Operation::Handoff, 0.99));
            }
        }
        Ok(())
    }
}

/// Claims, waits and releases the one environment as often as it can.
pub async fn contend(mut client: Client, environment: u32) {
    let claim = client.thread.requests.claim(Terms::waiting(LONGEST_WAIT_SECONDS));
    while client.turn().await {
        _ = client.cycle(environment, &claim).await;
    }
}
