//! The keys of an issuer, as it publishes them.

use std::sync::Arc;
use std::time::Duration;

use openidconnect::JsonWebKeySetUrl;
use openidconnect::core::CoreJsonWebKeySet;
use openidconnect::http::header::ACCEPT;
use openidconnect::http::{Request, StatusCode};
use openidconnect::url::Url;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::sso::{Failure, Keeping, Kept, ProviderClient, is_protected, why_not_discovered};

/// Jobs must go on while their CI's issuer is out for a while; its keys change seldom.
const KEEPING: Keeping = Keeping {
    fresh_for: Duration::from_secs(600),
    stale_for: Duration::from_secs(24 * 3600),
    asked_again_after: Duration::from_secs(30),
    failed_for: Duration::from_secs(3),
};
/// Tokens of one issuer that are checked at the same time, each perhaps waiting for the issuer. Anybody can ask for one.
const CHECKED_AT_ONCE: usize = 64;
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

pub type Keys = CoreJsonWebKeySet;

pub struct KeySource {
    issuer: String,
    jwks_url: Option<String>,
    kept: Kept<Keys>,
    pub places: Semaphore,
}

/// What an issuer says about itself, as far as it matters here. Issuers for jobs have no endpoint for people, which the
/// standard and the library require.
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
        let url = Url::parse(&url).map_err(|_| Failure::invalid("the address of its keys is not a URL"))?;
        if !is_protected(&url) {
            return Err(Failure::invalid("it names an address without TLS for its keys"));
        }
        let keys = Keys::fetch_async(&JsonWebKeySetUrl::from_url(url), client).await.map_err(why_not_discovered)?;
        tracing::debug!(issuer = self.issuer, keys = keys.keys().len(), "read the keys of an issuer");
        Ok(keys)
    }

    async fn describe(&self, client: &ProviderClient) -> Result<Description, Failure> {
        let url = format!("{}{WELL_KNOWN}", self.issuer.trim_end_matches('/'));
        let request = Request::get(url).header(ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| Failure::invalid(error.to_string()))?;
        let answer = client.send(request).await.map_err(|no_answer| Failure::Unavailable(no_answer.0))?;
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
