//! The guard of a command: a small process between the client and the command, so that the command ends with its lock
//! even if the client is killed or frozen. It adopts everything the command starts, however that detaches itself.
//!
//! It is this program, started with [`GUARD_COMMAND`], and starts the command by way of [`START_COMMAND`], which becomes
//! the command: that one gives it the terminal and binds its life to the guard's.
//!
//! From top to bottom: `client` (this side of it) → `process` → `start`, `plan`, `protocol`.

mod client;
mod plan;
mod process;
mod protocol;
mod start;

pub use client::{Guarded, sweep};
pub use process::{GUARD_COMMAND, guard};
pub use protocol::{Ending, Order, Report};
pub use start::{START_COMMAND, start};
