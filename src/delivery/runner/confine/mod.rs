//! Confines a step before it runs: what it may reach on the machine, whom it may signal, how much it may take.
//!
//! A confined step has an *init* (`init.rs`): this program again, started by the step's supervisor inside new namespaces.
//! It puts on one layer after another, starts the step, and waits for everything that the step starts. If its supervisor is
//! killed, the kernel ends the init, and with it every process of its namespace.
//!
//! Nothing here decides which layers a machine has: the server tries them at its start (`probe.rs`) and names them in each
//! order. A layer that is named and fails stops the step.
//!
//! From top to bottom: `probe` → `init` → `files`, `namespaces`, `privileges`, `sockets`.

mod files;
mod init;
mod namespaces;
mod privileges;
mod probe;
mod sockets;

pub(super) use init::{Init, RunningInit, start};

pub use files::is_of_system;
pub use init::confine;
pub use probe::{Layer, Layers, Untried, probe};
