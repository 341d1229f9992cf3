//! The keys of an issuer, as it publishes them.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::sso::{Failure, Keeping, Kept, KeySet, ProviderClient, description_url, fetch_keys};

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
