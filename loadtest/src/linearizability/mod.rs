//! Owns the check of whole histories: is there an order of all requests, each taking effect between being sent and being
//! answered, in which a server that does one at a time gives exactly these answers? One history is all that was asked of
//! one environment; environments do not depend on one another, so each is checked on its own.
//!
//! From top to bottom: `run` (servers, kills, pauses, the clients' histories), `clients` with `requests`, `answers` and
//! `choices`, `minimise`, `shown`, `checker` (the search), `rules` (the specification) with `ghosts`, `names`, `state`,
//! `history`.

mod answers;
mod checker;
mod choices;
mod clients;
mod ghosts;
mod history;
mod minimise;
mod names;
mod random;
mod requests;
mod rules;
mod run;
mod shown;
mod state;

pub use run::{Plan, RunError, Summary, check_file, run};

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_server;
#[cfg(test)]
mod tests;
