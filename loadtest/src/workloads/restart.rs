//! Owns `restart`: the server is killed with `kill -9` under load and started again, several times. What it acknowledged
//! must be there; what it was asked and never answered may be there or not.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Share, Work, clients};
use crate::settings::{Common, within};
use crate::wire::Terms;
use crate::workloads::cycle::report_cycles;
use crate::workloads::kind::{Kind, one_environment_each, only_closed};

/// Of those who wait for the shared environment: nobody can release what was granted in an answer that got lost.
const TTL_SECONDS: u32 = 2;
const WAIT_SECONDS: u32 = 60;
/// With the pause after each failure, longer than any restart takes.
const RECOVERY_TRIES: u32 = 600;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// Clients that wait for one more environment, which they share.
    waiters: u32,
    /// In each round.
    kills: u32,
}

impl Kind for Settings {
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
        test.environments(1..=self.environments + 1, "{}").await?;
        for _ in 0..test.common.rounds {
            let mut segment = test.segment(PHASE);
            segment.settle = Duration::from_secs(u64::from(TTL_SECONDS) + 1);
            let (limit, load) = (segment.limit, self.load(test.common.connections));
            let between = limit / (self.kills + 1);
            let mut restarts = Vec::new();
            let seen = test
                .measure_beside(segment, load, async |mut interference| {
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

impl Settings {
    fn load(&self, connections: u32) -> Work {
        let environments = self.environments;
        clients(connections + self.waiters, move |mut client| async move {
            client.expects_breaks = true;
            if client.number < connections {
                let share = Share::of(client.number, connections, environments);
                cycle(client, share).await;
            } else {
                wait(client, environments + 1).await;
            }
        })
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

/// Looks whether the lock is held, which can only be ours, and gives it back.
async fn recover(client: &mut Client, environment: u32) -> Result<(), Failure> {
    let mut last = Failure::NotSent;
    for _ in 0..RECOVERY_TRIES {
        let outcome = match client.read(environment).await {
            Ok(seen) => match seen.holder {
                Some(session) => client.release(environment, session).await,
                None => return Ok(()),
            },
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

async fn wait(mut client: Client, environment: u32) {
    client.tolerates = &["environment_locked"];
    let terms = Terms { ttl_seconds: Some(TTL_SECONDS), ..Terms::waiting(WAIT_SECONDS) };
    let claim = client.thread.requests.claim(terms);
    while client.turn().await {
        _ = client.cycle(environment, &claim).await;
    }
}
