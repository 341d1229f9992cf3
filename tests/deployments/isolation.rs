//! Steps in their box: what they cannot reach, whatever user the server is, and what still works there.

mod attacks;
mod builds;
mod ends;
mod harness;
mod limits;
mod starting;
