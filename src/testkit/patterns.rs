//! Patterns that are documented for texts, held against the code that checks those.

/// Whether the documented pattern allows the same texts as the check, for examples of both kinds.
pub fn assert_pattern_fits(pattern: &str, allows: impl Fn(&str) -> bool, good: &[&str], bad: &[&str]) {
    let pattern = regex::Regex::new(&pattern_without_lookahead(pattern)).unwrap();
    for text in good {
        assert!(allows(text) && pattern.is_match(text), "{text}");
    }
    for text in bad {
        assert!(!allows(text) && !pattern.is_match(text), "{text}");
    }
}

/// `regex` has no lookahead.
pub fn pattern_without_lookahead(pattern: &str) -> String {
    match pattern.split_once("(?!") {
        Some((before, rest)) => {
            let end = if rest.starts_with('(') { rest.find("$)").unwrap() + 2 } else { rest.find(')').unwrap() + 1 };
            format!("{before}{}", &rest[end..])
        }
        None => pattern.to_owned(),
    }
}
