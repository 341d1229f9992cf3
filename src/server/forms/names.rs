//! Names of fields: their spelling, and how they are shown.

use domain::nearest::NAME_MAX;

pub(super) fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut words = name.split('_');
    camel.push_str(words.next().unwrap_or_default());
    for word in words {
        let mut characters = word.chars();
        camel.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(characters.as_str());
    }
    camel
}

/// Without building it: every field of every request is compared.
pub(super) fn is_camel_case_of(written: &str, name: &str) -> bool {
    let mut written = written.bytes();
    let mut name = name.bytes();
    while let Some(byte) = name.next() {
        let expected = match byte {
            b'_' => name.next().map(|first| first.to_ascii_uppercase()),
            byte => Some(byte),
        };
        if written.next() != expected {
            return false;
        }
    }
    written.next().is_none()
}

/// The name of a raw identifier without its mark: `type` for `r#type`.
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// A name from outside as it can stand in one line on a terminal. One that is longer than ours is cut.
pub fn shown(name: &str) -> String {
    let cut: String = name.chars().take(NAME_MAX).collect();
    let dots = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_json_is_the_camel_case_of_the_field() {
        for (name, camel) in [("name", "name"), ("ttl_seconds", "ttlSeconds"), ("max_a_b", "maxAB")] {
            assert_eq!(camel_case(name), camel);
            assert!(is_camel_case_of(camel, name));
        }
        for written in ["ttl_seconds", "ttlseconds", "ttlSecond", "ttlSecondsX", "", "TtlSeconds"] {
            assert!(!is_camel_case_of(written, "ttl_seconds"), "{written}");
        }
        assert_eq!((plain("r#type"), plain("run")), ("type", "run"));
    }

    #[test]
    fn a_name_from_outside_stays_on_its_line() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), NAME_MAX + 1);
    }
}
