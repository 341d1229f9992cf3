//! Owns the check of whole histories: is there an order of all requests, each taking effect between being sent and being
//! answered, in which a server that does one at a time gives exactly these answers? One history is all that was asked of
//! one environment; environments do not depend on one another, so each is checked on its own.
//!
//! From top to bottom: `run` (the clients' histories), `subject` (`single` or `cluster`: what is disturbed, and how), `plan`,
//! `disturbances`, `takeovers`, `clients` with `requests`, `answers` and `choices`, `minimise`, `shown`, `checker` (the
//! search), `rules` (the specification) with `ghosts`, `names`, `state`, `history`.

mod answers;
mod checker;
mod choices;
mod clients;
mod cluster;
mod disturbances;
mod ghosts;
mod history;
mod minimise;
mod names;
mod plan;
mod random;
mod requests;
mod rules;
mod run;
mod shown;
mod single;
mod state;
mod subject;
mod takeovers;

pub use disturbances::Disturbances;
pub use plan::{Plan, RunError};
pub use run::{Summary, check_file, run};

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_server;
#[cfg(test)]
mod tests;
