//! Runs the steps of deployments as real processes and HTTP requests, and stops them reliably.
//!
//! The runner gets the stages to run and reports through [`Host`]; it decides nothing about deployments and knows no
//! actor. Its guarantee: when it reports the end of a stage, no process of that stage is left.
//!
//! A step's process is the child of a supervisor (`supervise.rs`), a separate process that adopts everything the step
//! starts and, if the server dies, lives just long enough to kill all of it. `process_tree.rs` finds the processes that
//! a dead supervisor leaves behind. In a cluster, another machine may take over the environments of a server that is
//! frozen or disconnected; so a step has a lease there (`step_lease.rs`), and its supervisor kills it unless the server
//! keeps proving that it still owns the environment. `confine` isolates a step from the rest of the machine.
//!
//! From top to bottom: `jobs` → `stage` → `process_step`, `http_step` → `output`, `step` → `supervise` → `confine` →
//! `chain`, `process_tree`, `mask` → `write_pace` → `host` → `protocol`, `fair_queue`, `work_dirs`, `control_groups` →
//! `step_lease`.

mod chain;
mod confine;
mod control_groups;
mod fair_queue;
mod host;
mod http_step;
mod jobs;
mod mask;
mod output;
mod process_step;
mod process_tree;
mod protocol;
mod stage;
mod step;
mod step_lease;
mod supervise;
mod work_dirs;
mod write_pace;

pub use confine::{Layer, Layers, Untried, confine, is_of_system, probe};
pub use control_groups::ControlGroups;
pub use host::{Host, Isolation, OWN_PROGRAM, Options, SharedIsolation, StageJob, StepInputs, Variable};
pub use jobs::Runner;
pub use mask::{Mask, SharedMasks};
pub use protocol::{CONFINE_COMMAND, Confinement, SUPERVISE_COMMAND, StepLimits, StepNetwork};
pub use supervise::supervise;
pub use write_pace::WritePace;
