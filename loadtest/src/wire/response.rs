//! Owns the reading of an HTTP/1.1 answer's head, as far as a load generator needs it: the status, the length of the
//! body, and whether the server will close the connection.

use memchr::memchr;

/// More than any sane head, little enough that a server gone wild cannot fill our memory.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// No answer that we ask for comes near it.
const MAX_BODY_BYTES: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub body_start: usize,
    pub body_length: usize,
    pub closes: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    #[error("the answer does not begin with an HTTP/1.1 status line")]
    StatusLine,
    #[error("the answer has a header line without a colon")]
    HeaderLine,
    #[error("the answer's head is longer than {MAX_HEAD_BYTES} bytes")]
    HeadTooLong,
    #[error("the answer has no Content-Length")]
    MissingLength,
    #[error("the answer's Content-Length is not one number")]
    BadLength,
    #[error("the answer's body is longer than {MAX_BODY_BYTES} bytes")]
    BodyTooLong,
    #[error("the answer has a Transfer-Encoding, which this client does not read")]
    TransferEncoding,
    #[error("the answer is an interim {0}, which nobody asked for")]
    Interim(u16),
}

/// None while the head is still incomplete. A head that came in pieces is read from its start again: that is rare.
pub fn parse_head(received: &[u8]) -> Result<Option<Head>, ResponseError> {
    let Some((status_line, mut position)) = next_line(received, 0) else {
        return incomplete(received);
    };
    let status = parse_status(status_line)?;
    let mut length = None;
    let mut closes = false;
    loop {
        let Some((line, after)) = next_line(received, position) else {
            return incomplete(received);
        };
        position = after;
        if line.is_empty() {
            break;
        }
        let colon = memchr(b':', line).ok_or(ResponseError::HeaderLine)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = parse_length(value)?;
            if length.is_some_and(|earlier| earlier != number) {
                return Err(ResponseError::BadLength);
            }
            length = Some(number);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Err(ResponseError::TransferEncoding);
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    let body_length = match (status, length) {
        // These two have no body, even where they say how long it would have been.
        (204 | 304, _) => 0,
        (100..200, _) => return Err(ResponseError::Interim(status)),
        (_, Some(length)) => length,
        (_, None) => return Err(ResponseError::MissingLength),
    };
    Ok(Some(Head { status, body_start: position, body_length, closes }))
}

fn next_line(received: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = &received[from..];
    let end = memchr(b'\n', rest)?;
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    Some((line, from + end + 1))
}

fn incomplete(received: &[u8]) -> Result<Option<Head>, ResponseError> {
    const START: &[u8] = b"HTTP/1.1 ";
    let begun = received.len().min(START.len());
    if received[..begun] != START[..begun] {
        // Said at once: what speaks another protocol may never send a line's end.
        Err(ResponseError::StatusLine)
    } else if received.len() > MAX_HEAD_BYTES {
        Err(ResponseError::HeadTooLong)
    } else {
        Ok(None)
    }
}

fn parse_status(line: &[u8]) -> Result<u16, ResponseError> {
    match line.strip_prefix(b"HTTP/1.1 ") {
        Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..])
            if rest.is_empty() || rest.starts_with(b" ") =>
        {
            Ok([a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err(ResponseError::StatusLine),
    }
}

/// `str::parse` would let a sign through.
fn parse_length(value: &[u8]) -> Result<usize, ResponseError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(ResponseError::BadLength);
    }
    let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    length.filter(|length| *length <= MAX_BODY_BYTES).ok_or(ResponseError::BodyTooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_status_and_place_of_the_body() {
        let answer = b"HTTP/1.1 201 Created\r\nX-A: b:c\r\ncontent-LENGTH:  5 \r\n\r\nhello";
        let head = Head { status: 201, body_start: answer.len() - 5, body_length: 5, closes: false };
        assert_eq!(parse_head(answer), Ok(Some(head)));
    }

    #[test]
    fn every_cut_off_head_is_incomplete_and_never_wrong() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\n";
        for cut in 0..head.len() {
            assert_eq!(parse_head(&head[..cut]), Ok(None), "cut at {cut}");
        }
        assert!(matches!(parse_head(head), Ok(Some(Head { body_length: 12, .. }))));
    }

    #[test]
    fn a_closing_connection_is_noticed() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        assert!(matches!(parse_head(answer), Ok(Some(Head { status: 503, closes: true, .. }))));
    }

    #[test]
    fn an_answer_without_content_needs_no_length() {
        assert!(matches!(parse_head(b"HTTP/1.1 204 \r\n\r\n"), Ok(Some(Head { body_length: 0, .. }))));
        assert!(matches!(
            parse_head(b"HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n"),
            Ok(Some(Head { body_length: 0, .. }))
        ));
    }

    #[test]
    fn an_answer_that_cannot_be_read_says_why() {
        for (answer, error) in [
            ("HTTP/1.1 200 OK\r\n\r\n", ResponseError::MissingLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", ResponseError::BodyTooLong),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", ResponseError::BodyTooLong),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ResponseError::TransferEncoding),
            ("HTTP/1.1 100 Continue\r\n\r\n", ResponseError::Interim(100)),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", ResponseError::HeaderLine),
            ("HTTP/1.0 200 OK\r\n", ResponseError::StatusLine),
            ("HTTP/1.1 2000\r\n", ResponseError::StatusLine),
            ("SSH-2.0-x", ResponseError::StatusLine),
        ] {
            assert_eq!(parse_head(answer.as_bytes()), Err(error), "{answer:?}");
        }
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        endless.resize(MAX_HEAD_BYTES + 1, b'a');
        assert_eq!(parse_head(&endless), Err(ResponseError::HeadTooLong));
    }
}
