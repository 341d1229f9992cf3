//! Gives each organization a share of every limited resource: permits to read lists, to run git, to follow a log and so
//! on. `docs/design/shares.md` has the rules and the list of shared resources.
//!
//! From the bottom: `capacity` has the rules for permits and for stored data; `turns` the order of waiters (pure, for
//! callers with their own queue); `meter` the metrics; `permits` acquires places; `limited` has permits with a fixed
//! limit per holder. `disk` limits the writes to the disk of the data directory. `threads` has the low-priority
//! threads, and the pace of long work.

mod capacity;
mod disk;
mod limited;
mod meter;
mod permits;
mod threads;
mod turns;

pub use capacity::{Capacity, ShareError, level, may_grow};
pub use disk::{Disk, DiskLimits, DiskWriter, Look, Unlisted};
pub use limited::{LimitReached, Limited, LimitedPermit};
pub use meter::{OTHERS, ShareMeter};
pub use permits::{Permit, Permits};
pub use threads::{LAST, Paces, at_usual_priority, read, read_later, read_output, stand_back, time_of_this_thread};
pub use turns::Turns;
