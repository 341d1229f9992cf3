//! The web server's side of a connection: it reads and writes through this. Bounds what a client may send ahead of its
//! answers.
//!
//! The web server parses every request that it finds in what it has read, and keeps each in several KiB until its turn
//! comes; and when it has read 128 KiB that it cannot use yet, it asks again and again. So it gets few requests at a
//! time, and nothing more while the client does not read, or while a request is being answered and enough is waiting.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::dev::Extensions;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::Transport;

/// Requests that the web server gets at a time.
const REQUESTS_MAX: usize = 16;
/// So many bytes hold no more requests than the web server may get.
const FEW_BYTES: usize = 512;
/// Bytes that are read in one turn of the web server.
const TURN_MAX: usize = 8 * 1024;
/// Bytes that are read ahead while a request is being answered.
const AHEAD_MAX: usize = 16 * 1024;

pub struct Stream<T> {
    transport: T,
    /// Read from the transport, and not yet by the web server.
    rest: Vec<u8>,
    /// Bytes read in this turn of the web server.
    turn: usize,
    /// Bytes read since the connection was idle, and heads of requests in them.
    ahead: usize,
    requests: usize,
}

impl<T: Transport> Stream<T> {
    pub fn new(transport: T) -> Self {
        Self { transport, rest: Vec::new(), turn: 0, ahead: 0, requests: 0 }
    }

    /// Makes the connection available to its requests.
    pub fn introduce(&self, data: &mut Extensions) {
        data.insert(self.transport.connection().clone());
    }

    fn must_wait(&mut self) -> bool {
        let connection = self.transport.connection();
        if connection.is_unread() {
            return true;
        }
        if !connection.is_busy() {
            (self.ahead, self.requests) = (0, 0);
        }
        (self.ahead >= AHEAD_MAX || self.requests >= REQUESTS_MAX) && !connection.is_receiving()
    }

    /// Reads from the rest, then from the transport.
    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.rest.is_empty() {
            let length = buffer.remaining().min(self.rest.len());
            buffer.put_slice(&self.rest[..length]);
            self.rest.drain(..length);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.transport).poll_read(context, buffer)
    }
}

impl<T: Transport> AsyncRead for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.must_wait() {
            self.turn = 0;
            self.transport.connection().hold(context);
            return Poll::Pending;
        }
        if self.turn >= TURN_MAX {
            self.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = self.read(context, buffer);
        let bytes = &buffer.filled()[before..];
        let is_ahead = self.transport.connection().is_busy();
        if !is_ahead && !bytes.is_empty() {
            self.transport.connection().note_head();
        }
        if !matches!(read, Poll::Ready(Ok(()))) {
            self.turn = 0;
        } else if is_ahead || bytes.len() > FEW_BYTES {
            let piece = Piece::of(bytes, REQUESTS_MAX.saturating_sub(self.requests).max(1));
            if is_ahead && piece.requests > 0 {
                // The web server does not parse what it has no room for, and would forget it.
                self.transport.connection().hold(context);
            }
            self.turn += piece.length;
            self.ahead += piece.length;
            self.requests += piece.requests;
            if piece.length < bytes.len() {
                // What was read last comes before what is left from earlier.
                self.rest = [&bytes[piece.length..], &self.rest].concat();
                self.turn = TURN_MAX;
                buffer.set_filled(before + piece.length);
            }
        } else {
            self.turn += bytes.len();
            self.ahead += bytes.len();
        }
        read
    }
}

impl<T: Transport> AsyncWrite for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }
}

/// The first bytes of what was read, with so many heads of requests.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    length: usize,
    requests: usize,
}

impl Piece {
    /// Ends after that many empty lines, or where the bytes do. (In a body, an empty line is not the end of a head; that only
    /// makes the piece smaller.)
    fn of(bytes: &[u8], requests_max: usize) -> Self {
        let mut requests = 0;
        let mut line = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            requests += usize::from(matches!(bytes[line..end], [] | [b'\r']));
            line = end + 1;
            if requests == requests_max {
                return Self { length: line, requests };
            }
        }
        Self { length: bytes.len(), requests }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::poll_fn;
    use std::io::Write;
    use std::sync::Arc;

    use actix_web::rt::net::TcpStream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http::connection::{Connection, Tally};
    use crate::http::socket::Socket;
    use crate::http::transport::Plain;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    fn pair() -> (Stream<Plain>, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let socket = Socket::new(TcpStream::from_std(accepted).unwrap());
        (Stream::new(Plain::new(Arc::new(Connection::new(socket, Tally::new())))), client)
    }

    /// What the web server gets in one turn: it reads until there is nothing more for now.
    async fn turn(stream: &mut Stream<Plain>) -> Vec<u8> {
        let mut got = Vec::new();
        poll_fn(|context| {
            loop {
                let mut bytes = [0; 8 * 1024];
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                    Poll::Ready(read) => read.unwrap(),
                    Poll::Pending if got.is_empty() => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(()),
                }
                got.extend_from_slice(buffer.filled());
            }
        })
        .await;
        got
    }

    /// Whether nothing is read for now although something has been sent.
    fn is_held(stream: &mut Stream<Plain>) -> bool {
        let mut bytes = [0; 1];
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut bytes)).is_pending()
    }

    #[test]
    fn a_piece_ends_after_so_many_heads() {
        let three = REQUEST.repeat(3);
        for (bytes, max, length, requests) in [
            (&three[..], 2, 2 * REQUEST.len(), 2),
            (&three, 4, three.len(), 3),
            (b"GET / HTTP/1.0\n\nGET /", 1, 16, 1),
            (b"GET / HTTP/1.1\r\nHost: x\r\n", 1, 25, 0),
            (b"", 1, 0, 0),
        ] {
            assert_eq!(Piece::of(bytes, max), Piece { length, requests });
        }
    }

    #[actix::test]
    async fn requests_sent_together_arrive_a_few_at_a_time_and_in_full() {
        let (mut stream, mut client) = pair();
        let request = |n: u32| format!("GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes();
        let sent: Vec<u8> = (0..900).flat_map(request).collect();
        let sending = std::thread::spawn({
            let sent = sent.clone();
            move || client.write_all(&sent).map(|()| client)
        });
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let piece = turn(&mut stream).await;
            assert!(Piece::of(&piece, usize::MAX).requests <= FEW_BYTES / REQUEST.len() + REQUESTS_MAX);
            got.extend(piece);
        }
        assert!(got == sent, "nothing is lost, repeated or moved");
        sending.join().unwrap().unwrap();
    }

    #[actix::test]
    async fn while_a_request_is_answered_little_more_is_read_unless_it_is_its_body() {
        let (mut stream, mut client) = pair();
        let connection = stream.transport.connection().clone();
        let request = connection.request_began();
        client.write_all(&[b'x'; 64 * 1024]).unwrap();
        let mut read = 0;
        while read < AHEAD_MAX {
            read += turn(&mut stream).await.len();
        }
        assert!(is_held(&mut stream) && read <= AHEAD_MAX + TURN_MAX, "{read}");
        connection.receive(true);
        read += turn(&mut stream).await.len();
        connection.receive(false);
        assert!(is_held(&mut stream));
        drop(request);
        while read < 64 * 1024 {
            read += turn(&mut stream).await.len();
        }
    }

    #[actix::test]
    async fn behind_a_request_that_is_being_answered_few_others_are_read() {
        let (mut stream, mut client) = pair();
        let request = stream.transport.connection().request_began();
        client.write_all(&REQUEST.repeat(100)).unwrap();
        let mut got = turn(&mut stream).await;
        assert!(Piece::of(&got, usize::MAX).requests <= REQUESTS_MAX && is_held(&mut stream));
        drop(request);
        while got.len() < 100 * REQUEST.len() {
            got.extend(turn(&mut stream).await);
        }
    }

    #[actix::test]
    async fn a_client_that_does_not_read_is_not_read_from_until_it_does() {
        let (mut stream, mut client) = pair();
        let connection = stream.transport.connection().clone();
        client.write_all(REQUEST).unwrap();
        stream.write_all(&[0]).await.unwrap();
        let blocked = |context: &mut Context<'_>, stream: &mut Stream<Plain>| {
            while Pin::new(&mut *stream).poll_write(context, &[0; 64 * 1024]).is_ready() {}
            Poll::Ready(())
        };
        poll_fn(|context| blocked(context, &mut stream)).await;
        assert!(connection.is_unread() && is_held(&mut stream));
        let reading = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()));
        stream.write_all(&[0]).await.unwrap();
        let mut got = vec![0; REQUEST.len()];
        stream.read_exact(&mut got).await.unwrap();
        assert_eq!(got, REQUEST);
        drop(stream);
        reading.join().unwrap().unwrap();
    }
}
