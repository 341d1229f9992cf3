//! The address of a member.

use std::fmt;
use std::sync::Arc;

use super::Malformed;

/// An e-mail address, as far as it can be judged without sending something to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Email(Arc<str>);

impl Email {
    /// The longest that mail servers take (RFC 5321).
    pub const LENGTH_MAX: usize = 254;
    /// Visible ASCII characters, one of them an `@` with something on both sides.
    pub const PATTERN: &'static str = "^[!-?A-~]+@[!-?A-~]+$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        let parts = text.split_once('@').filter(|(local, domain)| is_part(local) && is_part(domain));
        if parts.is_none() || text.len() > Self::LENGTH_MAX {
            return Err(Malformed(
                "must be an e-mail address of at most 254 ASCII characters, such as ana@acme.example",
            ));
        }
        Ok(Self(Arc::from(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::patterns::assert_pattern_fits;

    #[test]
    fn an_address_has_one_at_sign_with_something_on_both_sides() {
        let good = ["a@b", "ana@acme.example", "ana+ci@[192.0.2.1]", "\"a\"@b"];
        let bad = ["", "@", "a@", "@b", "a@b@c", "a b@c", "ana@acme.example\n", "ä@b", "ana"];
        assert_pattern_fits(Email::PATTERN, |text| Email::parse(text).is_ok(), &good, &bad);
        let longest = format!("{}@acme.example", "x".repeat(Email::LENGTH_MAX - 13));
        assert!(Email::parse(&longest).is_ok() && Email::parse(&format!("x{longest}")).is_err());
        let shown = Email::parse("Ana@acme.example").map(|email| (email.as_str().to_owned(), email.to_string()));
        assert_eq!(shown, Ok(("Ana@acme.example".to_owned(), "Ana@acme.example".to_owned())));
    }
}
