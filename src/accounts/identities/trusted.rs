//! The issuers that an organization file trusts, and its rules from claims to a role. In the pattern of a claim, each
//! `*` matches any run of characters, including an empty one.

use serde_json::Value;

use crate::sso::Claims;
use domain::{Identifier, Malformed, Role};

/// A company has one or two CIs, and some clusters.
pub const ISSUERS_MAX: usize = 20;
/// One rule for each of many repositories.
pub const RULES_MAX: usize = 1_000;
/// CIs have about 30 claims.
pub const CLAIMS_MAX: usize = 30;
/// Most jobs end within an hour; a client renews its token.
pub const TOKEN_SECONDS_DEFAULT: i64 = 3_600;
/// A shorter one would need constant renewal.
pub const TOKEN_SECONDS_MIN: i64 = 60;
/// Half a day: the CI cannot revoke it.
pub const TOKEN_SECONDS_MAX: i64 = 43_200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Exactly as in its tokens.
    pub issuer: String,
    /// The audience that its tokens must name.
    pub audience: String,
    /// The URL of the issuer's keys; without it, the issuer's description contains one.
    pub jwks_url: Option<String>,
    /// The lifetime of the token that we issue in exchange for an identity token.
    pub token_seconds: i64,
    /// The first rule that matches applies.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// All claims must match.
    pub claims: Vec<(String, Pattern)>,
    pub role: Role,
    /// The member as whom the jobs act.
    pub name: Identifier,
}

impl TrustedIssuer {
    pub fn rule_for(&self, claims: &Claims) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.is_for(claims))
    }

    /// The fields that distinguish a rule: its issuer and audience, the claims it requires, and the member for the
    /// jobs. A rule with another role is still the same rule.
    pub fn marks_of(&self, rule: &Rule) -> Vec<String> {
        let mut claims: Vec<_> = rule.claims.iter().map(|(name, pattern)| (name.as_str(), pattern.as_str())).collect();
        claims.sort_unstable();
        let of_issuer = [self.issuer.as_str(), &self.audience, rule.name.as_str()];
        of_issuer
            .into_iter()
            .chain(claims.into_iter().flat_map(|(name, text)| [name, text]))
            .map(str::to_owned)
            .collect()
    }
}

impl Rule {
    fn is_for(&self, claims: &Claims) -> bool {
        !self.claims.is_empty()
            && self.claims.iter().all(|(name, pattern)| claims.find(name).is_some_and(|value| is_it(pattern, value)))
    }
}

/// For a list, one element must match.
fn is_it(pattern: &Pattern, value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| is_scalar(pattern, value)),
        value => is_scalar(pattern, value),
    }
}

fn is_scalar(pattern: &Pattern, value: &Value) -> bool {
    match value {
        Value::String(text) => pattern.matches(text),
        Value::Bool(_) | Value::Number(_) => pattern.matches(&value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// As long as the longest claims of the CIs we know, with a margin.
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

    /// Whether the pattern matches everything: `*` alone.
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
            // The first match leaves the most text for the parts that follow.
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
