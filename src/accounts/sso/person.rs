//! From claims to a person with a role and a name.

use super::claims::Claims;
use super::failure::Failure;
use super::provider::Provider;
use domain::{Identifier, Role};

/// The longest that the standard allows.
const SUBJECT_BYTES_MAX: usize = 255;
/// The longest name of a member.
const NAME_LENGTH_MAX: usize = 63;
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// Who has signed in at a provider, after all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    pub provider: Identifier,
    /// The provider's id of the person: never reused, never changed.
    pub subject: String,
    /// The name of a new member.
    pub name: Identifier,
    pub email: Option<String>,
    /// Whether the provider has made sure that the address is theirs.
    pub email_verified: bool,
    pub role: Role,
    /// How the provider assigned roles then.
    pub assignment: Vec<String>,
    pub issuer: String,
}

impl SignedIn {
    pub fn new(provider: &Provider, subject: &str, claims: &Claims) -> Result<Self, Failure> {
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(Failure::invalid("the subject is empty or has more than 255 bytes"));
        }
        let role = role(provider, &claims.texts(&provider.groups_claim)).ok_or(Failure::NoRole)?;
        let email = claims.text(EMAIL).map(str::to_owned);
        let name = [claims.text(&provider.name_claim), email.as_deref()].into_iter().flatten().find_map(name);
        Ok(Self {
            provider: provider.id.clone(),
            subject: subject.to_owned(),
            name: name.ok_or(Failure::NoName)?,
            email_verified: claims.is_true(EMAIL_VERIFIED),
            email,
            role,
            assignment: provider.assignment(),
            issuer: provider.issuer.clone(),
        })
    }
}

/// The highest role that one of the groups has.
fn role(provider: &Provider, groups: &[&str]) -> Option<Role> {
    let mapped = provider.roles.iter().filter(|entry| groups.contains(&entry.group.as_str())).map(|entry| entry.role);
    mapped.max().or(provider.default_role)
}

/// A name of a member from a name at the provider: of `Ana.López@acme.example` it is `ana.l-pez`. In small letters, so that
/// two members do not differ in nothing else.
fn name(text: &str) -> Option<Identifier> {
    let local = text.split_once('@').map_or(text, |(local, _)| local);
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let replaced: String = local.trim().chars().map(allowed).collect();
    let name = replaced.trim_matches(['.', '_', '-']);
    let cut = &name[..name.len().min(NAME_LENGTH_MAX)];
    Identifier::parse(cut).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::super::claims::claims;
    use super::super::provider::{GROUPS_CLAIM, GroupRole, NAME_CLAIM};
    use super::*;

    fn provider(roles: &[(&str, Role)], default_role: Option<Role>) -> Provider {
        Provider {
            id: Identifier::parse("keycloak").unwrap(),
            name: "Keycloak".to_owned(),
            issuer: "https://id.example".to_owned(),
            client_id: "lockkeeper".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
            groups_claim: GROUPS_CLAIM.to_owned(),
            name_claim: NAME_CLAIM.to_owned(),
            roles: roles.iter().map(|(group, role)| GroupRole { group: (*group).to_owned(), role: *role }).collect(),
            default_role,
        }
    }

    fn signed_in(provider: &Provider, json: Value) -> Result<SignedIn, Failure> {
        SignedIn::new(provider, "subject-1", &claims(json))
    }

    #[test]
    fn the_highest_role_of_the_groups_wins() {
        let mapped = provider(&[("dev", Role::Developer), ("ops", Role::Admin), ("all", Role::Viewer)], None);
        for (groups, expected) in [
            (vec!["all"], Some(Role::Viewer)),
            (vec!["dev", "all"], Some(Role::Developer)),
            (vec!["all", "ops", "dev"], Some(Role::Admin)),
            (vec!["DEV"], None),
            (vec!["de", "devs", ""], None),
            (vec![], None),
        ] {
            assert_eq!(role(&mapped, &groups), expected, "{groups:?}");
        }
        let open = provider(&[("ops", Role::Admin)], Some(Role::Viewer));
        assert_eq!((role(&open, &["x"]), role(&open, &["ops"])), (Some(Role::Viewer), Some(Role::Admin)));
    }

    #[test]
    fn a_group_with_two_roles_has_the_higher_one() {
        let twice = provider(&[("dev", Role::Maintainer), ("dev", Role::Viewer)], None);
        assert_eq!(role(&twice, &["dev"]), Some(Role::Maintainer));
    }

    #[test]
    fn a_name_at_a_provider_becomes_one_that_can_stand_in_a_path() {
        let long = "x".repeat(100);
        for (text, expected) in [
            ("ana", "ana"),
            ("Ana", "ana"),
            ("ana.lopez@acme.example", "ana.lopez"),
            ("Ana López", "ana-l-pez"),
            ("ACME\\ana", "acme-ana"),
            (" ana ", "ana"),
            ("_ana_", "ana"),
            ("a@b@c", "a"),
            (&long, &long[..63]),
        ] {
            assert_eq!(name(text).unwrap().as_str(), expected);
        }
        for none in ["", "@acme.example", "-", "äö", "...", " "] {
            assert_eq!(name(none), None, "{none}");
        }
    }

    #[test]
    fn somebody_without_a_role_or_a_name_is_refused() {
        let mapped = provider(&[("dev", Role::Developer), ("ops", Role::Maintainer)], None);
        let ana =
            signed_in(&mapped, json!({ "groups": ["dev"], "preferred_username": "ana", "email": "a@acme.example" }));
        let expected = SignedIn {
            provider: mapped.id.clone(),
            subject: "subject-1".to_owned(),
            name: Identifier::parse("ana").unwrap(),
            email: Some("a@acme.example".to_owned()),
            email_verified: false,
            role: Role::Developer,
            assignment: mapped.assignment(),
            issuer: mapped.issuer.clone(),
        };
        assert_eq!(ana, Ok(expected));
        let without = signed_in(&mapped, json!({ "preferred_username": "ana", "groups": ["other"] }));
        assert_eq!(without, Err(Failure::NoRole));
        assert_eq!(signed_in(&mapped, json!({ "groups": ["dev"], "preferred_username": "äö" })), Err(Failure::NoName));
        let by_email =
            signed_in(&mapped, json!({ "groups": ["dev"], "email": "ben@acme.example", "email_verified": true }));
        let by_email = by_email.unwrap();
        assert_eq!((by_email.name.as_str(), by_email.email_verified), ("ben", true));
    }

    #[test]
    fn a_subject_has_the_bounds_of_the_standard() {
        let open = provider(&[], Some(Role::Viewer));
        let with = |subject: &str| SignedIn::new(&open, subject, &claims(json!({ "preferred_username": "ana" })));
        assert!(with(&"x".repeat(255)).is_ok());
        for bad in ["", &"x".repeat(256)] {
            assert!(matches!(with(bad), Err(Failure::Invalid(_))), "{}", bad.len());
        }
    }
}
