//! A provider's description: its endpoints and signing keys. It is cached, and fetched again when a token names an
//! unknown key, since providers rotate their keys.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::client::{Failure, Keeping, Kept, ProviderClient};
use super::jwt::KeySet;
use super::provider::{Provider, is_protected};

/// An old copy is never used: a person can wait, and endpoints may have moved.
const KEEPING: Keeping = Keeping {
    fresh_for: Duration::from_secs(3600),
    stale_for: Duration::ZERO,
    asked_again_after: Duration::from_secs(60),
    failed_for: Duration::from_secs(3),
};
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
const JSON: &str = "application/json";
const JSON_KEY_SET: &str = "application/jwk-set+json";

pub struct Metadata {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub userinfo_endpoint: Option<Url>,
    /// The provider accepts the client secret only in the body, not in a header.
    pub secret_in_body: bool,
    pub keys: KeySet,
}

pub struct Discovery {
    pub provider: Provider,
    pub found: Kept<Metadata>,
}

/// The fields that we use of a provider's description.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Discovery {
    pub fn new(provider: Provider) -> Self {
        Self { provider, found: Kept::new(KEEPING) }
    }

    pub async fn metadata(&self, client: &ProviderClient) -> Result<Arc<Metadata>, Failure> {
        self.found.get(async || self.ask(client).await).await
    }

    /// The metadata, from the provider itself.
    pub async fn ask(&self, client: &ProviderClient) -> Result<Metadata, Failure> {
        let answer = client.get(&description_url(&self.provider.issuer)).await?;
        let description: Description = document(&answer, &[JSON], "its description")?;
        if description.issuer != self.provider.issuer {
            return Err(Failure::invalid("its description is of another issuer"));
        }
        let token_endpoint =
            description.token_endpoint.ok_or_else(|| Failure::invalid("it names no token endpoint"))?;
        let methods = description.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |method: &str| methods.iter().any(|named| named == method);
        let authorization_endpoint = endpoint(&description.authorization_endpoint)?;
        let token_endpoint = endpoint(&token_endpoint)?;
        let userinfo_endpoint = description.userinfo_endpoint.as_deref().map(endpoint).transpose()?;
        check_endpoints([&authorization_endpoint, &token_endpoint].into_iter().chain(&userinfo_endpoint))?;
        Ok(Metadata {
            authorization_endpoint,
            token_endpoint,
            userinfo_endpoint,
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
            keys: fetch_keys(&description.jwks_uri, client).await?,
        })
    }
}

/// The URL of an issuer's description.
pub fn description_url(issuer: &str) -> String {
    format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'))
}

pub async fn fetch_keys(url: &str, client: &ProviderClient) -> Result<KeySet, Failure> {
    let url = Url::parse(url).map_err(|_| Failure::invalid("the address of its keys is not a URL"))?;
    // Anyone who can change the keys can sign any token.
    if !is_protected(&url) {
        return Err(Failure::invalid("it names an address without TLS for its keys"));
    }
    document(&client.get(url.as_str()).await?, &[JSON, JSON_KEY_SET], "its key set")
}

/// Parses an answer. Its content type is only checked if there is one.
fn document<T: DeserializeOwned>(answer: &Response<Vec<u8>>, types: &[&str], name: &str) -> Result<T, Failure> {
    let status = answer.status();
    if status != StatusCode::OK {
        let why = format!("{name} is answered with {status}");
        return Err(if status.is_server_error() { Failure::Unavailable(why) } else { Failure::Invalid(why) });
    }
    if let Some(given) = answer.headers().get(CONTENT_TYPE) {
        let essence = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !types.iter().any(|wanted| essence.eq_ignore_ascii_case(wanted)) {
            return Err(Failure::Invalid(format!("{name} has the content type {given:?}, not {}", types[0])));
        }
    }
    serde_json::from_slice(answer.body()).map_err(|_| Failure::Invalid(format!("{name} cannot be understood")))
}

fn endpoint(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|_| Failure::invalid("an endpoint that it names is not a URL"))
}

/// Requires TLS: codes and secrets are sent to the endpoints.
fn check_endpoints<'a>(mut endpoints: impl Iterator<Item = &'a Url>) -> Result<(), Failure> {
    match endpoints.find(|endpoint| !is_protected(endpoint)) {
        Some(open) => Err(Failure::Invalid(format!("it names an endpoint without TLS: {open}"))),
        None => Ok(()),
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

    fn read(status: u16, content_type: Option<&str>, body: &str) -> Result<KeySet, Failure> {
        let mut answer = Response::builder().status(status);
        if let Some(content_type) = content_type {
            answer = answer.header(CONTENT_TYPE, content_type);
        }
        document(&answer.body(body.as_bytes().to_vec()).unwrap(), &[JSON, JSON_KEY_SET], "its key set")
    }

    #[test]
    fn a_document_is_json_and_says_so_if_it_says_anything() {
        let good = r#"{ "keys": [] }"#;
        for content_type in
            [None, Some("application/json"), Some("Application/JSON; charset=utf-8"), Some("application/jwk-set+json")]
        {
            assert!(read(200, content_type, good).is_ok(), "{content_type:?}");
        }
        for (status, content_type, body) in [
            (200, Some("text/html"), good),
            (200, Some("application/json+x"), good),
            (200, Some(""), good),
            (200, None, "<html>"),
            (200, None, ""),
            (201, None, good),
            (204, None, good),
            (302, None, good),
            (404, None, good),
        ] {
            assert!(matches!(read(status, content_type, body), Err(Failure::Invalid(_))), "{status} {content_type:?}");
        }
        assert!(matches!(read(503, None, good), Err(Failure::Unavailable(_))));
    }

    #[test]
    fn a_description_is_below_its_issuer() {
        for issuer in ["https://id.example/realms/acme", "https://id.example/realms/acme/"] {
            assert_eq!(description_url(issuer), "https://id.example/realms/acme/.well-known/openid-configuration");
        }
    }

    #[tokio::test]
    async fn keys_are_fetched_over_tls_alone() {
        for url in ["http://id.example/keys", "ftp://id.example/keys", "/keys", ""] {
            assert!(matches!(fetch_keys(url, &ProviderClient::default()).await, Err(Failure::Invalid(_))), "{url}");
        }
    }
}
