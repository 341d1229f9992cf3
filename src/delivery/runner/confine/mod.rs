//! Confines a step before it runs: the parts of the machine it may access, the processes it may signal, the resources
//! it may use.
//!
//! A confined step has an *init* (`init.rs`): this program again, started by the step's supervisor inside new
//! namespaces. It applies one layer after another, starts the step, and waits for everything that the step starts. If
//! its supervisor is killed, the kernel ends the init, and with it every process of its namespace.
//!
//! The server tries at its start which layers a machine has (`probe.rs`), and names them in each order. If a named
//! layer fails, the step does not start.
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
