//! Getting a lock reliably: waits in the queue if it is taken, survives network faults and restarts of the server, and
//! never takes two. A claim that is given up releases any lock it may have been granted.
//!
//! From top to bottom: `claim` → `session`; `context`.

mod claim;
pub mod context;
mod session;

pub use claim::{Request, Target, acquire};
pub use session::{Acquired, Fate, Session, Standing, fate, heartbeat};
