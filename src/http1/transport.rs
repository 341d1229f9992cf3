//! The bytes of a connection, plain or encrypted. A handshake has a time limit. Records when the client does not read
//! and when it has closed. Dropping the transport closes the connection.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::Counter;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;

pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    fn connection(&self) -> &Arc<Connection>;
}

/// An unencrypted connection, directly on the socket.
pub struct Plain(Arc<Connection>);

/// A connection through TLS, after the handshake.
pub struct Encrypted(TlsStream<Plain>);

impl Plain {
    pub fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }
}

impl Encrypted {
    pub fn new(stream: TlsStream<Plain>) -> Self {
        Self(stream)
    }
}

impl Transport for Plain {
    fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Transport for Encrypted {
    fn connection(&self) -> &Arc<Connection> {
        self.0.get_ref().0.connection()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.0.closed();
    }
}

impl AsyncRead for Plain {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.socket.poll_read(context, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.note_write(self.0.socket.with(|tcp| tcp.poll_write(context, bytes)))
    }

    /// TLS writes several pieces at once.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.note_write(self.0.socket.with(|tcp| tcp.poll_write_vectored(context, pieces)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket.with(|tcp| tcp.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket.with(|tcp| tcp.poll_shutdown(context))
    }
}

impl AsyncRead for Encrypted {
    /// A client may end its stream with an alert, by closing the connection, or both; all are treated alike. No
    /// truncation goes unnoticed, since every request states its length.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = match Pin::new(&mut self.0).poll_read(context, buffer) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        };
        let nothing = room > 0 && buffer.filled().len() == before;
        if matches!(read, Poll::Ready(Ok(()))) && nothing {
            self.connection().socket.note_end();
        }
        read
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Encrypted bytes that TLS buffers while the kernel does not accept them: one or two records.
const UNSENT_MAX: usize = 32 * 1024;
/// The first byte of a handshake's record.
const HANDSHAKE_RECORD: u8 = 22;
/// More than the head of a plain HTTP request, which is only read so that the client reads the response.
const PLAIN_HEAD_MAX: usize = 16 * 1024;
/// The number of distinct failure reasons counted separately until they are reported. Limited, because strangers
/// determine the reasons.
const REASONS_MAX: usize = 8;
/// The response to clients that speak HTTP without TLS.
const USE_HTTPS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 70\r\n\
                         Connection: close\r\n\r\nThis port speaks TLS. Use https:// instead of http:// in the address.\n";

/// Turns new connections into encrypted ones.
pub struct Handshakes {
    config: Box<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    limit: HandshakeLimit,
    outcomes: HandshakeCounters,
    failures: Mutex<Failures>,
}

/// Failed handshakes since the last report, by reason.
pub type Failures = BTreeMap<String, Failed>;

/// Handshakes that failed for the same reason.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    pub count: u64,
    /// The client address of the last one.
    pub peer: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy)]
pub struct HandshakeLimit {
    pub time: Duration,
    /// The reason reported for a handshake that takes longer.
    pub exceeded: &'static str,
}

/// Count handshakes by their outcome.
pub struct HandshakeCounters {
    /// Completed without a client certificate.
    pub anonymous: Counter,
    /// Completed with a client certificate.
    pub certified: Counter,
    pub failed: Counter,
    pub timed_out: Counter,
}

impl Handshakes {
    /// `config` is called for each new connection.
    pub fn new(
        config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
        limit: HandshakeLimit,
        outcomes: HandshakeCounters,
    ) -> Self {
        Self { config: Box::new(config), limit, outcomes, failures: Mutex::default() }
    }

    /// Completes the handshake. Fails if the client takes longer than the limit.
    pub async fn complete(&self, plain: Plain) -> io::Result<Encrypted> {
        let peer = plain.connection().socket.peer;
        match tokio::time::timeout(self.limit.time, self.shake(plain)).await {
            Ok(Ok(encrypted)) => Ok(encrypted),
            Ok(Err(error)) => {
                // A client that only checks whether the port is open has not failed.
                if error.kind() != io::ErrorKind::NotConnected {
                    self.outcomes.failed.increment(1);
                    self.note_failure(peer, error.to_string());
                }
                Err(error)
            }
            Err(elapsed) => {
                self.outcomes.timed_out.increment(1);
                self.note_failure(peer, self.limit.exceeded.to_owned());
                Err(elapsed.into())
            }
        }
    }

    /// The failures since the last call.
    pub fn take_failures(&self) -> Failures {
        std::mem::take(&mut *self.failures.lock())
    }

    async fn shake(&self, mut plain: Plain) -> io::Result<Encrypted> {
        // Waits for a first byte before preparing anything, so that a silent client costs no more than without TLS.
        let first = poll_fn(|context| plain.connection().socket.poll_first_byte(context)).await?;
        match first {
            Some(HANDSHAKE_RECORD) => {}
            Some(byte) => return Err(refuse_plain(&mut plain, byte).await),
            None => return Err(io::ErrorKind::NotConnected.into()),
        }
        let acceptor = TlsAcceptor::from((self.config)());
        let stream = acceptor.accept_with(plain, |session| session.set_buffer_limit(Some(UNSENT_MAX))).await?;
        let is_certified = stream.get_ref().1.peer_certificates().is_some();
        let outcome = if is_certified { &self.outcomes.certified } else { &self.outcomes.anonymous };
        outcome.increment(1);
        Ok(Encrypted::new(stream))
    }

    fn note_failure(&self, peer: Option<SocketAddr>, reason: String) {
        let mut failures = self.failures.lock();
        let has_room = failures.len() < REASONS_MAX || failures.contains_key(&reason);
        let failed = failures.entry(if has_room { reason } else { "other reasons".to_owned() }).or_default();
        *failed = Failed { count: failed.count + 1, peer };
    }
}

/// Tells a client that speaks HTTP without TLS to use https.
async fn refuse_plain(plain: &mut Plain, first: u8) -> io::Error {
    if !first.is_ascii_uppercase() {
        return io::Error::other("the client does not speak TLS");
    }
    let mut head = vec![0; PLAIN_HEAD_MAX];
    // Best effort, since the client may not read the response.
    if plain.read(&mut head).await.is_ok() && plain.write_all(USE_HTTPS.as_bytes()).await.is_ok() {
        plain.shutdown().await.ok();
    }
    io::Error::other("the client speaks HTTP without TLS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_without_tls_is_as_long_as_it_says() {
        let (head, body) = USE_HTTPS.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{} bytes", body.len());
    }
}
