//! Backups: a copy of everything in a data directory except its keys, taken while the server runs; and creating a data
//! directory from it.
//!
//! Each file uses only those before it: `stream` (its frames, writer and reader), `backups` (from a store and its logs
//! to a stream), `save` (from a stream to a file), `restore` (from a stream to a directory). This folder does not use
//! HTTP.

mod backups;
mod restore;
mod save;
mod stream;
#[cfg(test)]
mod tests;

pub use backups::{Backups, InProgress, MakeError, Taking, make};
pub use restore::{Restored, restore};
pub use save::{SaveError, Saved, check_new, open, save, save_to};
pub use stream::{About, Header, Totals};
