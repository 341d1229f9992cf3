//! An identity token: its claimed issuer, the issuer's keys, all checks of it, and the reasons to refuse it.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::trusted::TrustedIssuer;
use crate::sso::{
    Claims, Expected, Failure, Keeping, Kept, KeySet, ProviderClient, Purpose, SignedToken, Unverified,
    description_url, fetch_keys, said,
};
use domain::Timestamp;

/// Identity tokens of CIs have one to three KiB.
pub const IDENTITY_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How far the clocks of a CI and of this server may be apart.
pub const SKEW: Duration = Duration::from_secs(60);
/// Longer than the subjects of CIs; the subject is stored in events.
const SUBJECT_BYTES_MAX: usize = 1024;

/// A token that has been parsed. Nothing in it has been checked.
pub struct Unchecked(SignedToken);

/// A valid token that its issuer has signed, for us.
pub struct Checked {
    pub subject: String,
    pub claims: Claims,
    /// When the token expires, with the allowed skew.
    pub until: Timestamp,
}

impl Unchecked {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() > IDENTITY_TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong(IDENTITY_TOKEN_BYTES_MAX));
        }
        SignedToken::parse(text).map(Self).ok_or(TokenError::Malformed)
    }

    pub fn issuer(&self) -> &str {
        self.0.issuer()
    }

    pub fn check(&self, trusted: &TrustedIssuer, keys: &KeySet, now: Timestamp) -> Result<Checked, Unverified> {
        let Self(token) = self;
        let purpose = Purpose::Job { skew: SKEW };
        let expected = Expected { issuer: &trusted.issuer, audience: &trusted.audience, now, purpose };
        token.verify(keys, &expected)?;
        let subject = token.subject();
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(Unverified::invalid("the subject is empty or has more than 1024 bytes"));
        }
        let until = token.expires_at().after(SKEW);
        Ok(Checked { subject: subject.to_owned(), claims: token.claims().clone(), until })
    }
}

/// The texts are for the operator's log: the sender of the token only learns that it was refused, and never whether the
/// organization exists. No text contains a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is not a signed token (JWT) with a subject, an issuer, an audience, a time of issue and an end")]
    Malformed,
    #[error("it has more than {0} bytes")]
    TooLong(usize),
    #[error("the organization does not exist, or trusts no issuer")]
    NoIssuers,
    #[error("the organization does not trust the issuer {0}")]
    UntrustedIssuer(String),
    #[error("it is not valid: {0}")]
    Invalid(String),
    #[error("no rule of the organization matches its claims; its subject is {0}")]
    NoRule(String),
    /// A retry may succeed: the token is not at fault.
    #[error("the keys of the issuer cannot be read: {0}")]
    KeysUnavailable(#[from] Failure),
    #[error("too many tokens of this issuer are being checked")]
    Crowded,
}

impl From<Unverified> for TokenError {
    fn from(unverified: Unverified) -> Self {
        Self::Invalid(match unverified {
            Unverified::UnknownKey => "it is signed with a key that the issuer does not publish".to_owned(),
            Unverified::Invalid(why) => said(&why),
        })
    }
}

/// Jobs must continue during an outage of their CI's issuer; its keys change seldom.
const KEEPING: Keeping = Keeping {
    fresh_for: Duration::from_secs(600),
    stale_for: Duration::from_secs(24 * 3600),
    asked_again_after: Duration::from_secs(30),
    failed_for: Duration::from_secs(3),
};
/// Tokens of one issuer that are checked at the same time, each perhaps waiting for the issuer. Anybody can request a
/// check.
const CHECKED_AT_ONCE: usize = 64;

pub struct KeySource {
    issuer: String,
    jwks_url: Option<String>,
    kept: Kept<KeySet>,
    pub places: Semaphore,
}

/// The fields that we use of an issuer's description. Issuers for jobs have no endpoint for people, which the standard
/// requires.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl KeySource {
    pub fn new(issuer: String, jwks_url: Option<String>) -> Self {
        Self { issuer, jwks_url, kept: Kept::new(KEEPING), places: Semaphore::new(CHECKED_AT_ONCE) }
    }

    /// Checks a token with the issuer's keys.
    pub async fn check<C>(
        &self,
        client: &ProviderClient,
        check: impl Fn(&KeySet) -> Result<C, Unverified>,
    ) -> Result<C, TokenError> {
        let keys = self.kept.get(async || self.ask(client).await).await?;
        Ok(self.kept.check(&keys, async || self.ask(client).await, check).await??)
    }

    async fn ask(&self, client: &ProviderClient) -> Result<KeySet, Failure> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.describe(client).await?.jwks_uri,
        };
        let keys = fetch_keys(&url, client).await?;
        tracing::debug!(issuer = self.issuer, keys = keys.count(), "read the keys of an issuer");
        Ok(keys)
    }

    async fn describe(&self, client: &ProviderClient) -> Result<Description, Failure> {
        let answer = client.get(&description_url(&self.issuer)).await?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Unavailable(format!("its description was answered with {}", answer.status())));
        }
        let description: Description = serde_json::from_slice(answer.body())
            .map_err(|_| Failure::invalid("its description has no `issuer` and `jwks_uri`"))?;
        if description.issuer != self.issuer {
            return Err(Failure::invalid("its description is of another issuer"));
        }
        Ok(description)
    }
}
