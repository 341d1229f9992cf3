//! A share for each organization of what is finite: places to read lists, to run git, to follow a log and so on.
//! `docs/design/shares.md` has the rules and the list of what is shared by them.
//!
//! From the bottom: `capacity` has the rules for places and for what is kept, `turns` the order of those who wait
//! (pure, for whoever keeps its own queue), `meter` the metrics, `places` the handle that others acquire a place from;
//! `limited` has places with one fixed bound for each holder. `disk` bounds what is written to the disk of the data
//! directory, `threads` has the threads that stand back behind all others, and the pace of long work.

mod capacity;
mod disk;
mod limited;
mod meter;
mod places;
mod threads;
mod turns;

pub use capacity::{Capacity, Refused, level, may_grow};
pub use disk::{Disk, DiskLimits, DiskWriter, Look, Unlisted};
pub use limited::{LimitReached, Limited, LimitedPlace};
pub use meter::{OTHERS, ShareMeter};
pub use places::{Place, Places};
pub use threads::{LAST, Paces, at_usual_priority, read, read_later, read_output, stand_back, time_of_this_thread};
pub use turns::Turns;
