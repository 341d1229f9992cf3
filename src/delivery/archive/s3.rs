//! A bucket of S3, or of what speaks like it: uploads, reads by range, removal, and whether it is there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use reqwest::{Body, Method, Response, Url};
use ring::digest::{Context, SHA256};

use super::error::StoreFailure;
use super::object::Uploaded;
use super::signature::{Credentials, Request, Scope, authorization, digits, encoded_path, hash};
use outbound::{LazyClient, error_chain, read_body};

/// For an answer to everything but an upload.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// An upload may be of gigabytes.
const UPLOADED_WITHIN: Duration = Duration::from_secs(900);
/// The part of an error's body in which its code stands.
const ERROR_BYTES_MAX: usize = 16 * 1024;
const SERVICE: &str = "s3";

pub struct S3Settings {
    pub bucket: String,
    /// Of all objects; may be empty.
    pub prefix: String,
    /// `None`: Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    pub credentials: Credentials,
}

pub struct S3 {
    client: LazyClient,
    /// Without a path.
    base: Url,
    host: String,
    /// The names before those of an object.
    before: Vec<String>,
    /// How many of those name the bucket.
    of_bucket: usize,
    region: String,
    credentials: Credentials,
}

impl S3 {
    /// Addresses the bucket in the path, which other servers than Amazon's want, and names with dots need for TLS.
    pub fn new(settings: S3Settings) -> Result<Self, String> {
        let S3Settings { bucket, prefix, endpoint, region, credentials } = settings;
        let in_path = endpoint.is_some() || bucket.contains('.');
        let base = match endpoint {
            Some(endpoint) => endpoint,
            None if in_path => format!("https://s3.{region}.amazonaws.com"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let base = Url::parse(&base).map_err(|error| format!("cluster.logs_endpoint: {error}"))?;
        let name = base.host_str().ok_or("cluster.logs_endpoint has no host")?;
        let host = base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let words = |text: &str| text.split('/').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let mut before = words(base.path());
        before.extend(in_path.then_some(bucket));
        let of_bucket = before.len();
        before.extend(words(&prefix));
        Ok(Self { client: LazyClient::new(), base, host, before, of_bucket, region, credentials })
    }

    pub async fn put(&self, names: &[String; 3], body: &Uploaded) -> Result<(), StoreFailure> {
        let of = body.clone();
        let body_hash = tokio::task::spawn_blocking(move || hash_of(&of)).await.map_err(std::io::Error::other)??;
        let answer = self.send(Method::PUT, Some(names), None, (&body_hash, Some(body)), UPLOADED_WITHIN).await?;
        if answer.status().is_success() { Ok(()) } else { Err(refused(answer).await) }
    }

    /// At most so many bytes from there on; `None` if there is no such object.
    pub async fn get(&self, names: &[String; 3], from: u64, max: usize) -> Result<Option<Vec<u8>>, StoreFailure> {
        let range = format!("bytes={from}-{}", from.saturating_add(max as u64).saturating_sub(1));
        let mut answer = self.read(Method::GET, Some(names), Some(&range)).await?;
        match answer.status().as_u16() {
            206 => {}
            404 => return Ok(None),
            // There is nothing from there on.
            416 => return Ok(Some(Vec::new())),
            200 => return Err(StoreFailure::lasting("the store does not answer by range")),
            _ => return Err(refused(answer).await),
        }
        let body = tokio::time::timeout(ANSWERED_WITHIN, read_body(&mut answer, max)).await.map_err(|_| too_slow())?;
        let body = body.map_err(|error| StoreFailure::passing(error_chain(&error.without_url())))?;
        body.map(Some).ok_or_else(|| StoreFailure::lasting("the store answered with more than was asked for"))
    }

    pub async fn remove(&self, names: &[String; 3]) -> Result<(), StoreFailure> {
        let answer = self.read(Method::DELETE, Some(names), None).await?;
        match answer.status().as_u16() {
            200 | 204 | 404 => Ok(()),
            _ => Err(refused(answer).await),
        }
    }

    /// Whether the bucket is there and may be used.
    pub async fn check(&self) -> Result<(), StoreFailure> {
        let answer = self.read(Method::HEAD, None, None).await?;
        if answer.status().is_success() { Ok(()) } else { Err(refused(answer).await) }
    }

    async fn read(
        &self,
        method: Method,
        names: Option<&[String; 3]>,
        range: Option<&str>,
    ) -> Result<Response, StoreFailure> {
        self.send(method, names, range, (&hash(b""), None), ANSWERED_WITHIN).await
    }

    /// Without names, the bucket itself.
    async fn send(
        &self,
        method: Method,
        names: Option<&[String; 3]>,
        range: Option<&str>,
        (body_hash, body): (&str, Option<&Uploaded>),
        within: Duration,
    ) -> Result<Response, StoreFailure> {
        let at = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let before = if names.is_some() { &self.before[..] } else { &self.before[..self.of_bucket] };
        let path = encoded_path(before.iter().chain(names.into_iter().flatten()).map(String::as_str));
        let path = if path.is_empty() { "/".to_owned() } else { path };
        // Sorted by name.
        let mut headers = vec![("host", self.host.as_str())];
        headers.extend(range.map(|range| ("range", range)));
        headers.extend([("x-amz-content-sha256", body_hash), ("x-amz-date", &at)]);
        let session = self.credentials.session_token.as_ref().map(|token| token.as_str());
        headers.extend(session.map(|token| ("x-amz-security-token", token)));
        let signed = Request { method: method.as_str(), path: &path, query: "", headers: &headers, body_hash };
        let scope = Scope { region: &self.region, service: SERVICE, at: &at };
        let authorization = authorization(&signed, &scope, &self.credentials);
        let mut url = self.base.clone();
        url.set_path(&path);
        let mut request = self.client.get().map_err(StoreFailure::lasting)?.request(method, url);
        for (name, value) in
            headers.iter().filter(|(name, _)| *name != "host").chain(&[("authorization", authorization.as_str())])
        {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                StoreFailure::lasting("the credentials of the store have characters that cannot be sent")
            })?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_LENGTH, body.length).body(streamed(body.clone()));
        }
        let sent = tokio::time::timeout(within, request.send()).await.map_err(|_| too_slow())?;
        sent.map_err(|error| StoreFailure::passing(error_chain(&error.without_url())))
    }
}

fn too_slow() -> StoreFailure {
    StoreFailure::passing("the store took too long to answer")
}

/// A piece at a time, when the one before has been sent.
fn streamed(body: Uploaded) -> Body {
    let body = Arc::new(body);
    Body::wrap_stream(stream::try_unfold((body, 0), |(body, from)| async move {
        let of = body.clone();
        let piece = tokio::task::spawn_blocking(move || of.piece(from)).await.map_err(std::io::Error::other)??;
        let next = from + piece.len() as u64;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, (body, next))))
    }))
}

fn hash_of(body: &Uploaded) -> std::io::Result<String> {
    let (mut hash, mut from) = (Context::new(&SHA256), 0);
    loop {
        let piece = body.piece(from)?;
        if piece.is_empty() {
            return Ok(digits(hash.finish().as_ref()));
        }
        hash.update(&piece);
        from += piece.len() as u64;
    }
}

/// Names the code of the error, and nothing else of the body.
async fn refused(mut answer: Response) -> StoreFailure {
    let status = answer.status();
    let body = tokio::time::timeout(ANSWERED_WITHIN, read_body(&mut answer, ERROR_BYTES_MAX)).await;
    let body = body.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let code = code_of(&String::from_utf8_lossy(&body)).unwrap_or_default();
    let advice = match status.as_u16() {
        301 | 307 => ": the bucket is in another region, see cluster.logs_region",
        401 | 403 => ": its credentials may not do this",
        404 => ": there is no such bucket",
        _ => "",
    };
    let why = format!("the store answered {}{}{advice}", status.as_u16(), code);
    if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
        StoreFailure::passing(why)
    } else {
        StoreFailure::lasting(why)
    }
}

/// ` AccessDenied` out of `<Error><Code>AccessDenied</Code>…`.
fn code_of(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then(|| format!(" {code}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use zeroize::Zeroizing;

    use super::*;

    fn s3(bucket: &str, prefix: &str, endpoint: Option<&str>) -> S3 {
        let credentials =
            Credentials { key_id: "key".to_owned(), secret: Zeroizing::new("s".to_owned()), session_token: None };
        let endpoint = endpoint.map(str::to_owned);
        let (bucket, prefix, region) = (bucket.to_owned(), prefix.to_owned(), "eu-central-1".to_owned());
        S3::new(S3Settings { bucket, prefix, endpoint, region, credentials }).unwrap()
    }

    #[test]
    fn a_bucket_is_found_by_its_host_at_amazon_and_by_its_path_elsewhere() {
        let found = |s3: S3| (s3.base.to_string(), s3.host, s3.before.join("/"));
        let expect = |base: &str, host: &str, before: &str| (base.to_owned(), host.to_owned(), before.to_owned());
        let amazon = "logs.s3.eu-central-1.amazonaws.com";
        assert_eq!(found(s3("logs", "a/b", None)), expect(&format!("https://{amazon}/"), amazon, "a/b"));
        let amazon = "s3.eu-central-1.amazonaws.com";
        assert_eq!(found(s3("my.logs", "", None)), expect(&format!("https://{amazon}/"), amazon, "my.logs"));
        let (minio, host) = ("http://127.0.0.1:9000", "127.0.0.1:9000");
        assert_eq!(found(s3("logs", "a", Some(minio))), expect(&format!("{minio}/"), host, "logs/a"));
        let (https, host) = ("https://minio.example:443", "minio.example");
        assert_eq!(found(s3("logs", "", Some(https))), expect("https://minio.example/", host, "logs"));
    }

    #[test]
    fn of_an_error_its_code_is_told_and_nothing_else() {
        let body = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>for AKIA…</Message></Error>";
        assert_eq!(code_of(body).as_deref(), Some(" AccessDenied"));
        for other in ["", "<Code>", "<Code></Code>", "<Code>a b</Code>", "<Code>\n</Code>"] {
            assert_eq!(code_of(other), None, "{other:?}");
        }
    }
}
