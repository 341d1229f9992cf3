//! Which addresses may be connected to: those of the public Internet that do not belong to this machine, and those that
//! the operator allows in addition.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Host;

use super::address::{destination_of, is_own, is_public};

/// The permitted destinations. Cheap to clone. The default allows only public addresses.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    allowed: Arc<[Destination]>,
}

/// The refusal of a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} {}", PolicyError::ADVICE)]
pub struct PolicyError {
    pub host: String,
    /// The reason without the host, only for the operator's log.
    pub reason: String,
}

impl PolicyError {
    /// The message after a host's name. It is the same if the host is refused, has no address or does not answer, so
    /// that tenants learn no names and addresses of the server's own network.
    pub const ADVICE: &str = "does not answer, or has no public address; check the name, or have an operator allow its \
                              address with outbound.allow; the server's log has the reason";

    fn at(host: &str, address: IpAddr) -> Self {
        let why = if is_public(address) { "an address of this machine" } else { "not public" };
        let reason = format!("it leads to {address}, which is {why} and not in outbound.allow");
        Self { host: host.to_owned(), reason }
    }
}

impl Policy {
    pub fn new(allowed: Vec<Destination>) -> Self {
        Self { allowed: allowed.into() }
    }

    pub fn anywhere() -> Self {
        Self::new(vec![Destination::Any])
    }

    /// Whether a host with this name may be connected to at this address.
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        is_elsewhere(address) || self.allowed.iter().any(|destination| destination.covers(host, address))
    }

    /// Checks an address in the URL itself, which is never resolved.
    pub fn check(&self, url: &Url) -> Result<(), PolicyError> {
        match (address(url), url.host_str()) {
            (Some(address), Some(host)) if !self.permits(host, address) => Err(PolicyError::at(host, address)),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Whether errors about the host are only for the operator, since it may be in a permitted private network.
    pub fn may_be_private(&self, url: &Url) -> bool {
        match address(url) {
            Some(address) => !is_elsewhere(address),
            None => {
                let host = url.host_str().unwrap_or_default();
                self.allowed.iter().any(|destination| destination.may_cover(host))
            }
        }
    }

    /// The permitted addresses of a host, at least one.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, PolicyError> {
        let unresolved = |error: std::io::Error| PolicyError { host: host.to_owned(), reason: error.to_string() };
        let found = tokio::net::lookup_host((host, port)).await.map_err(unresolved)?;
        self.permitted(host, found.collect())
    }

    fn permitted(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, PolicyError> {
        let first = found.first().map(SocketAddr::ip);
        let permitted: Vec<_> = found.into_iter().filter(|address| self.permits(host, address.ip())).collect();
        match first {
            _ if !permitted.is_empty() => Ok(permitted),
            Some(address) => Err(PolicyError::at(host, address)),
            None => Err(PolicyError { host: host.to_owned(), reason: "its name has no address".to_owned() }),
        }
    }

    pub(super) fn resolver(&self) -> Arc<Resolver> {
        Arc::new(Resolver(self.clone()))
    }
}

/// Resolves names for connections, and omits addresses that are not permitted.
pub(super) struct Resolver(Policy);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let found = policy.resolve(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether an address belongs to the public Internet, and to no interface of this machine.
fn is_elsewhere(address: IpAddr) -> bool {
    is_public(address) && !is_own(destination_of(address))
}

fn address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(_) => None,
    }
}

/// Entries of `outbound.allow`; each connection is compared with all of them.
pub const DESTINATIONS_MAX: usize = 256;
/// The longest name of the DNS.
const NAME_BYTES_MAX: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `*`
    Any,
    /// `10.1.0.0/16`, or one address.
    Network { address: IpAddr, prefix: u32 },
    /// `git.internal`, at any address.
    Host(String),
    /// `*.internal`: every name below, at any address. The text begins with the dot.
    Below(String),
}

impl Destination {
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Network { address: address.to_canonical(), prefix: bits(address.to_canonical()).1 });
        }
        if let Some((address, prefix)) = text.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let is_plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            let prefix = prefix.parse().ok().filter(|prefix| is_plain && *prefix <= bits(address).1)?;
            return Some(Self::Network { address, prefix });
        }
        let name = canonical_name(text);
        match name.strip_prefix('*') {
            Some(below) => is_name(below.strip_prefix('.')?).then(|| Self::Below(below.to_owned())),
            None => is_name(&name).then_some(Self::Host(name)),
        }
    }

    /// Whether this destination contains the address, of a host with this name.
    fn covers(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Self::Network { address: network, prefix } => {
                let ((network, length), (address, of)) = (bits(*network), bits(address.to_canonical()));
                // A prefix of 0 covers all addresses; the shift would overflow.
                length == of && (network ^ address).checked_shr(length - prefix).unwrap_or(0) == 0
            }
            Self::Any | Self::Host(_) | Self::Below(_) => self.may_cover(host),
        }
    }

    /// Whether an address of a host with this name may be in this destination.
    fn may_cover(&self, host: &str) -> bool {
        match self {
            Self::Any | Self::Network { .. } => true,
            Self::Host(name) => *name == canonical_name(host),
            Self::Below(domain) => {
                canonical_name(host).strip_suffix(domain.as_str()).is_some_and(|rest| !rest.is_empty())
            }
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Network { address, prefix } => write!(f, "{address}/{prefix}"),
            Self::Host(name) => f.write_str(name),
            Self::Below(domain) => write!(f, "*{domain}"),
        }
    }
}

/// The address as a number, and its number of bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn canonical_name(text: &str) -> String {
    text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase()
}

/// Names do not end in a number, so that a misspelled address is not taken for a name.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let last_begins_with_digit =
        text.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
    text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label) && !last_begins_with_digit
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn policy(allowed: &[&str]) -> Policy {
        Policy::new(allowed.iter().map(|text| Destination::parse(text).unwrap()).collect())
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn an_address_in_a_url_is_recognised_in_all_its_spellings() {
        let default = Policy::default();
        for spelling in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1/",
            "http://１２７.0.0.1/",
            "http://[::1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://0/",
            "http://169.254.169.254/latest/meta-data",
            "https://10.0.0.7:8443/",
        ] {
            assert!(default.check(&url(spelling)).is_err(), "{spelling}");
            assert_eq!(Policy::anywhere().check(&url(spelling)), Ok(()), "{spelling}");
        }
        for public in ["http://1.1.1.1/", "https://[2606:4700::1111]/", "https://example.com/"] {
            assert_eq!(default.check(&url(public)), Ok(()), "{public}");
        }
        assert_eq!(policy(&["10.0.0.0/24"]).check(&url("https://10.0.0.7:8443/")), Ok(()));
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let refused = Policy::default().resolve("localhost", 9).await.unwrap_err();
        assert!(refused.host == "localhost" && refused.reason.starts_with("it leads to "), "{refused:?}");
        for allowed in [&["127.0.0.0/8", "::1"][..], &["localhost"], &["*"]] {
            let found = policy(allowed).resolve("localhost", 9).await.unwrap();
            assert!(found.iter().all(|found| found.ip().is_loopback() && found.port() == 9), "{allowed:?} {found:?}");
        }
        assert!(policy(&["*.localhost", "10.0.0.0/8"]).resolve("localhost", 9).await.is_err());
    }

    #[test]
    fn only_the_permitted_addresses_of_a_name_are_tried() {
        let both: Vec<SocketAddr> = vec!["10.0.0.1:443".parse().unwrap(), "1.1.1.1:443".parse().unwrap()];
        assert_eq!(Policy::default().permitted("x.example", both.clone()).unwrap(), both[1..]);
        assert_eq!(policy(&["10.0.0.0/8"]).permitted("x.example", both.clone()).unwrap(), both);
        assert!(Policy::default().permitted("x.example", both[..1].to_vec()).is_err());
        assert!(Policy::default().permitted("x.example", Vec::new()).is_err());
    }

    #[test]
    fn a_refusal_tells_neither_the_address_nor_whether_there_is_one() {
        let private = Policy::default().permitted("db.internal", vec!["10.0.0.1:1".parse().unwrap()]).unwrap_err();
        let unknown = Policy::default().permitted("db.internal", Vec::new()).unwrap_err();
        assert_eq!(private.to_string(), unknown.to_string());
        assert!(private.reason.contains("10.0.0.1") && !private.to_string().contains("10.0.0.1"), "{private}");
    }

    #[test]
    fn why_a_host_does_not_answer_is_hidden_where_it_may_be_private() {
        let default = Policy::default();
        assert!(default.may_be_private(&url("http://10.0.0.1/")) && !default.may_be_private(&url("http://x.example/")));
        for (allowed, hidden) in [("10.0.0.0/8", true), ("x.example", true), ("*.example", true), ("y.example", false)]
        {
            assert_eq!(policy(&[allowed]).may_be_private(&url("http://x.example/")), hidden, "{allowed}");
            assert!(!policy(&[allowed]).may_be_private(&url("http://1.1.1.1/")), "{allowed}");
        }
    }

    fn covers(destination: &str, host: &str, address: &str) -> bool {
        Destination::parse(destination).unwrap().covers(host, address.parse().unwrap())
    }

    #[test]
    fn a_network_covers_its_addresses_however_they_are_written() {
        for (network, address) in [
            ("10.1.0.0/16", "10.1.255.255"),
            ("10.1.2.3/16", "10.1.0.0"),
            ("10.1.0.0/16", "::ffff:10.1.0.7"),
            ("10.1.2.3", "10.1.2.3"),
            ("0.0.0.0/0", "192.168.0.1"),
            ("fd00::/8", "fd12::1"),
            ("::/0", "::1"),
            ("::1", "::1"),
        ] {
            assert!(covers(network, "whatever", address), "{network} {address}");
        }
        for (network, address) in [
            ("10.1.0.0/16", "10.2.0.0"),
            ("10.1.0.0/16", "10.0.255.255"),
            ("10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "127.0.0.1"),
            ("fd00::/8", "fe80::1"),
        ] {
            assert!(!covers(network, "whatever", address), "{network} {address}");
        }
    }

    #[test]
    fn a_name_covers_itself_and_a_wildcard_only_what_is_below() {
        for (destination, host) in [
            ("git.internal", "git.internal"),
            ("git.internal", "GIT.Internal."),
            ("Git.Internal.", "git.internal"),
            ("*.internal", "git.internal"),
            ("*.internal", "a.b.internal"),
            ("*", "anything"),
        ] {
            assert!(covers(destination, host, "10.0.0.1"), "{destination} {host}");
        }
        for (destination, host) in [
            ("git.internal", "agit.internal"),
            ("git.internal", "git.internal.evil.example"),
            ("*.internal", "internal"),
            ("*.internal", ".internal"),
            ("*.internal", "notinternal"),
            ("*.internal", "git.internal.evil.example"),
        ] {
            assert!(!covers(destination, host, "10.0.0.1"), "{destination} {host}");
        }
    }

    #[test]
    fn nothing_else_is_a_destination() {
        for bad in [
            "",
            " ",
            ".",
            "*.",
            "**",
            "*internal",
            "a.*.b",
            "10.1.0.0/33",
            "10.1.0.0/",
            "10.1.0.0/+8",
            "10.1.0/16",
            "10.1.0.300",
            "10.1",
            "fd00::/129",
            "a..b",
            "git.internal:22",
            "https://git.internal",
            "git.internal/x",
            &"x".repeat(254),
        ] {
            assert_eq!(Destination::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_destination_is_shown_as_it_is_written() {
        for text in ["*", "10.1.0.0/16", "fd00::/8", "git.internal", "*.internal"] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), text);
        }
    }
}
