//! Durations and times for people.

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time since a time of the server; zero if it is in the future, since clocks differ. None if it is not a time.
pub fn since(at: &str, now: Timestamp) -> Option<String> {
    let at: Timestamp = at.parse().ok()?;
    Some(span(between(at, now)))
}

/// The time left; zero if it has passed.
pub fn until(at: &str, now: Timestamp) -> Option<String> {
    let at: Timestamp = at.parse().ok()?;
    Some(span(between(now, at)))
}

pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    later.duration_since(earlier).try_into().unwrap_or_default()
}

/// The two largest units, the second only where it matters: `45 s`, `3 min`, `2 h 5 min`, `4 d`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => match seconds % HOUR / MINUTE {
            0 => format!("{} h", seconds / HOUR),
            minutes => format!("{} h {minutes} min", seconds / HOUR),
        },
        DAY.. => match seconds % DAY / HOUR {
            hours if hours > 0 && seconds < 3 * DAY => format!("{} d {hours} h", seconds / DAY),
            _ => format!("{} d", seconds / DAY),
        },
    }
}

/// A time of the server to the second, in UTC: `2026-11-15 10:03:00`.
pub fn clock(at: &str) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => super::text::harmless(at),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn spans_are_as_exact_as_people_need() {
        let spans = [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (7_500, "2 h 5 min"),
            (86_400, "1 d"),
            (97_200, "1 d 3 h"),
            (864_000, "10 d"),
        ];
        for (seconds, text) in spans {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn clocks_that_differ_do_no_harm() {
        let now = "2026-11-15T10:00:00Z".parse().unwrap();
        assert_eq!(since("2026-11-15T10:00:05Z", now).unwrap(), "0 s");
        assert_eq!(until("2026-11-15T09:00:05Z", now).unwrap(), "0 s");
        assert_eq!(since("yesterday", now), None);
        assert_eq!(clock("2026-11-15T10:00:05.123Z"), "2026-11-15 10:00:05");
    }
}
