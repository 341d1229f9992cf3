//! An answer as a handler makes it: its status, its headers as they are sent, and its body.

use std::error::Error;

use actix_web::body::{BodyStream, BoxBody, MessageBody};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderName};
use actix_web::web::Bytes;
use futures_util::Stream;

/// Room for the headers of a usual answer.
const HEADER_BYTES: usize = 256;

pub struct Response {
    pub status: StatusCode,
    pub body: BoxBody,
    /// The headers as they are sent, line by line; without those that say where the body ends.
    pub header_lines: Vec<u8>,
    /// Another node has made it, with the headers that every answer has.
    pub is_passed_on: bool,
}

impl Response {
    pub fn new(status: StatusCode) -> Self {
        Self { status, body: BoxBody::new(()), header_lines: Vec::new(), is_passed_on: false }
    }

    pub fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT)
    }

    /// 200 with a body of this media type.
    pub fn ok(content_type: &str) -> Self {
        Self::new(StatusCode::OK).with(CONTENT_TYPE, content_type)
    }

    /// With one more header. A value that would end its line is left out with its name.
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

    pub fn body(self, body: impl MessageBody + 'static) -> Self {
        Self { body: BoxBody::new(body), ..self }
    }

    pub fn streaming<E: Into<Box<dyn Error>> + 'static>(
        self,
        pieces: impl Stream<Item = Result<Bytes, E>> + 'static,
    ) -> Self {
        self.body(BodyStream::new(pieces))
    }
}

fn may_stand_in_a_header(value: &[u8]) -> bool {
    // Without a branch for each byte.
    value.iter().fold(true, |all, byte| all & ((*byte >= b' ') & (*byte != 0x7f) | (*byte == b'\t')))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{ETAG, LOCATION};

    use super::*;

    #[test]
    fn headers_are_kept_as_they_are_sent() {
        let response = Response::ok("text/plain").with(LOCATION, "/é\t~").with(ETAG, String::from("\"1\""));
        let lines = "content-type: text/plain\r\nlocation: /é\t~\r\netag: \"1\"\r\n";
        assert_eq!(response.header_lines, lines.as_bytes());
        assert_eq!(response.status, StatusCode::OK);
    }

    #[test]
    fn no_value_can_begin_a_header_of_its_own() {
        for value in ["/\r\nset-cookie: a", "\n", "\0", "\x7f", "\x1b[0m"] {
            assert!(Response::no_content().with(LOCATION, value).header_lines.is_empty(), "{value:?}");
        }
    }
}
