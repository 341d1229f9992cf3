//! Compares Lockkeeper with its peers: the same durable locks in each system, taking turns on one machine. Starts the
//! systems, checks that all of them really lock, and leaves nothing running. Absolute figures depend on the machine, so
//! it prints ratios within a run and judges goals by them.
//!
//! From top to bottom: `tables`, `goals`, `rounds`, `systems`, `work`, `turn`, the clients (`http_lock`, `etcd`,
//! `postgres`, `redis` with `resp`), `peer_script`, `peer`, `plan`.

pub use plan::Plan;
pub use rounds::is_in_memory;
pub use systems::HOW_TO_BUILD_BARE;

use std::time::Instant;

use peer::Fault;
use rounds::{Outcome, take_turns};
use systems::{Servers, StartError, Systems};
use tables::Results;

use crate::interruption::Interruption;
use crate::report::{Run, now, outcome, why_not_judged};
use crate::server::Source;

mod etcd;
mod goals;
mod http_lock;
mod peer;
mod peer_script;
mod plan;
mod postgres;
mod redis;
mod resp;
mod rounds;
mod systems;
mod tables;
mod turn;
mod work;

pub enum Ended {
    Interrupted,
    NotStarted(StartError),
    NotPrepared(Fault),
}

/// Returns the results as text with tables, and as a run for JSON and HTML reports.
pub async fn run(plan: &Plan, source: Source) -> Result<(String, Run), Ended> {
    let (started_at, start) = (now(), Instant::now());
    let target = match &source {
        Source::Program(launch) => launch.program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        Source::Running { authority, .. } => format!("http://{authority}"),
    };
    let (seen, interrupted) = compare(plan, source).await?;
    let goals = goals::goals(plan, &seen.outcome.rounds);
    let unjudged = why_not_judged(plan.is_full(), interrupted);
    let tables = tables::text(plan, &seen, &goals, unjudged);
    let seconds = start.elapsed().as_secs_f64();
    let run = Run { started_at, seconds, interrupted, target, ..tables::run(plan, seen, goals) };
    let run = run.judged_unless(unjudged);
    Ok((tables + &outcome(&run), run))
}

/// The servers run until this returns, and are stopped in every case.
async fn compare(plan: &Plan, source: Source) -> Result<(Results, bool), Ended> {
    // Created before the first server starts, so that no later signal ends this process without its clean-up.
    let mut interruption = Interruption::new().map_err(|error| Ended::NotStarted(StartError::Signals(error)))?;
    eprintln!("starting the servers");
    let mut servers = Servers::start(plan, source).await.map_err(Ended::NotStarted)?;
    let systems = tokio::select! {
        systems = Systems::prepare(plan, &mut servers) => systems.map_err(Ended::NotPrepared)?,
        () = interruption.comes() => return Err(Ended::Interrupted),
    };
    for (system, reason) in &servers.left_out {
        eprintln!("left out: {}: {reason}", system.title());
    }
    let mut outcome = Outcome::default();
    let interrupted = tokio::select! {
        () = take_turns(plan, &servers, &systems, &mut outcome) => false,
        () = interruption.comes() => true,
    };
    eprintln!("{}", if interrupted { "interrupted: the results so far follow" } else { "stopping the servers" });
    let left_out = std::mem::take(&mut servers.left_out);
    Ok((Results { outcome, checks: systems.checks(), left_out }, interrupted))
}
