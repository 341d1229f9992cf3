//! Time, randomness and pauses: inputs that the domain receives instead of reading them itself.

pub mod backoff;
pub mod entropy;
pub mod steady_clock;
