//! Heads of every kind, read by us and by the web framework's codec.

#![allow(clippy::unwrap_used)]

use actix_http::h1::{Codec, Message, MessageType};
use actix_http::{HttpMessage, ServiceConfig};
use bytes::BytesMut;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio_util::codec::Decoder;

use super::*;

fn read(head: &str) -> Result<Option<(Head, usize)>, HeadError> {
    read_bytes(head.as_bytes())
}

pub fn read_bytes(bytes: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
    let mut head = Head::default();
    Ok(head.read(bytes)?.map(|length| (head, length)))
}

fn whole(head: &str) -> Head {
    let (read, length) = read(head).unwrap().unwrap();
    assert_eq!(length, head.len());
    read
}

pub fn get(headers: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
}

#[test]
fn a_head_has_its_parts() {
    let head = whole("PUT /a/b%20?c=d&e=?f HTTP/1.1\r\nhost: x\r\nX-A: 1\r\nx-a:\t2 \r\nX-B: \u{e4}\r\n\r\n");
    assert_eq!((head.method.as_str(), head.version), ("PUT", Version::HTTP_11));
    assert_eq!((head.path(), head.query(), head.path_and_query()), ("/a/b%20", "c=d&e=?f", "/a/b%20?c=d&e=?f"));
    let [a, b, c] = ["x-a", "x-b", "x-c"].map(HeaderName::from_static);
    assert_eq!(head.headers.get_all(a.clone()).collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!((head.headers.text(&a), head.headers.text(&b)), (Some("1"), None), "that is not ASCII");
    assert!(head.headers.contains(&b) && !head.headers.contains(&c));
    assert_eq!((head.body, head.next), (BodyLength::Bytes(0), AfterAnswer::KeepAlive));
}

#[test]
fn a_head_is_read_when_it_is_complete_and_not_beyond_its_end() {
    let head = get("Content-Length: 3\r\n");
    for end in 0..head.len() {
        assert!(read(&head[..end]).unwrap().is_none(), "{end}");
    }
    let (_, length) = read(&(head.clone() + "abcGET /")).unwrap().unwrap();
    assert_eq!(length, head.len());
}

#[test]
fn targets_of_every_form_lead_to_a_path() {
    for (target, path, query) in [
        ("/", "/", ""),
        ("/?", "/", ""),
        ("/a?b#c", "/a", "b"),
        ("/a\"{b}|", "/a\"{b}|", ""),
        ("http://host/a?b", "/a", "b"),
        ("http://host", "/", ""),
        ("*", "*", ""),
    ] {
        let head = whole(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!((head.path(), head.query()), (path, query), "{target}");
    }
    let long = "/a".repeat(PLAIN_TARGET_MAX);
    for target in ["a b", "/a<", "http://", long.as_str()] {
        assert_eq!(read(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).err(), Some(HeadError::Malformed));
    }
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    for headers in [
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Host: y\r\n",
        " folded: x\r\n",
    ] {
        assert_eq!(read(&get(headers)).err(), Some(HeadError::Malformed), "{headers}");
    }
    assert_eq!(read("GET / HTTP/1.1\r\n\r\n").err(), Some(HeadError::Malformed), "without a host");
    assert_eq!(read("POST / HTTP/1.0\r\n\r\n").err(), Some(HeadError::Malformed), "where does it end?");
    assert_eq!(read("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").err(), Some(HeadError::Malformed));
}

#[test]
fn a_head_that_is_too_large_is_said_to_be() {
    let many = "a: b\r\n".repeat(HEADERS_MAX);
    assert_eq!(read(&get(&many)).err(), Some(HeadError::TooLarge));
    assert_eq!(read(&get(&many)[..100]).map(|head| head.is_none()), Ok(true));
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(BYTES_MAX));
    assert_eq!(read(&endless).err(), Some(HeadError::TooLarge));
}

#[test]
fn the_connection_goes_on_as_the_client_wants() {
    use AfterAnswer::{Close, KeepAlive, Upgrade};
    for (version, headers, next) in [
        ("1.1", "", KeepAlive),
        ("1.0", "", Close),
        ("1.0", "Connection: Keep-Alive\r\n", KeepAlive),
        ("1.1", "Connection: keep-alive, Close\r\n", Close),
        ("1.1", "Connection: close\r\nConnection: upgrade\r\n", Close),
        ("1.1", "Connection: keep-alive, upgrade\r\n", Upgrade),
        ("1.1", "Upgrade: WebSocket\r\n", Upgrade),
        ("1.1", "Upgrade: h2c\r\n", KeepAlive),
    ] {
        let head = whole(&format!("GET / HTTP/{version}\r\nHost: x\r\n{headers}\r\n"));
        assert_eq!(head.next, next, "{version} {headers}");
    }
    assert_eq!(whole("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n").next, Upgrade);
}

#[test]
fn a_client_that_waits_to_send_its_body_says_so() {
    assert!(whole(&get("Expect: 100-Continue\r\n")).expects_continue);
    assert!(!whole(&get("Expect: nothing\r\n")).expects_continue);
    assert!(!whole("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expects_continue);
}

/// One reader's understanding of a head.
#[derive(Debug, PartialEq)]
pub struct Understood {
    method: String,
    path: String,
    query: String,
    has_body: bool,
    is_chunked: bool,
    headers: usize,
    left: usize,
}

pub fn by_us(head: &[u8]) -> Option<Understood> {
    let (read, length) = read_bytes(head).ok().flatten()?;
    Some(Understood {
        method: read.method.to_string(),
        path: read.path().to_owned(),
        query: read.query().to_owned(),
        has_body: read.body != BodyLength::Bytes(0),
        is_chunked: read.body == BodyLength::Chunked,
        headers: read.headers.iter().count(),
        left: head.len() - length,
    })
}

pub fn by_the_framework(codec: &mut Codec, head: &[u8]) -> Option<Understood> {
    let mut bytes = BytesMut::from(head);
    let Ok(Some(Message::Item(read))) = codec.decode(&mut bytes) else { return None };
    Some(Understood {
        method: read.method().to_string(),
        path: read.path().to_owned(),
        query: read.uri().query().unwrap_or_default().to_owned(),
        has_body: codec.message_type() != MessageType::None,
        is_chunked: read.chunked().unwrap(),
        headers: read.headers().len(),
        left: bytes.len(),
    })
}

/// Heads of all kinds, each followed by the beginning of a possible body.
pub fn heads() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("GET / HTTP/1.1"),
        Just("POST /a?b HTTP/1.1"),
        Just("POST /a%2F HTTP/1.0"),
        Just("HEAD http://x/y HTTP/1.1"),
        Just("OPTIONS * HTTP/1.1"),
        Just("GET / HTTP/2.0"),
        Just("GET  / HTTP/1.1"),
    ];
    let field = prop_oneof![
        3 => Just("Host: x"),
        1 => Just("host:y"),
        3 => Just("Content-Length: 3"),
        1 => Just("content-length: 0"),
        1 => Just("Content-Length: +1"),
        1 => Just("Content-Length: 1 1"),
        2 => Just("Transfer-Encoding: chunked"),
        1 => Just("transfer-encoding: Chunked "),
        1 => Just("Transfer-Encoding: identity"),
        1 => Just("Transfer-Encoding: chunked, identity"),
        1 => Just("Connection: close"),
        1 => Just("X: \u{e4}"),
        1 => Just("Empty:"),
        1 => Just("Sp ace: x"),
        1 => Just("Space : x"),
        1 => Just(" folded"),
        1 => Just("no colon"),
        1 => Just("Content-Length\0: 3"),
    ];
    let end = prop_oneof![8 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r")];
    let lines = prop::collection::vec((field, end.clone()), 0..6);
    (line, end.clone(), lines, end, any::<Option<(prop::sample::Index, u8)>>()).prop_map(
        |(first, after, lines, last, changed)| {
            let mut head = [first, after].concat();
            lines.iter().for_each(|(field, end)| head += &[*field, *end].concat());
            let mut head = (head + last + "abc").into_bytes();
            if let Some((place, byte)) = changed {
                let place = place.index(head.len());
                head[place] = byte;
            }
            head
        },
    )
}

/// Upgrades are excepted, since we do not support them.
#[actix::test]
async fn heads_are_understood_as_the_framework_understands_them() {
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) });
    let config = ServiceConfig::default();
    let agreed = runner.run(&heads(), |head| {
        let theirs = by_the_framework(&mut Codec::new(config.clone()), &head);
        prop_assert_eq!(by_us(&head), theirs, "{}", String::from_utf8_lossy(&head));
        Ok(())
    });
    agreed.unwrap();
}
