//! Whether the next group should gather for a while before it is written.
//!
//! A write costs a processor as much as several batches, however many it has: two requests to the disk, two sleeps, and a
//! wake-up of every thread that answers. On a quick disk the processors are the bottleneck, and then writing whatever has
//! just come means writing too often. So in a crowd the next group waits for about as long as the last write took. Fewer
//! clients than that have their batches written at once.

use std::time::Duration;

/// Waiting is worth it if so many batches are expected meanwhile.
const WORTH_BATCHES: u32 = 3;
/// On a slow disk, groups gather during the write before theirs.
const LONGEST: Duration = Duration::from_millis(1);

/// How long to wait after a group of so many batches, which took so long to write, and began so long after the one before.
pub fn pause(batches: usize, every: Duration, write: Duration) -> Option<Duration> {
    let pause = write.min(LONGEST);
    let batches = u32::try_from(batches).unwrap_or(u32::MAX);
    (pause.saturating_mul(batches) >= every.saturating_mul(WORTH_BATCHES)).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_few_clients_do_not_wait_and_a_crowd_does() {
        // One client: it sends its next batch when it has the answer to the last.
        assert_eq!(pause(1, micros(150), micros(100)), None);
        assert_eq!(pause(1, micros(100), micros(100)), None);
        assert_eq!(pause(2, micros(100), micros(100)), None);
        // A batch every 20 microseconds: five more during a write.
        assert_eq!(pause(10, micros(200), micros(100)), Some(micros(100)));
        assert_eq!(pause(10, micros(10_000), micros(100)), None, "the crowd is gone");
    }

    #[test]
    fn nobody_waits_long_for_a_slow_disk() {
        assert_eq!(pause(1_000, micros(20_000), micros(20_000)), Some(LONGEST));
        assert_eq!(pause(30, micros(20_000), micros(20_000)), None, "too few would come within that time");
        assert_eq!(pause(usize::MAX, Duration::MAX, Duration::MAX), None);
    }
}
