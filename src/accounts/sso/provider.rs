//! A provider of single sign-on, as an organization file declares it.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};
use zeroize::Zeroizing;

use domain::{Identifier, Malformed, Role};

/// The sign-in page has a button for each.
pub const PROVIDERS_MAX: usize = 10;
/// Where most providers have the groups of a person, once they are told to include them.
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
    /// None for a client that the provider calls public: then PKCE alone protects the code.
    pub client_secret: Option<ClientSecret>,
    /// Beside `openid`.
    pub scopes: Vec<String>,
    pub groups_claim: String,
    pub name_claim: String,
    pub roles: Vec<GroupRole>,
    /// Of those without a group that has a role; None: they cannot sign in.
    pub default_role: Option<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRole {
    pub group: String,
    pub role: Role,
}

impl Provider {
    /// The highest role that it may give to anybody.
    pub fn role_max(&self) -> Option<Role> {
        self.roles.iter().map(|entry| entry.role).chain(self.default_role).max()
    }

    /// How it assigns roles, for a comparison: the roles of the groups, and that of everybody else.
    pub fn assignment(&self) -> Vec<String> {
        let of_groups = self.roles.iter().map(|entry| format!("{} {}", entry.role, entry.group));
        let otherwise = self.default_role.map(|role| role.to_string());
        let claim = format!("by {}", self.groups_claim);
        of_groups.chain(otherwise).chain([claim]).collect()
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

/// An issuer is reached over TLS: whoever could answer in its place could be anybody. On the same machine there is nobody in
/// between.
pub fn check_issuer(text: &str) -> Result<(), Malformed> {
    const RULE: Malformed = Malformed("must be an https URL without query and fragment, or http on a loopback address");
    if text.len() > ISSUER_LENGTH_MAX {
        return Err(RULE);
    }
    let url = Url::parse(text).map_err(|_| RULE)?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if is_plain && url.password().is_none() && is_protected(&url) { Ok(()) } else { Err(RULE) }
}

/// Whether nobody on the way can read or change what is sent there.
pub fn is_protected(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback)
}

#[cfg(test)]
mod tests {
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
}
