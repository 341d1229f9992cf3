//! Owns the rules that a history must satisfy, and the reports of violations: one file per rule. A rule looks only at
//! the history, and reports a violation only if no correct server could have given these answers, whatever the delays
//! of its clients. Lost answers are interpreted in the server's favour.
//!
//! From top to bottom: the rules (`one_holder`, `fencing`, `queue_order`, `visibility`, `leaks`), `evidence`, `findings`.

use evidence::Evidence;

use crate::history::History;
use crate::report::Check;

mod evidence;
mod fencing;
mod findings;
mod leaks;
mod one_holder;
mod queue_order;
mod visibility;

#[cfg(test)]
mod tests;

pub fn all(history: &History) -> Vec<Check> {
    let evidence = Evidence::of(history);
    vec![
        one_holder::check(&evidence),
        fencing::check(&evidence),
        queue_order::check(&evidence),
        visibility::check(&evidence),
        leaks::check(&evidence),
    ]
}
