//! Owns `soak`: everything at once for a long time: cycles with deployments and heartbeats, a contended environment,
//! readers. The server's memory is looked at after every round, and must stay within a bound.

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Operation, Share, Work, clients};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::hot::contend;
use crate::workloads::kind::{Kind, one_environment_each};
use crate::workloads::readers::read;

const PHASE: &str = "mixed";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// More than this of the server's resident memory is an error.
    memory_mb: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        within("memory_mb", self.memory_mb.into(), 1, 1_000_000)?;
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        // One more, to be contended.
        test.environments(1..=self.environments + 1, "{}").await?;
        let mut first = None;
        for round in 1..=test.common.rounds {
            let seen = test.measure(test.segment(PHASE), self.load(test.common.connections)).await?;
            for operation in [Operation::Release, Operation::Deploy, Operation::Heartbeat, Operation::Read] {
                let name = format!("{}s per second", operation.name());
                test.figure(PHASE, &name, "/s", seen.rate(operation));
            }
            let memory = test.server.memory().map(|bytes| bytes as f64);
            test.figure(PHASE, "resident memory", "B", memory);
            first = first.or(memory);
            let growth = memory.zip(first).filter(|_| round > 1).map(|(now, then)| now / then);
            test.ratio("resident memory against the first round", growth);
            let bound = self.memory_mb;
            if let Some(megabytes) = memory.map(|bytes| bytes / 1e6).filter(|memory| *memory > f64::from(bound)) {
                test.error(format!("the server's memory is beyond its bound of {bound} MB: {megabytes:.0} MB"));
            }
        }
        Ok(())
    }
}

impl Settings {
    fn load(&self, connections: u32) -> Work {
        let environments = self.environments;
        clients(connections, move |client| async move {
            match client.number % 5 {
                0 => contend(client, environments + 1).await,
                1 => read(client, environments).await,
                _ => {
                    let share = Share::of(client.number, connections, environments);
                    use_fully(client, share).await;
                }
            }
        })
    }
}

async fn use_fully(mut client: Client, mut share: Share) {
    let claim = client.thread.requests.claim(Terms::default());
    while let Some(environment) = client.next(&mut share).await {
        share.settle(environment, one_session(&mut client, environment, &claim).await);
    }
}

async fn one_session(client: &mut Client, environment: u32, claim: &ClaimTemplate) -> Result<(), Failure> {
    let session = client.claim(environment, claim).await?.session;
    let held = async {
        client.deploy(environment, session.clone()).await?;
        client.heartbeat(environment, session.clone()).await?;
        client.release(environment, session).await
    };
    held.await.map_err(|_| Failure::Unknown)
}
