//! A browser's cookies: its sign-in, a sign-in in progress at a provider, and the mark of a known browser. Hidden from
//! scripts, and sent only to this server.

use actix_web::http::header::{COOKIE, HeaderValue};

use super::call::Call;
use super::own_page::Origin;
use accounts::auth::{KNOWN_SECONDS, OpenToken, known_browser_label};
use accounts::sso::PENDING_SECONDS;
use domain::Timestamp;
use http1::Headers;

/// With this prefix, browsers accept the cookie only over TLS and only from the host itself, not from other hosts of
/// its domain.
const SECURE: &str = "__Host-lockkeeper";
/// The prefix on this machine without TLS, where browsers refuse the secure one.
const LOCAL: &str = "lockkeeper";

/// The names of the cookie for a sign-in in progress at a provider.
const PENDING_SECURE: &str = "__Host-lockkeeper-sso";
const PENDING_LOCAL: &str = "lockkeeper-sso";

/// The prefixes of the cookies that mark a known browser, one per account that has signed in with it.
const KNOWN_SECURE: &str = "__Host-lockkeeper-known-";
const KNOWN_LOCAL: &str = "lockkeeper-known-";

/// Whether the browser sends the cookie when a page of another site leads here.
#[derive(Clone, Copy)]
enum SameSite {
    Strict,
    /// Sent with the provider's redirect back.
    Lax,
}

/// The secret of the request's sign-in; it may be malformed or expired.
pub fn sign_in_text(call: &Call) -> Option<&str> {
    let origin = Origin::of(call).ok()?;
    find(call.request.headers(), name(&origin))
}

/// The cookie for a response that signs somebody in.
pub fn signed_in(origin: &Origin, open: &OpenToken, now: Timestamp) -> HeaderValue {
    let left = open.token.expires_at.map_or(0, |end| end.as_millis().saturating_sub(now.as_millis()).max(0) / 1_000);
    set(origin, name(origin), open.text.reveal(), SameSite::Strict, left)
}

/// Removes the cookie, for a response that signs somebody out.
pub fn signed_out(origin: &Origin) -> HeaderValue {
    set(origin, name(origin), "", SameSite::Strict, 0)
}

/// The cookie for a browser that leaves for a provider: the state it needs to come back.
pub fn pending_sign_in(origin: &Origin, sealed: &str) -> HeaderValue {
    set(origin, pending_name(origin), sealed, SameSite::Lax, PENDING_SECONDS)
}

/// Removes that cookie when the browser has come back from the provider.
pub fn no_pending_sign_in(origin: &Origin) -> HeaderValue {
    set(origin, pending_name(origin), "", SameSite::Lax, 0)
}

pub fn pending_sign_in_of<'c>(call: &'c Call, origin: &Origin) -> Option<&'c str> {
    find(call.request.headers(), pending_name(origin))
}

/// The cookie that marks a browser in which this account has signed in. Kept after signing out.
pub fn known_browser(origin: &Origin, account: (&str, &str), text: &str) -> HeaderValue {
    set(origin, &known_name(origin, account), text, SameSite::Strict, KNOWN_SECONDS)
}

pub fn known_browser_of<'c>(call: &'c Call, origin: &Origin, account: (&str, &str)) -> Option<&'c str> {
    find(call.request.headers(), &known_name(origin, account))
}

fn known_name(origin: &Origin, (organization, name): (&str, &str)) -> String {
    let prefix = if origin.is_secure() { KNOWN_SECURE } else { KNOWN_LOCAL };
    format!("{prefix}{}", known_browser_label(organization, name))
}

fn set(origin: &Origin, name: &str, value: &str, same_site: SameSite, max_age_seconds: i64) -> HeaderValue {
    let secure = if origin.is_secure() { "; Secure" } else { "" };
    let same_site = match same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
    };
    let cookie = format!("{name}={value}; Path=/{secure}; HttpOnly; SameSite={same_site}; Max-Age={max_age_seconds}");
    let mut cookie = HeaderValue::try_from(cookie).expect("letters and digits are valid in a header");
    cookie.set_sensitive(true);
    cookie
}

fn name(origin: &Origin) -> &'static str {
    if origin.is_secure() { SECURE } else { LOCAL }
}

fn pending_name(origin: &Origin) -> &'static str {
    if origin.is_secure() { PENDING_SECURE } else { PENDING_LOCAL }
}

/// The first cookie with this name. The secure prefix guarantees that there is only one.
fn find<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    let lines = headers.texts(COOKIE);
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others_by_its_whole_name() {
        let lines = ["a=1; xlockkeeper=no; lockkeeper=; lockkeeper=lks_1", "__Host-lockkeeper=lks_2; lockkeeper=lks_3"];
        let headers: Headers = lines.into_iter().map(|line| (COOKIE, line)).collect();
        assert_eq!((find(&headers, LOCAL), find(&headers, SECURE)), (Some("lks_1"), Some("lks_2")));
        assert_eq!(find(&headers, "lock"), None);
    }
}
