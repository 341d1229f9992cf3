//! Backups: a copy of everything that a data directory holds but its keys, taken while the server runs, and a data directory
//! made of it.
//!
//! Each file uses only those before it: `form` (frames, header, trailer), `writer` and `reader` (the whole stream, checked),
//! `making` (from a store and its logs to a stream), `taking` (one at a time), `saving` (from a stream to a file), `restoring`
//! (from a stream to a directory). Knows nothing of HTTP.

mod form;
mod making;
mod reader;
mod restoring;
mod saving;
mod taking;
#[cfg(test)]
mod tests;
mod writer;

pub use form::{About, Header, Totals};
pub use making::{MakeError, make};
pub use restoring::{RestoreError, Restored, restore};
pub use saving::{SaveError, Saved, check_new, open, save, save_to};
pub use taking::{Backups, InProgress, Taking};
