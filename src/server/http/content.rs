//! The kinds of responses, and the headers that tell browsers and caches how to treat them.

use std::time::Duration;

use actix_web::http::header::{HOST, STRICT_TRANSPORT_SECURITY};

use http1::{Headers, Response};

/// The kind of content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Specific to one caller and one moment.
    Data,
    /// The same content for everybody.
    Document,
    /// A page for browsers, with its own scripts and styles.
    Page,
    /// A page with nothing inline; sets its own caching.
    Dashboard,
}

/// The headers of every response, beginning with its policy.
macro_rules! protecting {
    ($policy:literal $($caching:literal)?) => {
        concat!(
            "content-security-policy: ",
            $policy,
            "\r\nx-content-type-options: nosniff\r\nx-frame-options: DENY\r\nreferrer-policy: no-referrer\r\n",
            $($caching)?
        )
    };
}

/// Data contains nothing to render. Some responses contain tokens and secrets, and all may be outdated the next moment,
/// so nobody may store them.
const DATA: &str = protecting!("default-src 'none'; frame-ancestors 'none'" "cache-control: no-store\r\n");
const DOCUMENT: &str = protecting!("default-src 'none'; frame-ancestors 'none'");
/// The explorer's scripts, styles and requests, all from this server. Swagger UI sets styles and small pictures inline.
const PAGE: &str = protecting!(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
);
/// The dashboard's own scripts and styles, and nothing inline. Its scripts build the page from elements, never from
/// text.
const DASHBOARD: &str = protecting!(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'"
);

impl Content {
    /// The header lines that protect the content.
    pub fn protection(self) -> &'static str {
        match self {
            Content::Data => DATA,
            Content::Document => DOCUMENT,
            Content::Page => PAGE,
            Content::Dashboard => DASHBOARD,
        }
    }
}

/// An additional header of responses over TLS: browsers must not come back without TLS.
#[derive(Clone)]
pub struct TransportSecurity {
    policy: Option<String>,
}

impl TransportSecurity {
    /// `remembered` is how long browsers remember the policy; zero: the header is not sent.
    pub fn new(remembered: Duration) -> Self {
        Self { policy: (!remembered.is_zero()).then(|| format!("max-age={}", remembered.as_secs())) }
    }

    /// Adds the header to the response to a request with these headers.
    pub fn protect(&self, request: &Headers, answer: Response) -> Response {
        let host = request.text(&HOST);
        match self.policy.as_ref().filter(|_| !host.is_some_and(is_this_machine)) {
            Some(policy) => answer.with(STRICT_TRANSPORT_SECURITY, policy),
            None => answer,
        }
    }
}

/// Browsers would remember the policy for all ports of this name, and so for every other server on a developer's
/// machine.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_left_out() {
        for local in ["localhost", "localhost:8443", "LOCALHOST.:1", "lock.localhost"] {
            assert!(is_this_machine(local), "{local}");
        }
        for other in ["lock.example", "lock.example:8443", "localhost.example", "notlocalhost", "[::1]:8443", ""] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn a_policy_of_no_time_is_none() {
        assert_eq!(TransportSecurity::new(Duration::ZERO).policy, None);
        let year = TransportSecurity::new(Duration::from_secs(31_536_000));
        assert_eq!(year.policy, Some("max-age=31536000".to_owned()));
    }
}
