//! An identity token: whom it claims to be from, and all checks of it.

use std::time::Duration;

use super::keys::Keys;
use super::refusal::Refusal;
use super::trusted::TrustedIssuer;
use crate::sso::{self, Claims, Expected, Purpose, SignedToken, said};
use domain::Timestamp;

/// Those of CIs have one to three KiB.
pub const IDENTITY_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How far the clocks of a CI and of this server may be apart.
pub const SKEW: Duration = Duration::from_secs(60);
/// Longer than those of CIs; it is stored in events.
const SUBJECT_BYTES_MAX: usize = 1024;

/// A token whose parts can be read. Nothing in it has been checked.
pub struct Unchecked(SignedToken);

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
        SignedToken::parse(text).map(Self).ok_or(Refusal::Malformed)
    }

    pub fn issuer(&self) -> &str {
        self.0.issuer()
    }

    pub fn check(&self, trusted: &TrustedIssuer, keys: &Keys, now: Timestamp) -> Result<Checked, Unverified> {
        let Self(token) = self;
        let invalid = |why: &str| Unverified::Refused(Refusal::Invalid(said(why)));
        let purpose = Purpose::Job { skew: SKEW };
        let expected = Expected { issuer: &trusted.issuer, audience: &trusted.audience, now, purpose };
        token.verify(keys, &expected).map_err(|unverified| match unverified {
            sso::Unverified::UnknownKey => Unverified::UnknownKey,
            sso::Unverified::Invalid(why) => invalid(&why),
        })?;
        let subject = token.subject();
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(invalid("the subject is empty or has more than 1024 bytes"));
        }
        let until = token.expires_at().after(SKEW);
        Ok(Checked { subject: subject.to_owned(), claims: token.claims().clone(), until })
    }
}
