//! Owns the workloads in which clients or the server fail: `churn` and `restart`.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Operation, Share, clients};
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, Terms};
use crate::workloads::cycles::report_cycles;
use crate::workloads::kind::{Kind, one_environment_each, only_closed};

const WAIT_SECONDS: u32 = 60;

/// Clients that vanish: their connection is cut while they wait, while they hold the lock, or in the middle of a
/// request. Others keep using the same environments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    environments: u32,
    /// The TTL of every lock, so that locks of vanished holders expire.
    ttl_seconds: u32,
}

/// The pause between two disconnects of the same client.
const PAUSE: Duration = Duration::from_millis(20);
/// One in this many cut-off requests is sent whole: each of these blocks a lock until its TTL ends, so they are few.
const WHOLE_ONE_IN: u32 = 16;
const WHILE_WAITING: &str = "vanished while waiting";
const WHILE_HOLDING: &str = "vanished while holding";
const WITHIN_REQUEST: &str = "vanished within a request";

impl Kind for Churn {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("ttl_seconds", self.ttl_seconds.into(), 1, 60)?;
        within("environments", self.environments.into(), 1, 100_000)
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const PHASE: &str = "churn";
        let (environments, ttl_seconds) = (self.environments, self.ttl_seconds);
        test.environments(1..=environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let mut segment = test.segment(PHASE);
            segment.settle = Duration::from_secs(u64::from(ttl_seconds) + 1);
            let load = clients(test.common.connections, move |client| {
                let terms = Terms { ttl_seconds: Some(ttl_seconds), ..Terms::waiting(WAIT_SECONDS) };
                let claim = client.thread.requests.claim(terms);
                come_and_go(client, environments, claim)
            });
            let seen = test.measure(segment, load).await?;
            test.figure(PHASE, "cycles per second", "/s", seen.rate(Operation::Release));
            for what in [WHILE_WAITING, WHILE_HOLDING, WITHIN_REQUEST] {
                test.figure(PHASE, what, "count", Some(seen.counted(what) as f64));
            }
        }
        Ok(())
    }
}

async fn come_and_go(mut client: Client, environments: u32, claim: ClaimTemplate) {
    // A client that waits too long gets this refusal, as expected.
    client.tolerates = &["environment_locked"];
    let mut turns = client.number;
    while client.turn().await {
        turns = turns.wrapping_add(7);
        let environment = turns % environments + 1;
        match client.number % 4 {
            0 => match tokio::time::timeout(PAUSE, client.claim(environment, &claim)).await {
                // The lock was free.
                Ok(Ok(granted)) => _ = client.release(environment, granted.session).await,
                Ok(Err(_)) => {}
                Err(_) => {
                    client.vanish();
                    client.count(WHILE_WAITING);
                }
            },
            1 => {
                if client.claim(environment, &claim).await.is_ok() {
                    client.vanish();
                    client.count(WHILE_HOLDING);
                }
            }
            2 => {
                // Sometimes the whole request has been sent, but the client is gone before the answer.
                let bytes = if turns.is_multiple_of(WHOLE_ONE_IN) { usize::MAX } else { turns as usize % 200 };
                client.claim_cut_short(environment, &claim, bytes).await;
                client.count(WITHIN_REQUEST);
            }
            _ => {
                _ = client.cycle(environment, &claim).await;
                continue;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The server is killed with `kill -9` under load and restarted, several times. Acknowledged changes must survive;
/// unanswered requests may or may not have taken effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    environments: u32,
    /// Clients that wait for one more environment, which they share.
    waiters: u32,
    /// The number of kills per round.
    kills: u32,
}

/// The TTL of locks on the shared environment: nobody can release a lock whose grant was lost.
const TTL_SECONDS: u32 = 2;
/// Together with the pause after each failure, longer than any restart takes.
const RECOVERY_TRIES: u32 = 600;

impl Kind for Restart {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("kills", self.kills.into(), 1, 1_000)?;
        within("waiters", self.waiters.into(), 0, 10_000)?;
        one_environment_each(self.environments, common)
    }

    fn connections(&self, common: &Common) -> u32 {
        common.connections + self.waiters
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        const PHASE: &str = "killed under load";
        let (connections, environments) = (test.common.connections, self.environments);
        let load = clients(connections + self.waiters, move |mut client| async move {
            client.expects_breaks = true;
            if client.number < connections {
                let share = Share::of(client.number, connections, environments);
                cycle(client, share).await;
            } else {
                wait(client, environments + 1).await;
            }
        });
        test.environments(1..=environments + 1, "{}").await?;
        for _ in 0..test.common.rounds {
            let mut segment = test.segment(PHASE);
            segment.settle = Duration::from_secs(u64::from(TTL_SECONDS) + 1);
            let (limit, between) = (segment.limit, segment.limit / (self.kills + 1));
            let mut restarts = Vec::new();
            let seen = test
                .measure_beside(segment, load.clone(), async |mut interference| {
                    let began = Instant::now();
                    for _ in 0..self.kills {
                        tokio::time::sleep(between).await;
                        if began.elapsed() >= limit {
                            break;
                        }
                        restarts.push(interference.restart().await?);
                    }
                    Ok(())
                })
                .await?;
            for took in restarts {
                test.figure(PHASE, "killed, restarted, ready after", "ms", Some(took.as_secs_f64() * 1e3));
            }
            report_cycles(test, PHASE, &seen);
            let broken = seen.counted("connections broken") as f64;
            test.figure(PHASE, "broken connections and attempts", "count", Some(broken));
        }
        Ok(())
    }
}

async fn cycle(mut client: Client, mut share: Share) {
    let claim = client.thread.requests.claim(Terms::default());
    while let Some(environment) = client.next(&mut share).await {
        let outcome = client.cycle(environment, &claim).await;
        if outcome.is_err() && recover(&mut client, environment).await.is_err() {
            client.error("an environment could not be read and released after a restart".to_owned());
            share.leave_out(environment);
        }
    }
}

/// Releases the lock if it is held; only this client can be the holder.
async fn recover(client: &mut Client, environment: u32) -> Result<(), Failure> {
    let mut last = Err(Failure::NotSent);
    for _ in 0..RECOVERY_TRIES {
        last = match client.read(environment).await.map(|seen| seen.holder) {
            Ok(Some(session)) => client.release(environment, session).await,
            seen => seen.map(|_| ()),
        };
        if last.is_ok() {
            break;
        }
    }
    last
}

async fn wait(mut client: Client, environment: u32) {
    client.tolerates = &["environment_locked"];
    let terms = Terms { ttl_seconds: Some(TTL_SECONDS), ..Terms::waiting(WAIT_SECONDS) };
    let claim = client.thread.requests.claim(terms);
    while client.turn().await {
        _ = client.cycle(environment, &claim).await;
    }
}
