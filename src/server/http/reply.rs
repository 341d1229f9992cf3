//! An answer on its way to the client: the head that is written for it, with the headers that tell browsers and caches how to
//! treat it, and how its body is sent.

use std::cell::RefCell;
use std::fmt::Write;
use std::time::Duration;

use actix_web::body::BodySize;
use actix_web::http::header::{HOST, STRICT_TRANSPORT_SECURITY};
use actix_web::http::{StatusCode, Version};
use actix_web::web::BytesMut;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use rustix::time::{ClockId, clock_gettime};

use super::head::Headers;
use super::request::{REQUEST_ID, RequestId};
use super::response::Response;

/// Room for the head of a usual answer.
const HEAD_BYTES: usize = 1024;

pub struct Reply {
    pub response: Response,
    /// The connection is closed after it.
    pub is_last: bool,
    /// Headers of every answer, except on the operator's socket.
    pub common: Option<Common>,
}

pub struct Common {
    pub content: Content,
    pub id: RequestId,
}

/// How a client knows where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// There is none, and no header says so: the status does.
    NoBody,
    Length(u64),
    Chunks,
    /// HTTP/1.0 has no chunks.
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
        if let Some(Common { content, id }) = &self.common {
            put(out, &[content.protection(), REQUEST_ID.as_str(), ": ", id, "\r\n"]);
        }
        date.put(out);
        put(out, &["\r\n"]);
    }
}

fn put(out: &mut BytesMut, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// One piece of a body in chunks; an empty one would be the last.
pub fn put_chunk(out: &mut BytesMut, piece: &[u8]) {
    if !piece.is_empty() {
        write!(out, "{:X}\r\n", piece.len()).expect("a buffer takes everything");
        out.extend_from_slice(piece);
        put(out, &["\r\n"]);
    }
}

/// The end of a body in chunks.
pub fn put_last_chunk(out: &mut BytesMut) {
    put(out, &["0\r\n\r\n"]);
}

/// The header `date`, made once a second.
#[derive(Default)]
pub struct DateLine(RefCell<(i64, String)>);

impl DateLine {
    fn put(&self, out: &mut BytesMut) {
        // Exact enough for a second, and three times as fast as the exact one.
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

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// For one caller and one moment.
    Data,
    /// The same for everybody.
    Document,
    /// A page for browsers, with scripts and styles of its own.
    Page,
    /// The same with nothing inline; says itself how long it may be kept.
    Dashboard,
}

/// The lines of every answer, after its policy.
macro_rules! protecting {
    ($policy:literal $($caching:literal)?) => {
        concat!(
            "content-security-policy: ",
            $policy,
            "\r\nx-content-type-options: nosniff\r\nx-frame-options: DENY\r\nreferrer-policy: no-referrer\r\n",
            $($caching)?
        )
    };
}

/// Data is nothing to render. Tokens and secrets are shown in some answers, and all of them may be outdated in the next
/// moment: nobody is to keep them.
const DATA: &str = protecting!("default-src 'none'; frame-ancestors 'none'" "cache-control: no-store\r\n");
const DOCUMENT: &str = protecting!("default-src 'none'; frame-ancestors 'none'");
/// The explorer's scripts, styles and requests, all from this server. Its library sets styles and small pictures inline.
const PAGE: &str = protecting!(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
);
/// The dashboard's own scripts and styles, and nothing inline. Its scripts build the page from elements, never from text.
const DASHBOARD: &str = protecting!(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'"
);

impl Content {
    /// The lines of headers that protect it.
    pub fn protection(self) -> &'static str {
        match self {
            Content::Data => DATA,
            Content::Document => DOCUMENT,
            Content::Page => PAGE,
            Content::Dashboard => DASHBOARD,
        }
    }
}

/// What every answer over TLS has beyond that: browsers are not to come without TLS again.
#[derive(Clone)]
pub struct TransportSecurity {
    policy: Option<String>,
}

impl TransportSecurity {
    /// Browsers remember it for so long; zero: not at all.
    pub fn new(remembered: Duration) -> Self {
        Self { policy: (!remembered.is_zero()).then(|| format!("max-age={}", remembered.as_secs())) }
    }

    /// For the answer to a request with these headers.
    pub fn protect(&self, request: &Headers, answer: Response) -> Response {
        let host = request.text(&HOST);
        match self.policy.as_ref().filter(|_| !host.is_some_and(is_this_machine)) {
            Some(policy) => answer.with(STRICT_TRANSPORT_SECURITY, policy),
            None => answer,
        }
    }
}

/// Browsers would remember it for all ports of the name, and so for everything else that somebody develops on a machine.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use actix_web::http::header::ETAG;

    use super::*;
    use crate::http::head::Headers;

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
    fn every_answer_has_its_id_and_its_protection() {
        let given: Headers = [(REQUEST_ID, "mine")].into_iter().collect();
        let unsafe_id: Headers = [(REQUEST_ID, "a b")].into_iter().collect();
        for (headers, id) in [(&given, "x-request-id: mine\r\n"), (&unsafe_id, "x-request-id: req_")] {
            let common = Some(Common { content: Content::Data, id: RequestId::of(headers) });
            let head = head(&Reply { common, ..Response::new(StatusCode::OK).into() }, Version::HTTP_11, true);
            assert!(head.contains(id) && head.contains("\r\ncache-control: no-store\r\n"), "{head}");
        }
    }

    #[test]
    fn a_date_is_as_in_the_standard() {
        assert_eq!(DateLine::line(784_111_777), "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }

    #[test]
    fn only_names_of_this_machine_are_left_out() {
        for local in ["localhost", "localhost:8443", "LOCALHOST.:1", "lock.localhost"] {
            assert!(is_this_machine(local), "{local}");
        }
        for other in ["lock.example", "lock.example:8443", "localhost.example", "notlocalhost", "[::1]:8443", ""] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn a_policy_of_no_time_is_none() {
        assert_eq!(TransportSecurity::new(Duration::ZERO).policy, None);
        let year = TransportSecurity::new(Duration::from_secs(31_536_000));
        assert_eq!(year.policy, Some("max-age=31536000".to_owned()));
    }
}
