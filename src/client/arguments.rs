//! Values in arguments: names, labels, durations, and times.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

/// The server's limit.
const IDENTIFIER_MAX: usize = 63;

/// An environment as typed by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentName {
    /// Takes precedence over `--pipeline`.
    pub pipeline: Option<String>,
    pub name: String,
}

impl FromStr for EnvironmentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pipeline, name) = match text.split_once('/') {
            Some((pipeline, name)) => (Some(identifier(pipeline)?), name),
            None => (None, text),
        };
        Ok(Self { pipeline, name: identifier(name)? })
    }
}

/// A name or an id that can be part of a path, as the server defines it.
pub fn identifier(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if begins && text.len() <= IDENTIFIER_MAX && text.bytes().all(good) {
        return Ok(text.to_owned());
    }
    Err("must be 1 to 63 letters, digits, `.`, `_` or `-`, and begin with a letter or a digit".to_owned())
}

/// A label in an argument: `size=large`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE, like size=large")?;
    Ok((identifier(name)?, value.to_owned()))
}

/// Seconds, as `600`, `90s`, `10m` or `1h30m`.
pub fn seconds(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(seconds.into());
    }
    parts(text).ok_or_else(|| "must be a number of seconds, or like 90s, 10m, 1h30m or 2d".to_owned())
}

fn parts(text: &str) -> Option<u64> {
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: u64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes().get(digits)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 60 * 60,
            b'd' => 24 * 60 * 60,
            _ => return None,
        };
        total = total.checked_add(count.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    // The same limit as for plain seconds, so that adding it to a time cannot overflow.
    Some(total).filter(|total| !text.is_empty() && *total <= u32::MAX.into())
}

/// Like [`seconds`], with a minimum.
pub fn seconds_from(least: u64, text: &str) -> Result<u64, String> {
    let seconds = seconds(text)?;
    if seconds < least { Err(format!("must be at least {least} s")) } else { Ok(seconds) }
}

/// A time like `2026-11-15T10:03:00Z`, or an age like `90s`, `15m`, `2h`, `3d`.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    parse(text, Timestamp::now())
}

fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = parts(text).and_then(|seconds| i64::try_from(seconds).ok());
    ago.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok())
        .ok_or_else(|| "must be a time like 2026-11-15T10:03:00Z, or how long ago, like 90s, 15m, 2h or 3d".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_environment_may_name_its_pipeline() {
        let name = |text: &str| text.parse::<EnvironmentName>();
        assert_eq!(name("review-1"), Ok(EnvironmentName { pipeline: None, name: "review-1".to_owned() }));
        let with_pipeline = EnvironmentName { pipeline: Some("web".to_owned()), name: "review-1".to_owned() };
        assert_eq!(name("web/review-1"), Ok(with_pipeline));
        for wrong in ["", "/", "web/", "/review-1", "a/b/c", "..", "a b", "-a", "a?b", &"a".repeat(64)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_length_of_time_is_plain_seconds_or_has_units() {
        for (text, meant) in [
            ("600", 600),
            ("0", 0),
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5_400),
            ("2d", 172_800),
            ("1d2h3m4s", 93_784),
            ("4294967295", 4_294_967_295),
        ] {
            assert_eq!(seconds(text), Ok(meant), "{text}");
        }
        for wrong in ["", "m", "1.5h", "-1", "1h30", "10 m", "1w", "ä", "5ä", "4294967296", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds_from(5, "5s"), Ok(5));
        assert!(seconds_from(5, "4").is_err());
    }

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
