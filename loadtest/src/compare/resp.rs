//! The small part of Redis's protocol that two scripts need: commands out, one reply in.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Far more than any expected reply.
const MAX_REPLY_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Integer(i64),
    Text(Vec<u8>),
    Nil,
    Error(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RespError {
    #[error("cannot talk to Redis: {0}")]
    Io(#[from] io::Error),
    #[error("Redis closed the connection")]
    Closed,
    #[error("Redis sent a malformed reply")]
    Malformed,
    #[error("Redis said: {0}")]
    Refused(String),
    #[error("Redis answered with {0:?}")]
    Unexpected(Reply),
}

pub struct RespConnection<S> {
    stream: S,
    received: Vec<u8>,
    command: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RespConnection<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, received: Vec::with_capacity(256), command: Vec::with_capacity(256) }
    }

    pub async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, RespError> {
        encode(words, &mut self.command);
        self.stream.write_all(&self.command).await?;
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(RespError::Closed);
            }
            match parse(&self.received)? {
                Some((Reply::Error(error), _)) => return Err(RespError::Refused(error)),
                Some((reply, length)) if length == self.received.len() => return Ok(reply),
                // No more than one reply was requested.
                Some(_) => return Err(RespError::Malformed),
                None => {}
            }
        }
    }
}

fn encode(words: &[&[u8]], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        into.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}

/// The reply and its length; None while it is incomplete.
fn parse(received: &[u8]) -> Result<Option<(Reply, usize)>, RespError> {
    let Some(line_end) = memmem::find(received, b"\r\n") else {
        return if received.len() > MAX_REPLY_BYTES { Err(RespError::Malformed) } else { Ok(None) };
    };
    let after_line = line_end + 2;
    let Some((kind, line)) = received[..line_end].split_first() else { return Err(RespError::Malformed) };
    let reply = match kind {
        b':' => Reply::Integer(number(line)?),
        b'+' => Reply::Text(line.to_vec()),
        b'-' => Reply::Error(String::from_utf8_lossy(line).into_owned()),
        b'$' => return parse_bulk(received, number(line)?, after_line),
        _ => return Err(RespError::Malformed),
    };
    Ok(Some((reply, after_line)))
}

fn parse_bulk(received: &[u8], length: i64, start: usize) -> Result<Option<(Reply, usize)>, RespError> {
    if length == -1 {
        return Ok(Some((Reply::Nil, start)));
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_REPLY_BYTES);
    let end = start + length.ok_or(RespError::Malformed)?;
    match received.get(end..end + 2) {
        Some(b"\r\n") => Ok(Some((Reply::Text(received[start..end].to_vec()), end + 2))),
        Some(_) => Err(RespError::Malformed),
        None => Ok(None),
    }
}

fn number(line: &[u8]) -> Result<i64, RespError> {
    std::str::from_utf8(line).ok().and_then(|digits| digits.parse().ok()).ok_or(RespError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let mut bytes = b"left over".to_vec();
        encode(&[b"GET", b"a\r\nb"], &mut bytes);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn every_kind_of_reply_is_read_and_every_cut_off_one_is_incomplete() {
        for (bytes, expected) in [
            (&b":-42\r\n"[..], Reply::Integer(-42)),
            (b"+OK\r\n", Reply::Text(b"OK".to_vec())),
            (b"-NOSCRIPT gone\r\n", Reply::Error("NOSCRIPT gone".to_owned())),
            (b"$4\r\na\r\nb\r\n", Reply::Text(b"a\r\nb".to_vec())),
            (b"$0\r\n\r\n", Reply::Text(Vec::new())),
            (b"$-1\r\n", Reply::Nil),
        ] {
            for cut in 0..bytes.len() {
                assert!(matches!(parse(&bytes[..cut]), Ok(None)), "{expected:?} cut at {cut}");
            }
            let (reply, length) = parse(bytes).expect("well-formed").expect("complete");
            assert_eq!((reply, length), (expected, bytes.len()));
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b":x\r\n", b"$-2\r\n", b"$99999999\r\n", b"$1\r\nabc", b"\r\n"] {
            assert!(matches!(parse(bytes), Err(RespError::Malformed)), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[tokio::test]
    async fn a_reply_in_pieces_is_put_together_and_an_error_is_told() {
        let (client, mut server) = tokio::io::duplex(1024);
        let mut connection = RespConnection::over(client);
        let serving = tokio::spawn(async move {
            let mut command = [0; 64];
            for piece in [&b":4"[..], b"2\r\n", b"-ERR no\r\n"] {
                if piece != b"2\r\n" {
                    assert!(server.read(&mut command).await.expect("a command") > 0);
                }
                server.write_all(piece).await.expect("the client listens");
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(connection.ask(&[b"PING"]).await.expect("a reply"), Reply::Integer(42));
        assert!(matches!(connection.ask(&[b"PING"]).await, Err(RespError::Refused(why)) if why == "ERR no"));
        serving.await.expect("the server does not panic");
    }
}
