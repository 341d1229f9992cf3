//! Owns `disk`: as many cycles as fit in the time, then what the server's data takes on the disk, of which most must be
//! what it still keeps.

use serde::Deserialize;

use crate::engine::bench::{Bench, Fault};
use crate::engine::tally::Operation;
use crate::report::quotient;
use crate::scenario::Common;
use crate::workloads::cycle::report_cycles;
use crate::workloads::cycling::cycling;
use crate::workloads::{Kind, one_environment_each};

const PHASE: &str = "cycles";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
}

impl Kind for Settings {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        one_environment_each(self.environments, common)
    }

    async fn run(&self, bench: &mut Bench) -> Result<(), Fault> {
        bench.environments(1..=self.environments, "{}").await?;
        let (mut cycles, kept_at_most) = (0, u64::from(self.environments) * bench.common.retention());
        for _ in 0..bench.common.rounds {
            let load = cycling(bench.common.connections, self.environments);
            let seen = bench.measure(bench.stint(PHASE), load).await?;
            report_cycles(bench, PHASE, &seen);
            cycles += seen.count(Operation::Release);
            let bytes = bench.server.data_bytes().map(|bytes| bytes as f64);
            bench.figure(PHASE, "data directory", "B", bytes);
            bench.figure(PHASE, "cycles so far", "count", Some(cycles as f64));
            let kept = cycles.min(kept_at_most) as f64;
            let each = bytes.and_then(|bytes| quotient(bytes, kept));
            bench.figure(PHASE, "data directory for each session that is kept", "B", each);
        }
        Ok(())
    }
}
