//! A share for each organization of what is finite: places to read lists, to run git, to follow a log and so on.
//! `docs/design/shares.md` has the rules and the list of what is shared by them.
//!
//! From the bottom: `capacity` has the rule for places, `level` the one for what is kept, `turns` the order of those who wait
//! (pure, for whoever keeps its own queue), `meter` the metrics, `places` the handle that others acquire a place from;
//! `limited` has places with one fixed bound for each holder. `pace` bounds the processor time of long work, `disk` what is
//! written to the disk of the data directory, `threads` has those that stand back behind all others.

mod capacity;
mod disk;
mod level;
mod limited;
mod meter;
mod pace;
mod places;
mod threads;
mod turns;

pub use capacity::{Capacity, Refused};
pub use disk::{Disk, DiskLimits, DiskWriter, Look, Unlisted};
pub use level::{level, may_grow};
pub use limited::{LimitReached, Limited, LimitedPlace};
pub use meter::{OTHERS, ShareMeter};
pub use pace::{Paces, time_of_this_thread};
pub use places::{Place, Places};
pub use threads::{LAST, at_usual_priority, read, read_later, read_output, stand_back};
pub use turns::Turns;
