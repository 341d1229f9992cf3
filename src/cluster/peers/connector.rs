//! Connections to other nodes, and URLs that stay as they are. Not by reqwest, whose URLs encode characters such as `'` and
//! resolve `..`: the owner is to see what the client sent, and the signature covers that.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_util::bytes::Bytes;

/// Nodes are near each other. A node that is gone should not cost more than this.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Connections to each node that are kept for the next request.
const KEPT_PER_NODE: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(20);

pub type Connections = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// With the authorities of the nodes' certificates, in PEM; without them those of the system are asked.
pub fn connections(authorities: Option<&[u8]>) -> Result<Connections, String> {
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

/// The URL of this path and query at the node with this URL; `None` if it cannot be sent as it is.
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
