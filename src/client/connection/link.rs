//! HTTP to one server: sends a request once, and reports the result. Knows no tokens and repeats nothing.

use std::path::Path;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Certificate, Client, Method, RequestBuilder, Response, Url, redirect};

use super::options::Settings;
use crate::failure::{CallError, Failure, Problem};

/// A server that has not accepted the connection by then is overloaded or down.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A connection that has been idle for longer is not reused: proxies close them silently after about a minute.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Answers are pages of at most a hundred records; a whole log is read as a stream.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection to the server.
#[derive(Debug, Clone)]
pub struct Link {
    http: Client,
    base: String,
}

/// An unparsed answer.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl RawAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn problem(&self) -> Problem {
        // The header is in seconds; the server never sends a date.
        let seconds = self.header("retry-after").and_then(|seconds| seconds.parse().ok());
        let content_type = self.header("content-type").unwrap_or_default();
        Problem::read(self.status, content_type, seconds.map(Duration::from_secs), &self.body)
    }
}

impl Link {
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let url =
            Url::parse(&settings.url).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            Failure::Usage(format!("`{}` is no address of a server; write http://… or https://…", settings.url))
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Failure::Usage("the address must not contain a user or a password".to_owned()));
        }
        // Fails only if a provider is installed already, which is fine.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut builder = Client::builder()
            .user_agent(concat!("lockkeeper/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE_MAX)
            // A redirect would turn a claim into a GET, and send the token to another server.
            .redirect(redirect::Policy::none());
        if let Some(file) = &settings.ca_file {
            builder = builder.tls_certs_only(certificates(file)?);
        } else if url.scheme() == "http" {
            // Some images contain no CA certificates, and could not build a client otherwise.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build();
        let http =
            http.map_err(|error| Failure::Failed(format!("cannot prepare connections: {}", error_chain(&error))))?;
        Ok(Self { http, base: settings.url.clone() })
    }

    /// The server's address, without a final slash.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// A request for a path like `/api/v1/whoami`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Sends the request and reads the whole answer.
    pub async fn send(&self, request: RequestBuilder) -> Result<RawAnswer, CallError> {
        let mut response = self.open(request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.no_answer(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(CallError::NoAnswer(format!("{}: the answer is too long", self.base)));
            }
        }
        Ok(RawAnswer { status, headers, body })
    }

    /// Sends the request; the caller reads the body in pieces.
    pub async fn open(&self, request: RequestBuilder) -> Result<Response, CallError> {
        request.send().await.map_err(|error| self.no_answer(&error))
    }

    pub fn no_answer(&self, error: &reqwest::Error) -> CallError {
        if error.is_timeout() && !error.is_connect() {
            return self.late();
        }
        let why = error_chain(error);
        if let Some(advice) = certificate_advice(&why) {
            let words = format!("cannot trust {}: {advice} ({why})", self.base);
            return CallError::Failure(Failure::Unreachable(words));
        }
        let words = format!("cannot reach {}: {why}", self.base);
        let was_sent = !error.is_connect() && !error.is_builder();
        if was_sent { CallError::NoAnswer(words) } else { CallError::NoConnection(words) }
    }

    pub fn late(&self) -> CallError {
        CallError::NoAnswer(format!("{} did not answer in time", self.base))
    }
}

/// The problem with the server's certificate and its fix, from the text of rustls. `None` if it is not about a
/// certificate.
fn certificate_advice(why: &str) -> Option<&'static str> {
    let why = &why[why.find("invalid peer certificate")?..];
    let is = |words: &[&str]| words.iter().any(|word| why.contains(word));
    Some(if is(&["CaUsedAsEndEntity"]) {
        "its certificate is one of an authority (CA:TRUE), and cannot be a server's too; make the server one with \
         `-addext basicConstraints=critical,CA:FALSE`, as docs/operating.md shows"
    } else if is(&["UnknownIssuer"]) {
        "its certificate is signed by an authority that is not trusted here; name that authority's certificate with --ca-file or \
         LOCKKEEPER_CA_FILE"
    } else if is(&["not valid for name", "NotValidForName"]) {
        "its certificate is for other names; use a name that is in it, or add this one to its subjectAltName"
    } else if is(&["expired", "Expired"]) {
        "its certificate has expired; renew it, or check the clock of this machine"
    } else if is(&["not valid yet", "NotValidYet"]) {
        "its certificate is not valid yet; check the clock of this machine"
    } else {
        "its certificate is not accepted"
    })
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

/// The error and its sources without the URL, whose query may contain more than an error message should show.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_accepted_is_explained() {
        for (why, advice) in [
            ("client error (Connect): invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
            ("invalid peer certificate: UnknownIssuer", "--ca-file"),
            (
                "invalid peer certificate: certificate not valid for name \"b\"; certificate is only valid for \"a\"",
                "subjectAltName",
            ),
            ("invalid peer certificate: certificate expired: verification time 3 (UNIX)", "renew"),
            ("invalid peer certificate: certificate not valid yet: verification time 3 (UNIX)", "clock"),
            ("invalid peer certificate: BadEncoding", "not accepted"),
        ] {
            assert!(certificate_advice(why).is_some_and(|said| said.contains(advice)), "{why}");
        }
        assert_eq!(certificate_advice("connection refused"), None);
    }
}
