//! The issuers that an organization file trusts, and its rules from claims to a role.

use serde_json::Value;

use super::pattern::Pattern;
use crate::sso::Claims;
use domain::{Identifier, Role};

/// A company has one or two CIs, and some clusters.
pub const ISSUERS_MAX: usize = 20;
/// A rule for each of many repositories.
pub const RULES_MAX: usize = 1_000;
/// CIs have about 30 claims.
pub const CLAIMS_MAX: usize = 30;
/// Most jobs are over within an hour; a client renews it.
pub const TOKEN_SECONDS_DEFAULT: i64 = 3_600;
/// A shorter one would have to be renewed all the time.
pub const TOKEN_SECONDS_MIN: i64 = 60;
/// Half a day: it cannot be taken back by the CI.
pub const TOKEN_SECONDS_MAX: i64 = 43_200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Exactly as in its tokens.
    pub issuer: String,
    /// For whom its tokens must be made.
    pub audience: String,
    /// Where its keys are; otherwise it says so itself.
    pub jwks_url: Option<String>,
    /// How long a token of ours works that one of its tokens is exchanged for.
    pub token_seconds: i64,
    /// The first that matches counts.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// All of them must match.
    pub claims: Vec<(String, Pattern)>,
    pub role: Role,
    /// The member that the jobs act as.
    pub name: Identifier,
}

impl TrustedIssuer {
    pub fn rule_for(&self, claims: &Claims) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.is_for(claims))
    }

    /// What makes a rule this one and no other: whose tokens it is for, what their claims must be, and who the jobs are then. With
    /// another role, it is the same rule.
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

/// Of a list, one member must match.
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
