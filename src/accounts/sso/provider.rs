//! A provider of single sign-on, as an organization file declares it, and the person, role and name derived from its
//! claims.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};
use zeroize::Zeroizing;

use super::client::Failure;
use super::jwt::Claims;
use crate::auth::{ProvidedPerson, ProviderLink, SourceId};
use domain::{Email, Identifier, Malformed, Role};

/// The sign-in page has a button for each.
pub const PROVIDERS_MAX: usize = 10;
/// The claim in which most providers put the groups of a person, once configured to include them.
pub const GROUPS_CLAIM: &str = "groups";
/// The short name of a person; a standard claim of the scope `profile`.
pub const NAME_CLAIM: &str = "preferred_username";
/// As long as any other URL in a file.
const ISSUER_LENGTH_MAX: usize = 2048;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub id: Identifier,
    /// For people: "Continue with …".
    pub name: String,
    /// Exactly as the provider writes it.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client: then PKCE alone protects the code.
    pub client_secret: Option<ClientSecret>,
    /// In addition to `openid`.
    pub scopes: Vec<String>,
    pub groups_claim: String,
    pub name_claim: String,
    pub roles: Vec<GroupRole>,
    /// The role of a person without a mapped group; None: they cannot sign in.
    pub default_role: Option<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRole {
    pub group: String,
    pub role: Role,
}

impl Provider {
    /// The highest role that the provider may give.
    pub fn role_max(&self) -> Option<Role> {
        self.roles.iter().map(|entry| entry.role).chain(self.default_role).max()
    }

    /// How the provider assigns roles, for comparison: the roles of the groups, and the default role.
    pub fn assignment(&self) -> Vec<String> {
        let of_groups = self.roles.iter().map(|entry| format!("{} {}", entry.role, entry.group));
        let otherwise = self.default_role.map(|role| role.to_string());
        let claim = format!("by {}", self.groups_claim);
        of_groups.chain(otherwise).chain([claim]).collect()
    }

    /// The person that an ID token is about, after all checks of the token.
    pub fn person(&self, organization: &Identifier, subject: &str, claims: &Claims) -> Result<ProvidedPerson, Failure> {
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(Failure::invalid("the subject is empty or has more than 255 bytes"));
        }
        let role = self.role(&claims.texts(&self.groups_claim)).ok_or(Failure::NoRole)?;
        let email = claims.text(EMAIL);
        let name = [claims.text(&self.name_claim), email].into_iter().flatten().find_map(name);
        let (provider, issuer, subject) = (self.id.clone(), self.issuer.clone(), subject.to_owned());
        Ok(ProvidedPerson {
            organization: organization.clone(),
            source: SourceId::of_provider(&provider, &issuer),
            link: ProviderLink { provider, issuer, subject },
            name: name.ok_or(Failure::NoName)?,
            // An address that cannot be stored is dropped.
            email: email.and_then(|email| Email::parse(email).ok()),
            email_verified: claims.is_true(EMAIL_VERIFIED),
            role,
            assignment: self.assignment(),
        })
    }

    /// The highest role that one of the groups has.
    fn role(&self, groups: &[&str]) -> Option<Role> {
        let mapped = self.roles.iter().filter(|entry| groups.contains(&entry.group.as_str())).map(|entry| entry.role);
        mapped.max().or(self.default_role)
    }
}

/// Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}

/// An issuer is reached over TLS: anyone who could answer in its place could sign in as anybody. On the same machine,
/// nobody is in between.
pub fn check_issuer(text: &str) -> Result<(), Malformed> {
    const RULE: Malformed = Malformed("must be an https URL without query and fragment, or http on a loopback address");
    if text.len() > ISSUER_LENGTH_MAX {
        return Err(RULE);
    }
    let url = Url::parse(text).map_err(|_| RULE)?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if is_plain && url.password().is_none() && is_protected(&url) { Ok(()) } else { Err(RULE) }
}

/// Whether requests to this URL cannot be read or changed on the way.
pub fn is_protected(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback)
}

/// The longest that the standard allows.
const SUBJECT_BYTES_MAX: usize = 255;
/// The longest name of a member.
const NAME_LENGTH_MAX: usize = 63;
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// A member's name from a name at the provider: `ana.l-pez` from `Ana.López@acme.example`. In lower case, so that two
/// members do not differ only in case.
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

    use super::super::provider::{GROUPS_CLAIM, GroupRole, NAME_CLAIM};
    use super::*;

    #[test]
    fn an_issuer_is_https_or_on_this_machine() {
        for good in [
            "https://id.example",
            "https://id.example/realms/acme",
            "https://id.example:8443/realms/acme/",
            "https://10.0.0.7/oidc",
            "http://127.0.0.1:4000",
            "http://localhost:4000/x",
            "http://[::1]:4000",
        ] {
            assert_eq!(check_issuer(good), Ok(()), "{good}");
        }
        let long = format!("https://id.example/{}", "x".repeat(ISSUER_LENGTH_MAX));
        for bad in [
            "",
            "id.example",
            "http://id.example",
            "http://10.0.0.7",
            "http://localhost.example",
            "https://id.example?x=1",
            "https://id.example#x",
            "https://ana@id.example",
            "https://:secret@id.example",
            "ftp://id.example",
            "file:///etc/passwd",
            &long,
        ] {
            assert!(check_issuer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_client_secret_does_not_show_in_debug_output() {
        assert_eq!(format!("{:?}", ClientSecret::new("swordfish")), "ClientSecret(…)");
    }

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

    fn claims(json: Value) -> Claims {
        let Value::Object(map) = json else { panic!("claims are an object") };
        Claims::new(map)
    }

    fn acme() -> Identifier {
        Identifier::parse("acme").unwrap()
    }

    fn signed_in(provider: &Provider, json: Value) -> Result<ProvidedPerson, Failure> {
        provider.person(&acme(), "subject-1", &claims(json))
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
            assert_eq!(mapped.role(&groups), expected, "{groups:?}");
        }
        let open = provider(&[("ops", Role::Admin)], Some(Role::Viewer));
        assert_eq!((open.role(&["x"]), open.role(&["ops"])), (Some(Role::Viewer), Some(Role::Admin)));
    }

    #[test]
    fn a_group_with_two_roles_has_the_higher_one() {
        let twice = provider(&[("dev", Role::Maintainer), ("dev", Role::Viewer)], None);
        assert_eq!(twice.role(&["dev"]), Some(Role::Maintainer));
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
        let (provider, issuer, subject) = (mapped.id.clone(), mapped.issuer.clone(), "subject-1".to_owned());
        let expected = ProvidedPerson {
            organization: acme(),
            source: SourceId::of_provider(&provider, &issuer),
            link: ProviderLink { provider, issuer, subject },
            name: Identifier::parse("ana").unwrap(),
            email: Email::parse("a@acme.example").ok(),
            email_verified: false,
            role: Role::Developer,
            assignment: mapped.assignment(),
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
        let with = |subject: &str| open.person(&acme(), subject, &claims(json!({ "preferred_username": "ana" })));
        assert!(with(&"x".repeat(255)).is_ok());
        for bad in ["", &"x".repeat(256)] {
            assert!(matches!(with(bad), Err(Failure::Invalid(_))), "{}", bad.len());
        }
    }
}
