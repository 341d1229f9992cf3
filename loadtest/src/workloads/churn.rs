//! Owns `churn`: clients that vanish. Their connection is cut while they wait, while they hold the lock, or in the middle
//! of a request; others go on using the same environments all the while.

use std::time::Duration;

use serde::Deserialize;

use crate::engine::{Client, Fault, LoadTest, Operation, Work, clients};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::kind::{Kind, only_closed};

const WAIT_SECONDS: u32 = 60;
/// From one vanishing to the next of the same client.
const PAUSE: Duration = Duration::from_millis(20);
/// Each takes a lock out of use for as long as it lives, so these are few.
const WHOLE_ONE_IN: u32 = 16;
const WHILE_WAITING: &str = "vanished while waiting";
const WHILE_HOLDING: &str = "vanished while holding";
const WITHIN_REQUEST: &str = "vanished within a request";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// Of every lock, so that one whose holder has vanished ends.
    ttl_seconds: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("ttl_seconds", self.ttl_seconds.into(), 1, 60)?;
        within("environments", self.environments.into(), 1, 100_000)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const PHASE: &str = "churn";
        test.environments(1..=self.environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let mut segment = test.segment(PHASE);
            segment.settle = Duration::from_secs(u64::from(self.ttl_seconds) + 1);
            let seen = test.measure(segment, self.load(test.common.connections)).await?;
            test.figure(PHASE, "cycles per second", "/s", seen.rate(Operation::Release));
            for what in [WHILE_WAITING, WHILE_HOLDING, WITHIN_REQUEST] {
                test.figure(PHASE, what, "count", Some(seen.counted(what) as f64));
            }
        }
        Ok(())
    }
}

impl Settings {
    fn load(&self, connections: u32) -> Work {
        let (environments, ttl_seconds) = (self.environments, self.ttl_seconds);
        clients(connections, move |client| {
            let terms = Terms { ttl_seconds: Some(ttl_seconds), ..Terms::waiting(WAIT_SECONDS) };
            let claim = client.thread.requests.claim(terms);
            come_and_go(client, environments, claim)
        })
    }
}

async fn come_and_go(mut client: Client, environments: u32, claim: ClaimTemplate) {
    // A client whose turn comes too late for its patience is told so, and that is no error.
    client.tolerates = &["environment_locked"];
    let mut turns = client.number;
    while client.turn().await {
        turns = turns.wrapping_add(7);
        let environment = turns % environments + 1;
        match client.number % 4 {
            0 => vanish_waiting(&mut client, environment, &claim).await,
            1 => vanish_holding(&mut client, environment, &claim).await,
            2 => vanish_within_request(&mut client, environment, &claim, turns).await,
            _ => {
                _ = client.cycle(environment, &claim).await;
                continue;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn vanish_waiting(client: &mut Client, environment: u32, claim: &ClaimTemplate) {
    match tokio::time::timeout(PAUSE, client.claim(environment, claim)).await {
        // It was free.
        Ok(Ok(granted)) => _ = client.release(environment, granted.session).await,
        Ok(Err(_)) => {}
        Err(_) => {
            client.vanish();
            client.count(WHILE_WAITING);
        }
    }
}

async fn vanish_holding(client: &mut Client, environment: u32, claim: &ClaimTemplate) {
    if client.claim(environment, claim).await.is_ok() {
        client.vanish();
        client.count(WHILE_HOLDING);
    }
}

/// Now and then all of it has been sent, but nobody is there any more for the answer.
async fn vanish_within_request(client: &mut Client, environment: u32, claim: &ClaimTemplate, turns: u32) {
    let bytes = if turns.is_multiple_of(WHOLE_ONE_IN) { usize::MAX } else { turns as usize % 200 };
    client.claim_cut_short(environment, claim, bytes).await;
    client.count(WITHIN_REQUEST);
}
