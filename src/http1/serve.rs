//! One connection: reads requests, passes them to the handler in order, and writes the answers.
//!
//! Replaces the web framework's dispatcher, which polls a handler twice before it waits, looks for the next head up to
//! six times per request, and hands out a body only after the first poll.
//!
//! A client that pipelines requests is limited: only a few bytes are read while a request is being answered, and none
//! while the client does not read its answers.

#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_http::ServiceConfig;
use actix_http::body::{BoxBody, MessageBody};
use actix_http::h1::{Codec, Message};
use actix_http::{Method, StatusCode, Version};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_util::codec::Decoder;

use super::connection::Connection;
use super::head::{AfterAnswer, BodyLength, Head, HeadError};
use super::incoming::{Feed, Incoming};
use super::reply::{BodyEnd, DateLine, Reply, put_chunk, put_last_chunk};
use super::request::Request;
use super::response::{self, Response};
use super::spare_buffer;

/// Maximum number of bytes read ahead while a request is being answered.
const AHEAD_MAX: usize = 16 * 1024;
/// Responses to pipelined requests are written together, up to this size.
const TOGETHER_MAX: usize = 16 * 1024;
/// Size of a usual read, and the minimum free space worth a read.
const READ_BYTES: usize = 4 * 1024;
const READ_BYTES_MIN: usize = 1024;
/// Larger buffers are not kept for the next response.
const KEPT_BYTES: usize = 16 * 1024;
/// How long a client may continue to send after its last response, before reading it.
const LINGER: Duration = Duration::from_secs(1);
/// How often to discard input from a client that was cut off: its socket only reports the end of the stream.
const DISCARDED_EVERY: Duration = Duration::from_millis(50);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Shared by the connections of one worker thread.
pub struct Rules {
    head_timeout: Duration,
    date: DateLine,
    codec_config: ServiceConfig,
}

impl Rules {
    /// `head_timeout` is for the first request of a connection; `Connections` watches later ones. Must be called in the
    /// thread's runtime, which the codec needs.
    pub fn new(head_timeout: Duration) -> Self {
        Self { head_timeout, date: DateLine::default(), codec_config: ServiceConfig::default() }
    }

    /// The framework's codec, prepared with the head of a chunked request, to read chunks.
    fn chunks(&self) -> Box<Codec> {
        let mut codec = Box::new(Codec::new(self.codec_config.clone()));
        let head = codec.decode(&mut BytesMut::from(CHUNKED));
        debug_assert!(matches!(head, Ok(Some(Message::Item(_)))));
        codec
    }
}

const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";

/// Serves a connection until the client ends it, or until `stopping` resolves because the server stops.
pub async fn serve<T: AsyncRead + AsyncWrite + Unpin, F: Future<Output = Reply>>(
    transport: T,
    connection: Option<Arc<Connection>>,
    rules: &Rules,
    stopping: impl Future<Output = ()>,
    answer: impl Fn(Request, Incoming) -> F,
) -> io::Result<()> {
    let mut stopping = pin!(stopping);
    let mut client = Loop::new(transport, connection, rules);
    let first = tokio::time::timeout(rules.head_timeout, client.next_head(stopping.as_mut())).await;
    let mut next = first.unwrap_or(Ok(Next::Refused(StatusCode::REQUEST_TIMEOUT)))?;
    loop {
        match next {
            Next::Request => {
                if !client.exchange(&answer).await? {
                    break;
                }
            }
            Next::Refused(status) => {
                client.refuse(status);
                break;
            }
            Next::End => break,
        }
        // Yields to other tasks, however many pipelined requests there are.
        tokio::task::coop::consume_budget().await;
        next = client.next_head(stopping.as_mut()).await?;
    }
    client.close().await
}

/// The next event on a connection.
enum Next {
    Request,
    /// The bytes are not HTTP, or the head is too large or too slow.
    Refused(StatusCode),
    End,
}

/// The refusal if the connection was cut off before this request was read.
const TURNED_AWAY: Next = Next::Refused(StatusCode::SERVICE_UNAVAILABLE);

/// The next part of a body.
enum Piece {
    Bytes(Bytes),
    End,
    /// The next part has not been received yet.
    Missing,
    Malformed,
}

/// The unread rest of the current request's body.
enum Body {
    Bytes(u64),
    Chunks(Box<Codec>),
}

struct Loop<'r, T> {
    transport: T,
    /// `None` for a socket of another kind, which is not in [`Connections`](super::Connections).
    connection: Option<Arc<Connection>>,
    rules: &'r Rules,
    /// The current or last request, whose buffers are reused.
    request: Request,
    body: Body,
    /// Unprocessed input.
    read: BytesMut,
    /// Unwritten output.
    write: BytesMut,
    /// Whether the transport may have buffered some output, as TLS does.
    is_unflushed: bool,
    /// Whether the client has closed its sending half.
    ended: bool,
    /// Whether the next bytes from the client are not the start of a request, so that no further request can be read.
    is_out_of_step: bool,
}

impl<'r, T: AsyncRead + AsyncWrite + Unpin> Loop<'r, T> {
    fn new(transport: T, connection: Option<Arc<Connection>>, rules: &'r Rules) -> Self {
        let (request, body) = (Request::unread(connection.clone()), Body::Bytes(0));
        let (read, write) = (BytesMut::new(), BytesMut::new());
        let (is_unflushed, ended, is_out_of_step) = (false, false, false);
        Self { transport, connection, rules, request, body, read, write, is_unflushed, ended, is_out_of_step }
    }

    /// Waits for a head. Pending answers are written first, and nothing is read before the client has taken them.
    async fn next_head(&mut self, mut stopping: Pin<&mut impl Future<Output = ()>>) -> io::Result<Next> {
        poll_fn(|context| {
            loop {
                if !self.read.is_empty() {
                    match self.request.read(&self.read) {
                        Ok(Some(_)) if !self.begin_answer() => return Poll::Ready(Ok(TURNED_AWAY)),
                        Ok(Some(length)) => {
                            self.read.advance(length);
                            return Poll::Ready(Ok(Next::Request));
                        }
                        Ok(None) => self.note_head(),
                        Err(refused) => return Poll::Ready(Ok(Next::Refused(refused.status()))),
                    }
                }
                if self.ended {
                    return Poll::Ready(Ok(if self.is_refused_unasked() { TURNED_AWAY } else { Next::End }));
                }
                ready!(self.poll_flush(context))?;
                match self.poll_fill(context) {
                    Poll::Ready(length) => self.ended = length? == 0,
                    Poll::Pending => return stopping.as_mut().poll(context).map(|()| Ok(Next::End)),
                }
            }
        })
        .await
    }

    /// Answers the request. False if it was the connection's last.
    async fn exchange<F: Future<Output = Reply>>(
        &mut self,
        answer: &impl Fn(Request, Incoming) -> F,
    ) -> io::Result<bool> {
        let Head { version, ref method, body, next, expects_continue, .. } = *self.request.head();
        let is_head = *method == Method::HEAD;
        // We never upgrade, and the bytes after an upgrade request are not HTTP.
        self.is_out_of_step = next == AfterAnswer::Upgrade;
        let (incoming, feed) = self.body(body);
        if feed.is_some() && expects_continue {
            self.write.extend_from_slice(CONTINUE);
        }
        let reply = self.while_reading(feed.as_ref(), pin!(answer(self.request.clone(), incoming))).await?;
        self.request.let_go_of_large();
        self.is_out_of_step |= feed.is_some_and(|feed| !feed.is_complete());
        let end = BodyEnd::of(reply.response.status, reply.response.body.size(), version);
        let is_last = reply.is_last || self.is_out_of_step || next != AfterAnswer::KeepAlive || end == BodyEnd::Close;
        reply.write_head(&mut self.write, version, end, !is_last, &self.rules.date);
        if !is_head {
            self.send_body(reply.response.body, end).await?;
        }
        if let Some(connection) = &self.connection {
            connection.end_answer();
        }
        Ok(!is_last)
    }

    /// The body of the request whose head was read last. Most bodies arrive with their heads.
    fn body(&mut self, length: BodyLength) -> (Incoming, Option<Feed>) {
        self.body = match length {
            BodyLength::Bytes(0) => return (Incoming::none(), None),
            BodyLength::Bytes(length) => Body::Bytes(length),
            BodyLength::Chunked => Body::Chunks(self.rules.chunks()),
        };
        let first = self.next_piece();
        let second = if matches!(first, Piece::Bytes(_)) { self.next_piece() } else { Piece::Missing };
        match (first, second) {
            (Piece::Bytes(bytes), Piece::End) => (Incoming::Whole(bytes), None),
            (first, second) => {
                let (incoming, feed) = Incoming::arriving();
                feed.take(first);
                feed.take(second);
                (incoming, Some(feed))
            }
        }
    }

    fn next_piece(&mut self) -> Piece {
        match &mut self.body {
            Body::Bytes(0) => Piece::End,
            Body::Bytes(_) if self.read.is_empty() => Piece::Missing,
            Body::Bytes(left) => {
                let length = usize::try_from(*left).map_or(self.read.len(), |left| left.min(self.read.len()));
                *left -= length as u64;
                // Not copied; the buffer is reused when nobody holds a piece of it any more.
                Piece::Bytes(self.read.split_to(length).freeze())
            }
            Body::Chunks(codec) => match codec.decode(&mut self.read) {
                Ok(Some(Message::Chunk(Some(bytes)))) => Piece::Bytes(bytes),
                Ok(Some(Message::Chunk(None))) => Piece::End,
                Ok(None) => Piece::Missing,
                Ok(Some(Message::Item(_))) | Err(_) => Piece::Malformed,
            },
        }
    }

    /// Awaits an answer, or a piece of one. Meanwhile earlier answers are written, and input is read: the rest of the
    /// request's body, further requests, and the end of the stream, which the handler learns of by being polled.
    async fn while_reading<F: Future>(
        &mut self,
        feed: Option<&Feed>,
        mut answer: Pin<&mut F>,
    ) -> io::Result<F::Output> {
        poll_fn(|context| {
            loop {
                if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                    return Poll::Ready(Ok(answer));
                }
                if !self.write_and_read(context, feed)? {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Writes and reads without waiting. True if the handler should be polled.
    fn write_and_read(&mut self, context: &mut Context<'_>, feed: Option<&Feed>) -> io::Result<bool> {
        if let Poll::Ready(flushed) = self.poll_flush(context) {
            flushed?;
        }
        let mut has_news = false;
        loop {
            if let Some(feed) = feed.filter(|feed| feed.is_open()) {
                has_news |= self.fill(feed);
            }
            if self.ended {
                break;
            }
            if !self.may_read(feed) {
                if let Some(connection) = &self.connection {
                    connection.hold(context);
                }
                break;
            }
            let Poll::Ready(length) = self.poll_fill(context) else { break };
            self.ended = length? == 0;
            has_news |= self.ended;
        }
        Ok(has_news)
    }

    fn may_read(&self, feed: Option<&Feed>) -> bool {
        let has_room = match feed.filter(|feed| feed.is_open()) {
            Some(feed) => feed.wants_more(),
            None => self.read.len() < AHEAD_MAX,
        };
        has_room && !self.connection.as_ref().is_some_and(|connection| connection.is_unread())
    }

    /// Passes on received parts of the body. True if there were any.
    fn fill(&mut self, feed: &Feed) -> bool {
        let mut has_come = false;
        loop {
            match self.next_piece() {
                Piece::Missing if self.ended => {
                    feed.cut_short();
                    return true;
                }
                Piece::Missing => return has_come,
                piece => {
                    has_come = true;
                    if !feed.take(piece) {
                        return true;
                    }
                }
            }
        }
    }

    async fn send_body(&mut self, body: response::Body, end: BodyEnd) -> io::Result<()> {
        if matches!(end, BodyEnd::NoBody | BodyEnd::Length(0)) {
            return Ok(());
        }
        match body {
            response::Body::Rendered(bytes) => {
                self.write.extend_from_slice(&bytes);
                spare_buffer::give_back(bytes);
            }
            response::Body::Other(body) => match body.try_into_bytes() {
                Ok(bytes) => self.write.extend_from_slice(&bytes),
                Err(body) => self.send_stream(body, end).await?,
            },
        }
        self.flush_if_much().await
    }

    async fn send_stream(&mut self, body: BoxBody, end: BodyEnd) -> io::Result<()> {
        let mut body = pin!(body);
        let mut sent = 0;
        let mut next = poll_fn(|context| body.as_mut().poll_next(context));
        while let Some(piece) = self.while_reading(None, Pin::new(&mut next)).await? {
            let piece = piece.map_err(|error| io::Error::other(error.to_string()))?;
            sent += piece.len() as u64;
            match end {
                BodyEnd::Chunks => put_chunk(&mut self.write, &piece),
                BodyEnd::Length(_) | BodyEnd::Close | BodyEnd::NoBody => self.write.extend_from_slice(&piece),
            }
            self.flush_if_much().await?;
        }
        match end {
            BodyEnd::Chunks => put_last_chunk(&mut self.write),
            BodyEnd::Length(length) if sent != length => return Err(io::ErrorKind::UnexpectedEof.into()),
            BodyEnd::Length(_) | BodyEnd::Close | BodyEnd::NoBody => {}
        }
        Ok(())
    }

    /// Writes a response without a body, after which the connection ends.
    fn refuse(&mut self, status: StatusCode) {
        self.is_out_of_step = true;
        let reply = Reply::from(Response::new(status));
        reply.write_head(&mut self.write, Version::HTTP_11, BodyEnd::Length(0), false, &self.rules.date);
    }

    /// Discards further input for a while: if a socket is closed with unread input, the kernel discards the response.
    async fn close(mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await?;
        poll_fn(|context| Pin::new(&mut self.transport).poll_shutdown(context)).await?;
        let is_turned_away = self.is_turned_away();
        if self.is_out_of_step && (!self.ended || is_turned_away) {
            let dropping = async {
                loop {
                    while self.transport.read_buf(&mut self.read).await? > 0 {
                        self.read.clear();
                    }
                    if !is_turned_away {
                        return Ok(());
                    }
                    // We ended the stream ourselves, so more input may arrive.
                    tokio::time::sleep(DISCARDED_EVERY).await;
                }
            };
            return tokio::time::timeout(LINGER, dropping).await.unwrap_or(Ok(()));
        }
        Ok(())
    }

    async fn flush_if_much(&mut self) -> io::Result<()> {
        if self.write.len() <= TOGETHER_MAX {
            return Ok(());
        }
        poll_fn(|context| self.poll_flush(context)).await
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = Pin::new(&mut self.transport);
        let mut written = 0;
        while written < self.write.len() {
            match transport.as_mut().poll_write(context, &self.write[written..])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(length) => {
                    written += length;
                    self.is_unflushed = true;
                }
                Poll::Pending => {
                    self.write.advance(written);
                    return Poll::Pending;
                }
            }
        }
        if self.write.capacity() > KEPT_BYTES {
            self.write = BytesMut::new();
        } else {
            self.write.clear();
        }
        if self.is_unflushed {
            ready!(transport.poll_flush(context))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < READ_BYTES_MIN {
            self.read.reserve(READ_BYTES);
        }
        pin!(self.transport.read_buf(&mut self.read)).poll(context)
    }

    fn begin_answer(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.begin_answer())
    }

    fn is_turned_away(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_turned_away())
    }

    /// Whether to refuse a connection before its first request, which is probably on its way, so that the client will
    /// read the refusal as the response.
    fn is_refused_unasked(&self) -> bool {
        let is_refused = |connection: &Arc<Connection>| connection.is_turned_away() && connection.has_never_asked();
        self.connection.as_ref().is_some_and(is_refused)
    }

    /// Records that a part of the next request has arrived.
    fn note_head(&self) {
        if let Some(connection) = &self.connection {
            connection.note_head();
        }
    }
}

impl HeadError {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }
}

impl Feed {
    /// Passes on a piece. False if it was the last one.
    fn take(&self, piece: Piece) -> bool {
        match piece {
            Piece::Bytes(bytes) => self.push(bytes),
            Piece::End => self.complete(),
            Piece::Malformed => self.cut_short(),
            Piece::Missing => {}
        }
        self.is_open()
    }
}
