//! CI without secrets: a job shows the identity token that its CI gave it, and this module decides whether an
//! organization trusts it, and as which member. Finds no members and makes no tokens (see `auth`); it only reads what
//! the issuer publishes.
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

use token::{Checked, KeySource, Unchecked};

use crate::auth::{SourceId, TrustedJob};
use crate::sso::{ProviderClient, said};
use domain::{Identifier, Timestamp};

pub use token::{IDENTITY_TOKEN_BYTES_MAX, TokenError};
pub use trusted::{
    CLAIMS_MAX, ISSUERS_MAX, Pattern, RULES_MAX, Rule, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN,
    TrustedIssuer,
};

pub struct Identities {
    trusted: HashMap<Identifier, Vec<(TrustedIssuer, Arc<KeySource>)>>,
    client: ProviderClient,
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

    pub async fn check(&self, organization: &str, text: &str, now: Timestamp) -> Result<TrustedJob, TokenError> {
        let token = Unchecked::parse(text)?;
        let (organization, issuers) = self.trusted.get_key_value(organization).ok_or(TokenError::NoIssuers)?;
        let issuer = token.issuer();
        let found = issuers.iter().find(|(trusted, _)| trusted.issuer == issuer);
        let (trusted, source) = found.ok_or_else(|| TokenError::UntrustedIssuer(said(issuer)))?;
        let _place = source.places.try_acquire().map_err(|_| TokenError::Crowded)?;
        let check = source.check(&self.client, |keys| token.check(trusted, keys, now));
        let Checked { subject, claims, until } = check.await?;
        let rule = trusted.rule_for(&claims).ok_or_else(|| TokenError::NoRule(said(&subject)))?;
        Ok(TrustedJob {
            organization: organization.clone(),
            name: rule.name.clone(),
            role: rule.role,
            issuer: trusted.issuer.clone(),
            subject,
            hash: hash(text),
            until,
            token_seconds: trusted.token_seconds,
            source: SourceId::of_rule(&trusted.marks_of(rule)),
        })
    }
}

fn hash(text: &str) -> [u8; 32] {
    let signed = text.rsplit_once('.').map_or(text, |(signed, _)| signed);
    Sha256::digest(signed.as_bytes()).into()
}
