//! What a claim must be: a text, in which each `*` stands for any run of characters, also none.

use domain::Malformed;

/// As long as the longest claims of the CIs we know, with room.
const LENGTH_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let is_allowed = !text.is_empty() && text.len() <= LENGTH_MAX && !text.contains(char::is_control);
        if !is_allowed {
            return Err(Malformed("must be 1 to 1024 bytes, without control characters"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it says anything: `*` alone is true of everybody.
    pub fn is_of_anything(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        // There is always a first part; without a `*` it is the only one.
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            // The first place leaves the most for those that follow.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn a_star_is_any_run_of_characters_and_all_else_is_exact() {
        for (pattern, text) in [
            ("acme/web", "acme/web"),
            ("acme/*", "acme/web"),
            ("acme/*", "acme/"),
            ("*/web", "acme/web"),
            ("repo:acme/*:ref:refs/heads/main", "repo:acme/web:ref:refs/heads/main"),
            ("a*b*c", "abbbc"),
            ("a*b*c", "aXbYbZc"),
            ("*a*", "bab"),
            ("**", ""),
            ("*ab*ab", "abab"),
            ("ä*", "äö"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("acme/web", "acme/web2"),
            ("acme/web", "Acme/web"),
            ("acme/web", ""),
            ("acme/*", "acme"),
            ("acme/*", "evil/acme/web"),
            ("*/web", "acme/web/evil"),
            ("repo:acme/*:ref:refs/heads/main", "repo:acme/web:ref:refs/heads/main2"),
            ("a*b*c", "acb"),
            ("a*a", "a"),
            ("*ab*ab", "ab"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_stars_alone_says_nothing() {
        let says_nothing = |text| Pattern::parse(text).unwrap().is_of_anything();
        assert!(says_nothing("*") && says_nothing("**") && !says_nothing("*a") && !says_nothing("a"));
        for bad in ["", "a\nb", &"x".repeat(LENGTH_MAX + 1)] {
            assert!(Pattern::parse(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_a_regular_expression_would(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            let expression = format!("^{}$", pattern.replace('*', ".*"));
            prop_assert_eq!(matches(&pattern, &text), regex::Regex::new(&expression).unwrap().is_match(&text));
        }
    }
}
