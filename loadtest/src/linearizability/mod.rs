//! Owns the check of whole histories: is there an order of all requests, each taking effect between being sent and being
//! answered, in which a server that does one at a time gives exactly these answers? One history is all that was asked of
//! one environment; environments do not depend on one another, so each is checked on its own.
//!
//! From top to bottom: `run` (the clients' histories), `subject` (the server or cluster, and what is done to it),
//! `takeovers`, `clients` with `requests`, `shown`, `checker` (the search), `rules` (the specification), `names`, `state`,
//! `history`.

mod checker;
mod clients;
pub mod history;
mod names;
mod report;
pub mod requests;
mod rules;
mod run;
mod state;
mod subject;
mod takeovers;

pub use run::{check_file, run};
pub use subject::Plan;

#[cfg(test)]
mod tests;
