//! Owns `force-claim-race`: many take the same few environments from each other. Who was displaced learns it with its next
//! deployment.

use serde::Deserialize;

use crate::engine::{Client, Failure, Fault, LoadTest, Operation, clients};
use crate::history::SessionStatus;
use crate::report::quotient;
use crate::settings::{Common, within};
use crate::workloads::kind::{Kind, only_closed};

const DISPLACED: &str = "sessions displaced";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Fewer than connections, or nobody is displaced.
    environments: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("environments", self.environments.into(), 1, common.connections.into())
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=self.environments, "{}").await?;
        for _ in 0..test.common.rounds {
            let environments = self.environments;
            let race = clients(test.common.connections, move |client| race_one(client, environments));
            let seen = test.measure(test.segment("race"), race).await?;
            let force_claims = seen.count(Operation::ForceClaim);
            test.figure("race", "force-claims per second", "/s", seen.rate(Operation::ForceClaim));
            let displaced = quotient(seen.counted(DISPLACED) as f64, force_claims as f64);
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
            // Who was displaced is told so by its session, too.
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
