//! A sign-in that has begun and not yet returned, sealed into a cookie of its browser, so that nobody else can finish
//! it and the server stores nothing. After a restart, which changes the key, people have to begin again. It returns to
//! a path of ours, never to a text that a browser could read as another site.

use std::collections::{HashSet, VecDeque};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::client::Failure;
use crate::secrets::{AssociatedData, SealingKey};
use domain::{Malformed, Timestamp};

/// Long enough to find a second factor.
pub const PENDING_SECONDS: i64 = 600;
/// States remembered as finished. Beyond that the oldest is forgotten; then only the provider refuses its code.
const FINISHED_MAX: usize = 10_000;
/// Ours have about 700 bytes plus the return path.
const SEALED_LENGTH_MAX: usize = 4096;

/// Has no `Debug`: state, nonce and verifier are secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub state: String,
    pub nonce: String,
    /// The PKCE verifier: proves to the provider that the code comes from the client that requested it.
    pub verifier: String,
    pub organization: String,
    pub provider: String,
    /// The provider compares it with that of the first request.
    pub redirect_uri: String,
    pub return_path: String,
    pub expires_at_millis: i64,
}

#[derive(Serialize)]
struct PendingSignIn;

impl AssociatedData for PendingSignIn {
    const KIND: &'static str = "lockkeeper pending sign-in 1";
}

impl Pending {
    pub fn seal(&self, key: &SealingKey) -> String {
        let plain = postcard::to_stdvec(self).expect("the form has no maps of unknown length");
        BASE64_URL_SAFE_NO_PAD.encode(key.seal(&PendingSignIn, &plain))
    }

    /// Opens the sign-in, if this browser began it and it returns in time and from the same provider.
    pub fn open(
        key: &SealingKey,
        sealed: Option<&str>,
        (provider, state): (&str, &str),
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let sealed = sealed.filter(|sealed| sealed.len() <= SEALED_LENGTH_MAX).ok_or(Failure::NotUnderWay)?;
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).map_err(|_| Failure::NotUnderWay)?;
        let plain = key.open(&PendingSignIn, &sealed).ok_or(Failure::NotUnderWay)?;
        let pending: Self = postcard::from_bytes(&plain).map_err(|_| Failure::NotUnderWay)?;
        // In constant time, so that it does not reveal how much is right.
        let is_same = pending.state.as_bytes().ct_eq(state.as_bytes()).into();
        let is_it = is_same && pending.provider == provider;
        if is_it && now.as_millis() < pending.expires_at_millis { Ok(pending) } else { Err(Failure::NotUnderWay) }
    }
}

/// The states that have returned: each works once.
#[derive(Default)]
pub struct FinishedStates {
    known: HashSet<String>,
    in_order: VecDeque<String>,
}

impl FinishedStates {
    /// Whether the state returns for the first time.
    pub fn enter(&mut self, state: &str) -> bool {
        if !self.known.insert(state.to_owned()) {
            return false;
        }
        self.in_order.push_back(state.to_owned());
        if self.in_order.len() > FINISHED_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// Longer than any URL of the dashboard with its filters, short enough for a cookie.
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
        // Signing in must not return to the sign-in.
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pending() -> Pending {
        Pending {
            state: "state-1".to_owned(),
            nonce: "nonce-1".to_owned(),
            verifier: "verifier-1".to_owned(),
            organization: "acme".to_owned(),
            provider: "keycloak".to_owned(),
            redirect_uri: "https://lock.example/auth/oidc/keycloak/callback".to_owned(),
            return_path: "/acme".to_owned(),
            expires_at_millis: 1_000,
        }
    }

    fn open(key: &SealingKey, sealed: &str, provider: &str, state: &str, now: i64) -> Option<Pending> {
        Pending::open(key, Some(sealed), (provider, state), Timestamp::from_millis(now)).ok()
    }

    #[test]
    fn a_sign_in_is_finished_by_the_browser_that_began_it_alone() {
        let key = SealingKey::generate();
        let sealed = pending().seal(&key);
        assert!(open(&key, &sealed, "keycloak", "state-1", 999) == Some(pending()));
        assert!(Pending::open(&key, None, ("keycloak", "state-1"), Timestamp::from_millis(0)).is_err(), "no cookie");
        assert!(open(&key, &sealed, "keycloak", "state-2", 999).is_none(), "another state");
        assert!(open(&key, &sealed, "keycloak", "", 999).is_none(), "no state");
        assert!(open(&key, &sealed, "okta", "state-1", 999).is_none(), "another provider");
        assert!(open(&key, &sealed, "keycloak", "state-1", 1_000).is_none(), "too late");
        assert!(open(&SealingKey::generate(), &sealed, "keycloak", "state-1", 999).is_none(), "after a restart");
    }

    #[test]
    fn a_cookie_that_was_changed_anywhere_is_worth_nothing() {
        let key = SealingKey::generate();
        let sealed = pending().seal(&key);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(open(&key, &changed, "keycloak", "state-1", 0).is_none(), "at {place}");
            assert!(open(&key, &sealed[..place], "keycloak", "state-1", 0).is_none(), "cut at {place}");
        }
        assert!(open(&key, &"A".repeat(SEALED_LENGTH_MAX + 1), "keycloak", "state-1", 0).is_none());
    }

    #[test]
    fn nothing_of_it_is_readable_in_the_cookie() {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(pending().seal(&SealingKey::generate())).unwrap();
        for secret in ["state-1", "nonce-1", "verifier-1", "acme"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret}");
        }
    }

    #[test]
    fn a_state_comes_back_once_and_few_are_remembered() {
        let mut finished = FinishedStates::default();
        assert!(finished.enter("a"));
        assert!(!finished.enter("a"));
        (0..FINISHED_MAX).for_each(|number| assert!(finished.enter(&number.to_string())));
        assert_eq!((finished.known.len(), finished.in_order.len()), (FINISHED_MAX, FINISHED_MAX));
        assert!(!finished.enter("0") && finished.enter("a"), "the oldest was forgotten");
    }

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
