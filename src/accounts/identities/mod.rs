//! CI without secrets: a job shows the identity token that its CI gave it, and this module decides whether an
//! organization trusts it, and as which member. Knows neither our members nor our tokens; it only reads what the issuer
//! publishes.
//!
//! [`Identities::check`] finds the trusted issuer that the token names, checks the token with the issuer's keys, and
//! takes the first rule whose claims match. Keys are cached, shared by all organizations that trust the same issuer,
//! and fetched again when a token names an unknown one.
//!
//! Each file uses only those before it: trusted, token.

#[cfg(test)]
mod tests;
mod token;
mod trusted;

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use token::{Checked, KeySource, Unchecked, Unverified};

use crate::sso::{Failure, ProviderClient, said};
use domain::{Identifier, Role, Timestamp};

pub use token::{IDENTITY_TOKEN_BYTES_MAX, TokenError};
pub use trusted::{
    CLAIMS_MAX, ISSUERS_MAX, Pattern, RULES_MAX, Rule, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN,
    TrustedIssuer,
};

pub struct Identities {
    trusted: HashMap<Identifier, Vec<(TrustedIssuer, Arc<KeySource>)>>,
    client: ProviderClient,
}

/// A job that an organization trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobIdentity {
    pub organization: Identifier,
    /// The member as whom it acts.
    pub name: Identifier,
    pub role: Role,
    pub issuer: String,
    /// The job, as its CI names it.
    pub subject: String,
    /// SHA-256 of the signed part of the identity token, without the signature, which has several encodings.
    pub hash: [u8; 32],
    /// When the identity token ends, plus the allowed clock skew.
    pub until: Timestamp,
    /// The lifetime of our token.
    pub token_seconds: i64,
    /// The fields that distinguish the rule from others.
    pub rule: Vec<String>,
}

impl Identities {
    /// Organizations that trust the same issuer share its keys if they use the same key URL.
    pub fn new(declared: impl IntoIterator<Item = (Identifier, Vec<TrustedIssuer>)>) -> Self {
        let mut sources: HashMap<(String, Option<String>), Arc<KeySource>> = HashMap::new();
        let mut with_source = |trusted: TrustedIssuer| {
            let key = (trusted.issuer.clone(), trusted.jwks_url.clone());
            let source = sources
                .entry(key)
                .or_insert_with_key(|(issuer, jwks_url)| Arc::new(KeySource::new(issuer.clone(), jwks_url.clone())));
            (trusted, source.clone())
        };
        let trusted = declared
            .into_iter()
            .map(|(organization, issuers)| (organization, issuers.into_iter().map(&mut with_source).collect()));
        Self { trusted: trusted.collect(), client: ProviderClient::default() }
    }

    pub async fn check(&self, organization: &str, text: &str, now: Timestamp) -> Result<JobIdentity, TokenError> {
        let token = Unchecked::parse(text)?;
        let (organization, issuers) = self.trusted.get_key_value(organization).ok_or(TokenError::NoIssuers)?;
        let issuer = token.issuer();
        let found = issuers.iter().find(|(trusted, _)| trusted.issuer == issuer);
        let (trusted, source) = found.ok_or_else(|| TokenError::UntrustedIssuer(said(issuer)))?;
        let _place = source.places.try_acquire().map_err(|_| TokenError::Crowded)?;
        let Checked { subject, claims, until } = self.verified(&token, trusted, source, now).await?;
        let rule = trusted.rule_for(&claims).ok_or_else(|| TokenError::NoRule(said(&subject)))?;
        Ok(JobIdentity {
            organization: organization.clone(),
            name: rule.name.clone(),
            role: rule.role,
            issuer: trusted.issuer.clone(),
            subject,
            hash: hash(text),
            until,
            token_seconds: trusted.token_seconds,
            rule: trusted.marks_of(rule),
        })
    }

    async fn verified(
        &self,
        token: &Unchecked,
        trusted: &TrustedIssuer,
        source: &KeySource,
        now: Timestamp,
    ) -> Result<Checked, TokenError> {
        let keys = source.keys(&self.client).await.map_err(unavailable)?;
        match token.check(trusted, &keys, now) {
            Ok(checked) => return Ok(checked),
            Err(Unverified::Refused(refusal)) => return Err(refusal),
            Err(Unverified::UnknownKey) => {}
        }
        let newer = source.newer_than(&keys, &self.client).await.map_err(unavailable)?;
        let newer = newer.ok_or_else(unknown_key)?;
        token.check(trusted, &newer, now).map_err(|unverified| match unverified {
            Unverified::UnknownKey => unknown_key(),
            Unverified::Refused(refusal) => refusal,
        })
    }
}

fn hash(text: &str) -> [u8; 32] {
    let signed = text.rsplit_once('.').map_or(text, |(signed, _)| signed);
    Sha256::digest(signed.as_bytes()).into()
}

fn unavailable(failure: Failure) -> TokenError {
    TokenError::KeysUnavailable(failure)
}

fn unknown_key() -> TokenError {
    TokenError::Invalid("it is signed with a key that the issuer does not publish".to_owned())
}
