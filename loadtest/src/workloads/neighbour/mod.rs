//! Owns `neighbour`: one organization claims, deploys, lists and follows its events, alone and beside another one that
//! does its worst: it takes everything of which there is only so much.

use std::sync::Arc;
use std::time::Duration;

use attacks::Attack;
use serde::Deserialize;
use stream::Stream;
use tenant::Tenant;

use crate::engine::{Client, Failure, Fault, LoadTest, Observation, Operation, Share, Work, clients};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::kind::{Kind, one_environment_each};

mod attacks;
mod stream;
mod tenant;

const ALONE: &str = "alone";
const BESIDE: &str = "beside a neighbour";
/// How much slower than alone anything may be.
const AT_MOST: f64 = 3.0;
const MEASURED: [Operation; 4] = [Operation::Claim, Operation::Deploy, Operation::List, Operation::Release];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// Environments of the neighbour, all in each of its lists.
    crowd: u32,
    /// The neighbour's connections for each kind of attack.
    each: u32,
    /// The kinds of attack; all of them by default.
    #[serde(default = "Attack::all")]
    attacks: Vec<Attack>,
}

impl Kind for Settings {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        within("crowd", self.crowd.into(), 1, 100_000)?;
        within("each", self.each.into(), 1, 200)?;
        one_environment_each(self.environments, common)
    }

    fn connections(&self, common: &Common) -> u32 {
        common.connections + self.each * self.attacks.len() as u32 + 2
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let tenant = Arc::new(Tenant::move_in(test).await?);
        tenant.prepare(self.crowd).await?;
        // The last one is the stream's.
        test.environments(1..=self.environments + 1, "{}").await?;
        test.connect(test.common.connections).await?;
        for _ in 0..test.common.rounds {
            let alone = self.round(test, None).await?;
            let beside = self.round(test, Some(&tenant)).await?;
            for (name, alone, beside) in alone.iter().zip(&beside).map(|((name, a), (_, b))| (name, a, b)) {
                let name = format!("{name} p99 beside a neighbour against alone");
                test.ratio(&name, quotient(*beside, *alone));
                test.aim_ratio(&name, Goal::AtMost(AT_MOST));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// The p99 of everything, in microseconds.
    async fn round(
        &self,
        test: &mut LoadTest,
        tenant: Option<&Arc<Tenant>>,
    ) -> Result<Vec<(&'static str, f64)>, Fault> {
        let phase = if tenant.is_some() { BESIDE } else { ALONE };
        let mut attacking = tenant.map(|tenant| attacks::begin(tenant, &self.attacks, self.each)).transpose()?;
        if let Some(attacking) = &mut attacking {
            attacking.is_under_way().await?;
        }
        let stream = Stream::open(test, self.environments + 1).await?;
        let (limit, load) = (Duration::from_secs(test.common.seconds), self.load(test.common.connections));
        let mut shown = Vec::new();
        let seen = test
            .measure_beside(test.segment(phase), load, async |_| {
                shown = stream.follow(limit).await?;
                Ok(())
            })
            .await?;
        if let Some(attacking) = attacking {
            for (what, count) in attacking.end().await? {
                test.figure(phase, &what, "count", Some(count as f64));
            }
        }
        let p99s = p99s(&seen, &mut shown);
        for (name, p99) in &p99s {
            test.figure(phase, &format!("{name} p99"), "µs", Some(*p99));
        }
        Ok(p99s)
    }

    fn load(&self, connections: u32) -> Work {
        let environments = self.environments;
        clients(connections, move |mut client| async move {
            let mut share = Share::of(client.number, connections, environments);
            let claim = client.thread.requests.claim(Terms::default());
            while let Some(environment) = client.next(&mut share).await {
                share.settle(environment, one_session(&mut client, environment, &claim).await);
            }
        })
    }
}

async fn one_session(client: &mut Client, environment: u32, claim: &ClaimTemplate) -> Result<(), Failure> {
    let session = client.claim(environment, claim).await?.session;
    let held = async {
        client.deploy(environment, session.clone()).await?;
        client.list().await?;
        client.release(environment, session).await
    };
    held.await.map_err(|_| Failure::Unknown)
}

fn p99s(seen: &Observation, shown: &mut [Duration]) -> Vec<(&'static str, f64)> {
    let asked = MEASURED.into_iter().filter_map(|operation| Some((operation.name(), seen.quantile(operation, 0.99)?)));
    shown.sort_unstable();
    let last = shown.len().saturating_sub(1);
    let streamed = shown.get(last * 99 / 100).map(|took| ("event on a stream", took.as_secs_f64() * 1e6));
    asked.chain(streamed).collect()
}
