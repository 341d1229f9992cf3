//! The HTTP client for requests that the server sends by itself. It goes where its URL says and nowhere else: no
//! redirects, no proxy from the server's environment. Connections are not kept open, since the next request may be hours
//! away and the other side may have closed them by then.

use std::error::Error;
use std::sync::OnceLock;

use reqwest::{Client, ClientBuilder, Response, redirect};

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
    pub fn get_or_build(&self, settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<&Client, String> {
        let build = || {
            // Fails only if one is installed already, which is as good.
            rustls::crypto::ring::default_provider().install_default().ok();
            let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0);
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

/// Safe anywhere in a URL: everything except the unreserved characters of RFC 3986 is encoded.
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

/// The error and its sources: the outermost one rarely says why.
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
