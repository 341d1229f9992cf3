//! Owns `many-environments`: the same load on few, many and very many environments of one server; what they take of its
//! memory, and how long it takes to start with them.

use serde::Deserialize;

use crate::engine::{Fault, LoadTest, Operation};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::workloads::cycle::{cycling, report_cycles};
use crate::workloads::kind::{Kind, MAX_ENVIRONMENTS, sizes};

const READY: &str = "killed, restarted, ready after";
const IDLE: &str = "resident memory, idle";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// One number for each phase, ascending; each has those of the one before.
    environments: Vec<u32>,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        sizes("environments", &self.environments, MAX_ENVIRONMENTS)?;
        let smallest = self.environments.first().copied().unwrap_or(0);
        within("environments", smallest.into(), common.connections.into(), MAX_ENVIRONMENTS)?;
        let ascending = self.environments.windows(2).all(|pair| pair[0] < pair[1]);
        if ascending { Ok(()) } else { Err("`environments` must ascend".to_owned()) }
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let mut made = 0;
        for &environments in &self.environments {
            test.environments(made + 1..=environments, "{}").await?;
            made = environments;
            self.look_at_idle_server(test, environments).await?;
        }
        for _ in 0..test.common.rounds {
            let mut rates = Vec::new();
            for &environments in &self.environments {
                let phase = phase(environments);
                let load = cycling(test.common.connections, environments);
                let seen = test.measure(test.segment(&phase), load).await?;
                report_cycles(test, &phase, &seen);
                rates.push(seen.rate(Operation::Release).unwrap_or(0.0));
            }
            for (rate, environments) in rates.iter().zip(&self.environments).skip(1) {
                let name = format!("cycles on {environments} environments against {}", self.environments[0]);
                test.ratio(&name, quotient(*rate, rates[0]));
                test.aim_ratio(&name, Goal::AtLeast(0.9));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Restarted, if it is ours: then nothing is left in memory of how the environments were made.
    async fn look_at_idle_server(&self, test: &mut LoadTest, environments: u32) -> Result<(), Fault> {
        let phase = phase(environments);
        if test.server.is_ours() {
            let took = test.restart().await?;
            test.figure(&phase, READY, "ms", Some(took.as_secs_f64() * 1e3));
        }
        test.figure(&phase, IDLE, "B", test.server.memory().map(|bytes| bytes as f64));
        test.aim(&phase, READY, Goal::AtMost(2_000.0));
        test.aim(&phase, IDLE, Goal::AtMost(350e6));
        Ok(())
    }
}

fn phase(environments: u32) -> String {
    format!("{environments} environments")
}
