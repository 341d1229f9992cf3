//! HTTP to one server: sends one request once, and tells what came of it. Nothing here knows tokens or repeats anything.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Client, Method, Response, Url, redirect};

use super::options::Settings;
use crate::failure::Failure;

/// A server that has not accepted by then is busy or gone.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A connection that has been idle for longer is not reused: proxies close them without a word after a minute or so.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Answers are pages of at most a hundred records; a whole log is read as a stream.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection to the server.
#[derive(Debug, Clone)]
pub struct Link {
    http: Client,
    base: String,
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub struct NoAnswer {
    pub words: String,
    /// Whether the request may have reached the server.
    pub maybe_sent: bool,
}

/// An answer as it came.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl RawAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub fn content_type(headers: &HeaderMap) -> &str {
    header(headers, CONTENT_TYPE.as_str()).unwrap_or_default()
}

/// In seconds; the server never sends a date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    header(headers, RETRY_AFTER.as_str())?.parse().ok().map(Duration::from_secs)
}

impl Link {
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let url =
            Url::parse(&settings.url).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        let Some(url) = url else {
            return Err(Failure::Usage(format!(
                "`{}` is no address of a server; write http://… or https://…",
                settings.url
            )));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Failure::Usage("the address must not contain a user or a password".to_owned()));
        }
        // Fails only if one is installed already, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut builder = Client::builder()
            .user_agent(concat!("lockkeeper/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE_MAX)
            // A redirect would turn a claim into a GET, and carry the token to another server.
            .redirect(redirect::Policy::none());
        if let Some(file) = &settings.ca_file {
            builder = builder.tls_certs_only(certificates(file)?);
        } else if url.scheme() == "http" {
            // Images without certificates of authorities exist, and could not build a client otherwise.
            builder = builder.tls_certs_only([]);
        }
        let http = builder
            .build()
            .map_err(|error| Failure::Failed(format!("cannot prepare connections: {}", error_chain(&error))))?;
        Ok(Self { http, base: settings.url.clone() })
    }

    /// The server's address, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// A request for a path like `/api/v1/whoami`.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Sends it and reads the whole answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<RawAnswer, NoAnswer> {
        let mut response = self.open(request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.no_answer(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(NoAnswer { words: format!("{}: the answer is too long", self.base), maybe_sent: true });
            }
        }
        Ok(RawAnswer { status, headers, body })
    }

    /// Sends it; the body is read by the caller, piece by piece.
    pub async fn open(&self, request: reqwest::RequestBuilder) -> Result<Response, NoAnswer> {
        request.send().await.map_err(|error| self.no_answer(&error))
    }

    pub fn no_answer(&self, error: &reqwest::Error) -> NoAnswer {
        let why = error_chain(error);
        let words = if error.is_timeout() && !error.is_connect() {
            format!("{} did not answer in time", self.base)
        } else {
            format!("cannot reach {}: {why}", self.base)
        };
        NoAnswer { words, maybe_sent: !error.is_connect() && !error.is_builder() }
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::Usage(format!("CA file {}: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| unusable(&error))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| unusable(&error_chain(&error)))?;
    if certificates.is_empty() {
        return Err(unusable(&"it has no certificate in PEM form"));
    }
    Ok(certificates)
}

/// The error and its sources without the URL, whose query may tell more than an error message should.
fn error_chain(error: &reqwest::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let text = error.to_string();
        // Outer errors often repeat the inner ones.
        if !words.iter().any(|word| word.contains(&text)) {
            words.push(text);
        }
        source = error.source();
    }
    if words.is_empty() { "the request failed".to_owned() } else { words.join(": ") }
}
