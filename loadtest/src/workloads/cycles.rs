//! Owns the workloads in which each client claims and releases separate environments, so that no claim is ever refused:
//! `cycle`, `disk`, `many-environments`, `deploy-storm` and `soak`.

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Observation, Operation, Share, Work, clients};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::contention::contend;
use crate::workloads::kind::{Kind, MAX_ENVIRONMENTS, one_environment_each, sizes};
use crate::workloads::reads::read;

/// An action between claim and release.
#[derive(Clone, Copy)]
pub enum Act {
    Deploy,
    Heartbeat,
    List,
}

/// Cycles through each client's own environments: claim, these acts, release.
pub fn sessions(connections: u32, environments: u32, acts: &'static [Act]) -> Work {
    clients(connections, move |client| {
        let share = Share::of(client.number, connections, environments);
        use_share(client, share, acts)
    })
}

async fn use_share(mut client: Client, mut share: Share, acts: &[Act]) {
    let claim = client.thread.requests.claim(Terms::default());
    while let Some(environment) = client.next(&mut share).await {
        share.settle(environment, session(&mut client, environment, &claim, acts).await);
    }
}

/// If only the claim succeeds, the lock may still be held.
async fn session(client: &mut Client, environment: u32, claim: &ClaimTemplate, acts: &[Act]) -> Result<(), Failure> {
    let session = client.claim(environment, claim).await?.session;
    let held = async {
        for act in acts {
            match act {
                Act::Deploy => client.deploy(environment, session.clone()).await?,
                Act::Heartbeat => client.heartbeat(environment, session.clone()).await?,
                Act::List => client.list().await?,
            }
        }
        client.release(environment, session).await
    };
    held.await.map_err(|_| Failure::Unknown)
}

const CPU: &str = "server CPU per cycle";

/// Adds the figures of a segment of cycles; returns the rate of requests, two per cycle.
pub fn report_cycles(test: &mut LoadTest, phase: &str, seen: &Observation) -> Option<f64> {
    // A cycle is complete when its release is answered.
    let cycles = seen.count(Operation::Release);
    let requests = quotient((seen.count(Operation::Claim) + cycles) as f64, seen.seconds);
    test.figure(phase, "cycles per second", "/s", seen.rate(Operation::Release));
    test.figure(phase, "requests per second", "/s", requests);
    test.figure(phase, CPU, "µs", seen.cpu_per(cycles));
    requests
}

/// `/healthz`, durable claim and release, and reads alternate, so that the compared phases are measured close together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycle {
    environments: u32,
}

impl Kind for Cycle {
    fn check(&self, common: &Common) -> Result<(), String> {
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        /// `/healthz` is the cheapest request to this server.
        const READS: &str = "reads against healthz";
        let (connections, environments) = (test.common.connections, self.environments);
        let healthz = clients(connections, |mut client| async move {
            while client.turn().await {
                _ = client.healthz().await;
            }
        });
        let reading = clients(connections, move |mut client| async move {
            let mut share = Share::of(client.number, connections, environments);
            while let Some(environment) = client.next(&mut share).await {
                _ = client.read(environment).await;
            }
        });
        test.environments(1..=environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let health = test.measure(test.segment("healthz"), healthz.clone()).await?;
            let cycle = test.measure(test.segment("cycle"), sessions(connections, environments, &[])).await?;
            let read = test.measure(test.segment("read"), reading.clone()).await?;
            for (phase, operation, seen) in [("healthz", Operation::Health, &health), ("read", Operation::Read, &read)]
            {
                test.figure(phase, "requests per second", "/s", seen.rate(operation));
                test.figure(phase, "server CPU per request", "µs", seen.cpu_per(seen.count(operation)));
            }
            let cycle_rate = report_cycles(test, "cycle", &cycle);
            let against = |rate: Option<f64>| quotient(rate?, health.rate(Operation::Health)?);
            test.ratio("cycle requests against healthz", against(cycle_rate));
            test.ratio(READS, against(read.rate(Operation::Read)));
        }
        test.aim("cycle", CPU, Goal::AtMost(35.0));
        test.aim_ratio(READS, Goal::AtLeast(0.8));
        Ok(())
    }
}

/// As many cycles as fit in the time, then the disk usage of the server's data, most of which must be live data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    environments: u32,
}

impl Kind for Disk {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const PHASE: &str = "cycles";
        test.environments(1..=self.environments, "{}").await?;
        let (mut cycles, kept_at_most) = (0, u64::from(self.environments) * test.common.retention());
        for _ in 0..test.common.rounds {
            let load = sessions(test.common.connections, self.environments, &[]);
            let seen = test.measure(test.segment(PHASE), load).await?;
            report_cycles(test, PHASE, &seen);
            cycles += seen.count(Operation::Release);
            let bytes = test.server.data_bytes().map(|bytes| bytes as f64);
            test.figure(PHASE, "data directory", "B", bytes);
            test.figure(PHASE, "cycles so far", "count", Some(cycles as f64));
            let each = bytes.and_then(|bytes| quotient(bytes, cycles.min(kept_at_most) as f64));
            test.figure(PHASE, "data directory for each session that is kept", "B", each);
        }
        Ok(())
    }
}

/// The same load on few, many and very many environments of one server; measures their memory and the server's start
/// time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManyEnvironments {
    /// One number per phase, ascending; each phase includes the environments of the one before.
    environments: Vec<u32>,
}

impl Kind for ManyEnvironments {
    fn check(&self, common: &Common) -> Result<(), String> {
        sizes("environments", &self.environments, MAX_ENVIRONMENTS)?;
        one_environment_each(self.environments.first().copied().unwrap_or(0), common)?;
        let ascending = self.environments.windows(2).all(|pair| pair[0] < pair[1]);
        if ascending { Ok(()) } else { Err("`environments` must ascend".to_owned()) }
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const READY: &str = "killed, restarted, ready after";
        const IDLE: &str = "resident memory, idle";
        let phase = |environments: u32| format!("{environments} environments");
        let mut made = 0;
        for &environments in &self.environments {
            test.environments(made + 1..=environments, "{}").await?;
            made = environments;
            let phase = phase(environments);
            // Restarts the server, if it is ours, so that its memory shows no traces of creating the environments.
            if test.server.is_ours() {
                let took = test.restart().await?;
                test.figure(&phase, READY, "ms", Some(took.as_secs_f64() * 1e3));
            }
            test.figure(&phase, IDLE, "B", test.server.meter().memory().map(|bytes| bytes as f64));
            test.aim(&phase, READY, Goal::AtMost(2_000.0));
            test.aim(&phase, IDLE, Goal::AtMost(350e6));
        }
        for _ in 0..test.common.rounds {
            let mut first = None;
            for &environments in &self.environments {
                let (phase, load) = (phase(environments), sessions(test.common.connections, environments, &[]));
                let seen = test.measure(test.segment(&phase), load).await?;
                report_cycles(test, &phase, &seen);
                let rate = seen.rate(Operation::Release).unwrap_or(0.0);
                if let Some(first) = first {
                    let name = format!("cycles on {environments} environments against {}", self.environments[0]);
                    test.ratio(&name, quotient(rate, first));
                    test.aim_ratio(&name, Goal::AtLeast(0.9));
                }
                first.get_or_insert(rate);
            }
        }
        Ok(())
    }
}

/// Claim, many deployments, release; the reads afterwards must show all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployStorm {
    environments: u32,
    /// The number of deployments per session.
    deploys: u32,
}

impl Kind for DeployStorm {
    fn check(&self, common: &Common) -> Result<(), String> {
        within("deploys", self.deploys.into(), 1, 10_000)?;
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let (connections, environments, deploys) = (test.common.connections, self.environments, self.deploys);
        let storm = clients(connections, move |mut client| async move {
            let mut share = Share::of(client.number, connections, environments);
            let claim = client.thread.requests.claim(Terms::default());
            while let Some(environment) = client.next(&mut share).await {
                share.settle(environment, storm_session(&mut client, environment, deploys, &claim).await);
            }
        });
        test.environments(1..=environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let seen = test.measure(test.segment("deploy"), storm.clone()).await?;
            test.figure("deploy", "deployments per second", "/s", seen.rate(Operation::Deploy));
            test.figure("deploy", "sessions per second", "/s", seen.rate(Operation::Release));
            let cpu = seen.cpu_per(seen.count(Operation::Deploy));
            test.figure("deploy", "server CPU per deployment", "µs", cpu);
        }
        Ok(())
    }
}

async fn storm_session(
    client: &mut Client,
    environment: u32,
    deploys: u32,
    claim: &ClaimTemplate,
) -> Result<(), Failure> {
    let session = client.claim(environment, claim).await?.session;
    let held = async {
        for _ in 0..deploys {
            client.deploy(environment, session.clone()).await?;
            // A session with all its deployments could take longer than the load.
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

/// All kinds of load for a long time: sessions with deployments and heartbeats, a contended environment, readers. The
/// server's memory is checked after every round, and must stay within a bound.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    environments: u32,
    /// More resident memory of the server than this is an error.
    memory_mb: u32,
}

impl Kind for Soak {
    fn check(&self, common: &Common) -> Result<(), String> {
        within("memory_mb", self.memory_mb.into(), 1, 1_000_000)?;
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const PHASE: &str = "mixed";
        let (connections, environments, bound) = (test.common.connections, self.environments, self.memory_mb);
        let load = clients(connections, move |client| async move {
            let share = Share::of(client.number, connections, environments);
            match client.number % 5 {
                0 => contend(client, environments + 1).await,
                1 => read(client, environments).await,
                _ => use_share(client, share, &[Act::Deploy, Act::Heartbeat]).await,
            }
        });
        // One more environment, for the contention.
        test.environments(1..=environments + 1, "{}").await?;
        let mut first = None;
        for round in 1..=test.common.rounds {
            let seen = test.measure(test.segment(PHASE), load.clone()).await?;
            for operation in [Operation::Release, Operation::Deploy, Operation::Heartbeat, Operation::Read] {
                let name = format!("{}s per second", operation.name());
                test.figure(PHASE, &name, "/s", seen.rate(operation));
            }
            let memory = test.server.meter().memory().map(|bytes| bytes as f64);
            test.figure(PHASE, "resident memory", "B", memory);
            first = first.or(memory);
            let growth = memory.zip(first).filter(|_| round > 1).map(|(now, then)| now / then);
            test.ratio("resident memory against the first round", growth);
            if let Some(megabytes) = memory.map(|bytes| bytes / 1e6).filter(|memory| *memory > f64::from(bound)) {
                test.error(format!("the server's memory is beyond its bound of {bound} MB: {megabytes:.0} MB"));
            }
        }
        Ok(())
    }
}
