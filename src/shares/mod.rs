//! A share for each organization of what is finite: places to read lists, to run git, to follow a log and so on.
//! `docs/design/shares.md` has the rule and the list of what is shared by it.
//!
//! From the bottom: `capacity` has the rule, `turns` the order of those who wait (pure, for whoever keeps its own queue),
//! `meter` the metrics, `places` the handle that others acquire a place from.

mod capacity;
mod meter;
mod places;
mod turns;

pub use capacity::{Capacity, Refused};
pub use meter::ShareMeter;
pub use places::{Pause, Place, Places};
pub use turns::Turns;
