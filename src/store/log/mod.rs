//! The redo log: makes a group of batches durable with one `fdatasync`, and replays them after a crash.
//!
//! The log is independent of the database except for the applied sequence.

pub mod committer;
pub mod disk;
pub mod format;
pub mod queue;
pub mod reader;
pub mod recovery;
pub mod segments;

#[cfg(test)]
mod power_loss;

/// A small seeded generator for tests, so that a failure can be reproduced.
pub struct Random(u64);

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
