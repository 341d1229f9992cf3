//! Open connections, and the shutdown of those that stall.
//!
//! The web server has a timeout for the first head of a connection and for an idle connection, but not for a later head
//! that stops half-way: such a client would hold its connection forever. So each connection records its last activity, and
//! one without a request in flight that has been inactive for too long is shut down.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;

pub struct Connections {
    began: Instant,
    patience: Duration,
    open: Mutex<Vec<Weak<Connection>>>,
}

pub struct Connection {
    pub socket: Socket,
    in_flight: AtomicU32,
    active_at_millis: AtomicU64,
}

/// A request of a connection, until it is answered. Its connection does not count as stalled.
pub struct ActiveRequest {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Connections {
    /// `patience`: the longest time between two requests, including the head of the second.
    pub fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), patience, open: Mutex::default() })
    }

    /// Registers a new connection, and returns the web server's side of it.
    pub fn opened(&self, tcp: TcpStream) -> Stream {
        let connection = Arc::new(Connection {
            socket: Socket::new(tcp),
            in_flight: AtomicU32::new(0),
            active_at_millis: AtomicU64::new(self.millis()),
        });
        self.open.lock().push(Arc::downgrade(&connection));
        Stream(connection)
    }

    pub fn request_began(self: &Arc<Self>, connection: &Arc<Connection>) -> ActiveRequest {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        ActiveRequest { connections: self.clone(), connection: connection.clone() }
    }

    /// Shuts down stalled connections and drops closed ones. Returns how many were shut down.
    pub fn shut_stalled(&self) -> usize {
        let since = self.millis().saturating_sub(self.patience.as_millis() as u64);
        let mut shut = 0;
        self.open.lock().retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            let stalled = connection.in_flight.load(Ordering::Relaxed) == 0
                && connection.active_at_millis.load(Ordering::Relaxed) < since;
            if stalled {
                connection.socket.shut_down();
                shut += 1;
            }
            !stalled
        });
        shut
    }

    fn millis(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.connection.active_at_millis.store(self.connections.millis(), Ordering::Relaxed);
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The web server's side of a connection, which it reads and writes through. Closes it when dropped.
pub struct Stream(Arc<Connection>);

impl Stream {
    /// Makes the connection available to its requests.
    pub fn introduce(&self, data: &mut Extensions) {
        data.insert(self.0.clone());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.socket.close();
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.socket.poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.socket.with(|tcp| tcp.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket.with(|tcp| tcp.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket.with(|tcp| tcp.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use tokio::io::AsyncReadExt;

    use super::*;

    struct Quiet {
        stream: Stream,
        connection: Arc<Connection>,
        client: std::net::TcpStream,
    }

    /// A connection that last did something when the server began, ten seconds ago, and the client's end of it.
    fn quiet(connections: &Connections) -> Quiet {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let stream = connections.opened(TcpStream::from_std(accepted).unwrap());
        let mut data = Extensions::new();
        stream.introduce(&mut data);
        let connection = data.remove::<Arc<Connection>>().unwrap();
        connection.active_at_millis.store(0, Ordering::Relaxed);
        Quiet { stream, connection, client }
    }

    #[actix::test]
    async fn a_quiet_connection_is_shut_unless_a_request_of_it_is_under_way() {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let patience = Duration::from_secs(5);
        let connections = Arc::new(Connections { began, patience, open: Mutex::default() });
        let Quiet { mut stream, connection, mut client } = quiet(&connections);
        let busy = connections.request_began(&connection);
        assert_eq!(connections.shut_stalled(), 0);
        drop(busy);
        assert_eq!(connections.shut_stalled(), 0, "it has just done something");
        connection.active_at_millis.store(0, Ordering::Relaxed);
        assert_eq!(connections.shut_stalled(), 1);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the server sees the end");
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "and so does the client");
        assert_eq!(connections.shut_stalled(), 0, "once is enough");
    }

    #[actix::test]
    async fn a_closed_connection_is_dropped() {
        let connections = Connections::new(Duration::from_secs(5));
        let Quiet { stream, connection, mut client } = quiet(&connections);
        drop(stream);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "nobody else keeps it open");
        assert!(connection.socket.is_gone());
        drop(connection);
        assert_eq!((connections.shut_stalled(), connections.open.lock().len()), (0, 0));
    }
}
