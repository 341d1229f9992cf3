//! The HTTP client for requests that the server itself sends. It connects only to the host of its URL: no redirects, no
//! proxy from the server's environment. Connections are not kept open, since the next request may be hours away and the
//! other side may have closed them by then.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Request, Response, Url, redirect};

use super::policy::{Policy, PolicyError};

/// A server that has not accepted the connection within this time is considered down.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A client for URLs that tenants choose: it connects only where the policy permits.
pub struct GuardedClient {
    http: LazyClient,
    policy: Policy,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResponse {
    /// The host has a public address, so everyone may see the reason.
    Public(String),
    /// The reason, only for the operator's log; tenants see [`PolicyError::ADVICE`].
    Hidden(String),
}

impl GuardedClient {
    pub fn new(policy: Policy) -> Self {
        Self { http: LazyClient::new(), policy }
    }

    /// The client for building requests, which [`Self::execute`] then sends.
    pub fn get(&self) -> Result<&Client, String> {
        self.http.get_or_build(|builder| builder.dns_resolver(self.policy.resolver()))
    }

    /// Sends a request. Fails after `patience`, if given.
    pub async fn execute(&self, request: Request, patience: Option<Duration>) -> Result<Response, NoResponse> {
        let url = request.url().clone();
        self.policy.check(&url).map_err(|refused| NoResponse::Hidden(refused.reason))?;
        let sending = self.get().map_err(NoResponse::Public)?.execute(request);
        let sent = match patience {
            None => Ok(sending.await),
            Some(patience) => tokio::time::timeout(patience, sending).await,
        };
        match sent {
            Ok(sent) => sent.map_err(|error| self.why(&url, &error.without_url())),
            Err(_) => {
                let seconds = patience.unwrap_or_default().as_secs();
                Err(self.hidden_or_not(&url, format!("it took longer than {seconds} s")))
            }
        }
    }

    fn why(&self, url: &Url, error: &reqwest::Error) -> NoResponse {
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref::<PolicyError>() {
                return NoResponse::Hidden(refused.reason.clone());
            }
            cause = error.source();
        }
        self.hidden_or_not(url, error_chain(error))
    }

    fn hidden_or_not(&self, url: &Url, reason: String) -> NoResponse {
        if self.policy.may_be_private(url) { NoResponse::Hidden(reason) } else { NoResponse::Public(reason) }
    }
}

/// A client that is built for the first request.
#[derive(Default)]
pub struct LazyClient(OnceLock<Result<Client, String>>);

impl LazyClient {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    pub fn get(&self) -> Result<&Client, String> {
        self.get_or_build(|builder| builder)
    }

    /// Like [`LazyClient::get`], with more settings.
    fn get_or_build(&self, settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<&Client, String> {
        let build = || {
            // Fails only if a provider is already installed, which is fine.
            rustls::crypto::ring::default_provider().install_default().ok();
            let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0);
            let builder = builder.connect_timeout(CONNECT_WITHIN);
            settings(builder).build().map_err(|error| error_chain(&error))
        };
        self.0.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}

/// The body, or `None` if it has more than `max_bytes`.
pub async fn read_body(response: &mut Response, max_bytes: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > max_bytes {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// Encodes a text for any part of a URL: everything except the unreserved characters of RFC 3986.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The error and its sources: the outermost error rarely names the cause.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_url_cannot_change_another_part_of_it() {
        assert_eq!(percent_encoded("a-b_c.d~e/?&#ä %"), "a-b_c.d~e%2F%3F%26%23%C3%A4%20%25");
    }
}
