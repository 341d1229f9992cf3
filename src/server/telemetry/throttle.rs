//! Which lines of the log are left out since others like them were just written: a loop that fails, or a stranger who is
//! refused, must not fill a disk. Pure: the time comes from the caller.
//!
//! Lines are counted per place in the program, since what else is in them may come from outside, and differ each time. That
//! is also why none of the crates for this is used: tracing-throttle tells lines apart by all that is in them.

use std::collections::HashMap;
use std::time::Duration;

use tracing::Level;

/// A warning that is in every word the same is written once in this time.
const SAME_EVERY: Duration = Duration::from_secs(5);
/// More places than the program and its libraries have. Further ones, if any, count as one.
const PLACES_MAX: usize = 10_000;
/// How many different warnings one place of the program may write at once, and when it may write one more.
const WARNINGS: Bucket = Bucket { burst: 40, refill: Duration::from_secs(1) };
/// What is no warning is often asked for one by one, such as an entry for each token that was made.
const NOTES: Bucket = Bucket { burst: 200, refill: Duration::from_millis(100) };

struct Bucket {
    burst: u32,
    refill: Duration,
}

/// A hash of a place in the program that logs: the path of its module, and its line.
pub type Place = u64;

#[derive(Default)]
pub struct Throttle(HashMap<Place, Site>);

#[derive(Default)]
struct Site {
    /// When it may write a whole burst again.
    full_at: Duration,
    left_out: u64,
    /// The newest lines, at most a burst and what was refilled since, and when they were written.
    lines: Vec<(u64, Duration)>,
    /// The message of the last one.
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// So many like it were left out since the last one.
    Write {
        left_out: u64,
    },
    LeaveOut,
}

impl Throttle {
    /// Whether an event is written; `line` is a hash of all that is in it.
    pub fn judge(&mut self, place: Place, level: Level, message: &str, line: u64, now: Duration) -> Verdict {
        let is_warning = level <= Level::WARN;
        let bucket = if is_warning { WARNINGS } else { NOTES };
        let has_room = self.0.len() < PLACES_MAX || self.0.contains_key(&place);
        let site = self.0.entry(if has_room { place } else { Place::default() }).or_default();
        site.lines.retain(|(_, at)| now < *at + SAME_EVERY);
        let is_known = is_warning && site.lines.iter().any(|(known, _)| *known == line);
        let full_at = site.full_at.max(now) + bucket.refill;
        if is_known || full_at > now + bucket.refill * bucket.burst {
            site.left_out += 1;
            return Verdict::LeaveOut;
        }
        site.full_at = full_at;
        if is_warning {
            site.lines.push((line, now));
        }
        message.clone_into(&mut site.message);
        Verdict::Write { left_out: std::mem::take(&mut site.left_out) }
    }

    /// The messages of which lines were left out, and how many, where none has been written for a while.
    pub fn take_left_out(&mut self, now: Duration) -> Vec<(String, u64)> {
        let quiet = |site: &&mut Site| site.left_out > 0 && site.lines.iter().all(|(_, at)| now >= *at + SAME_EVERY);
        let quiet = self.0.values_mut().filter(quiet);
        quiet.map(|site| (site.message.clone(), std::mem::take(&mut site.left_out))).collect()
    }
}
