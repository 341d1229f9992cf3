//! Owns the workloads in which many clients compete for few environments: `hot`, `stampede` and `force-claim-race`.

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Operation, clients};
use crate::history::SessionStatus;
use crate::report::quotient;
use crate::settings::{Common, within};
use crate::wire::{LONGEST_WAIT_SECONDS, Terms};
use crate::workloads::kind::{Kind, largest, only_closed, sizes};

/// All clients compete for one environment all the time. It is never free for long, so this measures how fast a lock is
/// handed over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    /// Numbers of waiters, one per phase.
    waiters: Vec<u32>,
}

impl Kind for Hot {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        sizes("waiters", &self.waiters, 10_000)
    }

    fn connections(&self, _common: &Common) -> u32 {
        largest(&self.waiters)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=1, "{}").await?;
        test.connect(largest(&self.waiters)).await?;
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

/// Claims, waits for and releases the environment as often as possible.
pub async fn contend(mut client: Client, environment: u32) {
    let claim = client.thread.requests.claim(Terms::waiting(LONGEST_WAIT_SECONDS));
    while client.turn().await {
        _ = client.cycle(environment, &claim).await;
    }
}

/// Many jobs want few environments at the same time, and each waits until it has had one: by name, or by label, where
/// any environment of a pool will do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stampede {
    jobs: u32,
    environments: u32,
}

impl Kind for Stampede {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("jobs", self.jobs.into(), 1, 20_000)?;
        within("environments", self.environments.into(), 1, self.jobs.into())
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.jobs
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const POOL: &str = "stampede";
        let (jobs, environments) = (self.jobs, self.environments);
        let configuration = format!(r#"{{"labels":{{"pool":"{POOL}"}},"maxQueueLength":10000}}"#);
        test.environments(1..=environments, &configuration).await?;
        test.connect(jobs).await?;
        for _ in 0..test.common.rounds {
            for (phase, pool) in [("by name", None), ("by label", Some(POOL.to_owned()))] {
                let terms = Terms { pool, ..Terms::waiting(LONGEST_WAIT_SECONDS) };
                let load = clients(jobs, move |mut client| {
                    let claim = client.thread.requests.claim(terms.clone());
                    async move { _ = client.cycle(client.number % environments + 1, &claim).await }
                });
                let seen = test.measure(test.segment(phase), load).await?;
                test.figure(phase, "time until all were served", "s", Some(seen.seconds));
                test.figure(phase, "jobs served per second", "/s", seen.rate(Operation::Release));
                test.figure(phase, "handoff p99", "µs", seen.quantile(Operation::Handoff, 0.99));
                let served = seen.count(Operation::Release);
                if served != u64::from(jobs) {
                    test.error(format!("{phase}: {served} of {jobs} jobs were served"));
                }
            }
        }
        Ok(())
    }
}

/// Many clients take the same few environments from each other. A displaced holder finds out at its next deployment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForceClaimRace {
    /// Fewer than the connections; otherwise no holder is displaced.
    environments: u32,
}

const DISPLACED: &str = "sessions displaced";

impl Kind for ForceClaimRace {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("environments", self.environments.into(), 1, common.connections.into())
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let environments = self.environments;
        test.environments(1..=environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let race = clients(test.common.connections, move |client| race_one(client, environments));
            let seen = test.measure(test.segment("race"), race).await?;
            test.figure("race", "force-claims per second", "/s", seen.rate(Operation::ForceClaim));
            let displaced = quotient(seen.counted(DISPLACED) as f64, seen.count(Operation::ForceClaim) as f64);
            test.figure("race", "displaced while they deployed", "of 1", displaced);
        }
        Ok(())
    }
}

async fn race_one(mut client: Client, environments: u32) {
    client.tolerates = &["session_overridden"];
    let mut environment = client.number % environments + 1;
    while client.turn().await {
        environment = environment % environments + 1;
        let Ok(granted) = client.force_claim(environment).await else { continue };
        let session = granted.session;
        if let Err(Failure::Refused { code, .. }) = client.deploy(environment, session.clone()).await
            && *code == *"session_overridden"
        {
            client.count(DISPLACED);
            // A displaced holder's session must show that, too.
            match client.read_session(environment, session.clone()).await {
                Ok(view) if view.status != SessionStatus::Overridden => {
                    client.error(format!("a session that was overridden reads as {:?}", view.status));
                }
                Ok(_) | Err(_) => {}
            }
        }
        _ = client.release(environment, session).await;
    }
}
