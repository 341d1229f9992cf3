//! The engine over PostgreSQL: a table of shards, a table of pairs, and each transaction one statement.
//!
//! Replication and failover are the operator's. What is required of the server is checked by `probe`.
//!
//! Each line may use those above it, and none below:
//!
//! - `statements`: the tables, and the statements; `errors`: refusal or unknown outcome; both pure
//! - `tls`: encrypted connections
//! - `engine`: the engine itself

mod engine;
mod errors;
mod statements;
mod tls;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use engine::{Postgres, PostgresSettings};
