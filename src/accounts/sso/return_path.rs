//! Where a browser goes after a sign-in: a path of our own, and nothing that a browser could take for another site.

use domain::Malformed;

/// Longer than any address of the dashboard with its filters, short enough for a cookie.
const LENGTH_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnPath(String);

impl ReturnPath {
    /// Browsers read `//host`, `/\host` and tabs or line breaks in between as another host.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        const RULE: Malformed =
            Malformed("must be a path of this server that begins with a single '/', at most 1024 visible characters");
        let rest = text.strip_prefix('/').ok_or(RULE)?;
        let is_own = !rest.starts_with('/') && !rest.contains('\\');
        let is_sane = text.len() <= LENGTH_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        // The way in must not lead into itself.
        let is_page = !rest.starts_with("auth/") && rest != "auth";
        if is_own && is_sane && is_page { Ok(Self(text.to_owned())) } else { Err(RULE) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ReturnPath {
    fn default() -> Self {
        Self("/".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_returns_to_our_own_pages_alone() {
        for good in ["/", "/acme", "/acme/web?filter=ana&x=%2F%2Fy", "/acme/-/events#7", "/acme//web", "/a:b@c"] {
            assert_eq!(ReturnPath::parse(good).as_ref().map(ReturnPath::as_str), Ok(good));
        }
        let long = format!("/{}", "x".repeat(LENGTH_MAX));
        for bad in [
            "",
            "acme",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "/acme\\..\\evil",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\n/evil.example",
            "/\r\nSet-Cookie: x=y",
            " /acme",
            "/ä",
            "/auth/oidc/keycloak?organization=acme",
            "/auth",
            &long,
        ] {
            assert!(ReturnPath::parse(bad).is_err(), "{bad:?}");
        }
    }
}
