//! Sends the same bytes to three servers: ours, the codec of actix-http and the one of hyper. If one of them is a proxy
//! for another, both must see the same requests.
//!
//! All three agree on well-formed requests. We accept a malformed request only if another server does and reads it in
//! the same way. [`SMUGGLED`] lists requests that we refuse and others accept.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use actix_http::h1::{Codec, Message, MessageType};
use actix_http::header::HeaderMap;
use actix_http::{HttpMessage, ServiceConfig};
use bytes::BytesMut;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_util::codec::Decoder;

use crate::head::tests::heads;
use crate::incoming::Incoming;
use crate::request::Request;
use crate::response::Response;
use crate::serve::{Rules, serve};

/// A request as a server passes it to its handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Sorted by name; headers with one name in the order sent.
    pub headers: Vec<(String, Vec<u8>)>,
    /// `None` if the body is malformed or ends early.
    pub body: Option<Vec<u8>>,
}

impl Taken {
    fn new<'h>(
        (method, target): (&str, &str),
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        body: Option<Vec<u8>>,
    ) -> Self {
        let named = |(name, value): (&[u8], &[u8])| (String::from_utf8_lossy(name).to_lowercase(), value.to_vec());
        let mut headers: Vec<_> = headers.map(named).collect();
        headers.sort_by(|a, b| a.0.cmp(&b.0));
        Self { method: method.to_owned(), target: target.to_owned(), headers, body }
    }
}

/// The three servers, with the state that their connections share.
pub struct Servers {
    system: actix::SystemRunner,
    rules: Rules,
    codec: ServiceConfig,
}

impl Servers {
    pub fn start() -> Self {
        let system = actix::System::new();
        let (rules, codec) =
            system.block_on(async { (Rules::new(Duration::from_secs(3_600)), ServiceConfig::default()) });
        Self { system, rules, codec }
    }

    /// The requests that our loop passes to its handler if the bytes arrive in pieces of this size, and the answers.
    pub fn ours(&self, sent: &[u8], piece: usize) -> (Vec<Taken>, Vec<u8>) {
        let taken = RefCell::new(Vec::new());
        let answer = async |request: Request, incoming: Incoming| {
            // Recorded before the body, which may never be complete.
            let place = taken.borrow().len();
            let parts = (request.method().as_str(), request.path_and_query());
            taken.borrow_mut().push(Taken::new(parts, request.headers().iter(), None));
            let body = whole(incoming).await;
            taken.borrow_mut()[place].body = body;
            Response::no_content().into()
        };
        let told = self.system.block_on(async {
            let (server, client) = duplex(sent.len().max(64 * 1024));
            let serving = serve(server, None, &self.rules, pending(), answer);
            tokio::join!(serving, told(client, sent, piece)).1
        });
        (taken.into_inner(), told)
    }

    pub fn by_actix(&self, sent: &[u8]) -> Vec<Taken> {
        self.system.block_on(async {
            let (mut codec, mut bytes) = (Codec::new(self.codec.clone()), BytesMut::from(sent));
            let mut taken = Vec::new();
            while let Ok(Some(Message::Item(head))) = codec.decode(&mut bytes) {
                let target = head.uri().path_and_query().map_or_else(String::new, ToString::to_string);
                let body = if codec.message_type() == MessageType::None {
                    Some(Vec::new())
                } else {
                    body_by_actix(&mut codec, &mut bytes)
                };
                let headers = fields(head.headers());
                taken.push(Taken::new((head.method().as_str(), &target), headers, body.clone()));
                if body.is_none() || !codec.keep_alive() {
                    break;
                }
            }
            taken
        })
    }

    pub fn by_hyper(&self, sent: &[u8]) -> Vec<Taken> {
        let taken = RefCell::new(Vec::new());
        let answer = async |request: hyper::Request<hyper::body::Incoming>| {
            let (head, body) = request.into_parts();
            let target = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
            let headers = head.headers.iter().map(|(name, value)| (name.as_ref(), value.as_bytes()));
            let body = body.collect().await.ok().map(|body| body.to_bytes().to_vec());
            taken.borrow_mut().push(Taken::new((head.method.as_str(), &target), headers, body));
            Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new()))
        };
        self.system.block_on(async {
            let (server, client) = duplex(sent.len().max(64 * 1024));
            let mut builder = http1::Builder::new();
            let serving = builder.half_close(true).serve_connection(TokioIo::new(server), service_fn(&answer));
            // hyper returns an error for malformed bytes, which is expected.
            let (_, _) = tokio::join!(serving, told(client, sent, sent.len()));
        });
        taken.into_inner()
    }
}

async fn whole(mut incoming: Incoming) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(piece) = incoming.next().await {
        body.extend_from_slice(&piece.ok()?);
    }
    Some(body)
}

/// Sends this, ends the stream, and returns everything that comes back.
async fn told(client: DuplexStream, sent: &[u8], piece: usize) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(client);
    let mut told = Vec::new();
    let sending = async {
        for piece in sent.chunks(piece.max(1)) {
            // The server may already have ended the connection.
            writer.write_all(piece).await.ok();
            tokio::task::yield_now().await;
        }
        writer.shutdown().await.ok();
    };
    let (_, read) = tokio::join!(sending, reader.read_to_end(&mut told));
    read.unwrap();
    told
}

fn fields(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_ref(), value.as_bytes()))
}

fn body_by_actix(codec: &mut Codec, bytes: &mut BytesMut) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match codec.decode(bytes) {
            Ok(Some(Message::Chunk(Some(piece)))) => body.extend_from_slice(&piece),
            Ok(Some(Message::Chunk(None))) => return Some(body),
            Ok(Some(Message::Item(_)) | None) | Err(_) => return None,
        }
    }
}

/// The requests that we read from arbitrary bytes. Checks that at least one other server also reads each of them, and
/// that no server reads a different one.
pub fn checked(servers: &Servers, sent: &[u8], piece: usize) -> (Vec<Taken>, Vec<u8>) {
    let (ours, told) = servers.ours(sent, piece);
    let theirs = [servers.by_actix(sent), servers.by_hyper(sent)];
    let text = String::from_utf8_lossy(sent);
    for (place, taken) in ours.iter().enumerate() {
        let at = |theirs: &Vec<Taken>| theirs.get(place).cloned();
        // A body that we refuse, or have not read to the end, may be complete for the others.
        let as_far = |other: Taken| if taken.body.is_some() { other } else { Taken { body: None, ..other } };
        let mut theirs: Vec<_> = theirs.iter().filter_map(at).map(as_far).collect();
        theirs.retain(|other| other.body.is_some() == taken.body.is_some());
        assert!(!theirs.is_empty(), "both others refuse request {place} of {text:?}: {taken:?}");
        theirs.iter().for_each(|other| assert_eq!(taken, other, "request {place} of {text:?}"));
    }
    (ours, told)
}

/// A well-formed request, and how every server must read it.
fn request() -> impl Strategy<Value = (Vec<u8>, Taken)> {
    let method = prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("DELETE"), Just("OPTIONS"), Just("X-MINE")];
    let target = "/[a-zA-Z0-9._~!$&'()*+,;=:@/-]{0,20}(%[0-9A-F]{2}){0,2}(\\?[a-zA-Z0-9=&%/?-]{0,10})?";
    let header = ("[xX]-[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,10}", "([!-~]([ -~\t]{0,20}[!-~])?)?");
    let blank = prop_oneof![Just(""), Just(" "), Just("\t ")];
    let headers = prop::collection::vec((header, blank), 0..6);
    let pieces = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..4);
    (method, target, headers, pieces, any::<bool>()).prop_map(|(method, target, headers, pieces, is_chunked)| {
        let mut sent = format!("{method} {target} HTTP/1.1\r\nHost: x\r\n").into_bytes();
        let mut fields = vec![("host".to_owned(), "x".to_owned())];
        for ((name, value), blank) in headers {
            sent.extend_from_slice(format!("{name}:{blank}{value}{blank}\r\n").as_bytes());
            fields.push((name, value));
        }
        let body = pieces.concat();
        let (name, value) = match is_chunked {
            true => ("Transfer-Encoding", "chunked".to_owned()),
            false => ("Content-Length", body.len().to_string()),
        };
        sent.extend_from_slice(format!("{name}: {value}\r\n\r\n").as_bytes());
        fields.push((name.to_owned(), value));
        if is_chunked {
            for piece in &pieces {
                sent.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                sent.extend_from_slice(piece);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(b"0\r\n\r\n");
        } else {
            sent.extend_from_slice(&body);
        }
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        (sent, Taken::new((method, &target), fields, Some(body)))
    })
}

fn many(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) })
}

#[test]
fn well_formed_requests_are_the_same_to_all_three() {
    let servers = Servers::start();
    let several = (prop::collection::vec(request(), 1..4), 1..400_usize);
    let agreed = many(1_000).run(&several, |(requests, piece)| {
        let (sent, expected): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let sent = sent.concat();
        prop_assert_eq!(&servers.ours(&sent, piece).0, &expected);
        prop_assert_eq!(&servers.by_actix(&sent), &expected);
        prop_assert_eq!(&servers.by_hyper(&sent), &expected);
        Ok(())
    });
    agreed.unwrap();
}

#[test]
fn nothing_is_taken_that_both_others_refuse_or_take_otherwise() {
    let servers = Servers::start();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4);
    let changed = (prop::collection::vec(request(), 1..3), changes).prop_map(|(requests, changes)| {
        let mut sent: Vec<u8> = requests.into_iter().flat_map(|(sent, _)| sent).collect();
        for (place, byte, how) in changes {
            let place = place.index(sent.len());
            match how {
                0 => sent[place] = byte,
                1 => sent.insert(place, byte),
                _ => drop(sent.remove(place)),
            }
        }
        sent
    });
    let sent = prop_oneof![changed, heads()];
    let agreed = many(3_000).run(&(sent, 1..400_usize), |(sent, piece)| {
        checked(&servers, &sent, piece);
        Ok(())
    });
    agreed.unwrap();
}

/// How many complete requests each server reads: ours, actix-http, hyper.
type Counts = (usize, usize, usize);

/// Known ways to smuggle a request, and how many requests each server accepts. `|` stands for the rest of the first
/// line and a host. We refuse requests that two servers could read differently, even if one of them follows the
/// standard.
const SMUGGLED: &[(&str, &str, Counts)] = &[
    ("both framings", "POST|Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (0, 0, 1)),
    (
        "an empty body in both framings",
        "POST|Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        (0, 0, 1),
    ),
    ("two equal lengths", "POST|Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", (0, 0, 1)),
    ("two lengths", "POST|Content-Length: 3\r\nContent-Length: 2\r\n\r\nabc", (0, 0, 0)),
    ("a list of lengths", "POST|Content-Length: 3, 3\r\n\r\nabc", (0, 0, 0)),
    ("a signed length", "POST|Content-Length: +3\r\n\r\nabc", (0, 0, 0)),
    ("a length that is too large", "POST|Content-Length: 18446744073709551619\r\n\r\nabc", (0, 0, 0)),
    ("chunks after another encoding", "POST|Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (0, 0, 1)),
    ("chunks before another encoding", "POST|Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", (0, 0, 0)),
    ("chunks twice", "POST|Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (0, 0, 1)),
    ("nearly chunks", "POST|Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", (0, 0, 0)),
    ("a space before the colon", "POST|Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", (0, 0, 0)),
    ("a header on two lines", "POST|Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", (0, 0, 0)),
    ("a bare CR in a value", "POST|X: a\rContent-Length: 3\r\n\r\nabc", (0, 0, 0)),
    ("bare LF at the end of lines", "POST|Content-Length: 3\n\nabc", (1, 1, 1)),
    ("a NUL in a name", "POST|Content-Length\0: 3\r\n\r\nabc", (0, 0, 0)),
    ("a second host", "GET|Host: y\r\n\r\n", (0, 0, 1)),
    ("no host", "GET / HTTP/1.1\r\n\r\n", (0, 0, 1)),
    ("a POST of HTTP/1.0 without a length", "POST / HTTP/1.0\r\n\r\n", (0, 0, 1)),
    ("chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (0, 0, 0)),
    ("a chunk with a sign", "POST|Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", (0, 0, 0)),
    ("a chunk with a prefix", "POST|Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", (0, 0, 0)),
    ("a chunk without a size", "POST|Transfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n", (0, 0, 0)),
    (
        "a chunk that is too large",
        "POST|Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
        (0, 0, 0),
    ),
    ("a bare LF after a size", "POST|Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", (0, 0, 0)),
    ("a bare LF in an extension", "POST|Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n", (0, 0, 0)),
    ("an extension", "POST|Transfer-Encoding: chunked\r\n\r\n1;a=b\r\na\r\n0\r\n\r\n", (1, 1, 1)),
    ("a chunk that is longer than it says", "POST|Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", (0, 0, 0)),
    ("trailers", "POST|Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", (1, 1, 1)),
    ("what is no trailer", "POST|Transfer-Encoding: chunked\r\n\r\n0\r\nX\r\n\r\n", (1, 1, 0)),
    ("a request after an upgrade", "GET|Connection: upgrade\r\nUpgrade: websocket\r\n\r\nGET|\r\n", (1, 0, 2)),
];

#[test]
fn we_differ_from_others_only_where_it_is_known() {
    let servers = Servers::start();
    let whole = |taken: &[Taken]| taken.iter().filter(|taken| taken.body.is_some()).count();
    let mut unknown = Vec::new();
    for (what, sent, expected) in SMUGGLED {
        let sent = sent.replace('|', " / HTTP/1.1\r\nHost: x\r\n").into_bytes();
        let ours = checked(&servers, &sent, sent.len()).0;
        let counts = (whole(&ours), whole(&servers.by_actix(&sent)), whole(&servers.by_hyper(&sent)));
        if counts != *expected {
            unknown.push((what, counts));
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}
