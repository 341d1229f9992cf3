//! The log of a deployment, printed: whole, or followed to the deployment's end through broken connections.
//!
//! Order: `escapes` (which control sequences a terminal gets), `printing` (lines), `reading` (connections), `approvals` (a
//! pause of the log, explained).

mod approvals;
mod escapes;
mod printing;
mod reading;

pub use printing::Printer;
pub use reading::{LogQuery, print};
