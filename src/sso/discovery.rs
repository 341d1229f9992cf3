//! What a provider says about itself: its addresses and the keys it signs with. Kept for a while, and read again when a
//! token names a key that is not among them, since providers replace their keys.

use std::sync::Arc;
use std::time::Duration;

use openidconnect::core::CoreProviderMetadata;
use openidconnect::url::Url;
use openidconnect::{DiscoveryError, IssuerUrl};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{NoAnswer, ProviderClient};
use super::failure::Failure;
use super::provider::{Provider, is_protected};

/// A provider may withdraw a key: it works here for so long at most.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Tokens with unknown keys cannot make the server ask more often than this.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A provider that has just failed is not asked again at once by everybody who waits.
const FAILED_FOR: Duration = Duration::from_secs(3);

pub type Metadata = Arc<CoreProviderMetadata>;

pub struct Discovery {
    pub provider: Provider,
    /// Held while the provider is asked, so that one request is enough for all who wait.
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    last: Option<(Instant, Result<Metadata, Failure>)>,
    /// When a key was missing, and the provider was asked for that.
    asked_for_key: Option<Instant>,
}

impl Discovery {
    pub fn new(provider: Provider) -> Self {
        Self { provider, found: Mutex::default() }
    }

    pub async fn metadata(&self, client: &ProviderClient) -> Result<Metadata, Failure> {
        let mut found = self.found.lock().await;
        match &found.last {
            Some((at, Ok(metadata))) if at.elapsed() < KEPT_FOR => Ok(metadata.clone()),
            Some((at, Err(failure))) if at.elapsed() < FAILED_FOR => Err(failure.clone()),
            Some(_) | None => {
                let outcome = ask(&self.provider, client).await;
                found.last = Some((Instant::now(), outcome.clone()));
                outcome
            }
        }
    }

    /// Newer than `known`, in which a key was missing. None if the provider was asked for that just now.
    pub async fn newer_than(&self, known: &Metadata, client: &ProviderClient) -> Result<Option<Metadata>, Failure> {
        let mut found = self.found.lock().await;
        if let Some((_, Ok(metadata))) = &found.last
            && !Arc::ptr_eq(metadata, known)
        {
            return Ok(Some(metadata.clone()));
        }
        if found.asked_for_key.is_some_and(|at| at.elapsed() < ASKED_AGAIN_AFTER) {
            return Ok(None);
        }
        found.asked_for_key = Some(Instant::now());
        let metadata = ask(&self.provider, client).await?;
        found.last = Some((Instant::now(), Ok(metadata.clone())));
        Ok(Some(metadata))
    }
}

async fn ask(provider: &Provider, client: &ProviderClient) -> Result<Metadata, Failure> {
    let issuer = IssuerUrl::new(provider.issuer.clone()).map_err(|error| Failure::Invalid(error.to_string()))?;
    let metadata = CoreProviderMetadata::discover_async(issuer, client).await.map_err(why)?;
    let endpoints = [
        Some(metadata.authorization_endpoint().url()),
        metadata.token_endpoint().map(|endpoint| endpoint.url()),
        metadata.userinfo_endpoint().map(|endpoint| endpoint.url()),
    ];
    check_endpoints(endpoints.into_iter().flatten())?;
    if metadata.token_endpoint().is_none() {
        return Err(Failure::invalid("it names no token endpoint"));
    }
    Ok(Arc::new(metadata))
}

/// Codes and secrets are sent there.
fn check_endpoints<'a>(mut endpoints: impl Iterator<Item = &'a Url>) -> Result<(), Failure> {
    match endpoints.find(|endpoint| !is_protected(endpoint)) {
        Some(open) => Err(Failure::Invalid(format!("it names an endpoint without TLS: {open}"))),
        None => Ok(()),
    }
}

fn why(error: DiscoveryError<NoAnswer>) -> Failure {
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
