//! Owns the `cycle` scenario: make the environments, then let the three workloads take turns, so that what is compared
//! was measured side by side.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::Workload;
use crate::generator::Generator;
use crate::options::Plan;
use crate::server_cpu;
use crate::summary::{Measurement, Round};
use crate::tally::{Findings, Operation, Tally};

/// Enough to make a million environments at under 2,000 a second.
const PREPARATION_LIMIT: Duration = Duration::from_secs(600);

/// What a run has seen, also one that was ended early.
#[derive(Default)]
pub struct Outcome {
    pub findings: Findings,
    pub rounds: Vec<Round>,
    pub interrupted: bool,
}

impl Outcome {
    pub fn is_clean(&self) -> bool {
        self.findings.error_count() == 0 && self.findings.violation_count == 0
    }
}

pub async fn run(plan: Arc<Plan>, stopped: watch::Receiver<bool>) -> Outcome {
    let mut outcome = Outcome::default();
    match Generator::start(&plan, &stopped) {
        Ok(generator) => {
            if prepare(&plan, &generator, &stopped, &mut outcome).await {
                take_turns(&plan, &generator, &stopped, &mut outcome).await;
            }
            generator.finish();
        }
        Err(error) => outcome.findings.error(format!("cannot start the load generator: {error}")),
    }
    outcome.interrupted = *stopped.borrow();
    outcome
}

/// Whether every environment is there.
async fn prepare(plan: &Plan, generator: &Generator, stopped: &watch::Receiver<bool>, outcome: &mut Outcome) -> bool {
    let start = Instant::now();
    let Some(tally) = perform(generator, Workload::Prepare, start + PREPARATION_LIMIT, outcome).await else {
        return false;
    };
    let made = tally.count(Operation::Put);
    outcome.findings.merge(tally.findings);
    eprintln!("{made} of {} environments ready after {:.1} s", plan.environments, start.elapsed().as_secs_f64());
    let complete = made == u64::from(plan.environments);
    if !complete && !*stopped.borrow() {
        outcome.findings.error("not every environment could be made, so nothing was measured".to_owned());
    }
    complete
}

async fn take_turns(plan: &Plan, generator: &Generator, stopped: &watch::Receiver<bool>, outcome: &mut Outcome) {
    for number in 1..=plan.rounds {
        outcome.rounds.push(Round::default());
        for workload in [Workload::Health, Workload::Cycle, Workload::Read] {
            if *stopped.borrow() {
                return;
            }
            let cpu_before = server_cpu_time(plan);
            let start = Instant::now();
            let Some(tally) = perform(generator, workload, start + plan.round_length, outcome).await else {
                return;
            };
            let cpu = cpu_before.zip(server_cpu_time(plan)).map(|(before, after)| after.saturating_sub(before));
            let measurement = Measurement::new(&tally, tally.elapsed_since(start.into_std()), cpu);
            eprintln!("round {number}/{}: {}", plan.rounds, measurement.describe(workload));
            outcome.findings.merge(tally.findings);
            if let Some(round) = outcome.rounds.last_mut() {
                round.record(workload, measurement);
            }
        }
    }
}

async fn perform(generator: &Generator, workload: Workload, until: Instant, outcome: &mut Outcome) -> Option<Tally> {
    match generator.perform(workload, until).await {
        Ok(tally) => Some(tally),
        Err(lost) => {
            outcome.findings.error(lost.to_string());
            None
        }
    }
}

/// None without `--server-pid`, or once the server has gone; the errors then tell the story.
fn server_cpu_time(plan: &Plan) -> Option<u64> {
    plan.server_pid.and_then(|pid| server_cpu::read(pid).ok())
}
