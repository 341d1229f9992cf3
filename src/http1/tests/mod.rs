//! The crate beside two others that read the same protocol, and inputs of every kind.

mod differential;
mod fuzz;
