//! A destination that the operator allows although its address is not public.

use std::fmt;
use std::net::IpAddr;

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
    /// `git.internal`, whatever it resolves to.
    Host(String),
    /// `*.internal`: every name below it, whatever it resolves to. Begins with the dot.
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

    /// Whether it has this address, of a host that was named like this.
    pub(super) fn covers(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Self::Network { address: network, prefix } => {
                let ((network, length), (address, of)) = (bits(*network), bits(address.to_canonical()));
                // All of them where the prefix is 0, which cannot be shifted by.
                length == of && (network ^ address).checked_shr(length - prefix).unwrap_or(0) == 0
            }
            Self::Any | Self::Host(_) | Self::Below(_) => self.may_cover(host),
        }
    }

    /// Whether a host of this name may have an address in it.
    pub(super) fn may_cover(&self, host: &str) -> bool {
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

/// The address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn canonical_name(text: &str) -> String {
    text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase()
}

/// No name ends in a number, so a misspelled address is not taken for one.
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
