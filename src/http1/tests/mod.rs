//! The crate compared with two others that read the same protocol, on inputs of every kind.

mod differential;
mod fuzz;
