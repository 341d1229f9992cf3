//! The header of a request that a node has passed on: by which node, for which client, when, and a signature. It covers the node
//! that is to receive the request, its method, path, query and body, and the headers that say who asks for what (`COVERED`).

use std::net::IpAddr;

use ring::digest::{Context, SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use super::freshness::Stamp;
use accounts::secrets::MasterKey;

pub const VIA: &str = "lockkeeper-via";

/// Form 1 signed neither time nor body, form 2 neither headers nor the receiving node.
const FORM: &str = "3";
/// A change of any other header changes how an answer is written at most.
const COVERED: [&str; 7] =
    ["authorization", "cookie", "content-type", "idempotency-key", "if-match", "origin", "sec-fetch-site"];
const UNKNOWN: &str = "-";

/// A request's way to the owner of its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// The node that has passed it on.
    pub node: String,
    /// Unknown if its connection had ended by then.
    pub client: Option<IpAddr>,
    /// Whether the client sent it over TLS.
    pub encrypted: bool,
    pub body: BodyHash,
}

/// SHA-256, in digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyHash(String);

/// SHA-256 of the headers that are signed, in digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadersHash(String);

/// What is signed of a request, beside its way and its body.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The node that receives it.
    pub to: &'a str,
    pub method: &'a str,
    /// Its path and query.
    pub target: &'a str,
    pub headers: &'a HeadersHash,
}

/// Why a header is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsigned {
    OtherForm,
    BadSignature,
}

/// The same on all nodes, since they have one master key.
#[derive(Clone)]
pub struct ViaKey(Key);

impl BodyHash {
    pub fn of(body: &[u8]) -> BodyHash {
        BodyHash(digits(digest(&SHA256, body).as_ref()))
    }
}

impl HeadersHash {
    /// Of all headers of a request.
    pub fn of<'a>(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeadersHash {
        let place = |name: &[u8]| COVERED.iter().position(|covered| name.eq_ignore_ascii_case(covered.as_bytes()));
        let mut found: Vec<_> = headers.filter_map(|(name, value)| Some((place(name)?, value))).collect();
        // Those of one name stay in their order.
        found.sort_by_key(|(place, _)| *place);
        let mut hash = Context::new(&SHA256);
        for (place, value) in found {
            hash.update(&(place as u64).to_be_bytes());
            hash.update(&(value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        HeadersHash(digits(hash.finish().as_ref()))
    }
}

impl ViaKey {
    pub fn of(master: &MasterKey) -> ViaKey {
        ViaKey(Key::new(HMAC_SHA256, &*master.derived("requests between nodes")))
    }

    /// The header of a request.
    pub fn sign(&self, via: &Via, stamp: Stamp, request: Signed<'_>) -> String {
        let text = text(via, stamp);
        format!("{text} {}", self.signature(&signed(&text, request)))
    }

    /// An error if no node with this key has written the header, or for another request.
    pub fn check(&self, header: &str, request: Signed<'_>) -> Result<(Via, Stamp), Unsigned> {
        let (text, signature) = header.rsplit_once(' ').ok_or(Unsigned::OtherForm)?;
        let [node, client, scheme, FORM, millis, nonce, body] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(Unsigned::OtherForm);
        };
        self.verify(&signed(text, request), signature)?;
        let read = || {
            let client = if client == UNKNOWN { None } else { Some(client.parse().ok()?) };
            let via =
                Via { node: node.to_owned(), client, encrypted: scheme == "https", body: BodyHash(body.to_owned()) };
            Some((via, Stamp { millis: millis.parse().ok()?, nonce: u128::from_str_radix(nonce, 16).ok()? }))
        };
        read().ok_or(Unsigned::OtherForm)
    }

    /// The time of this node, for a node whose request with this nonce was signed by another one.
    pub fn vouch(&self, millis: u64, nonce: u128) -> String {
        format!("{millis} {}", self.signature(&vouched(millis, nonce)))
    }

    pub fn vouched(&self, text: &str, nonce: u128) -> Option<u64> {
        let (millis, signature) = text.split_once(' ')?;
        let millis = millis.parse().ok()?;
        self.verify(&vouched(millis, nonce), signature).ok().map(|()| millis)
    }

    fn signature(&self, text: &str) -> String {
        digits(sign(&self.0, text.as_bytes()).as_ref())
    }

    fn verify(&self, text: &str, signature: &str) -> Result<(), Unsigned> {
        let signature = read_digits(signature).ok_or(Unsigned::BadSignature)?;
        verify(&self.0, text.as_bytes(), &signature).map_err(|_| Unsigned::BadSignature)
    }
}

fn text(via: &Via, Stamp { millis, nonce }: Stamp) -> String {
    let Via { node, client, encrypted, body: BodyHash(body) } = via;
    let client = client.map_or_else(|| UNKNOWN.to_owned(), |client| client.to_string());
    format!("{node} {client} {} {FORM} {millis} {nonce:032x} {body}", if *encrypted { "https" } else { "http" })
}

fn signed(text: &str, Signed { to, method, target, headers: HeadersHash(headers) }: Signed<'_>) -> String {
    format!("{text}\n{method} {target}\n{to} {headers}")
}

/// Cannot be mistaken for a request, which has three lines.
fn vouched(millis: u64, nonce: u128) -> String {
    format!("time {millis} {nonce:032x}")
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_digits(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const STAMP: Stamp = Stamp { millis: 1_700_000_000_000, nonce: 7 };

    fn key(digit: char) -> ViaKey {
        ViaKey::of(&MasterKey::parse(&digit.to_string().repeat(64)).unwrap())
    }

    #[test]
    fn a_node_believes_the_others_and_nobody_else() {
        let given = |token: &'static str, key: &'static str| {
            let headers = [("Authorization", token), ("accept", "*/*"), ("idempotency-key", key)];
            HeadersHash::of(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
        };
        let (headers, other_token, other_key) =
            (given("Bearer a", "1"), given("Bearer b", "1"), given("Bearer a", "2"));
        let target = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/one/sessions?x=it's";
        let claim = Signed { to: "n3", method: "POST", target, headers: &headers };
        for client in [None, Some("192.0.2.7".parse().unwrap()), Some("2001:db8::1".parse().unwrap())] {
            for encrypted in [true, false] {
                let via = Via { node: "n1".to_owned(), client, encrypted, body: BodyHash::of(b"{}") };
                let header = key('1').sign(&via, STAMP, claim);
                assert_eq!(key('1').check(&header, claim), Ok((via, STAMP)), "{header}");
                let refused = |key: ViaKey, header: &str, request: Signed<'_>| {
                    assert_eq!(key.check(header, request), Err(Unsigned::BadSignature), "{header}");
                };
                refused(key('2'), &header, claim);
                refused(key('1'), &header, Signed { method: "DELETE", ..claim });
                let encoded = target.replace('\'', "%27");
                refused(key('1'), &header, Signed { target: &encoded, ..claim });
                refused(key('1'), &header, Signed { to: "n4", ..claim });
                refused(key('1'), &header, Signed { headers: &other_token, ..claim });
                refused(key('1'), &header, Signed { headers: &other_key, ..claim });
                refused(key('1'), &header.replace("n1", "n2"), claim);
                refused(key('1'), &header.replace("1700000000000", "1700000000001"), claim);
                let other_body = header.replace(&BodyHash::of(b"{}").0, &BodyHash::of(b"[]").0);
                refused(key('1'), &other_body, claim);
                refused(key('1'), &header[..header.len() - 2], claim);
            }
        }
        let before = "n1 - http 00";
        for bad in ["", "n1", before, "n1 - http 3 1 1 ", "n1 - http 2 1 1 00 00", " ", "n1 - http 3 00"] {
            assert_eq!(key('1').check(bad, claim), Err(Unsigned::OtherForm), "{bad:?}");
        }
        for bad in ["n1 - http 3 1 1 00 zz", "n1 - http 3 1 1 00 é", "n1 - http 3 x y 00 00"] {
            assert_eq!(key('1').check(bad, claim), Err(Unsigned::BadSignature), "{bad:?}");
        }
    }

    #[test]
    fn the_time_of_another_node_is_believed_for_one_request() {
        let text = key('1').vouch(42, 7);
        assert_eq!(key('1').vouched(&text, 7), Some(42));
        assert_eq!(key('1').vouched(&text, 8), None, "of another request");
        assert_eq!(key('2').vouched(&text, 7), None, "another master key");
        assert_eq!(key('1').vouched(&text.replace("42 ", "43 "), 7), None);
        assert_eq!(key('1').vouched("42", 7), None);
    }
}
