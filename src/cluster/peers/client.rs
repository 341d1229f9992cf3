//! Forwards a request to another node.
//!
//! The URL is sent unchanged, since the owner must see the client's URL and the signature covers it. reqwest is not
//! used because its URLs encode characters such as `'` and resolve `..`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_util::bytes::Bytes;

use super::gate::{Clock, Gate, REFUSED, ViaError};
use super::via::{BodyHash, HeadersHash, Signed, Stamp, VIA, Via, ViaKey};
use outbound::error_chain;

/// Headers that belong to a single connection.
const OF_A_CONNECTION: [&str; 9] =
    ["connection", "content-length", "date", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade"];
/// A larger difference between clocks is logged.
const APART_MILLIS: i64 = 5_000;

/// Keeps connections to the other nodes.
#[derive(Clone)]
pub struct PeerClient {
    connections: Connections,
    node: String,
    key: ViaKey,
    gate: Gate,
    clock: Clock,
    /// How far other nodes' clocks are ahead of this one's, as far as known.
    ahead_millis: Arc<Mutex<HashMap<String, i64>>>,
}

/// A request for another node.
pub struct Forward<'a> {
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    pub headers: Vec<(&'a [u8], &'a [u8])>,
    pub body: Bytes,
    pub request_id: &'a str,
    pub client: Option<IpAddr>,
    pub encrypted: bool,
}

/// The head of another node's answer, with its body as a stream.
pub struct Forwarded {
    pub status: u16,
    response: Response<Incoming>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotForwarded {
    /// The other node has not received the request.
    #[error("cannot connect to {node}: {why}")]
    Unreached { node: String, why: String },
    /// The other node may have executed the request.
    #[error("{node} did not answer: {why}")]
    Lost { node: String, why: String },
    /// The other node has not executed the request, and would not if asked again.
    #[error("{node} refused the request of this node: {why}")]
    Refused { node: String, why: String },
}

impl PeerClient {
    /// `authorities` are the CA certificates for the nodes, in PEM; without them, the system's are used.
    pub fn new(node: &str, key: ViaKey, authorities: Option<&[u8]>) -> Result<PeerClient, String> {
        let (connections, clock) = (connections(authorities)?, Clock::start());
        let gate = Gate::new(node, key.clone(), clock);
        Ok(PeerClient { connections, node: node.to_owned(), key, gate, clock, ahead_millis: Arc::default() })
    }

    /// Verifies this header of an incoming request, and returns the request's origin.
    pub fn admit(
        &self,
        header: &str,
        request: (&str, &str),
        headers: &HeadersHash,
        from: Option<IpAddr>,
    ) -> Result<Via, ViaError> {
        self.gate.admit(header, request, headers, from)
    }

    pub async fn send(&self, to: (&str, &str), forward: Forward<'_>) -> Result<Forwarded, NotForwarded> {
        let (node, _) = to;
        let (answer, nonce) = self.send_signed(to, &forward).await?;
        let Some(ViaError::Time(vouched)) = answer.refusal() else { return answer.taken(node) };
        let Some(millis) = self.key.vouched(&vouched, nonce) else { return answer.taken(node) };
        self.learn_time(node, millis);
        // One retry is enough: a node accepts a signature with the time it has just reported.
        self.send_signed(to, &forward).await?.0.taken(node)
    }

    fn learn_time(&self, node: &str, millis: u64) {
        let ahead = millis.cast_signed().wrapping_sub(self.clock.now().cast_signed());
        if ahead.abs() > APART_MILLIS {
            let seconds = ahead / 1_000;
            tracing::warn!(
                node,
                ahead_seconds = seconds,
                "the clock of another node differs; requests to it are signed by its clock"
            );
        }
        self.ahead_millis.lock().insert(node.to_owned(), ahead);
    }

    /// Sends the request. Returns the answer, and the nonce with which the request was signed.
    async fn send_signed(
        &self,
        (node, url): (&str, &str),
        forward: &Forward<'_>,
    ) -> Result<(Forwarded, u128), NotForwarded> {
        let ahead = self.ahead_millis.lock().get(node).copied().unwrap_or(0);
        let stamp = Stamp { millis: self.clock.now().saturating_add_signed(ahead), nonce: rand::random() };
        let Forward { method, target, body, client, encrypted, .. } = forward;
        let hash = BodyHash::of(body);
        let via = Via { node: self.node.clone(), client: *client, encrypted: *encrypted, body: hash };
        let mut headers = headers(&forward.headers, forward.request_id);
        let hash = HeadersHash::of(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())));
        let via = self.key.sign(&via, stamp, Signed { to: node, method, target, headers: &hash });
        let refused = |why: &str| NotForwarded::Refused { node: node.to_owned(), why: why.to_owned() };
        let uri = uri(url, target).ok_or_else(|| refused("its path and query cannot be sent on as they are"))?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| refused(&error.to_string()))?;
        let mut request = Request::new(Full::new(body.clone()));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        headers.insert(VIA, HeaderValue::from_str(&via).map_err(|error| refused(&error.to_string()))?);
        *request.headers_mut() = headers;
        let response = self.connections.request(request).await.map_err(|error| {
            let (node, why) = (node.to_owned(), error_chain(&error));
            if error.is_connect() { NotForwarded::Unreached { node, why } } else { NotForwarded::Lost { node, why } }
        })?;
        Ok((Forwarded { status: response.status().as_u16(), response }, stamp.nonce))
    }
}

/// The client's headers, without those of the connection.
fn headers(given: &[(&[u8], &[u8])], request_id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let Ok(name) = HeaderName::from_bytes(name) else { continue };
        let Ok(mut value) = HeaderValue::from_bytes(value) else { continue };
        if is_of_a_connection(&name) || name == VIA || name == "x-request-id" {
            continue;
        }
        value.set_sensitive(name == "authorization" || name == "cookie");
        headers.append(name, value);
    }
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert("x-request-id", value);
    }
    headers
}

fn is_of_a_connection(name: &HeaderName) -> bool {
    OF_A_CONNECTION.contains(&name.as_str())
}

impl Forwarded {
    fn refusal(&self) -> Option<ViaError> {
        self.text(REFUSED).map(ViaError::read)
    }

    /// The answer, unless the node refused the request.
    fn taken(self, node: &str) -> Result<Self, NotForwarded> {
        let node = node.to_owned();
        match self.refusal() {
            None => Ok(self),
            // A proxy between the nodes has repeated the request, and received the answer to the other copy.
            Some(refusal @ ViaError::Seen) => Err(NotForwarded::Lost { node, why: refusal.why().to_owned() }),
            Some(refusal) => Err(NotForwarded::Refused { node, why: refusal.why().to_owned() }),
        }
    }

    /// The answer's headers, without those of the connection.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let headers = self.response.headers().iter().filter(|(name, _)| !is_of_a_connection(name));
        headers.map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The length of the body; `None` if it is chunked.
    pub fn length(&self) -> Option<u64> {
        self.text("content-length")?.parse().ok()
    }

    /// Whether the status implies an empty body.
    pub fn is_empty(&self) -> bool {
        matches!(self.status, 204 | 304)
    }

    pub async fn whole(self) -> Result<Bytes, String> {
        let collected = self.response.into_body().collect().await;
        Ok(collected.map_err(|error| error_chain(&error))?.to_bytes())
    }

    /// The body as a stream. Dropping it ends the other node's work.
    pub fn pieces(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        self.response.into_body().into_data_stream().map_err(|error| std::io::Error::other(error_chain(&error)))
    }
}

/// Nodes are close to each other, and a node that is down should not cost more time than this.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Idle connections kept per node.
const KEPT_PER_NODE: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(20);

type Connections = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// `authorities` are the CA certificates for the nodes, in PEM; without them, the system's are used.
fn connections(authorities: Option<&[u8]>) -> Result<Connections, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = HttpsConnectorBuilder::new();
    let builder = match authorities {
        None => builder.with_provider_and_platform_verifier(provider).map_err(|error| error.to_string())?,
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for authority in CertificateDer::pem_slice_iter(pem) {
                let authority = authority.map_err(|error| format!("no certificates in PEM: {error}"))?;
                roots.add(authority).map_err(|error| format!("an authority cannot be used: {error}"))?;
            }
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
            builder.with_tls_config(config.with_no_client_auth())
        }
    };
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_connect_timeout(Some(CONNECT_WITHIN));
    plain.set_nodelay(true);
    let connector = builder.https_or_http().enable_http1().wrap_connector(plain);
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT_FOR).pool_max_idle_per_host(KEPT_PER_NODE);
    Ok(client.build(connector))
}

/// The URL of this path and query at a node; `None` if it cannot be sent unchanged.
pub fn uri(node: &str, target: &str) -> Option<Uri> {
    let node: Uri = node.parse().ok()?;
    let uri = Uri::builder().scheme(node.scheme()?.clone()).authority(node.authority()?.clone());
    let uri = uri.path_and_query(target).build().ok()?;
    (uri.path_and_query()?.as_str() == target).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_sent_as_it_is_or_not_at_all() {
        for target in
            ["/a?type=it's", "/a/../b", "/a//b/./c", "/%2e%2E/%27", "/a?", "/?", "/a?b?c", "/a|b{\"c\"}?{c}|^"]
        {
            let sent = uri("http://10.0.0.1:8080/", target);
            assert_eq!(sent.as_ref().and_then(Uri::path_and_query).map(|target| target.as_str()), Some(target));
            assert_eq!(sent.and_then(|uri| Some(uri.authority()?.to_string())), Some("10.0.0.1:8080".to_owned()));
        }
        for (node, target) in
            [("http://a", "/a#b"), ("http://a", "/a b"), ("a", "/"), ("http://a", "b"), ("http://a", "")]
        {
            assert_eq!(uri(node, target), None, "{node} {target}");
        }
    }
}
