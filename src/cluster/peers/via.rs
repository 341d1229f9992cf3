//! The header of a forwarded request: the forwarding node, the client, the time, and a signature. The signature covers
//! the receiving node, the method, path, query and body, and the headers that identify the caller and the request
//! (`COVERED`).
//!
//! Signed requests must be new: not too old, and not seen before. Every nonce signed after `floor` is remembered. An
//! earlier request may be a repetition, so it is refused. The refusal tells the sender the time of this node, and the
//! sender signs again with that time. So clocks need not agree, and the memory is bounded.

use std::collections::HashSet;
use std::net::IpAddr;

use ring::digest::{Context, SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use accounts::secrets::MasterKey;
use domain::{Hex, read_hex};

pub const VIA: &str = "lockkeeper-via";

/// Form 1 did not sign the time and the body, form 2 not the headers and the receiving node.
const FORM: &str = "3";
/// The signed headers. Changing any other header affects at most the format of an answer.
const COVERED: [&str; 7] =
    ["authorization", "cookie", "content-type", "idempotency-key", "if-match", "origin", "sec-fetch-site"];
const UNKNOWN: &str = "-";

/// The route of a request to the owner of its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// The node that forwarded the request.
    pub node: String,
    /// The client's address, unless its connection had already ended.
    pub client: Option<IpAddr>,
    /// Whether the client sent the request over TLS.
    pub encrypted: bool,
    pub body: BodyHash,
}

/// SHA-256 of a body, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyHash(String);

/// SHA-256 of the signed headers, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadersHash(String);

/// The signed parts of a request, besides its route and body.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The node that receives the request.
    pub to: &'a str,
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    pub headers: &'a HeadersHash,
}

/// Why a header is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsigned {
    OtherForm,
    BadSignature,
}

/// The signing key. It is the same on all nodes, which share one master key.
#[derive(Clone)]
pub struct ViaKey(Key);

impl BodyHash {
    pub fn of(body: &[u8]) -> BodyHash {
        BodyHash(Hex(digest(&SHA256, body).as_ref()).to_string())
    }
}

impl HeadersHash {
    /// The hash of the covered headers among all headers of a request.
    pub fn of<'a>(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeadersHash {
        let place = |name: &[u8]| COVERED.iter().position(|covered| name.eq_ignore_ascii_case(covered.as_bytes()));
        let mut found: Vec<_> = headers.filter_map(|(name, value)| Some((place(name)?, value))).collect();
        // Stable, so headers with one name stay in their order.
        found.sort_by_key(|(place, _)| *place);
        let mut hash = Context::new(&SHA256);
        for (place, value) in found {
            hash.update(&(place as u64).to_be_bytes());
            hash.update(&(value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        HeadersHash(Hex(hash.finish().as_ref()).to_string())
    }
}

impl ViaKey {
    pub fn of(master: &MasterKey) -> ViaKey {
        ViaKey(Key::new(HMAC_SHA256, &*master.derived("requests between nodes")))
    }

    /// The signed header for a request.
    pub fn sign(&self, via: &Via, stamp: Stamp, request: Signed<'_>) -> String {
        let text = text(via, stamp);
        format!("{text} {}", self.signature(&signed(&text, request)))
    }

    /// Fails if the header was written without this key, or for another request.
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

    /// This node's time, signed, for a node that signed the request with this nonce with another time.
    pub fn vouch(&self, millis: u64, nonce: u128) -> String {
        format!("{millis} {}", self.signature(&vouched(millis, nonce)))
    }

    pub fn vouched(&self, text: &str, nonce: u128) -> Option<u64> {
        let (millis, signature) = text.split_once(' ')?;
        let millis = millis.parse().ok()?;
        self.verify(&vouched(millis, nonce), signature).ok().map(|()| millis)
    }

    fn signature(&self, text: &str) -> String {
        Hex(sign(&self.0, text.as_bytes()).as_ref()).to_string()
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

/// The signed text of a time. It cannot be taken for a request, which has three lines.
fn vouched(millis: u64, nonce: u128) -> String {
    format!("time {millis} {nonce:032x}")
}

fn read_digits(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    read_hex(text, &mut bytes).then_some(bytes)
}

/// The maximum age of a signature: long enough for a slow connection.
const OLDEST_MILLIS: u64 = 30_000;
/// How far the time of a signature may be ahead: clocks synchronized by NTP differ by less.
const NEWEST_MILLIS: u64 = 5_000;
/// After this time a generation ends and the previous one is forgotten, so the nonces of the last [`OLDEST_MILLIS`] are
/// known.
const GENERATION_MILLIS: u64 = 60_000;
/// Nonces per generation: 10 MB for both generations. Above about 10,000 requests per second, a generation is shorter
/// than [`OLDEST_MILLIS`]; requests that take longer are then signed again.
const GENERATION_MAX: usize = 250_000;

/// The time of a signature, and a unique number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub millis: u64,
    pub nonce: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFresh {
    /// Signed with a time too far from this node's; `acceptable` is a time to sign with.
    Time {
        acceptable: u64,
    },
    Seen,
}

pub struct Freshness {
    /// Nonces signed up to this time are not remembered.
    floor: u64,
    current: Generation,
    previous: Generation,
}

#[derive(Default)]
struct Generation {
    began: u64,
    latest: u64,
    nonces: HashSet<u128>,
}

impl Freshness {
    /// Refuses requests signed before this process began: the previous process may have answered them.
    pub fn new(now: u64) -> Self {
        let current = Generation { began: now, ..Generation::default() };
        Self { floor: now, current, previous: Generation::default() }
    }

    /// Remembers a new request; refuses others.
    pub fn admit(&mut self, stamp: Stamp, now: u64) -> Result<(), NotFresh> {
        let is_full = self.current.nonces.len() >= GENERATION_MAX;
        if is_full || now.saturating_sub(self.current.began) >= GENERATION_MILLIS {
            let begun = Generation { began: now, ..Generation::default() };
            let forgotten = std::mem::replace(&mut self.previous, std::mem::replace(&mut self.current, begun));
            self.floor = self.floor.max(forgotten.latest);
        }
        let oldest = now.saturating_sub(OLDEST_MILLIS).max(self.floor + 1);
        if stamp.millis < oldest || stamp.millis > now + NEWEST_MILLIS {
            return Err(NotFresh::Time { acceptable: now.max(oldest) });
        }
        if self.previous.nonces.contains(&stamp.nonce) || !self.current.nonces.insert(stamp.nonce) {
            return Err(NotFresh::Seen);
        }
        self.current.latest = self.current.latest.max(stamp.millis);
        Ok(())
    }
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

    const BEGAN: u64 = 1_000_000;

    fn stamp(millis: u64, nonce: u128) -> Stamp {
        Stamp { millis, nonce }
    }

    #[test]
    fn a_request_is_taken_once_while_it_is_new() {
        let (mut freshness, now) = (Freshness::new(BEGAN), BEGAN + 100_000);
        let other_time = Err(NotFresh::Time { acceptable: now });
        assert_eq!(freshness.admit(stamp(now, 1), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now, 1), now), Err(NotFresh::Seen));
        assert_eq!(freshness.admit(stamp(now - 1, 1), now), Err(NotFresh::Seen), "whatever its time");
        assert_eq!(freshness.admit(stamp(now - OLDEST_MILLIS, 2), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now - OLDEST_MILLIS - 1, 3), now), other_time);
        assert_eq!(freshness.admit(stamp(now + NEWEST_MILLIS, 4), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now + NEWEST_MILLIS + 1, 5), now), other_time);
        assert_eq!(freshness.admit(stamp(u64::MAX, 6), now), other_time);
    }

    #[test]
    fn nothing_is_taken_that_was_signed_before_this_process_began() {
        let mut freshness = Freshness::new(BEGAN);
        let acceptable = BEGAN + 1;
        assert_eq!(freshness.admit(stamp(BEGAN, 1), BEGAN), Err(NotFresh::Time { acceptable }));
        assert_eq!(freshness.admit(stamp(acceptable, 1), BEGAN), Ok(()), "signed again by the time that it named");
    }

    /// However many requests there are, forgotten ones are refused.
    #[test]
    fn a_request_is_never_taken_twice_and_the_memory_is_bounded() {
        for millis_between in [0, 1, 500] {
            let (mut freshness, mut now) = (Freshness::new(BEGAN), BEGAN + 1);
            for nonce in 0..3 * GENERATION_MAX as u128 {
                now += if nonce % 5 == 0 { millis_between } else { 0 };
                let mut signed = now;
                if let Err(NotFresh::Time { acceptable }) = freshness.admit(stamp(signed, nonce), now) {
                    signed = acceptable;
                    assert_eq!(freshness.admit(stamp(signed, nonce), now), Ok(()), "signed again");
                }
                if nonce % 1_000 == 0 {
                    assert_ne!(freshness.admit(stamp(signed, nonce), now), Ok(()));
                    assert_ne!(freshness.admit(stamp(BEGAN + 1, 0), now), Ok(()), "the first of all");
                }
                let known = freshness.current.nonces.len() + freshness.previous.nonces.len();
                assert!(known <= 2 * GENERATION_MAX);
            }
        }
    }
}
