//! Owns how a run is shown: as text for a terminal, as JSON for scripts, as a page for people. Only reads the model; it
//! measures nothing and decides nothing but whether a run was clean and a goal met.

mod html;
mod json;
mod measured;
pub mod model;
pub(crate) mod number;
#[cfg(test)]
mod sample;
mod table;
mod text;
mod verdict;

pub use html::html;
pub use json::{ReadError, json, read};
pub use measured::{now, quotient};
pub use text::{outcome, text};
pub use verdict::{Verdict, why_not_judged};
