//! The header of a request that a node has passed on: by which node, for which client, and a signature.

use std::net::IpAddr;

use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use crate::secrets::MasterKey;

pub const VIA: &str = "lockkeeper-via";

/// A request's way to the owner of its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// The node that has passed it on.
    pub node: String,
    /// Unknown if its connection had ended by then.
    pub client: Option<IpAddr>,
    /// Whether the client sent it over TLS.
    pub encrypted: bool,
}

/// The same on all nodes, since they have one master key.
#[derive(Clone)]
pub struct ViaKey(Key);

const UNKNOWN: &str = "-";

impl ViaKey {
    pub fn of(master: &MasterKey) -> ViaKey {
        ViaKey(Key::new(HMAC_SHA256, &*master.derived("requests between nodes")))
    }

    /// The header of a request with this method, path and query.
    pub fn sign(&self, via: &Via, request: (&str, &str)) -> String {
        let text = text(via);
        let signature = sign(&self.0, signed(&text, request).as_bytes());
        let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{text} {digits}")
    }

    /// `None` if no node with this key has written the header, or for another request.
    pub fn check(&self, header: &str, request: (&str, &str)) -> Option<Via> {
        let (text, signature) = header.rsplit_once(' ')?;
        let signature = read_digits(signature)?;
        verify(&self.0, signed(text, request).as_bytes(), &signature).ok()?;
        let [node, client, scheme] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
        let client = if client == UNKNOWN { None } else { Some(client.parse().ok()?) };
        Some(Via { node: node.to_owned(), client, encrypted: scheme == "https" })
    }
}

fn text(via: &Via) -> String {
    let client = via.client.map_or_else(|| UNKNOWN.to_owned(), |client| client.to_string());
    format!("{} {client} {}", via.node, if via.encrypted { "https" } else { "http" })
}

fn signed(text: &str, (method, target): (&str, &str)) -> String {
    format!("{text}\n{method} {target}")
}

fn read_digits(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(digit: char) -> ViaKey {
        ViaKey::of(&MasterKey::parse(&digit.to_string().repeat(64)).unwrap())
    }

    #[test]
    fn a_node_believes_the_others_and_nobody_else() {
        let claim = ("POST", "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/one/sessions");
        for client in [None, Some("192.0.2.7".parse().unwrap()), Some("2001:db8::1".parse().unwrap())] {
            for encrypted in [true, false] {
                let via = Via { node: "n1".to_owned(), client, encrypted };
                let header = key('1').sign(&via, claim);
                assert_eq!(key('1').check(&header, claim), Some(via), "{header}");
                assert_eq!(key('2').check(&header, claim), None, "another master key");
                assert_eq!(key('1').check(&header, ("DELETE", claim.1)), None, "another request");
                assert_eq!(key('1').check(&header.replace("n1", "n2"), claim), None);
                assert_eq!(key('1').check(&header[..header.len() - 2], claim), None);
            }
        }
        for bad in ["", "n1", "n1 - http ", "n1 - http zz", "n1 - http é", " ", "n1 - http 00"] {
            assert_eq!(key('1').check(bad, claim), None, "{bad:?}");
        }
    }
}
