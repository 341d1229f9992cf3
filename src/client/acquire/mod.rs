//! Getting a lock, whatever happens on the way: in the queue if it is taken, through faults of the network and restarts of
//! the server, and never two. Whoever gives up gives back what may have been granted.
//!
//! From top to bottom: `claim` → `session`; `context`.

mod claim;
pub mod context;
mod session;

pub use claim::{Request, Target, acquire};
pub use session::{Acquired, Fate, Session, Standing, fate, heartbeat};
