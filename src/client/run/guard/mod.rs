//! The guard of a command: a small process between the client and the command, so that the command ends with its lock
//! even if the client is killed or frozen. It adopts everything the command starts, however it detaches itself.
//!
//! The guard is this program, started with [`GUARD_COMMAND`]. It starts the command through [`START_COMMAND`], a
//! process that gives the command the terminal, is killed if the guard dies, and becomes the command.
//!
//! From top to bottom: `client` (the client's side) → `process` → `start`, `plan`, `protocol`.

mod client;
mod plan;
mod process;
mod protocol;
mod start;

pub use client::{Guarded, sweep};
pub use process::{GUARD_COMMAND, guard};
pub use protocol::{Ending, Order, Report};
pub use start::{START_COMMAND, do_not_stop_at_output, start};
