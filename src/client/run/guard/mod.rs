//! The guard of a command: a small process between the client and the command, so that the command ends with its lock
//! even if the client is killed or frozen. It adopts everything the command starts, however it detaches itself.
//!
//! It is this program, started with [`GUARD_COMMAND`], and starts the command through [`START_COMMAND`], which gives it
//! the terminal, binds its life to the guard's, and becomes the command.
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
