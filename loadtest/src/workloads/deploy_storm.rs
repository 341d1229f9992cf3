//! Owns `deploy-storm`: claim, many deployments, release; what is read afterwards shows all of them.

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Operation, Share, Work, clients};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::kind::{Kind, one_environment_each};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// In each session.
    deploys: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        within("deploys", self.deploys.into(), 1, 10_000)?;
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=self.environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let seen = test.measure(test.segment("deploy"), self.storm(test.common.connections)).await?;
            test.figure("deploy", "deployments per second", "/s", seen.rate(Operation::Deploy));
            test.figure("deploy", "sessions per second", "/s", seen.rate(Operation::Release));
            let cpu = seen.cpu_per(seen.count(Operation::Deploy));
            test.figure("deploy", "server CPU per deployment", "µs", cpu);
        }
        Ok(())
    }
}

impl Settings {
    fn storm(&self, connections: u32) -> Work {
        let (environments, deploys) = (self.environments, self.deploys);
        clients(connections, move |mut client| async move {
            let mut share = Share::of(client.number, connections, environments);
            let claim = client.thread.requests.claim(Terms::default());
            while let Some(environment) = client.next(&mut share).await {
                share.settle(environment, one_session(&mut client, environment, deploys, &claim).await);
            }
        })
    }
}

async fn one_session(
    client: &mut Client,
    environment: u32,
    deploys: u32,
    claim: &ClaimTemplate,
) -> Result<(), Failure> {
    let session = client.claim(environment, claim).await?.session;
    let held = async {
        for _ in 0..deploys {
            client.deploy(environment, session.clone()).await?;
            // One that is as long as it likes would outlast the load.
            if !client.goes_on() {
                break;
            }
        }
        client.read_session(environment, session.clone()).await?;
        client.release(environment, session.clone()).await?;
        client.read_session(environment, session).await
    };
    held.await.map(|_| ()).map_err(|_| Failure::Unknown)
}
