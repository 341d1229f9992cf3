//! What a credential was made from: its root. A credential ends with its root, and what is made with it has a root too, so
//! that nothing short-lived makes something that stays.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use domain::{Identifier, Role, Timestamp, TokenId};

/// What a token or a sign-in was made from, and ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// It ends by itself alone: made with a token of the operator, or by a version that recorded no roots.
    None,
    /// The operator, at a start.
    Operator,
    /// The password of the member, or the invitation to choose one.
    Password,
    /// A token, directly or by way of a sign-in with it.
    Token(TokenId),
    /// An entry of the organization's file.
    Source(SourceId),
}

/// An entry of an organization's file that says who somebody is: a provider of single sign-on, or a rule for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId(pub [u8; 32]);

impl SourceId {
    /// A provider is another one with another issuer.
    pub fn of_provider(id: &Identifier, issuer: &str) -> Self {
        Self::of(["provider", id.as_str(), issuer])
    }

    /// By what makes the rule this one and no other.
    pub fn of_rule(marks: &[String]) -> Self {
        Self::of(["rule"].into_iter().chain(marks.iter().map(String::as_str)))
    }

    fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// What the file of an organization trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// The issuers of the providers of single sign-on, by the id of the provider.
    pub providers: HashMap<Identifier, String>,
    /// The members for jobs that rules name, with the role that they give.
    pub jobs: HashMap<Identifier, Role>,
    /// All providers and rules, with what each grants.
    pub sources: HashMap<SourceId, Grants>,
}

/// The roles that an entry of an organization's file gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// The role of a rule, or the highest that a provider may give to anybody.
    pub role_max: Role,
    /// How a provider assigns roles; empty for a rule.
    pub assignment: Vec<String>,
}

impl Trust {
    /// Whether the source is a provider of single sign-on, and no rule for jobs.
    pub fn is_provider(&self, source: SourceId) -> bool {
        self.providers.iter().any(|(id, issuer)| SourceId::of_provider(id, issuer) == source)
    }
}

/// By organization.
pub type Trusted = HashMap<Identifier, Trust>;

/// The earlier of two ends; `None` is never.
pub fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_differ_in_anything_are_others() {
        let id = SourceId::of(["rule", "https://ci.example", "ci"]);
        assert_eq!(id, SourceId::of(["rule", "https://ci.example", "ci"]));
        for other in [&["rule", "https://ci.examplec", "i"][..], &["rule", "https://ci.example"], &["provider"], &[]] {
            assert_ne!(id, SourceId::of(other.iter().copied()), "{other:?}");
        }
    }
}
