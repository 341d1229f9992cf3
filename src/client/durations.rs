//! Lengths of time in arguments.

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
    // As many as plain seconds: no clock that they are added to ends before.
    Some(total).filter(|total| !text.is_empty() && *total <= u32::MAX.into())
}

/// The same, and at least so many.
pub fn seconds_from(least: u64, text: &str) -> Result<u64, String> {
    let seconds = seconds(text)?;
    if seconds < least { Err(format!("must be at least {least} s")) } else { Ok(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
