//! Owns the disturbances of a single server: it is killed and started again on the same data, or paused.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::linearizability::clients::{Losses, Shared};
use crate::linearizability::disturbances::Disturbances;
use crate::linearizability::plan::{Plan, RunError};
use crate::linearizability::random::Random;
use crate::server::process::{Launch, Process};
use crate::wire::token::Token;

/// Between two disturbances, in milliseconds.
pub const QUIET: Range<u64> = 150..1_200;
/// Of a pause, in milliseconds.
pub const PAUSE: Range<u64> = 20..400;
/// How often a disturbance is a kill and not a pause, in percent.
const KILLS: u64 = 45;

pub struct Single {
    process: Process,
}

impl Single {
    pub async fn start(plan: &Plan, origin: Instant) -> Result<(Self, Shared), RunError> {
        let token = Token::random();
        let launch = Launch {
            program: plan.program.clone(),
            arguments: Vec::new(),
            variables: Vec::new(),
            data_dir: None,
            token: token.clone(),
        };
        let process = Process::start(launch).await?;
        let shared = Shared::new([process.address()], &token, origin);
        Ok((Self { process }, shared))
    }

    pub async fn disturb(
        &mut self,
        shared: &Shared,
        random: &mut Random,
        losses: &mut Losses,
    ) -> Result<Disturbances, RunError> {
        if random.percent(KILLS) {
            self.process.kill()?;
            let killed = shared.now();
            losses.kills.push(killed);
            shared.nodes[0].end(killed);
            self.process.start_again().await?;
            return Ok(Disturbances { kills: 1, ..Disturbances::default() });
        }
        self.process.pause()?;
        tokio::time::sleep(Duration::from_millis(random.within(PAUSE))).await;
        self.process.resume()?;
        Ok(Disturbances { pauses: 1, ..Disturbances::default() })
    }

    pub async fn stop(mut self) -> Result<(), RunError> {
        Ok(self.process.stop().await?)
    }
}
