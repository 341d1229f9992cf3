//! Records as the first build of data format 4 wrote them. They stay readable, whatever later builds write.

#![allow(clippy::unwrap_used)]

use std::path::Path;

/// The bytes of a record by its name in `tests/older_data/format_4/records`.
pub fn format_4(name: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/older_data/format_4/records");
    let text = std::fs::read_to_string(file).unwrap();
    let digits = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let digits = digits.unwrap_or_else(|| panic!("there is no record {name}"));
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// That a record is still written as it was then. When a new version of a kind is written, this goes from its test; that
/// the old bytes are read stays.
pub fn assert_written_as_format_4(name: &str, bytes: &[u8]) {
    assert_eq!(bytes, format_4(name), "{name}: the bytes on the disk have changed; raise the version of this record");
}
