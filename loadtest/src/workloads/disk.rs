//! Owns `disk`: as many cycles as fit in the time, then what the server's data takes on the disk, of which most must be
//! what it still keeps.

use serde::Deserialize;

use crate::engine::{Fault, LoadTest, Operation};
use crate::report::quotient;
use crate::settings::Common;
use crate::workloads::cycle::{cycling, report_cycles};
use crate::workloads::kind::{Kind, one_environment_each};

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

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        test.environments(1..=self.environments, "{}").await?;
        let (mut cycles, kept_at_most) = (0, u64::from(self.environments) * test.common.retention());
        for _ in 0..test.common.rounds {
            let load = cycling(test.common.connections, self.environments);
            let seen = test.measure(test.segment(PHASE), load).await?;
            report_cycles(test, PHASE, &seen);
            cycles += seen.count(Operation::Release);
            let bytes = test.server.data_bytes().map(|bytes| bytes as f64);
            test.figure(PHASE, "data directory", "B", bytes);
            test.figure(PHASE, "cycles so far", "count", Some(cycles as f64));
            let kept = cycles.min(kept_at_most) as f64;
            let each = bytes.and_then(|bytes| quotient(bytes, kept));
            test.figure(PHASE, "data directory for each session that is kept", "B", each);
        }
        Ok(())
    }
}
