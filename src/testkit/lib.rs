//! What unit tests of several crates share.

#![allow(clippy::unwrap_used)]

pub mod authority;
pub mod format_4;
pub mod fuzz;
pub mod patterns;
