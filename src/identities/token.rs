//! An identity token: whom it claims to be from, and all checks of it.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openidconnect::core::{CoreIdToken, CoreIdTokenVerifier};
use openidconnect::{ClaimsVerificationError, ClientId, IssuerUrl, Nonce, SignatureVerificationError};
use serde_json::{Map, Value};

use super::keys::Keys;
use super::refusal::Refusal;
use super::trusted::TrustedIssuer;
use crate::domain::Timestamp;
use crate::outbound::error_chain;
use crate::sso::{Claims, SIGNATURES, said};

/// Those of CIs have one to three KiB.
pub const IDENTITY_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How far the clocks of a CI and of this server may be apart.
pub const SKEW: Duration = Duration::from_secs(60);
/// Longer than those of CIs; it is stored in events.
const SUBJECT_BYTES_MAX: usize = 1024;

/// A token whose parts can be read. Nothing in it has been checked.
pub struct Unchecked {
    token: CoreIdToken,
    claims: Claims,
}

/// A token that its issuer has signed, for us, and that is valid now.
pub struct Checked {
    pub subject: String,
    pub claims: Claims,
    /// From then on, it is refused.
    pub until: Timestamp,
}

/// Why a token is not accepted.
pub enum Unverified {
    /// The issuer may have a new one.
    UnknownKey,
    Refused(Refusal),
}

impl Unchecked {
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > IDENTITY_TOKEN_BYTES_MAX {
            return Err(Refusal::TooLong(IDENTITY_TOKEN_BYTES_MAX));
        }
        // Not why: that may quote it.
        let token = CoreIdToken::from_str(text).map_err(|_| Refusal::Malformed)?;
        let claims = payload(text).ok_or(Refusal::Malformed)?;
        Ok(Self { token, claims: Claims::new(claims) })
    }

    pub fn issuer(&self) -> Option<&str> {
        self.claims.text("iss")
    }

    pub fn check(&self, trusted: &TrustedIssuer, keys: &Keys, now: Timestamp) -> Result<Checked, Unverified> {
        let (subject, until) = self.verify(trusted, keys, now)?;
        Ok(Checked { subject, claims: self.claims.clone(), until })
    }

    /// The library refuses a token for others beside us, and one with a kind of signature that is not listed.
    fn verify(&self, trusted: &TrustedIssuer, keys: &Keys, now: Timestamp) -> Result<(String, Timestamp), Unverified> {
        let invalid = |why: &str| Unverified::Refused(Refusal::Invalid(said(why)));
        let issuer = IssuerUrl::new(trusted.issuer.clone()).map_err(|_| invalid("the issuer is not a URL"))?;
        let now = system_time(now);
        let audience = ClientId::new(trusted.audience.clone());
        let verifier = CoreIdTokenVerifier::new_public_client(audience, issuer, keys.clone())
            .set_allowed_algs(SIGNATURES)
            .set_time_fn(move || (now - SKEW).into())
            .set_issue_time_verifier_fn(move |issued| {
                if SystemTime::from(issued) <= now + SKEW {
                    Ok(())
                } else {
                    Err("it is issued in the future".to_owned())
                }
            });
        // A nonce binds a token to a sign-in of a browser. Jobs have none.
        let any_nonce = |_: Option<&Nonce>| Ok(());
        let claims = self.token.claims(&verifier, any_nonce).map_err(|error| match error {
            ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey) => {
                Unverified::UnknownKey
            }
            error => invalid(&error_chain(&error)),
        })?;
        self.check_not_before(now).map_err(invalid)?;
        let subject = claims.subject().as_str();
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(invalid("the subject is empty or has more than 1024 bytes"));
        }
        Ok((subject.to_owned(), timestamp(SystemTime::from(claims.expiration()) + SKEW)))
    }

    /// The library does not look at it.
    fn check_not_before(&self, now: SystemTime) -> Result<(), &'static str> {
        let Some(value) = self.claims.find("nbf") else { return Ok(()) };
        let seconds = value.as_f64().ok_or("`nbf` is not a number")?;
        let latest = (now + SKEW).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if seconds <= latest.as_secs_f64() { Ok(()) } else { Err("it is not valid yet") }
    }
}

/// All claims: the library's type has those of the standard alone.
fn payload(text: &str) -> Option<Map<String, Value>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn system_time(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or_default())
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
