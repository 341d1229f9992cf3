//! Drives a Lockkeeper over HTTP as a black box: reads the command line, runs the scenario, turns what it saw into an
//! exit code (0 clean, 1 something was wrong, 2 refused before the first request, 130 interrupted but clean).

mod answer;
mod client;
mod connection;
mod cycle;
mod environments;
mod generator;
mod long_queue;
mod options;
mod report;
mod request;
mod response;
mod server_cpu;
mod server_memory;
mod summary;
mod tally;
mod target;
mod token;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use options::{Command, CommandLine, Options, QueueOptions};

const EXIT_WRONG: u8 = 1;
const EXIT_REFUSED: u8 = 2;
const EXIT_INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}"), EXIT_WRONG),
    };
    match CommandLine::parse().command {
        Command::Cycle(options) => cycle(options, &runtime),
        Command::LongQueue(options) => long_queue(options, &runtime),
    }
}

fn long_queue(options: QueueOptions, runtime: &Runtime) -> ExitCode {
    let plan = match options.into_plan() {
        Ok(plan) => plan,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    let outcome = runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(stop_on_interrupt(stop));
        long_queue::run(&plan, stopped).await
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(long_queue::Fault::Interrupted) => return ExitCode::from(EXIT_INTERRUPTED),
        Err(fault) => return failed(&fault.to_string(), EXIT_WRONG),
    };
    if let Err(error) = outcome.report(&plan, &mut std::io::stdout().lock()) {
        return failed(&format!("cannot write the report: {error}"), EXIT_WRONG);
    }
    if outcome.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) }
}

fn cycle(options: Options, runtime: &Runtime) -> ExitCode {
    let (plan, json) = match options.into_plan() {
        Ok(accepted) => accepted,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    let outcome = runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(stop_on_interrupt(stop));
        cycle::run(plan.clone(), stopped).await
    });
    if let Err(error) = report::write(&plan, &outcome, json) {
        return failed(&format!("cannot write the report: {error}"), EXIT_WRONG);
    }
    if !outcome.is_clean() {
        ExitCode::from(EXIT_WRONG)
    } else if outcome.interrupted {
        ExitCode::from(EXIT_INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    }
}

async fn stop_on_interrupt(stop: watch::Sender<bool>) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    eprintln!("ending early, the report follows; Ctrl-C again quits at once");
    stop.send_replace(true);
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(EXIT_INTERRUPTED.into());
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    eprintln!("loadtest: {why}");
    ExitCode::from(code)
}
