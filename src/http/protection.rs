//! Headers that tell browsers and caches how to treat every answer.

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// For one caller and one moment.
    Data,
    /// The same for everybody.
    Document,
    /// A page for browsers, with scripts and styles of its own.
    Page,
}

/// Data is nothing to render.
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
/// The explorer's scripts, styles and requests, all from this server. Its library sets styles and small pictures inline.
const OWN_FILES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const DENY: HeaderValue = HeaderValue::from_static("DENY");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
/// Tokens and secrets are shown in some answers, and all of them may be outdated in the next moment.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub fn protect(headers: &mut HeaderMap, content: Content) {
    let policy = match content {
        Content::Data | Content::Document => NOTHING,
        Content::Page => OWN_FILES,
    };
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(X_FRAME_OPTIONS, DENY);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    if content == Content::Data {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
}
