//! Owns `soak`: everything at once for a long time: cycles with deployments and heartbeats, a contended environment,
//! readers. The server's memory is looked at after every round, and must stay within a bound.

use std::sync::Arc;

use serde::Deserialize;

use crate::engine::client::{Client, Failure};
use crate::engine::load_test::{Fault, LoadTest};
use crate::engine::schedule::{Share, share_of};
use crate::engine::tally::Operation;
use crate::engine::threads::{Work, work};
use crate::scenario::{Common, within};
use crate::wire::request::{ClaimTemplate, Terms};
use crate::workloads::hot::contend;
use crate::workloads::kind::{Kind, one_environment_each};

/// Of those who contend.
const WAIT_SECONDS: u32 = 300;
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
        work(move |thread| {
            let at_once = Arc::new(thread.requests.claim(Terms::default()));
            let waiting = Arc::new(thread.requests.claim(Terms { wait_seconds: WAIT_SECONDS, ..Terms::default() }));
            let load = move |client: Client| {
                let (at_once, waiting) = (at_once.clone(), waiting.clone());
                let share = Share::new(share_of(client.number, connections, environments));
                async move {
                    match client.number % 5 {
                        0 => contend(client, environments + 1, waiting).await,
                        1 => read(client, environments).await,
                        _ => use_fully(client, share, &at_once).await,
                    }
                }
            };
            async move { thread.clients(connections, load).await }
        })
    }
}

async fn read(mut client: Client, environments: u32) {
    let mut environment = client.number % environments + 1;
    while client.turn().await {
        environment = environment % environments + 1;
        _ = client.read(environment).await;
    }
}

async fn use_fully(mut client: Client, mut share: Share, claim: &ClaimTemplate) {
    while client.turn().await {
        let Some(environment) = share.advance() else {
            client.error("a client has no environment left whose state it knows".to_owned());
            return;
        };
        match one_session(&mut client, environment, claim).await {
            Ok(()) | Err(Failure::NotSent) => {}
            Err(Failure::Refused { .. } | Failure::Unknown) => share.leave_out(environment),
        }
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
