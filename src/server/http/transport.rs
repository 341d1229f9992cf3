//! How the bytes of a connection travel: as they are, or encrypted. Notes when the client takes nothing of what is written,
//! and when it has ended. The connection is closed when its transport is dropped.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::connection::Connection;

pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    fn connection(&self) -> &Arc<Connection>;
}

/// Straight to the socket.
pub struct Plain(Arc<Connection>);

/// Through TLS, after its handshake.
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

    /// What TLS has to send is in several pieces.
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
    /// A client may end what it sends with an alert, with the connection, or with both: it is the same to us. Nothing can be
    /// cut off unnoticed, since every request says how long it is.
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
