//! A request as its handler sees it, with the segments of its path. Cheap to clone.

use std::any::Any;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::{Method, Uri};
use actix_router::Url;

use super::connection::Connection;
use super::head::{BodyLength, Head, HeadError, Headers};

/// Larger buffers are not kept for the connection's next request.
const KEPT_BYTES: usize = 8 * 1024;

#[derive(Clone)]
pub struct Request(Rc<Parts>);

struct Parts {
    head: Head,
    /// The decoded path, if it differs from the undecoded one.
    decoded: Option<Url>,
    /// The segments of the decoded path.
    segments: Segments,
    connection: Option<Arc<Connection>>,
    extension: OnceCell<Box<dyn Any>>,
}

impl Request {
    /// An empty request, for reading the requests of this connection, if there is one.
    pub fn unread(connection: Option<Arc<Connection>>) -> Self {
        let (head, segments) = (Head::default(), Segments::default());
        Self(Rc::new(Parts { head, decoded: None, segments, connection, extension: OnceCell::new() }))
    }

    /// Replaces this request by the one whose head is at the beginning of these bytes, and returns the head's length;
    /// `None` if the head is incomplete. The previous request's buffers are reused, unless someone still holds that
    /// request, which then stays unchanged.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        if Rc::strong_count(&self.0) > 1 {
            *self = Self::unread(self.0.connection.clone());
        }
        let parts = Rc::get_mut(&mut self.0).expect("nobody else holds it, as was just made sure");
        let Some(length) = parts.head.read(bytes)? else { return Ok(None) };
        let path = parts.head.path();
        let is_encoded = memchr::memchr(b'%', path.as_bytes()).is_some();
        parts.decoded = if is_encoded { Uri::try_from(path).ok().map(Url::new) } else { None };
        parts.segments = Segments::of(parts.decoded_path());
        parts.extension = OnceCell::new();
        Ok(Some(length))
    }

    /// Frees large buffers, for a connection that waits for its next request.
    pub fn let_go_of_large(&mut self) {
        if self.0.head.capacity() > KEPT_BYTES {
            *self = Self::unread(self.0.connection.clone());
        }
    }

    pub fn head(&self) -> &Head {
        &self.0.head
    }

    pub fn method(&self) -> &Method {
        &self.0.head.method
    }

    pub fn headers(&self) -> &Headers {
        &self.0.head.headers
    }

    /// The undecoded path.
    pub fn path(&self) -> &str {
        self.0.head.path()
    }

    /// The decoded path. Encoded slashes stay encoded, since they would change the segments.
    pub fn decoded_path(&self) -> &str {
        self.0.decoded_path()
    }

    /// The segments of the decoded path.
    pub fn segments(&self) -> Path<'_> {
        Path::new(self.decoded_path(), &self.0.segments)
    }

    pub fn query_string(&self) -> &str {
        self.0.head.query()
    }

    pub fn path_and_query(&self) -> &str {
        self.0.head.path_and_query()
    }

    /// The length of the body; 0 if it is chunked, since the length is then unknown.
    pub fn body_length(&self) -> u64 {
        match self.0.head.body {
            BodyLength::Bytes(length) => length,
            BodyLength::Chunked => 0,
        }
    }

    pub fn connection(&self) -> Option<&Arc<Connection>> {
        self.0.connection.as_ref()
    }

    /// The value that the server attached to the request, if it has this type.
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.0.extension.get()?.downcast_ref()
    }

    /// Attaches a value to this request and its clones. Only the first value is kept.
    pub fn with_extension<T: 'static>(self, value: T) -> Self {
        self.0.extension.get_or_init(|| Box::new(value));
        self
    }
}

impl Parts {
    fn decoded_path(&self) -> &str {
        self.decoded.as_ref().map_or_else(|| self.head.path(), Url::path)
    }
}

impl Request {
    /// A `GET` request with this target, for tests of handlers; `None` if the target is invalid.
    pub fn get(target: &str) -> Option<Self> {
        let mut request = Self::unread(None);
        let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n");
        request.read(head.as_bytes()).ok()??;
        Some(request)
    }
}

/// The maximum number of recorded segments; every route has fewer.
pub const SEGMENTS_MAX: usize = 16;

/// The ends of a path's segments, found in one pass.
#[derive(Default)]
pub struct Segments {
    ends: [usize; SEGMENTS_MAX],
    count: usize,
}

/// A path with its segments: `/a/b` has three, the first of which is empty.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    pub text: &'p str,
    /// The end of each recorded segment.
    pub ends: &'p [usize],
}

impl Segments {
    pub fn of(path: &str) -> Self {
        let mut segments = Self::default();
        for (place, byte) in path.bytes().enumerate() {
            if byte == b'/' {
                segments.note(place);
            }
        }
        segments.note(path.len());
        segments
    }

    fn note(&mut self, end: usize) {
        if let Some(noted) = self.ends.get_mut(self.count) {
            *noted = end;
            self.count += 1;
        }
    }
}

impl<'p> Path<'p> {
    /// `segments` must belong to `text`.
    pub fn new(text: &'p str, segments: &'p Segments) -> Self {
        Self { text, ends: &segments.ends[..segments.count] }
    }

    pub fn segment(self, number: usize) -> Option<&'p str> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        self.text.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_is_decoded_but_for_its_slashes() {
        for (sent, decoded) in
            [("/a/b", "/a/b"), ("/%61/b%20c?x=%61", "/a/b c"), ("/a%2Fb%2f%25", "/a%2Fb%2f%25"), ("/a%", "/a%")]
        {
            assert_eq!(Request::get(sent).unwrap().decoded_path(), decoded, "{sent}");
        }
    }

    fn next(request: &mut Request, head: &str) {
        assert_eq!(request.read(head.as_bytes()).unwrap(), Some(head.len()));
    }

    #[test]
    fn a_request_has_nothing_of_the_one_before_it() {
        let mut request = Request::unread(None);
        next(&mut request, "POST /%61?b=c HTTP/1.0\r\nhost: x\r\nx-a: 1\r\ncontent-length: 7\r\n\r\n");
        assert_eq!(request.clone().with_extension(7_u8).with_extension(8_u8).extension(), Some(&7_u8));
        assert_eq!(request.extension::<u16>(), None, "that is of another type");
        let buffers = Rc::as_ptr(&request.0);
        next(&mut request, "GET /d HTTP/1.1\r\nHost: y\r\n\r\n");
        assert_eq!(Rc::as_ptr(&request.0), buffers);
        assert_eq!((request.method(), request.path_and_query(), request.decoded_path()), (&Method::GET, "/d", "/d"));
        assert_eq!((request.query_string(), request.body_length()), ("", 0));
        assert_eq!(request.headers().iter().collect::<Vec<_>>(), [(&b"Host"[..], &b"y"[..])]);
        assert_eq!(request.extension::<u8>(), None);
        assert_eq!((request.segments().segment(1), request.segments().segment(2)), (Some("d"), None));
    }

    #[test]
    fn a_request_that_is_held_stays_as_it_was_while_the_next_is_read() {
        let mut request = Request::unread(None);
        next(&mut request, "GET /a HTTP/1.1\r\nhost: x\r\n\r\n");
        let held = request.clone();
        assert_eq!(request.read(b"GET /b HTT"), Ok(None), "it has not come to its end");
        next(&mut request, "GET /b HTTP/1.1\r\nhost: y\r\n\r\n");
        assert_eq!((held.path(), held.headers().iter().collect::<Vec<_>>()), ("/a", vec![(&b"host"[..], &b"x"[..])]));
        assert_eq!(request.path(), "/b");
    }

    #[test]
    fn large_buffers_are_not_kept() {
        let mut request = Request::unread(None);
        next(&mut request, "GET /a HTTP/1.1\r\nhost: x\r\n\r\n");
        let buffers = Rc::as_ptr(&request.0);
        request.let_go_of_large();
        assert_eq!(Rc::as_ptr(&request.0), buffers);
        for large in [format!("/?{}", "x".repeat(KEPT_BYTES)), format!("/ HTTP/1.1\r\nx-a: {}", "x".repeat(KEPT_BYTES))]
        {
            let head = format!("GET {large} HTTP/1.1\r\nhost: x\r\n\r\n");
            next(&mut request, &head);
            assert!(request.head().capacity() > KEPT_BYTES);
            request.let_go_of_large();
            assert_eq!(request.head().capacity(), 0);
        }
    }

    #[test]
    fn segments_are_what_is_between_slashes() {
        let many = "/a".repeat(SEGMENTS_MAX + 3);
        for text in ["/", "", "*", "/a", "a/b", "/books/moby//", "/é/ü", many.as_str()] {
            let segments = Segments::of(text);
            let path = Path::new(text, &segments);
            let expected: Vec<_> = text.split('/').take(SEGMENTS_MAX).collect();
            assert_eq!(path.ends.len(), expected.len(), "{text}");
            for number in 0..=SEGMENTS_MAX {
                assert_eq!(path.segment(number), expected.get(number).copied(), "{number} of {text}");
            }
        }
    }
}
