//! Assertions about JSON.

use serde_json::Value;

/// Asserts that an object has these fields with these values, possibly among others.
pub fn assert_has(object: &Value, expected: Value) {
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(object.get(field), Some(value), "{field} of {object:#}");
    }
}

/// Asserts that an object has exactly these fields, separated by spaces.
pub fn assert_fields(object: &Value, names: &str) {
    let object = object.as_object().unwrap_or_else(|| panic!("no object: {object}"));
    let mut expected: Vec<_> = names.split_whitespace().collect();
    expected.sort_unstable();
    let mut found: Vec<_> = object.keys().collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// Asserts that a text is a time in RFC 3339, in UTC with milliseconds, like `2026-11-15T09:30:00.123Z`.
pub fn assert_is_time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
    assert!(text.len() == 24 && text.ends_with('Z') && text.as_bytes()[19] == b'.', "{text}");
}
