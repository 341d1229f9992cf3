//! Sends a request on to another node.

use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Certificate, Client, Method, Response};
use tokio_util::bytes::Bytes;

use super::via::{VIA, Via, ViaKey};
use crate::outbound::error_chain;

/// Nodes are near each other. A node that is gone should not cost more than this.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Connections to each node that are kept for the next request.
const KEPT_PER_NODE: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(20);

/// Headers that concern one connection alone.
const OF_A_CONNECTION: [&str; 9] =
    ["connection", "content-length", "date", "expect", "host", "keep-alive", "te", "transfer-encoding", "upgrade"];

/// Keeps connections to the other nodes.
#[derive(Clone)]
pub struct PeerClient {
    client: Client,
    node: String,
    key: ViaKey,
}

/// A request that another node should answer.
pub struct Forward<'a> {
    pub method: &'a str,
    /// Its path and query.
    pub target: &'a str,
    pub headers: Vec<(&'a [u8], &'a [u8])>,
    pub body: Vec<u8>,
    pub request_id: &'a str,
    pub client: Option<std::net::IpAddr>,
    pub encrypted: bool,
}

/// The head of another node's answer, and its body as it comes.
pub struct Forwarded {
    pub status: u16,
    headers: HeaderMap,
    response: Response,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotForwarded {
    /// The other node has not got the request.
    #[error("cannot connect to {node}: {why}")]
    Unreached { node: String, why: String },
    /// It may have executed it.
    #[error("{node} did not answer: {why}")]
    Lost { node: String, why: String },
}

impl PeerClient {
    /// With the authorities of the nodes' certificates, in PEM; without them those of the system are asked.
    pub fn new(node: &str, key: ViaKey, authorities: Option<&[u8]>) -> Result<PeerClient, String> {
        // Fails only if one is installed already, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let builder = Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        let builder = builder.connect_timeout(CONNECT_WITHIN).tcp_nodelay(true);
        let builder = builder.pool_max_idle_per_host(KEPT_PER_NODE).pool_idle_timeout(KEPT_FOR);
        let builder = match authorities {
            Some(pem) => {
                builder.tls_certs_only(Certificate::from_pem_bundle(pem).map_err(|error| error_chain(&error))?)
            }
            None => builder,
        };
        let client = builder.build().map_err(|error| error_chain(&error))?;
        Ok(PeerClient { client, node: node.to_owned(), key })
    }

    /// The way of a request that has come here; an error if its header is none of ours.
    pub fn way(&self, header: &str, request: (&str, &str)) -> Option<Via> {
        self.key.check(header, request)
    }

    pub async fn send(&self, to: (&str, &str), forward: Forward<'_>) -> Result<Forwarded, NotForwarded> {
        let (node, url) = to;
        let unreached = |why: String| NotForwarded::Unreached { node: node.to_owned(), why };
        let via = Via { node: self.node.clone(), client: forward.client, encrypted: forward.encrypted };
        let via = self.key.sign(&via, (forward.method, forward.target));
        let method = Method::from_bytes(forward.method.as_bytes()).map_err(|error| unreached(error.to_string()))?;
        let headers = headers(forward.headers, &via, forward.request_id);
        let request = self.client.request(method, format!("{}{}", url.trim_end_matches('/'), forward.target));
        let sent = request.headers(headers).body(Body::from(forward.body)).send().await;
        let response = sent.map_err(|error| {
            let (is_connect, why) = (error.is_connect() || error.is_builder(), error_chain(&error.without_url()));
            if is_connect { unreached(why) } else { NotForwarded::Lost { node: node.to_owned(), why } }
        })?;
        let headers = response.headers().clone();
        Ok(Forwarded { status: response.status().as_u16(), headers, response })
    }
}

/// Those of the client, without the ones of its connection.
fn headers(given: Vec<(&[u8], &[u8])>, via: &str, request_id: &str) -> HeaderMap {
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
    for (name, value) in [(VIA, via), ("x-request-id", request_id)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

fn is_of_a_connection(name: &HeaderName) -> bool {
    OF_A_CONNECTION.contains(&name.as_str())
}

impl Forwarded {
    /// Those that concern the answer and not its connection.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let headers = self.headers.iter().filter(|(name, _)| !is_of_a_connection(name));
        headers.map(|(name, value)| (name.as_str(), value.as_bytes()))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The bytes of its body; `None` if it comes in chunks.
    pub fn length(&self) -> Option<u64> {
        self.text("content-length")?.parse().ok()
    }

    /// Whether its status says that there is no body.
    pub fn is_empty(&self) -> bool {
        matches!(self.status, 204 | 304)
    }

    pub async fn whole(self) -> Result<Bytes, String> {
        self.response.bytes().await.map_err(|error| error_chain(&error.without_url()))
    }

    /// Ends the other node's work when it is dropped.
    pub fn pieces(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        self.response.bytes_stream().map_err(|error| std::io::Error::other(error_chain(&error.without_url())))
    }
}
