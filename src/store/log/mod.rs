//! The redo log: makes a group of batches durable with one `fdatasync`, and gives them back after a crash.
//!
//! It knows nothing of the database behind it but the sequence up to which it has everything.

pub mod committer;
pub mod direct;
pub mod disk;
pub mod format;
pub mod queue;
pub mod recovery;
pub mod segments;

#[cfg(test)]
mod power_loss;

use std::io::Write;
use std::sync::Arc;

/// What ends the process when the disk fails under it: after a failed `fdatasync` the kernel has dropped the page, so
/// trying again would report a success that is none. Given one sentence for the operator.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// `EX_IOERR` of sysexits.h.
const EXIT_IO_ERROR: i32 = 74;

/// Says it in the log and on stderr, and ends the process.
pub fn exit_on_fatal() -> Fatal {
    Arc::new(|sentence| {
        tracing::error!("{sentence}");
        // Not `eprintln`, which panics where stderr is a full disk too.
        writeln!(std::io::stderr(), "lockkeeper: {sentence}").ok();
        std::process::exit(EXIT_IO_ERROR)
    })
}

/// A small seeded generator for tests, so that a failure can be run again.
#[cfg(test)]
pub struct Random(u64);

#[cfg(test)]
impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
