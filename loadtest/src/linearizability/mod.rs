//! Checks whole histories for linearizability: is there an order of all requests, each taking effect between being sent
//! and being answered, in which a server that handles one request at a time gives exactly these answers? One history
//! contains all requests to one environment; environments are independent, so each is checked separately.
//!
//! From top to bottom: `run` (the clients' histories), `subject` (the system under test and its disturbances),
//! `takeovers`, `clients` with `requests`, `report`, `checker` (the search), `rules` (the specification), `names`,
//! `state`, `history`.

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
