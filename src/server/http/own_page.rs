//! Whether a request comes from our own page. Browsers send a server's cookies with every request to it, no matter
//! which page makes the request; so a cookie counts only if the browser says that one of our pages made the request.

use std::net::IpAddr;

use actix_web::http::header::{HOST, HeaderName, ORIGIN, USER_AGENT};

use super::call::Call;
use super::codes::Code;
use super::problem::Problem;
use http1::{Headers, ascii};

/// Set by every supported browser; scripts cannot change it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Enough to tell the browsers of one person apart.
const CLIENT_MAX: usize = 100;

/// The sender of a request, according to the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    OwnPage,
    /// A page of another site, or an address that a user typed.
    Elsewhere,
    /// Not a browser, so no cookie was sent unintentionally.
    NoBrowser,
}

/// The address at which the browser finds this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    url: String,
    is_secure: bool,
    /// Whether the address certainly belongs to this server. `Host` proves nothing, because clients can send any value.
    is_known: bool,
}

impl Origin {
    /// Refused if others on the network could read the traffic.
    pub fn of(call: &Call) -> Result<Self, Problem> {
        let host = call.request.headers().text(&HOST).unwrap_or_default();
        let node = &call.app.node;
        let is_named = |name: &str| node.tls.get().is_some_and(|tls| tls.is_for(name));
        let found = origin(node.public_url.as_deref(), call.app.encrypted, host, is_named);
        Ok(found.ok_or(Code::InsecureSignIn)?)
    }

    /// `https://host`, without a trailing slash: only for comparing with what the same browser sent, not for links.
    fn url(&self) -> &str {
        &self.url
    }

    /// The URL for links that others follow. Refused if it might belong to somebody else.
    pub fn link(&self) -> Result<&str, Problem> {
        if self.is_known { Ok(&self.url) } else { Err(Code::PublicUrlRequired.into()) }
    }

    /// Whether browsers reach the server over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// The sender of a request, as the browser reports it.
pub fn sender(call: &Call) -> Sender {
    let own = Origin::of(call).ok();
    judge(call.request.headers(), own.as_ref().map(Origin::url))
}

/// Refuses requests that a page of another site makes.
pub fn refuse_other_sites(call: &Call) -> Result<(), Problem> {
    match sender(call) {
        Sender::OwnPage | Sender::NoBrowser => Ok(()),
        Sender::Elsewhere => Err(Code::CrossSiteRequest.into()),
    }
}

/// Refuses all senders except our own pages: for requests authenticated by a cookie.
pub fn require(call: &Call) -> Result<(), Problem> {
    match sender(call) {
        Sender::OwnPage => Ok(()),
        Sender::Elsewhere | Sender::NoBrowser => Err(Code::CrossSiteRequest.into()),
    }
}

/// A short name of the browser, shown in the list of sign-ins.
pub fn client(call: &Call) -> String {
    let agent = call.request.headers().text(&USER_AGENT).unwrap_or_default();
    in_words(agent)
}

fn judge(headers: &Headers, own: Option<&str>) -> Sender {
    let text = |name| headers.get(name).map(|value| ascii(value).unwrap_or_default());
    match (text(&SITE), text(&ORIGIN)) {
        (Some("same-origin"), _) => Sender::OwnPage,
        (Some(_), _) => Sender::Elsewhere,
        (None, Some(origin)) if own.is_some_and(|own| own.eq_ignore_ascii_case(origin)) => Sender::OwnPage,
        (None, Some(_)) => Sender::Elsewhere,
        (None, None) => Sender::NoBrowser,
    }
}

/// `None`: plain HTTP to another machine.
fn origin(public_url: Option<&str>, encrypted: bool, host: &str, is_named: impl Fn(&str) -> bool) -> Option<Origin> {
    if let Some(url) = public_url {
        return Some(Origin { url: url.to_owned(), is_secure: true, is_known: true });
    }
    if encrypted {
        let is_known = without_port(host).is_some_and(is_named) || is_loopback(host);
        return Some(Origin { url: format!("https://{host}"), is_secure: true, is_known });
    }
    is_loopback(host).then(|| Origin { url: format!("http://{host}"), is_secure: false, is_known: true })
}

/// Whether a `Host` is this machine, on any port. Browsers treat these hosts as secure without TLS.
fn is_loopback(host: &str) -> bool {
    let Some(name) = without_port(host) else { return false };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    name == "localhost"
        || (name.ends_with(".localhost") && is_name(&name))
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The name or address of a `Host` without its port; `None` if malformed.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(address) => address.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    (!name.is_empty() && (rest.is_empty() || is_port(rest))).then_some(name)
}

fn in_words(agent: &str) -> String {
    // User agents also contain the names of earlier entries, or of browsers that they imitate.
    const BROWSERS: [(&str, &str); 5] =
        [("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari")];
    const SYSTEMS: [(&str, &str); 6] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ];
    let find =
        |known: &[(&str, &'static str)]| known.iter().find(|(part, _)| agent.contains(part)).map(|(_, name)| *name);
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) if agent.is_empty() => "unknown".to_owned(),
        (None, _) => agent.chars().filter(|character| !character.is_control()).take(CLIENT_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_our_own_pages_are_our_own() {
        use Sender::{Elsewhere, NoBrowser, OwnPage};
        let cases = [
            (Some("same-origin"), None, OwnPage),
            (Some("same-origin"), Some("https://lock.example"), OwnPage),
            (Some("same-site"), None, Elsewhere),
            (Some("cross-site"), None, Elsewhere),
            (Some("none"), None, Elsewhere),
            (Some("cross-site"), Some("https://lock.example"), Elsewhere),
            (Some(""), Some("https://lock.example"), Elsewhere),
            (Some("Same-Origin"), None, Elsewhere),
            (None, Some("https://lock.example"), OwnPage),
            (None, Some("HTTPS://LOCK.example"), OwnPage),
            (None, Some("http://lock.example"), Elsewhere),
            (None, Some("https://lock.example:8443"), Elsewhere),
            (None, Some("https://lock.example.evil"), Elsewhere),
            (None, Some("https://evil.example"), Elsewhere),
            (None, Some("null"), Elsewhere),
            (None, Some(""), Elsewhere),
            (None, None, NoBrowser),
        ];
        for (site, from, expected) in cases {
            let sent = [(SITE, site), (ORIGIN, from)];
            let headers: Headers = sent.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            assert_eq!(judge(&headers, Some("https://lock.example")), expected, "{site:?} {from:?}");
        }
        let headers: Headers = [(ORIGIN, "http://lock.example")].into_iter().collect();
        assert_eq!(judge(&headers, None), Elsewhere, "without TLS nothing is our own");
    }

    #[test]
    fn an_origin_is_tls_a_proxys_or_this_machine() {
        let found = |public_url, encrypted, host| {
            let found = origin(public_url, encrypted, host, |_| false);
            found.map(|origin| (origin.url().to_owned(), origin.is_secure()))
        };
        let (public, other) = (Some("https://lock.example"), "10.0.0.1:8080");
        assert_eq!(found(public, false, other), Some(("https://lock.example".to_owned(), true)));
        assert_eq!(found(None, true, "a.example:8443"), Some(("https://a.example:8443".to_owned(), true)));
        assert_eq!(found(None, false, "localhost:8080"), Some(("http://localhost:8080".to_owned(), false)));
        assert_eq!(found(None, false, other), None);
    }

    #[test]
    fn a_link_leads_to_the_public_url_a_name_of_the_certificate_or_this_machine() {
        let named = |name: &str| name == "lock.example" || name == "10.0.0.1" || name == "fd00::1";
        let link =
            |public_url, encrypted, host| origin(public_url, encrypted, host, named)?.link().ok().map(str::to_owned);
        for good in ["lock.example", "lock.example:8443", "10.0.0.1:8443", "[fd00::1]:8443", "localhost:8443", "[::1]"]
        {
            assert_eq!(link(None, true, good), Some(format!("https://{good}")));
        }
        for bad in [
            "evil.example",
            "",
            ":443",
            "lock.example.evil",
            "lock.example@evil.example",
            "lock.example:80@evil.example",
            "lock.example/evil",
            "lock.example:8443/evil",
            "evil.example#.localhost",
            "evil.example/.localhost",
            "[fd00::1]evil.example",
            "[fd00::1",
            "10.0.0.2",
        ] {
            assert_eq!(link(None, true, bad), None, "{bad}");
            assert_eq!(link(Some("https://public.example"), true, bad), Some("https://public.example".to_owned()));
            assert_eq!(link(None, false, bad), None, "{bad}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        let local =
            ["localhost", "LOCALHOST:1", "lock.localhost:80", "127.0.0.1:8080", "127.9.9.9", "[::1]", "[::1]:80"];
        for host in local {
            assert!(is_loopback(host), "{host}");
        }
        let others = [
            "",
            ":80",
            "lock.example",
            "localhost.example",
            "127.0.0.1.example",
            "0.0.0.0",
            "10.0.0.1",
            "[::2]:1",
            "::1x",
        ];
        for host in others {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_browser_is_named_in_a_few_words() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let edge = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0";
        assert_eq!((&*in_words(firefox), &*in_words(edge)), ("Firefox on Linux", "Edge on Windows"));
        assert_eq!((&*in_words("curl/8.5.0"), &*in_words("")), ("curl/8.5.0", "unknown"));
        assert_eq!(in_words(&"x".repeat(1_000)).len(), CLIENT_MAX);
    }
}
