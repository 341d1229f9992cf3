//! What a provider says about itself: its addresses and the keys it signs with. Kept for a while, and read again when a
//! token names a key that is not among them, since providers replace their keys.

use std::sync::Arc;
use std::time::Duration;

use openidconnect::core::CoreProviderMetadata;
use openidconnect::url::Url;
use openidconnect::{DiscoveryError, IssuerUrl};

use super::client::{NoAnswer, ProviderClient};
use super::failure::Failure;
use super::kept::{Keeping, Kept};
use super::provider::{Provider, is_protected};

/// An old copy is never used: a person can wait, and endpoints may have moved.
const KEEPING: Keeping = Keeping {
    fresh_for: Duration::from_secs(3600),
    stale_for: Duration::ZERO,
    asked_again_after: Duration::from_secs(60),
    failed_for: Duration::from_secs(3),
};

pub type Metadata = Arc<CoreProviderMetadata>;

pub struct Discovery {
    pub provider: Provider,
    found: Kept<CoreProviderMetadata>,
}

impl Discovery {
    pub fn new(provider: Provider) -> Self {
        Self { provider, found: Kept::new(KEEPING) }
    }

    pub async fn metadata(&self, client: &ProviderClient) -> Result<Metadata, Failure> {
        self.found.get(async || ask(&self.provider, client).await).await
    }

    /// Newer than `known`, in which a key was missing. None if the provider was asked for that just now.
    pub async fn newer_than(&self, known: &Metadata, client: &ProviderClient) -> Result<Option<Metadata>, Failure> {
        self.found.newer_than(known, async || ask(&self.provider, client).await).await
    }
}

async fn ask(provider: &Provider, client: &ProviderClient) -> Result<CoreProviderMetadata, Failure> {
    let issuer = IssuerUrl::new(provider.issuer.clone()).map_err(|error| Failure::Invalid(error.to_string()))?;
    let metadata = CoreProviderMetadata::discover_async(issuer, client).await.map_err(why_not_discovered)?;
    let endpoints = [
        Some(metadata.authorization_endpoint().url()),
        metadata.token_endpoint().map(|endpoint| endpoint.url()),
        metadata.userinfo_endpoint().map(|endpoint| endpoint.url()),
    ];
    check_endpoints(endpoints.into_iter().flatten())?;
    if metadata.token_endpoint().is_none() {
        return Err(Failure::invalid("it names no token endpoint"));
    }
    Ok(metadata)
}

/// Codes and secrets are sent there.
fn check_endpoints<'a>(mut endpoints: impl Iterator<Item = &'a Url>) -> Result<(), Failure> {
    match endpoints.find(|endpoint| !is_protected(endpoint)) {
        Some(open) => Err(Failure::Invalid(format!("it names an endpoint without TLS: {open}"))),
        None => Ok(()),
    }
}

pub fn why_not_discovered(error: DiscoveryError<NoAnswer>) -> Failure {
    match error {
        DiscoveryError::Request(no_answer) => Failure::Unavailable(no_answer.0),
        DiscoveryError::Response(status, _, why) if status.is_server_error() => Failure::Unavailable(why),
        DiscoveryError::Response(_, _, why) => Failure::Invalid(why),
        // The issuer it names differs from the one in the file, for one.
        other => Failure::Invalid(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn codes_and_secrets_are_sent_over_tls() {
        let check = |endpoints: &[&str]| {
            let endpoints: Vec<Url> = endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect();
            check_endpoints(endpoints.iter()).is_ok()
        };
        assert!(check(&["https://id.example/auth", "https://other.example/token", "http://127.0.0.1:4000/me"]));
        assert!(!check(&["https://id.example/auth", "http://id.example/token"]));
    }
}
