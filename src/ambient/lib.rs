//! Time, chance and pauses: everything that the rules are given instead of asking for it.

pub mod backoff;
pub mod entropy;
pub mod steady_clock;
