//! The client: commands that talk to a server over its HTTP API, and never to its store. It uses nothing of the server,
//! so that a small program without it can be built for CI images (`--no-default-features` of `lockkeeper`).
//!
//! From top to bottom: `commands` → `run`, `watch`, `logs` → `acquire`, `feed` → `api`, `eval` → `signals` →
//! `connection` → `retry`, `steady`, `arguments`, `failure` → `holders` → `output`.

pub mod api;
pub mod commands;
pub mod connection;
pub mod eval;
pub mod failure;
pub mod output;

mod acquire;
mod alone;
mod arguments;
mod feed;
mod holders;
mod logs;
mod retry;
mod run;
mod signals;
mod steady;
mod watch;

use std::process::ExitCode;

pub use alone::run as run_alone;
pub use commands::Command;
pub use failure::Failure;
pub use run::hidden;

/// Runs a command of the client to its end. `program` describes the whole program, for completions and manual pages.
pub fn run(command: Command, program: clap::Command) -> ExitCode {
    // One thread is enough: a command nearly always waits for the network.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::Failed(format!("cannot start: {error}"))),
    };
    match runtime.block_on(eval::run(commands::run(command, program))) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Prints the reason on stderr.
pub fn report(failure: &Failure) -> ExitCode {
    eval::failed();
    if !matches!(failure, Failure::OutputClosed | Failure::Exit(_)) {
        output::note(&format!("lockkeeper: {failure}"));
    }
    ExitCode::from(failure.code())
}
