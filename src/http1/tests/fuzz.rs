//! Fuzz targets for heads, bodies and whole connections.

#![allow(clippy::unwrap_used)]

use actix_http::ServiceConfig;
use actix_http::h1::Codec;

use super::differential::{Servers, checked};
use crate::head::tests::{by_the_framework, by_us, get, read_bytes};
use crate::head::{AfterAnswer, HeadError};
use testkit::fuzz::{fuzz, fuzz_with};

/// Few, because targets with three servers are slow.
const INPUTS: u64 = 1_500;

/// The parts of a head lie within the head regardless of what follows it, and the framework finds the same parts.
#[actix::test]
async fn heads_are_read_as_the_framework_reads_them_or_refused() {
    let samples = [
        get("Content-Length: 3\r\nConnection: keep-alive\r\n") + "abc",
        "POST /a%2Fb?c=d&e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
            .to_owned(),
        "HEAD http://x/y HTTP/1.0\r\nHost:x\r\nConnection: close, x\r\n\r\n".to_owned(),
    ];
    let words = [
        "\r\n",
        "\r\n\r\n",
        "\n",
        ":",
        " ",
        "\t",
        ",",
        "?",
        "#",
        "Host: ",
        "Content-Length: ",
        "Transfer-Encoding: ",
        "chunked",
        "identity",
        "Connection: ",
        "close",
        "HTTP/1.0",
        "HTTP/1.1",
        "GET ",
        "POST ",
        "18446744073709551616",
    ];
    let config = ServiceConfig::default();
    fuzz(samples, &words, |bytes| {
        let (head, length) = match read_bytes(bytes) {
            Ok(Some(read)) => read,
            Ok(None) => return Err(None),
            Err(refused) => return Err(Some(refused == HeadError::TooLarge)),
        };
        let (again, _) = read_bytes(&bytes[..length]).unwrap().unwrap();
        assert!(read_bytes(&bytes[..length - 1]).unwrap().is_none(), "it ends where it ends");
        assert!(head.headers.iter().eq(again.headers.iter()));
        assert_eq!(head.path_and_query(), again.path_and_query());
        if head.next != AfterAnswer::Upgrade {
            let theirs = by_the_framework(&mut Codec::new(config.clone()), bytes);
            assert_eq!(by_us(bytes), theirs, "{}", String::from_utf8_lossy(bytes));
        }
        let kind = format!("{:?} {:?} {}", head.body, head.next, head.expects_continue);
        Ok((kind, head.method.to_string(), head.headers.iter().count(), head.query().is_empty()))
    });
}

/// We read a body as the others do, in any pieces, and the next request begins where the body ends.
#[test]
fn bodies_are_read_as_the_others_read_them_or_refused() {
    let servers = Servers::start();
    let samples = [
        "\x01Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10;a=b\r\n0123456789abcdef\r\n0\r\n\r\n",
        "\x07Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n00\r\nx-trailer: y\r\n\r\n",
        "\x40Content-Length: 10\r\n\r\n0123456789",
    ];
    let words =
        ["0\r\n\r\n", "\r\n", "\n", "\r", ";", " ", "\t", "ffffffffffffffff\r\n", "1\r\n", "GET / HTTP/1.1\r\n"];
    fuzz_with(INPUTS, samples, &words, |bytes| {
        let Some((piece, rest)) = bytes.split_first() else { return Vec::new() };
        let sent = [b"POST / HTTP/1.1\r\nHost: x\r\n", rest, b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"].concat();
        let (taken, _) = checked(&servers, &sent, usize::from(*piece));
        assert_eq!(taken, servers.ours(&sent, sent.len()).0, "in pieces of {piece}");
        taken.iter().map(|taken| (taken.method.clone(), taken.body.as_ref().map(|body| body.len().min(20)))).collect()
    });
}

/// Requests and answers do not depend on the pieces in which the bytes arrive, and every request is answered.
#[test]
fn connections_are_served_the_same_in_any_pieces() {
    let servers = Servers::start();
    let samples = [
        get("Connection: keep-alive\r\n") + &get("") + "GET /",
        get("Content-Length: 3\r\n")
            + "abc"
            + &get("Transfer-Encoding: chunked\r\n")
            + "1\r\na\r\n0\r\n\r\n"
            + &get(""),
        "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab".to_owned() + &get(""),
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned() + &get("Upgrade: websocket\r\n") + &get(""),
    ]
    .map(|sample| format!("\x05{sample}"));
    let words = [
        "GET / HTTP/1.1\r\nHost: x\r\n",
        "\r\n\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "0\r\n\r\n",
        "HEAD ",
        "CONNECT ",
    ];
    fuzz_with(INPUTS, samples, &words, |bytes| {
        let Some((piece, sent)) = bytes.split_first() else { return (0, 0, String::new()) };
        let (taken, told) = checked(&servers, sent, usize::from(*piece));
        let (again, told_again) = servers.ours(sent, sent.len());
        assert_eq!(taken, again, "in pieces of {piece}");
        let statuses = |told: &[u8]| {
            let lines = String::from_utf8_lossy(told);
            lines.lines().filter(|line| line.starts_with("HTTP/1.")).map(str::to_owned).collect::<Vec<_>>()
        };
        // `100 Continue` is sent only if the body has not arrived yet.
        let answers = |told: &[u8]| {
            let mut statuses = statuses(told);
            statuses.retain(|status| !status.contains("100 Continue"));
            statuses
        };
        let (answered, answered_again) = (answers(&told), answers(&told_again));
        assert_eq!(answered, answered_again, "in pieces of {piece}");
        let refused = answered.len() - taken.len();
        assert!(refused <= 1, "{} requests have {} answers", taken.len(), answered.len());
        (taken.len(), refused, answered.last().cloned().unwrap_or_default())
    });
}
