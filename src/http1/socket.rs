//! A connection's socket, which has two users: the loop reads and writes through it, and others check whether the
//! client is still connected, and shut the socket down when the client stalls. Both use one file descriptor.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Unsent bytes of an answer that the kernel may buffer. Bounds the cost of a client that does not read, and determines
/// how soon its reading is noticed: the next write is accepted once half of this has been sent.
const UNSENT_MAX: u32 = 64 * 1024;
/// How long the kernel tries to deliver the rest of a response whose connection is already closed.
const DELIVERY_MAX: Duration = Duration::from_secs(10);

/// A client that acknowledges no probe for half a minute is gone.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)).with_retries(3);

pub struct Socket {
    /// `None` after the loop has dropped it, so no other reference keeps it open. Locked for a single check, read or
    /// write, almost always by the thread that serves the connection.
    tcp: Mutex<Option<TcpStream>>,
    /// Whether the loop has read the end of the stream, possibly before the event loop is notified.
    ended: AtomicBool,
    /// The address of the client or of a proxy.
    pub peer: Option<SocketAddr>,
}

impl Socket {
    pub fn new(tcp: TcpStream) -> Self {
        let options = SockRef::from(&tcp);
        // Detects a machine that disappears silently. If this cannot be set, later timeouts detect it.
        options.set_tcp_keepalive(&KEEP_ALIVE).ok();
        // Every write is a whole response or a large piece, so waiting for more data would only delay it.
        options.set_tcp_nodelay(true).ok();
        options.set_tcp_notsent_lowat(UNSENT_MAX).ok();
        let peer = tcp.peer_addr().ok();
        Self { tcp: Mutex::new(Some(tcp)), ended: AtomicBool::new(false), peer }
    }

    /// Whether the client has closed its connection or its half of it. Earlier unread data does not matter: a client
    /// that pipelines its next request is still connected.
    ///
    /// Asks the kernel, since the event loop learns of the end only when it polls: until then, something could be
    /// granted to a client that has already disconnected.
    pub fn is_gone(&self) -> bool {
        // Does not peek, which shows the end only if no unread data precedes it.
        let closed = |tcp: &TcpStream| {
            let asked = &mut [PollFd::new(tcp, PollFlags::RDHUP)];
            match poll(asked, Some(&Timespec::default())) {
                Ok(_) => !asked[0].revents().is_empty(),
                Err(error) => error != Errno::INTR,
            }
        };
        self.is_known_gone() || self.tcp.lock().as_ref().is_none_or(closed)
    }

    /// Like [`Self::is_gone`], as far as the event loop has been notified. This costs no system call and is enough
    /// while a request waits, since the request is polled again when there is news. (Except for a client that has sent
    /// more than is read ahead: it keeps its place until the next sweep of stalled connections.)
    ///
    /// `ended` alone is not enough, because the loop reads only a limited amount ahead.
    pub fn is_known_gone(&self) -> bool {
        let notified = |tcp: &TcpStream| match tcp.ready(Interest::READABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_read_closed(),
            Some(Err(_)) => true,
            None => false,
        };
        self.ended.load(Ordering::Relaxed) || self.tcp.lock().as_ref().is_none_or(notified)
    }

    /// Whether the client has sent something that the loop has not read yet.
    pub fn has_unread_bytes(&self) -> bool {
        self.tcp.lock().as_ref().is_some_and(|tcp| {
            let asked = &mut [PollFd::new(tcp, PollFlags::IN | PollFlags::RDHUP)];
            poll(asked, Some(&Timespec::default())).is_ok() && asked[0].revents() == PollFlags::IN
        })
    }

    /// Stops reading after the bytes already received. The loop sees an end of stream, and can still answer.
    pub fn shut_reading(&self) {
        if let Some(tcp) = self.tcp.lock().as_ref() {
            // Fails for a client that has already gone, which is fine.
            SockRef::from(tcp).shutdown(Shutdown::Read).ok();
        }
    }

    /// Shuts the socket down in both directions and drops the unread answers, which the kernel would keep for minutes.
    pub fn reset(&self) {
        if let Some(tcp) = self.tcp.lock().as_ref() {
            let socket = SockRef::from(tcp);
            // With a linger time of zero, the close that follows is a reset.
            socket.set_linger(Some(Duration::ZERO)).ok();
            socket.shutdown(Shutdown::Both).ok();
        }
    }

    pub fn close(&self) {
        if let Some(tcp) = self.tcp.lock().take() {
            SockRef::from(&tcp).set_tcp_user_timeout(Some(DELIVERY_MAX)).ok();
        }
    }

    pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = self.with(|tcp| tcp.poll_read(context, buffer));
        let ended = match &read {
            Poll::Ready(Ok(())) => room > 0 && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if ended {
            self.note_end();
        }
        read
    }

    /// Waits for the first byte from the client, and leaves it unread. `None` if the stream ends instead.
    pub fn poll_first_byte(&self, context: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let peeked = self.with(|tcp| tcp.poll_peek(context, &mut buffer));
        peeked.map_ok(|length| (length > 0).then_some(byte[0]))
    }

    /// Records that the client has closed its sending half.
    pub fn note_end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub fn with<T>(&self, act: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match self.tcp.lock().as_mut() {
            Some(tcp) => act(Pin::new(tcp)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::TcpStream as Client;

    use super::*;

    fn pair() -> (Socket, Client) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        (Socket::new(TcpStream::from_std(accepted).unwrap()), client)
    }

    /// The ways in which a client may disconnect, and what is left of it.
    const ENDS: [fn(Client) -> Option<Client>; 3] = [
        |client| {
            client.shutdown(Shutdown::Write).unwrap();
            Some(client)
        },
        |client| {
            drop(client);
            None
        },
        |client| {
            // With a linger time of zero, a close is a reset.
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            None
        },
    ];

    #[actix::test]
    async fn an_answer_is_sent_at_once_and_little_of_it_is_kept_for_who_does_not_read() {
        let (socket, _client) = pair();
        let tcp = socket.tcp.lock();
        let options = SockRef::from(tcp.as_ref().unwrap());
        assert!(options.tcp_nodelay().unwrap());
        assert_eq!(options.tcp_notsent_lowat().unwrap(), UNSENT_MAX);
    }

    #[actix::test]
    async fn a_client_is_connected_until_it_closes_whether_or_not_its_data_is_read() {
        for (end, sent) in ENDS.into_iter().flat_map(|end| [(end, ""), (end, "GET")]) {
            let (socket, mut client) = pair();
            client.write_all(sent.as_bytes()).unwrap();
            if !sent.is_empty() {
                poll_fn(|context| socket.with(|tcp| tcp.poll_read_ready(context))).await.unwrap();
            }
            assert!(!socket.is_gone() && !socket.is_known_gone());
            let _open = end(client);
            assert!(socket.is_gone(), "before the event loop is notified");
            while !socket.is_known_gone() {
                tokio::task::yield_now().await;
            }
            assert!(socket.is_gone());
        }
    }
}
