//! Moves everything between a data directory and the shards of a cluster.
//!
//! Each line may use those above it, and none below:
//!
//! - `homes`: which organization a record belongs to, pure
//! - `answered`: asks an engine again that does not answer; `standing`: whether a cluster is whole
//! - `taking`: all shards of a cluster that is being filled, and what lies in them
//! - `importing`: from a data directory into an empty cluster
//! - `exporting`: from a cluster into a new data directory, while it serves

mod answered;
mod exporting;
mod homes;
mod importing;
mod standing;
mod taking;
#[cfg(test)]
mod tests;

pub use answered::answered;
pub use exporting::{ExportError, Exported, export};
pub use importing::{ImportError, Target, Totals, give_up, import};
pub use standing::{NotReady, check, ready};
