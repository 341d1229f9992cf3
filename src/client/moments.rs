//! Moments in arguments: a time as the API writes it, or how long ago.

use jiff::{SignedDuration, Timestamp};

/// `2026-11-15T10:03:00Z`, or `90s`, `15m`, `2h`, `3d` ago.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    parse(text, Timestamp::now())
}

fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let rule = || "must be a time like 2026-11-15T10:03:00Z, or how long ago, like 90s, 15m, 2h or 3d".to_owned();
    let unit = text.chars().next_back().ok_or_else(rule)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(rule()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| rule())?;
    now.checked_sub(SignedDuration::from_secs(i64::from(count) * seconds)).map_err(|_| rule())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_moment_is_a_time_or_so_long_ago() {
        let now: Timestamp = "2026-11-15T10:03:00Z".parse().unwrap();
        for (text, meant) in [
            ("2026-11-15T09:00:00Z", "2026-11-15T09:00:00Z"),
            ("2026-11-15T10:00:00+01:00", "2026-11-15T09:00:00Z"),
            ("90s", "2026-11-15T10:01:30Z"),
            ("15m", "2026-11-15T09:48:00Z"),
            ("2h", "2026-11-15T08:03:00Z"),
            ("3d", "2026-11-12T10:03:00Z"),
        ] {
            assert_eq!(parse(text, now).map(|at| at.to_string()).as_deref(), Ok(meant));
        }
        for wrong in ["", "m", "yesterday", "-1h", "1.5h", "4294967295d", "2026-11-15", "1ä"] {
            assert!(parse(wrong, now).is_err(), "{wrong}");
        }
    }
}
