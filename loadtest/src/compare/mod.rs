//! Owns the comparison with the peers: the same locks, made durable, in Lockkeeper and in what people use instead,
//! taking turns on one machine. It starts what it compares, checks that all of them really lock, and leaves nothing
//! behind. A figure is worth something only beside another of the same run, so it prints ratios and judges goals by them.

mod disk;
mod etcd;
mod etcd_messages;
mod field;
mod goals;
mod grpc;
mod http_lock;
mod ledger;
mod options;
mod peer;
mod postgres;
mod process_tree;
mod redis;
mod resp;
mod rounds;
mod servers;
mod tables;
mod turn;
mod work;
mod written;

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use tokio::signal::unix::{Signal, SignalKind, signal};

use field::{Field, FieldError, Servers};
pub use options::Options;
use options::Plan;
use peer::System;
use rounds::{Outcome, take_turns};
use written::Circumstances;

use crate::report::model::Check;

const EXIT_WRONG: u8 = 1;
const EXIT_REFUSED: u8 = 2;
const EXIT_INTERRUPTED: u8 = 130;

/// Compares, prints, and says by its exit code whether that went well; goals that are not met are no fault of the run.
pub fn run(options: Options) -> u8 {
    let (plan, json) = match options.into_plan() {
        Ok(accepted) => accepted,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    // One thread for all clients: the machine's other processors are the servers'.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}"), EXIT_WRONG),
    };
    let (started_at, start) = (jiff::Timestamp::now().to_string(), Instant::now());
    let seen = match runtime.block_on(compare(&plan)) {
        Ok(seen) => seen,
        Err(Ended::Interrupted) => return failed("interrupted before the first turn", EXIT_INTERRUPTED),
        Err(Ended::Failed(error)) => return failed(&error.to_string(), EXIT_WRONG),
    };
    let around = Circumstances {
        started_at,
        seconds: start.elapsed().as_secs_f64(),
        interrupted: seen.interrupted,
        left_out: seen.left_out.clone(),
    };
    if let Err(error) = report(&plan, &seen, around, json) {
        return failed(&format!("cannot write the report: {error}"), EXIT_WRONG);
    }
    seen.exit_code()
}

/// What is left of a comparison when its servers are gone.
struct Seen {
    outcome: Outcome,
    checks: Vec<Check>,
    left_out: Vec<(System, String)>,
    interrupted: bool,
}

/// Why there is nothing to show.
enum Ended {
    Interrupted,
    Failed(FieldError),
}

impl Seen {
    fn exit_code(&self) -> u8 {
        let violations: u64 = self.checks.iter().map(|check| check.violation_count).sum();
        if violations > 0 || !self.outcome.errors.is_empty() {
            EXIT_WRONG
        } else if self.interrupted {
            EXIT_INTERRUPTED
        } else {
            0
        }
    }
}

/// The servers live as long as this does, and end with it in every case.
async fn compare(plan: &Plan) -> Result<Seen, Ended> {
    // Before the first server, so that from there on no signal ends this process without its clean-up.
    let mut interruption = Interruption::new().map_err(|error| Ended::Failed(FieldError::Signals(error)))?;
    eprintln!("starting the servers");
    let mut servers = Servers::start(plan).map_err(Ended::Failed)?;
    let field = tokio::select! {
        field = Field::prepare(plan, &mut servers) => field.map_err(Ended::Failed)?,
        () = interruption.comes() => return Err(Ended::Interrupted),
    };
    for (system, reason) in &servers.left_out {
        eprintln!("left out: {}: {reason}", system.title());
    }
    let mut outcome = Outcome::default();
    let interrupted = tokio::select! {
        () = take_turns(plan, &servers, &field, &mut outcome) => false,
        () = interruption.comes() => true,
    };
    eprintln!("{}", if interrupted { "ending early, what was seen follows" } else { "stopping the servers" });
    Ok(Seen { outcome, checks: field.checks(), left_out: std::mem::take(&mut servers.left_out), interrupted })
}

fn report(plan: &Plan, seen: &Seen, around: Circumstances, json: Option<File>) -> io::Result<()> {
    let goals = goals::goals(plan, &seen.outcome.rounds);
    let mut out = io::stdout().lock();
    tables::write(plan, &seen.outcome, &goals, &seen.checks, &seen.left_out, &mut out)?;
    out.flush()?;
    if let Some(mut file) = json {
        let run = written::run(plan, &seen.outcome, &goals, seen.checks.clone(), around);
        serde_json::to_writer_pretty(&mut file, &run)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Ctrl-C, and what a CI system sends when it has had enough.
struct Interruption([Signal; 3]);

impl Interruption {
    fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    async fn comes(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn failed(why: &str, code: u8) -> u8 {
    eprintln!("loadtest: {why}");
    code
}
