//! Reports a run: as text for a terminal, as JSON for scripts, as a page for people. Only reads the model; decides
//! nothing except whether a run was clean and a goal was met.

mod html;
pub mod model;
pub(crate) mod number;
#[cfg(test)]
mod samples;
mod text;

pub use html::html;
pub use model::{
    Check, FORMAT, Figure, Goal, Latency, Phase, Run, Slice, SliceOperation, Verdict, Violation, goal, json, now,
    quotient, read, why_not_judged,
};
pub use text::{outcome, text};
