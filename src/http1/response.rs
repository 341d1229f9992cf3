//! A handler's response: the status, the headers in the form in which they are sent, and the body.

use std::error::Error;

use actix_http::StatusCode;
use actix_http::body::{BodySize, BodyStream, BoxBody, MessageBody};
use actix_http::header::HeaderName;
use bytes::Bytes;
use futures_util::Stream;

/// Room for the other headers of a typical response.
const HEADER_BYTES: usize = 256;

pub struct Response {
    pub status: StatusCode,
    pub body: Body,
    /// The media type of the body.
    pub content_type: Option<&'static str>,
    /// Set by [`Response::at`], which checks it.
    pub location: Option<String>,
    /// The other headers, as the lines to send, without those that determine the end of the body.
    pub header_lines: Vec<u8>,
    /// Whether another server created the response, which then has the common headers already.
    pub is_passed_on: bool,
}

pub enum Body {
    /// Rendered into a buffer of [`spare_buffer`](super::spare_buffer), which is returned once the answer is sent.
    Rendered(Vec<u8>),
    Other(BoxBody),
}

impl Response {
    pub fn new(status: StatusCode) -> Self {
        let body = Body::Rendered(Vec::new());
        Self { status, body, content_type: None, location: None, header_lines: Vec::new(), is_passed_on: false }
    }

    pub fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT)
    }

    /// 200 with a body of this media type.
    pub fn ok(content_type: &'static str) -> Self {
        Self::new(StatusCode::OK).of_type(content_type)
    }

    pub fn of_type(self, content_type: &'static str) -> Self {
        Self { content_type: Some(content_type), ..self }
    }

    /// Adds the address of the created resource. A value that would break the line is left out.
    pub fn at(self, location: String) -> Self {
        Self { location: Some(location).filter(|location| may_stand_in_a_header(location.as_bytes())), ..self }
    }

    /// Adds a header. If its value would break the line, the header is dropped.
    pub fn with(mut self, name: HeaderName, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        if may_stand_in_a_header(value) {
            let lines = &mut self.header_lines;
            let length = name.as_str().len() + value.len() + ": \r\n".len();
            lines.reserve(if lines.is_empty() { HEADER_BYTES.max(length) } else { length });
            for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        self
    }

    pub fn rendered(self, body: Vec<u8>) -> Self {
        Self { body: Body::Rendered(body), ..self }
    }

    pub fn body(self, body: impl MessageBody + 'static) -> Self {
        Self { body: Body::Other(BoxBody::new(body)), ..self }
    }

    pub fn streaming<E: Into<Box<dyn Error>> + 'static>(
        self,
        pieces: impl Stream<Item = Result<Bytes, E>> + 'static,
    ) -> Self {
        self.body(BodyStream::new(pieces))
    }
}

impl Body {
    pub fn size(&self) -> BodySize {
        match self {
            Self::Rendered(bytes) => bytes.size(),
            Self::Other(body) => body.size(),
        }
    }

    pub fn boxed(self) -> BoxBody {
        match self {
            Self::Rendered(bytes) => BoxBody::new(bytes),
            Self::Other(body) => body,
        }
    }
}

fn may_stand_in_a_header(value: &[u8]) -> bool {
    // Branch-free.
    value.iter().fold(true, |all, byte| all & ((*byte >= b' ') & (*byte != 0x7f) | (*byte == b'\t')))
}

#[cfg(test)]
mod tests {
    use actix_http::header::{ETAG, LOCATION};

    use super::*;

    #[test]
    fn headers_are_kept_as_they_are_sent() {
        let response = Response::ok("text/plain").with(LOCATION, "/é\t~").with(ETAG, String::from("\"1\""));
        let lines = "location: /é\t~\r\netag: \"1\"\r\n";
        assert_eq!(response.header_lines, lines.as_bytes());
        assert_eq!((response.status, response.content_type), (StatusCode::OK, Some("text/plain")));
        assert_eq!(response.at("/é\t~".to_owned()).location.as_deref(), Some("/é\t~"));
    }

    #[test]
    fn no_value_can_begin_a_header_of_its_own() {
        for value in ["/\r\nset-cookie: a", "\n", "\0", "\x7f", "\x1b[0m"] {
            assert!(Response::no_content().with(LOCATION, value).header_lines.is_empty(), "{value:?}");
            assert_eq!(Response::no_content().at(value.to_owned()).location, None, "{value:?}");
        }
    }
}
