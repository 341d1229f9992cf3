//! Open connections, and an end for those that stall.
//!
//! The web server times the first head of a connection and an idle connection, but not a later head that stops half-way:
//! such a client would hold its connection for ever. So each connection notes when it last did something, and one that
//! has neither a request under way nor done anything for longer than an honest client can take is shut down.

use std::any::Any;
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use parking_lot::Mutex;
use socket2::TcpKeepalive;

/// A client that does not even acknowledge a probe for half a minute is gone, and so is its place in a queue.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)).with_retries(3);

pub struct Connections {
    began: Instant,
    patience: Duration,
    open: Mutex<Vec<Weak<Connection>>>,
}

pub struct Connection {
    /// A second handle on the socket; the server owns the first.
    socket: socket2::Socket,
    underway: AtomicU32,
    active_at_millis: AtomicU64,
}

impl Connection {
    /// Whether the client has closed it, as far as the kernel knows. What it may still have sent does not count: a client
    /// that sends the next request before it has its answer is there.
    pub fn is_gone(&self) -> bool {
        match self.socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}

/// A request of a connection, as long as it or its answer is under way.
pub struct Busy {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Connections {
    /// `patience` is what a client may take between two requests, the head of the second included.
    pub fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), patience, open: Mutex::default() })
    }

    /// Notes a new connection, in the data that its requests see.
    pub fn opened(&self, stream: &dyn Any, data: &mut Extensions) {
        let Some(stream) = stream.downcast_ref::<TcpStream>() else { return };
        // Out of descriptors: then this one goes unwatched, and the server's own limits still hold.
        let Ok(handle) = stream.as_fd().try_clone_to_owned() else { return };
        let socket: socket2::Socket = handle.into();
        // A machine that vanishes without a word is noticed by this; if it cannot be had, by what times out later.
        socket.set_tcp_keepalive(&KEEP_ALIVE).ok();
        let connection = Arc::new(Connection {
            socket,
            underway: AtomicU32::new(0),
            active_at_millis: AtomicU64::new(self.millis()),
        });
        self.open.lock().push(Arc::downgrade(&connection));
        data.insert(connection);
    }

    pub fn busy(self: &Arc<Self>, connection: &Arc<Connection>) -> Busy {
        connection.underway.fetch_add(1, Ordering::Relaxed);
        Busy { connections: self.clone(), connection: connection.clone() }
    }

    /// Shuts down those that have stalled, forgets those that are gone, and says how many were shut down.
    pub fn shut_stalled(&self) -> usize {
        let since = self.millis().saturating_sub(self.patience.as_millis() as u64);
        let mut shut = 0;
        self.open.lock().retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            let stalled = connection.underway.load(Ordering::Relaxed) == 0
                && connection.active_at_millis.load(Ordering::Relaxed) < since;
            if stalled {
                // The server sees the end of the stream and closes it. One that is gone already needs no shutting.
                connection.socket.shutdown(Shutdown::Both).ok();
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

impl Drop for Busy {
    fn drop(&mut self) {
        self.connection.active_at_millis.store(self.connections.millis(), Ordering::Relaxed);
        self.connection.underway.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A connection that last did something when the server began, ten seconds ago, and the client's end of it.
    async fn quiet(connections: &Connections) -> (Extensions, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let mut data = Extensions::new();
        connections.opened(&TcpStream::from_std(accepted).unwrap(), &mut data);
        data.get::<Arc<Connection>>().unwrap().active_at_millis.store(0, Ordering::Relaxed);
        (data, client)
    }

    #[actix_web::test]
    async fn a_quiet_connection_is_shut_unless_a_request_of_it_is_under_way() {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let patience = Duration::from_secs(5);
        let connections = Arc::new(Connections { began, patience, open: Mutex::default() });
        let (data, mut client) = quiet(&connections).await;
        let busy = connections.busy(data.get::<Arc<Connection>>().unwrap());
        assert_eq!(connections.shut_stalled(), 0);
        drop(busy);
        assert_eq!(connections.shut_stalled(), 0, "it has just done something");
        data.get::<Arc<Connection>>().unwrap().active_at_millis.store(0, Ordering::Relaxed);
        assert_eq!(connections.shut_stalled(), 1);
        assert_eq!(io::Read::read(&mut client, &mut [0]).unwrap(), 0, "the client sees the end");
        assert_eq!(connections.shut_stalled(), 0, "once is enough");
    }

    #[actix_web::test]
    async fn a_connection_is_gone_when_the_client_has_closed_it_and_not_before() {
        let connections = Connections::new(Duration::from_secs(5));
        let (data, mut client) = quiet(&connections).await;
        let connection = data.get::<Arc<Connection>>().unwrap();
        assert!(!connection.is_gone());
        io::Write::write_all(&mut client, b"GET").unwrap();
        assert!(!connection.is_gone(), "it has sent more");
        let (data, client) = quiet(&connections).await;
        drop(client);
        assert!(data.get::<Arc<Connection>>().unwrap().is_gone());
    }

    #[actix_web::test]
    async fn a_connection_that_is_gone_is_forgotten() {
        let connections = Connections::new(Duration::from_secs(5));
        drop(quiet(&connections).await);
        assert_eq!((connections.shut_stalled(), connections.open.lock().len()), (0, 0));
    }
}
