//! Owns `stampede`: many jobs want few environments, all at once, and wait until each has had one: by name, and by label,
//! where any environment of a pool will do.

use serde::Deserialize;

use crate::engine::{Fault, LoadTest, Operation, Work, clients};
use crate::settings::{Common, within};
use crate::wire::{LONGEST_WAIT_SECONDS, Terms};
use crate::workloads::kind::{Kind, only_closed};

const POOL: &str = "stampede";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    jobs: u32,
    environments: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("jobs", self.jobs.into(), 1, 20_000)?;
        within("environments", self.environments.into(), 1, self.jobs.into())
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.jobs
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let configuration = format!(r#"{{"labels":{{"pool":"{POOL}"}},"maxQueueLength":10000}}"#);
        test.environments(1..=self.environments, &configuration).await?;
        test.connect(self.jobs).await?;
        for _ in 0..test.common.rounds {
            for (phase, pool) in [("by name", None), ("by label", Some(POOL.to_owned()))] {
                let terms = Terms { pool, ..Terms::waiting(LONGEST_WAIT_SECONDS) };
                let seen = test.measure(test.segment(phase), self.stampede(terms)).await?;
                test.figure(phase, "time until all were served", "s", Some(seen.seconds));
                test.figure(phase, "jobs served per second", "/s", seen.rate(Operation::Release));
                test.figure(phase, "handoff p99", "µs", seen.quantile(Operation::Handoff, 0.99));
                let served = seen.count(Operation::Release);
                if served != u64::from(self.jobs) {
                    test.error(format!("{phase}: {served} of {} jobs were served", self.jobs));
                }
            }
        }
        Ok(())
    }
}

impl Settings {
    fn stampede(&self, terms: Terms) -> Work {
        let environments = self.environments;
        clients(self.jobs, move |mut client| {
            let claim = client.thread.requests.claim(terms.clone());
            async move { _ = client.cycle(client.number % environments + 1, &claim).await }
        })
    }
}
