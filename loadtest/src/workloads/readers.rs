//! Owns `readers`: many read, alone and beside a few who claim and release what is read.

use std::ops::Range;

use serde::Deserialize;

use crate::engine::{Client, Fault, LoadTest, Operation, Work, clients, share_of};
use crate::report::quotient;
use crate::settings::{Common, within};
use crate::wire::Terms;
use crate::workloads::kind::Kind;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    readers: u32,
    writers: u32,
    environments: u32,
}

impl Kind for Settings {
    fn check(&self, _common: &Common) -> Result<(), String> {
        within("readers", self.readers.into(), 1, 10_000)?;
        within("writers", self.writers.into(), 1, 10_000)?;
        within("environments", self.environments.into(), self.writers.into(), 1_000_000)
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.readers + self.writers
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=self.environments, "{}").await?;
        test.connect(self.readers + self.writers).await?;
        for _ in 0..test.common.rounds {
            let mut rates = Vec::new();
            for (phase, writers) in [("readers alone", 0), ("beside writers", self.writers)] {
                let seen = test.measure(test.segment(phase), self.load(writers)).await?;
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

impl Settings {
    fn load(&self, writers: u32) -> Work {
        let (readers, environments) = (self.readers, self.environments);
        clients(readers + writers, move |client| async move {
            if client.number < readers {
                read(client, environments).await;
            } else {
                let share = share_of(client.number - readers, writers, environments);
                write(client, share).await;
            }
        })
    }
}

/// Reads one environment after the other.
pub async fn read(mut client: Client, environments: u32) {
    let mut environment = client.number % environments + 1;
    while client.turn().await {
        environment = environment % environments + 1;
        _ = client.read(environment).await;
    }
}

/// Whatever the readers' loop is, those who write do it as fast as they can.
async fn write(mut client: Client, share: Range<u32>) {
    let claim = client.thread.requests.claim(Terms::default());
    for environment in share.cycle() {
        if !client.goes_on() {
            return;
        }
        _ = client.cycle(environment, &claim).await;
    }
}
