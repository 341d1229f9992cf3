//! Runs the steps of deployments: real processes, real requests, really stopped.
//!
//! It is told which stages to run and says what became of them through [`Host`]; it decides nothing about deployments
//! and knows no actor. What it promises: when it says that a stage has ended, nothing of it runs any more.
//!
//! A step's process hangs from a supervisor (`supervise.rs`), a process of its own that adopts whatever the step starts
//! and outlives the server by the moment it needs to kill all of it. What a dead supervisor leaves, `tree.rs` finds.

mod http_step;
mod jobs;
mod mask;
mod output;
mod process_step;
mod protocol;
mod stage;
mod step;
mod substitute;
mod supervise;
mod tree;
mod turns;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use zeroize::Zeroizing;

pub use jobs::Runner;
pub use mask::Mask;
pub use supervise::{SUPERVISE_COMMAND, supervise};

use crate::domain::{DeploymentId, EnvironmentKey, StageEnd, StageOrder, StepRun, Timestamp};

#[derive(Debug, Clone)]
pub struct Options {
    /// How many stages run at a time; each runs one step at a time. At most [`RUNNING_MAX`].
    pub max_running: usize,
    /// How long a step has between being asked to end and being killed.
    pub grace: Duration,
    /// `PATH` of the steps, unless a variable sets it.
    pub path: String,
    /// Absolute. Each deployment has a directory in it, which its steps start in.
    pub work_dir: PathBuf,
    /// How much of a step's output is kept.
    pub log_bytes_per_step: u64,
    /// The program that supervises steps, which is this one: [`OWN_PROGRAM`].
    pub supervisor: PathBuf,
}

/// Each step that runs takes one of the runtime's threads for blocking work, of which there are 512 for everybody.
pub const RUNNING_MAX: usize = 256;

/// This program, also if its file was replaced or removed since it started.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// One stage of a deployment of this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageJob {
    pub environment: EnvironmentKey,
    pub order: StageOrder,
}

/// What a step sees under a name.
#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub value: Zeroizing<String>,
    /// Whether its value is masked wherever it would be shown.
    pub secret: bool,
}

/// What the runner needs of the server it runs in.
pub trait Host: Send + Sync + 'static {
    /// Everything a step sees beside what is named `LOCKKEEPER_…`; of two of the same name the later wins. Asked for
    /// when the stage begins, so that secrets are fresh. Otherwise one sentence why there are none.
    fn variables<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, Result<Vec<Variable>, String>>;

    /// The stage is about to begin. Resolves when that is durable; false if it is no longer wanted.
    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool>;

    /// How its steps stand now.
    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// Nothing of the stage runs any more. Resolves when that is durable or moot.
    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// Nothing runs any more of what an earlier run of the server may have left of a deployment.
    fn swept<'a>(&'a self, environment: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()>;

    fn now(&self) -> Timestamp;
}
