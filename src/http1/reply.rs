//! An answer on its way to the client: the head written for it, and how the body is sent.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

use actix_http::body::BodySize;
use actix_http::header::HeaderName;
use actix_http::{StatusCode, Version};
use bytes::BytesMut;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use rustix::time::{ClockId, clock_gettime};

use super::response::Response;

/// Room for the head of a typical response.
const HEAD_BYTES: usize = 1024;

pub struct Reply {
    pub response: Response,
    /// Whether the connection is closed after this answer.
    pub is_last: bool,
    pub common: Option<Common>,
}

/// Headers that a server adds to its answers, without copying them into each.
pub struct Common {
    /// Complete header lines as they are sent, including line ends.
    pub lines: &'static str,
    /// One more header, whose value belongs to this answer: visible ASCII.
    pub name: HeaderName,
    pub value: Arc<str>,
}

/// How a client finds the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// No body and no header about its length: implied by the status.
    NoBody,
    Length(u64),
    Chunks,
    /// The connection ends with the body, since HTTP/1.0 has no chunks.
    Close,
}

impl BodyEnd {
    pub fn of(status: StatusCode, size: BodySize, version: Version) -> Self {
        match size {
            _ if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED => Self::NoBody,
            BodySize::None => Self::NoBody,
            BodySize::Sized(length) => Self::Length(length),
            BodySize::Stream if version < Version::HTTP_11 => Self::Close,
            BodySize::Stream => Self::Chunks,
        }
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self { response, is_last: false, common: None }
    }
}

impl Reply {
    pub fn write_head(&self, out: &mut BytesMut, version: Version, end: BodyEnd, stays_open: bool, date: &DateLine) {
        out.reserve(HEAD_BYTES);
        let status = self.response.status;
        let is_1_0 = version < Version::HTTP_11;
        let protocol = if is_1_0 { "HTTP/1.0 " } else { "HTTP/1.1 " };
        let reason = status.canonical_reason().unwrap_or_default();
        put(out, &[protocol, status.as_str(), " ", reason, "\r\n"]);
        match end {
            BodyEnd::Length(length) => put(out, &["content-length: ", itoa::Buffer::new().format(length), "\r\n"]),
            BodyEnd::Chunks => put(out, &["transfer-encoding: chunked\r\n"]),
            BodyEnd::NoBody | BodyEnd::Close => {}
        }
        match stays_open {
            true if is_1_0 => put(out, &["connection: keep-alive\r\n"]),
            false if !is_1_0 => put(out, &["connection: close\r\n"]),
            _ => {}
        }
        if let Some(content_type) = self.response.content_type {
            put(out, &["content-type: ", content_type, "\r\n"]);
        }
        if let Some(location) = &self.response.location {
            put(out, &["location: ", location, "\r\n"]);
        }
        out.extend_from_slice(&self.response.header_lines);
        if let Some(Common { lines, name, value }) = &self.common {
            put(out, &[lines, name.as_str(), ": ", value, "\r\n"]);
        }
        date.put(out);
        put(out, &["\r\n"]);
    }
}

fn put(out: &mut BytesMut, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// Writes a chunk. Skips empty pieces, because an empty chunk would end the body.
pub fn put_chunk(out: &mut BytesMut, piece: &[u8]) {
    if !piece.is_empty() {
        write!(out, "{:X}\r\n", piece.len()).expect("a buffer takes everything");
        out.extend_from_slice(piece);
        put(out, &["\r\n"]);
    }
}

/// Ends a chunked body.
pub fn put_last_chunk(out: &mut BytesMut) {
    put(out, &["0\r\n\r\n"]);
}

/// The `date` header, formatted once per second.
#[derive(Default)]
pub struct DateLine(RefCell<(i64, String)>);

impl DateLine {
    fn put(&self, out: &mut BytesMut) {
        // The coarse clock is exact enough for seconds, and three times as fast as the precise one.
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        let (of, line) = &mut *self.0.borrow_mut();
        if *of != second {
            *of = second;
            *line = Self::line(second);
        }
        put(out, &[line]);
    }

    fn line(second: i64) -> String {
        let date =
            Timestamp::from_second(second).and_then(|now| DateTimePrinter::new().timestamp_to_rfc9110_string(&now));
        date.map_or_else(|_| String::new(), |date| format!("date: {date}\r\n"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use actix_http::header::{ETAG, SERVER};

    use super::*;

    fn head(reply: &Reply, version: Version, stays_open: bool) -> String {
        let mut out = BytesMut::new();
        let end = BodyEnd::of(reply.response.status, reply.response.body.size(), version);
        reply.write_head(&mut out, version, end, stays_open, &DateLine::default());
        let head = String::from_utf8(out.to_vec()).unwrap();
        let (head, date) = head.split_once("date: ").unwrap();
        assert!(date.ends_with(" GMT\r\n\r\n") && date.len() == 33, "{date}");
        head.to_owned()
    }

    #[test]
    fn a_head_says_where_the_body_ends_and_whether_the_connection_does() {
        let reply = |response: Response| Reply::from(response);
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        let text = reply(Response::new(StatusCode::CREATED).with(ETAG, "\"1\"").body("abc"));
        assert_eq!(head(&text, new, true), "HTTP/1.1 201 Created\r\ncontent-length: 3\r\netag: \"1\"\r\n");
        assert!(head(&text, new, false).contains("\r\nconnection: close\r\n"));
        assert!(
            head(&text, old, true)
                .starts_with("HTTP/1.0 201 Created\r\ncontent-length: 3\r\nconnection: keep-alive\r\n")
        );
        assert!(!head(&text, old, false).contains("connection"));
        let made = Response::new(StatusCode::CREATED).of_type("a/b").with(ETAG, "\"1\"").at("/c".to_owned());
        assert!(head(&reply(made), new, true).ends_with("content-type: a/b\r\nlocation: /c\r\netag: \"1\"\r\n"));
        for empty in [Response::no_content(), Response::new(StatusCode::NOT_MODIFIED)] {
            assert_eq!(head(&reply(empty), new, true).lines().count(), 1);
        }
        let stream =
            Response::new(StatusCode::OK).streaming(futures_util::stream::empty::<Result<_, std::io::Error>>());
        assert!(head(&reply(stream), new, true).starts_with("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"));
    }

    #[test]
    fn the_common_lines_come_after_those_of_the_answer() {
        let common = Some(Common { lines: "x-a: 1\r\n", name: SERVER, value: "mine".into() });
        let head = head(&Reply { common, ..Response::no_content().with(ETAG, "\"1\"").into() }, Version::HTTP_11, true);
        assert!(head.ends_with("\r\netag: \"1\"\r\nx-a: 1\r\nserver: mine\r\n"), "{head}");
    }

    #[test]
    fn a_date_is_as_in_the_standard() {
        assert_eq!(DateLine::line(784_111_777), "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }
}
