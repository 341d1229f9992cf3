//! A bucket of S3 or a compatible service: upload, read by range, remove, and check that it exists. Requests are signed
//! with AWS Signature Version 4, which proves their sender and that nobody changed them in transit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use reqwest::{Body, Method, Response, Url};
use ring::digest::{Context, SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, Tag, sign};
use zeroize::Zeroizing;

use super::object::{ObjectError, Uploaded};
use crate::blocking;
use domain::Hex;
use outbound::{LazyClient, error_chain, percent_encoded, read_body};

/// The time limit for every response except that of an upload.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// The time limit for an upload, which may have gigabytes.
const UPLOADED_WITHIN: Duration = Duration::from_secs(900);
/// The part of an error's body that contains its code.
const ERROR_BYTES_MAX: usize = 16 * 1024;
const SERVICE: &str = "s3";

pub struct S3Settings {
    pub bucket: String,
    /// The prefix of all objects; may be empty.
    pub prefix: String,
    /// `None` for Amazon's endpoint.
    pub endpoint: Option<String>,
    pub region: String,
    pub credentials: Credentials,
}

pub struct S3 {
    client: LazyClient,
    /// Without a path.
    base: Url,
    host: String,
    /// The path segments before those of an object.
    before: Vec<String>,
    /// How many segments in `before` name the bucket.
    of_bucket: usize,
    region: String,
    credentials: Credentials,
}

impl S3 {
    /// Puts the bucket in the path: servers other than Amazon's require that, and so does TLS for names with dots.
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

    pub async fn put(&self, names: &[String; 3], body: &Uploaded) -> Result<(), ObjectError> {
        let of = body.clone();
        let body_hash = blocking(move || hash_of(&of)).await?;
        let answer = self.send(Method::PUT, Some(names), None, (&body_hash, Some(body)), UPLOADED_WITHIN).await?;
        if answer.status().is_success() { Ok(()) } else { Err(refused(answer).await) }
    }

    /// At most `max` bytes from `from`; `None` if there is no such object.
    pub async fn get(&self, names: &[String; 3], from: u64, max: usize) -> Result<Option<Vec<u8>>, ObjectError> {
        let range = format!("bytes={from}-{}", from.saturating_add(max as u64).saturating_sub(1));
        let mut answer = self.read(Method::GET, Some(names), Some(&range)).await?;
        match answer.status().as_u16() {
            206 => {}
            404 => return Ok(None),
            // The range begins at or beyond the end.
            416 => return Ok(Some(Vec::new())),
            200 => return Err(ObjectError::lasting("the store does not answer by range")),
            _ => return Err(refused(answer).await),
        }
        let body = tokio::time::timeout(ANSWERED_WITHIN, read_body(&mut answer, max)).await.map_err(|_| too_slow())?;
        let body = body.map_err(|error| ObjectError::passing(error_chain(&error.without_url())))?;
        body.map(Some).ok_or_else(|| ObjectError::lasting("the store answered with more than was asked for"))
    }

    pub async fn remove(&self, names: &[String; 3]) -> Result<(), ObjectError> {
        let answer = self.read(Method::DELETE, Some(names), None).await?;
        match answer.status().as_u16() {
            200 | 204 | 404 => Ok(()),
            _ => Err(refused(answer).await),
        }
    }

    /// Whether the bucket exists and is accessible.
    pub async fn check(&self) -> Result<(), ObjectError> {
        let answer = self.read(Method::HEAD, None, None).await?;
        if answer.status().is_success() { Ok(()) } else { Err(refused(answer).await) }
    }

    async fn read(
        &self,
        method: Method,
        names: Option<&[String; 3]>,
        range: Option<&str>,
    ) -> Result<Response, ObjectError> {
        self.send(method, names, range, (&hash(b""), None), ANSWERED_WITHIN).await
    }

    /// Without names, the request is for the bucket itself.
    async fn send(
        &self,
        method: Method,
        names: Option<&[String; 3]>,
        range: Option<&str>,
        (body_hash, body): (&str, Option<&Uploaded>),
        within: Duration,
    ) -> Result<Response, ObjectError> {
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
        let mut request = self.client.get().map_err(ObjectError::lasting)?.request(method, url);
        for (name, value) in
            headers.iter().filter(|(name, _)| *name != "host").chain(&[("authorization", authorization.as_str())])
        {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                ObjectError::lasting("the credentials of the store have characters that cannot be sent")
            })?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_LENGTH, body.length).body(streamed(body.clone()));
        }
        let sent = tokio::time::timeout(within, request.send()).await.map_err(|_| too_slow())?;
        sent.map_err(|error| ObjectError::passing(error_chain(&error.without_url())))
    }
}

fn too_slow() -> ObjectError {
    ObjectError::passing("the store took too long to answer")
}

/// One piece at a time; the next is read when the previous one has been sent.
fn streamed(body: Uploaded) -> Body {
    let body = Arc::new(body);
    Body::wrap_stream(stream::try_unfold((body, 0), |(body, from)| async move {
        let of = body.clone();
        let piece = blocking(move || of.piece(from)).await?;
        let next = from + piece.len() as u64;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, (body, next))))
    }))
}

fn hash_of(body: &Uploaded) -> std::io::Result<String> {
    let mut hash = Context::new(&SHA256);
    body.for_each_piece(|piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(Hex(hash.finish().as_ref()).to_string())
}

/// Includes the code of the error, and nothing else from the body.
async fn refused(mut answer: Response) -> ObjectError {
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
        ObjectError::passing(why)
    } else {
        ObjectError::lasting(why)
    }
}

/// Extracts ` AccessDenied` from `<Error><Code>AccessDenied</Code>…`.
fn code_of(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then(|| format!(" {code}"))
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

#[derive(Clone)]
pub struct Credentials {
    pub key_id: String,
    pub secret: Zeroizing<String>,
    /// Only for temporary credentials.
    pub session_token: Option<Zeroizing<String>>,
}

/// The signed parts of a request.
struct Request<'a> {
    pub method: &'a str,
    /// Percent-encoded, as sent.
    pub path: &'a str,
    /// Percent-encoded, as sent, with its parameters sorted by name.
    pub query: &'a str,
    /// With lower-case names, sorted. Must include `host`.
    pub headers: &'a [(&'a str, &'a str)],
    /// The SHA-256 of its body in hexadecimal.
    pub body_hash: &'a str,
}

/// The credential scope, and the time of the signature.
struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
    /// Such as `20130524T000000Z`.
    pub at: &'a str,
}

/// The value of the header `Authorization`.
fn authorization(request: &Request<'_>, scope: &Scope<'_>, credentials: &Credentials) -> String {
    let date = scope.at.get(..8).unwrap_or_default();
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let names = request.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let to_sign = format!("{ALGORITHM}\n{}\n{place}\n{}", scope.at, hash(canonical(request, &names).as_bytes()));
    let first = Zeroizing::new(format!("AWS4{}", *credentials.secret));
    let mut key = hmac(first.as_bytes(), date);
    for part in [scope.region, scope.service, "aws4_request"] {
        key = hmac(key.as_ref(), part);
    }
    let signature = Hex(hmac(key.as_ref(), &to_sign).as_ref()).to_string();
    format!("{ALGORITHM} Credential={}/{place},SignedHeaders={names},Signature={signature}", credentials.key_id)
}

/// The SHA-256 in hexadecimal.
fn hash(bytes: &[u8]) -> String {
    Hex(digest(&SHA256, bytes).as_ref()).to_string()
}

/// The percent-encoded path of these names.
fn encoded_path<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("/{}", percent_encoded(name))).collect()
}

fn canonical(request: &Request<'_>, names: &str) -> String {
    let headers: String = request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let Request { method, path, query, body_hash, .. } = request;
    format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body_hash}")
}

fn hmac(key: &[u8], text: &str) -> Tag {
    sign(&Key::new(HMAC_SHA256, key), text.as_bytes())
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

    fn credentials(key_id: &str, secret: &str) -> Credentials {
        Credentials { key_id: key_id.to_owned(), secret: Zeroizing::new(secret.to_owned()), session_token: None }
    }

    fn signature(of: &str) -> &str {
        of.rsplit_once("Signature=").map_or("", |(_, signature)| signature)
    }

    /// The examples of the chapter on signing in the API reference of Amazon S3.
    #[test]
    fn the_examples_of_amazon_s3_are_signed_as_published() {
        let credentials = credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let scope = Scope { region: "us-east-1", service: "s3", at: "20130524T000000Z" };
        let (host, at) = (("host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", "20130524T000000Z"));
        let empty = hash(b"");
        let nothing = ("x-amz-content-sha256", empty.as_str());
        let get = [host, ("range", "bytes=0-9"), nothing, at];
        let request = Request { method: "GET", path: "/test.txt", query: "", headers: &get, body_hash: &empty };
        assert_eq!(
            authorization(&request, &scope, &credentials),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let body = hash(b"Welcome to Amazon S3.");
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            host,
            ("x-amz-content-sha256", body.as_str()),
            at,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let path = encoded_path(["test$file.text"]);
        let request = Request { method: "PUT", path: &path, query: "", headers: &put, body_hash: &body };
        assert_eq!(
            signature(&authorization(&request, &scope, &credentials)),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        for (query, expected) in [
            ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let headers = [host, nothing, at];
            let request = Request { method: "GET", path: "/", query, headers: &headers, body_hash: &empty };
            assert_eq!(signature(&authorization(&request, &scope, &credentials)), expected, "{query}");
        }
    }

    /// `get-vanilla` and `post-vanilla` of the published test suite for Signature Version 4.
    #[test]
    fn the_cases_of_the_test_suite_are_signed_as_published() {
        let credentials = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let scope = Scope { region: "us-east-1", service: "service", at: "20150830T123600Z" };
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let empty = hash(b"");
        for (method, expected) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let request = Request { method, path: "/", query: "", headers: &headers, body_hash: &empty };
            assert_eq!(signature(&authorization(&request, &scope, &credentials)), expected, "{method}");
        }
    }
}
