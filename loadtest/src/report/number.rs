//! Formats numbers for people: thousands separators, three significant digits, suitable units. NaN and infinity become
//! a dash.

pub const NOTHING: &str = "–";

pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 error", "2 errors".
pub fn counted(value: u64, singular: &str) -> String {
    format!("{} {singular}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Microseconds, in the most readable unit.
pub fn latency(whole: u64) -> String {
    if whole < 1_000 { format!("{whole} µs") } else { microseconds(whole as f64) }
}

fn microseconds(value: f64) -> String {
    match value.abs() {
        size if size < 999.5 => format!("{} µs", plain(value)),
        size if size < 999_500.0 => format!("{} ms", plain(value / 1e3)),
        _ => format!("{} s", plain(value / 1e6)),
    }
}

pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value < 100.0 {
        return format!("{value:.1} s");
    }
    let whole = value.round() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes:02} min {rest:02} s") } else { format!("{minutes} min {rest:02} s") }
}

/// The value with its unit, as in "29,812 /s", "34.2 µs" or "312 MB".
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if !value.is_finite() => NOTHING.to_owned(),
        "bytes" | "B" => bytes(value),
        "µs" => microseconds(value),
        "count" => count(value.max(0.0).round() as u64),
        "" => plain(value),
        unit => format!("{} {unit}", plain(value)),
    }
}

/// Removes zeros after the decimal point.
pub fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The change from one value to another, as in "+3.1 %"; none if undefined.
pub fn change(from: f64, to: f64) -> Option<String> {
    let percent = (to / from - 1.0) * 100.0;
    if !percent.is_finite() {
        return None;
    }
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{percent:+.decimals$} %");
    Some(if percent.abs() < 0.05 { "±0 %".to_owned() } else { text.replace('-', "−") })
}

/// Three significant digits, but never rounded before the decimal point.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let text = format!("{value:.*}", decimals(value));
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("−", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, ""), |(whole, fraction)| (whole, fraction));
    let point = if fraction.is_empty() { "" } else { "." };
    // Values beyond u64 are in exponent form.
    let whole = whole.parse().map_or_else(|_| format!("{:e}", value.abs()), count);
    format!("{sign}{whole}{point}{fraction}")
}

/// The value as `plain` rounds it.
pub fn as_shown(value: f64) -> f64 {
    let scale = [1.0, 10.0, 100.0, 1_000.0][decimals(value)];
    (value * scale).round() / scale
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    }
}

fn bytes(value: f64) -> String {
    for (size, unit) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] {
        if value.abs() >= size {
            return format!("{} {unit}", plain(value / size));
        }
    }
    format!("{} B", plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Figure, Goal, goal};

    #[test]
    fn values_keep_three_digits_and_their_thousands_apart() {
        for (value, text) in [
            (0.0, "0"),
            (0.7512, "0.751"),
            (1.0, "1.00"),
            (14.25, "14.2"),
            (99.96, "100"),
            (1_234_567.89, "1,234,568"),
            (-1_234.4, "−1,234"),
            (f64::NAN, "–"),
            (f64::NEG_INFINITY, "–"),
            (1e30, "1e30"),
        ] {
            assert_eq!(plain(value), text);
        }
    }

    #[test]
    fn latencies_are_in_the_unit_that_reads_best() {
        for (microseconds, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_002, "1.00 ms"),
            (12_345, "12.3 ms"),
            (999_600, "1.00 s"),
            (u64::MAX, "18,446,744,073,710 s"),
        ] {
            assert_eq!(latency(microseconds), text);
        }
    }

    #[test]
    fn units_stand_behind_values_and_bytes_are_scaled() {
        assert_eq!(with_unit(34.2, "µs"), "34.2 µs");
        assert_eq!(with_unit(312_400_000.0, "bytes"), "312 MB");
        assert_eq!(with_unit(0.78, ""), "0.780");
        assert_eq!(with_unit(3_329.0, "µs"), "3.33 ms");
        assert_eq!(with_unit(7.0, "count"), "7");
        assert_eq!(with_unit(1_234.0, "count"), "1,234");
        assert_eq!(goal(Goal::AtMost(35.0), "µs"), "≤ 35 µs");
        assert_eq!(goal(Goal::AtLeast(0.75), ""), "≥ 0.75");
        assert_eq!(goal(Goal::AtLeast(100.0), ""), "≥ 100");
    }

    #[test]
    fn a_spread_has_its_unit_once_unless_there_are_two() {
        let spread = |unit: &str, min, max| Figure::of("", unit, [min, max]).spread();
        assert_eq!(spread("µs", 597.0, 906.0), "597 – 906 µs");
        assert_eq!(spread("µs", 597.0, 1_410.0), "597 µs – 1.41 ms");
        assert_eq!(spread("B", 131e6, 160e6), "131 – 160 MB");
        assert_eq!(spread("", 0.5, 3.0), "0.500 – 3.00");
    }

    #[test]
    fn a_change_is_told_in_percent_unless_it_has_none() {
        assert_eq!(change(100.0, 103.14).as_deref(), Some("+3.1 %"));
        assert_eq!(change(100.0, 50.0).as_deref(), Some("−50.0 %"));
        assert_eq!(change(100.0, 1_200.0).as_deref(), Some("+1100 %"));
        assert_eq!(change(100.0, 100.01).as_deref(), Some("±0 %"));
        for (from, to) in [(0.0, 5.0), (0.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert_eq!(change(from, to), None);
        }
    }

    #[test]
    fn lengths_of_time_are_told_in_hours_and_minutes_when_long() {
        assert_eq!(seconds(31.25), "31.2 s");
        assert_eq!(seconds(125.0), "2 min 05 s");
        assert_eq!(seconds(7_325.0), "2 h 02 min 05 s");
        assert_eq!(seconds(f64::INFINITY), "–");
    }
}
