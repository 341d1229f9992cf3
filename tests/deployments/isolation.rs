//! Confined steps: what they cannot access, for each user that runs the server, and what still works.

mod attacks;
mod builds;
mod ends;
mod harness;
mod limits;
mod starting;
