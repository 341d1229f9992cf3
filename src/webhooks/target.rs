//! Where a webhook's deliveries go.

use std::fmt;

use url::Url;

use domain::Malformed;

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
    fn debug_shows_neither_path_nor_query() {
        let target = Target::parse("https://hooks.example:8443/T0KEN?key=s3cret").unwrap();
        assert_eq!(format!("{target:?}"), "Target(hooks.example:8443…)");
    }
}
