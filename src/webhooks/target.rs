//! Where a webhook's deliveries go.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::address::{NotPublic, is_public};
use crate::domain::Malformed;

/// As long as URLs can be in practice.
pub const URL_MAX: usize = 2_048;
const FORM: Malformed =
    Malformed("must be an http or https URL of at most 2048 characters, without credentials and fragment");

/// A URL in its one canonical spelling: an address in it has been recognised, however it was written. Its path and query
/// may hold a secret of the receiver's, so `Debug` and logs have the host alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Url);

impl Target {
    /// Allows what [`Self::parse`] does, and more.
    pub const PATTERN: &str = "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s#@]+$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if text.len() > URL_MAX || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(FORM);
        }
        let url = Url::parse(text).map_err(|_| FORM)?;
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let sane = matches!(url.scheme(), "http" | "https") && plain && url.port() != Some(0);
        // A canonical spelling can be longer than what was given.
        let sane = sane && url.as_str().len() <= URL_MAX;
        sane.then_some(Self(url)).ok_or(FORM)
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn url(&self) -> &Url {
        &self.0
    }

    /// With its port, if that is not the usual one.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// An address that stands in the URL itself is never resolved, so it is judged here.
    pub fn check_address(&self) -> Result<(), NotPublic> {
        let address = match self.0.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        let refused = || NotPublic::at(self.host(), address);
        is_public(address).then_some(()).ok_or_else(refused)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({}…)", self.host())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_target_is_a_plain_url_of_the_web() {
        for good in [
            "https://example.com",
            "http://example.com:8080/a?b=c",
            "https://münchen.example/hook",
            "http://[2a00::1]/",
        ] {
            assert!(Target::parse(good).is_ok(), "{good}");
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_MAX));
        for bad in [
            "",
            "example.com",
            "/hook",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://",
            "https://u@example.com",
            "https://u:p@example.com",
            "https://:p@example.com",
            "https://example.com/#x",
            "https://example.com:0/",
            "https://example.com/a b",
            " https://example.com",
            "https://exa\nmple.com",
            "https://[::1",
            &long,
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_recognised_in_all_its_spellings() {
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
            let target = Target::parse(spelling).unwrap_or_else(|_| panic!("{spelling}"));
            assert!(target.check_address().is_err(), "{spelling} is {target:?}");
        }
        for public in ["http://1.1.1.1/", "https://[2606:4700::1111]/", "https://example.com/"] {
            assert_eq!(Target::parse(public).unwrap().check_address(), Ok(()), "{public}");
        }
    }

    #[test]
    fn debug_shows_neither_path_nor_query() {
        let target = Target::parse("https://hooks.example:8443/T0KEN?key=s3cret").unwrap();
        assert_eq!(format!("{target:?}"), "Target(hooks.example:8443…)");
    }
}
