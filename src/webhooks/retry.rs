//! When a failed delivery is retried.

use std::time::Duration;

/// The longest `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);
/// Each wait is longer by a random part of this, so that deliveries that failed together are not retried together.
const JITTER: f64 = 0.25;

/// The wait after failed attempt number `attempt`, counted from 1; none after the last. `chance` is from 0 to 1.
pub fn wait_after(attempt: u32, waits: &[Duration], retry_after: Option<Duration>, chance: f64) -> Option<Duration> {
    let own = *waits.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    let jittered = own.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
    Some(jittered.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)))
}

/// The longest wait there can be.
pub fn longest_wait(waits: &[Duration]) -> Duration {
    waits.iter().max().map_or(RETRY_AFTER_MAX, |longest| longest.mul_f64(1.0 + JITTER).max(RETRY_AFTER_MAX))
}

/// The value of `Retry-After`: seconds or an HTTP date.
pub fn parse_retry_after(text: &str, now_millis: i64) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::from_millis(u64::try_from(at.as_millisecond().saturating_sub(now_millis)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const WAITS: [Duration; 3] = [Duration::from_secs(4), Duration::from_secs(40), Duration::from_secs(400)];

    #[test]
    fn each_attempt_has_its_wait_and_after_the_last_there_is_none() {
        let waits: Vec<_> = (1..=5).map(|attempt| wait_after(attempt, &WAITS, None, 0.0)).collect();
        assert_eq!(waits, [Some(WAITS[0]), Some(WAITS[1]), Some(WAITS[2]), None, None]);
        assert_eq!(wait_after(1, &[], None, 0.5), None, "no waits: one attempt");
        assert_eq!(wait_after(0, &WAITS, None, 0.5), None);
    }

    #[test]
    fn chance_makes_a_wait_longer_and_never_shorter() {
        assert_eq!(wait_after(2, &WAITS, None, 0.5), Some(Duration::from_secs(45)));
        assert_eq!(wait_after(2, &WAITS, None, 1.0), Some(Duration::from_secs(50)));
        assert_eq!(wait_after(2, &WAITS, None, 7.0), Some(Duration::from_secs(50)));
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        assert_eq!(longest_wait(&WAITS), RETRY_AFTER_MAX);
        assert_eq!(longest_wait(&[]), RETRY_AFTER_MAX);
        let days = [Duration::from_hours(48), Duration::from_hours(24)];
        assert_eq!(wait_after(1, &days, None, 1.0), Some(longest_wait(&days)));
    }

    #[test]
    fn a_receiver_can_ask_for_more_time_within_bounds_and_never_for_less() {
        let after = |seconds| wait_after(1, &WAITS, Some(Duration::from_secs(seconds)), 0.0);
        assert_eq!(after(1), Some(WAITS[0]));
        assert_eq!(after(90), Some(Duration::from_secs(90)));
        assert_eq!(after(1_000_000), Some(RETRY_AFTER_MAX));
        assert_eq!(wait_after(4, &WAITS, Some(Duration::from_secs(90)), 0.0), None, "nor for another attempt");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = 784_111_777_000;
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999999", Some(RETRY_AFTER_MAX.as_secs())),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
