//! Owns `cycle`: /healthz, durable claim and release, and reads take turns, so that what is compared was measured side by
//! side.

use serde::Deserialize;

use crate::engine::{Fault, LoadTest, Observation, Operation, Share, Work, clients};
use crate::report::{Goal, quotient};
use crate::settings::Common;
use crate::wire::Terms;
use crate::workloads::kind::{Kind, one_environment_each};

const CPU: &str = "server CPU per cycle";
/// `/healthz` is the least that this server can be asked for.
const READS: &str = "reads against healthz";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        one_environment_each(self.environments, common)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let connections = test.common.connections;
        test.environments(1..=self.environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let health = test.measure(test.segment("healthz"), healthz(connections)).await?;
            let cycle = test.measure(test.segment("cycle"), cycling(connections, self.environments)).await?;
            let read = test.measure(test.segment("read"), reading(connections, self.environments)).await?;
            let rate = |seen: &Observation, operation| seen.rate(operation);
            let health_rate = rate(&health, Operation::Health);
            test.figure("healthz", "requests per second", "/s", health_rate);
            let health_cpu = health.cpu_per(health.count(Operation::Health));
            test.figure("healthz", "server CPU per request", "µs", health_cpu);
            let cycle_rate = report_cycles(test, "cycle", &cycle);
            let read_rate = rate(&read, Operation::Read);
            test.figure("read", "requests per second", "/s", read_rate);
            test.figure("read", "server CPU per request", "µs", read.cpu_per(read.count(Operation::Read)));
            let against = |rate: Option<f64>| rate.zip(health_rate).and_then(|(rate, health)| quotient(rate, health));
            test.ratio("cycle requests against healthz", against(cycle_rate));
            test.ratio(READS, against(read_rate));
        }
        test.aim("cycle", CPU, Goal::AtMost(35.0));
        test.aim_ratio(READS, Goal::AtLeast(0.8));
        Ok(())
    }
}

/// The figures of a segment of cycles; gives the rate of requests, two for each cycle.
pub fn report_cycles(test: &mut LoadTest, phase: &str, seen: &Observation) -> Option<f64> {
    // A cycle is complete when its release is answered.
    let cycles = seen.count(Operation::Release);
    let requests = quotient((seen.count(Operation::Claim) + cycles) as f64, seen.seconds);
    test.figure(phase, "cycles per second", "/s", seen.rate(Operation::Release));
    test.figure(phase, "requests per second", "/s", requests);
    test.figure(phase, CPU, "µs", seen.cpu_per(cycles));
    requests
}

fn healthz(connections: u32) -> Work {
    clients(connections, |mut client| async move {
        while client.turn().await {
            _ = client.healthz().await;
        }
    })
}

fn reading(connections: u32, environments: u32) -> Work {
    clients(connections, move |mut client| async move {
        let mut share = Share::of(client.number, connections, environments);
        while let Some(environment) = client.next(&mut share).await {
            _ = client.read(environment).await;
        }
    })
}

/// Claim and release, round and round over environments that are each client's own.
pub fn cycling(connections: u32, environments: u32) -> Work {
    clients(connections, move |mut client| async move {
        let mut share = Share::of(client.number, connections, environments);
        let claim = client.thread.requests.claim(Terms::default());
        while let Some(environment) = client.next(&mut share).await {
            share.settle(environment, client.cycle(environment, &claim).await);
        }
    })
}
