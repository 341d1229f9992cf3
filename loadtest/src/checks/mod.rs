//! Owns the rules that a history must keep, and what is said when it does not: one file a rule. A rule looks at nothing
//! but the history, and speaks up only where a server that keeps its promises could not have given these answers,
//! however its clients were delayed. What nobody was told (a lost answer) is taken in the server's favour.
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
