//! An identity token: whom it claims to be from, the keys of its issuer, all checks of it, and why it is refused.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::trusted::TrustedIssuer;
use crate::sso::{
    self, Claims, Expected, Failure, Keeping, Kept, KeySet, ProviderClient, Purpose, SignedToken, description_url,
    fetch_keys, said,
};
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

/// The texts are for the operator's log: whoever sent the token learns only that it was refused, and never whether there is
/// such an organization. None has a token in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
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
    /// Not the token's fault: worth a retry.
    #[error("the keys of the issuer cannot be read: {0}")]
    KeysUnavailable(Failure),
    #[error("too many tokens of this issuer are being checked")]
    Crowded,
}

/// Jobs must go on while their CI's issuer is out for a while; its keys change seldom.
const KEEPING: Keeping = Keeping {
    fresh_for: Duration::from_secs(600),
    stale_for: Duration::from_secs(24 * 3600),
    asked_again_after: Duration::from_secs(30),
    failed_for: Duration::from_secs(3),
};
/// Tokens of one issuer that are checked at the same time, each perhaps waiting for the issuer. Anybody can ask for one.
const CHECKED_AT_ONCE: usize = 64;

pub type Keys = KeySet;

pub struct KeySource {
    issuer: String,
    jwks_url: Option<String>,
    kept: Kept<Keys>,
    pub places: Semaphore,
}

/// What an issuer says about itself, as far as it matters here. Issuers for jobs have no endpoint for people, which the
/// standard requires.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl KeySource {
    pub fn new(issuer: String, jwks_url: Option<String>) -> Self {
        Self { issuer, jwks_url, kept: Kept::new(KEEPING), places: Semaphore::new(CHECKED_AT_ONCE) }
    }

    pub async fn keys(&self, client: &ProviderClient) -> Result<Arc<Keys>, Failure> {
        self.kept.get(async || self.ask(client).await).await
    }

    /// Newer than `known`, in which a key was missing. None if the issuer was asked for that just now.
    pub async fn newer_than(&self, known: &Arc<Keys>, client: &ProviderClient) -> Result<Option<Arc<Keys>>, Failure> {
        self.kept.newer_than(known, async || self.ask(client).await).await
    }

    async fn ask(&self, client: &ProviderClient) -> Result<Keys, Failure> {
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
