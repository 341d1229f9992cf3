//! A connection's socket in two hands: the web server reads and writes through it, and we look whether its client is
//! still there and end it when it stalls. One descriptor serves both.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use futures_util::FutureExt;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// A client that does not even acknowledge a probe for half a minute is gone, and so is its place in a queue.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)).with_retries(3);

pub struct Socket {
    /// `None` once the web server has let go of it: whoever still knows the connection does not keep it open. Locked for
    /// one look, read or write at a time, almost always by the thread that serves the connection.
    tcp: Mutex<Option<TcpStream>>,
    /// The web server has read the end of it. It may do so before the event loop is told, and is not woken for it again.
    ended: AtomicBool,
}

impl Socket {
    pub fn new(tcp: TcpStream) -> Self {
        // A machine that vanishes without a word is noticed by this; if it cannot be had, by what times out later.
        SockRef::from(&tcp).set_tcp_keepalive(&KEEP_ALIVE).ok();
        Self { tcp: Mutex::new(Some(tcp)), ended: AtomicBool::new(false) }
    }

    /// Whether the client has closed it, or its half of it. What it may have sent before does not count, read or unread:
    /// a client that sends the next request before it has its answer is there.
    ///
    /// Asks the kernel, for the event loop hears of an end only when it comes round to it: by then a lock could have been
    /// given to a client that had closed before.
    pub fn is_gone(&self) -> bool {
        // Not by peeking, which shows the end only when nothing lies unread before it.
        let closed = |tcp: &TcpStream| {
            let asked = &mut [PollFd::new(tcp, PollFlags::RDHUP)];
            match poll(asked, Some(&Timespec::default())) {
                Ok(_) => !asked[0].revents().is_empty(),
                Err(error) => error != Errno::INTR,
            }
        };
        self.is_known_gone() || self.tcp.lock().as_ref().is_none_or(closed)
    }

    /// The same as far as the event loop has been told, which costs no system call and is enough for one that waits: it
    /// will be polled when there is more to know. (Unless it has sent what is no HTTP, in two pieces: then it keeps its
    /// place until its turn comes, and is found gone.)
    ///
    /// That the web server has read the end would not do: it reads nothing more once what follows a request is no HTTP.
    pub fn is_known_gone(&self) -> bool {
        let told = |tcp: &TcpStream| match tcp.ready(Interest::READABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_read_closed(),
            Some(Err(_)) => true,
            None => false,
        };
        self.ended.load(Ordering::Relaxed) || self.tcp.lock().as_ref().is_none_or(told)
    }

    /// Ends it for both sides; the web server sees that as the client's end of it.
    pub fn shut_down(&self) {
        if let Some(tcp) = self.tcp.lock().as_ref() {
            // One that is gone already needs no shutting.
            SockRef::from(tcp).shutdown(Shutdown::Both).ok();
        }
    }

    pub fn close(&self) {
        drop(self.tcp.lock().take());
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
            self.ended.store(true, Ordering::Relaxed);
        }
        read
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

    /// What a client may do at the end, and what is left of it then.
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
            // Without lingering a close is a reset.
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            None
        },
    ];

    #[actix::test]
    async fn a_client_is_there_until_it_closes_whether_or_not_what_it_sent_is_read() {
        for (end, sent) in ENDS.into_iter().flat_map(|end| [(end, ""), (end, "GET")]) {
            let (socket, mut client) = pair();
            client.write_all(sent.as_bytes()).unwrap();
            if !sent.is_empty() {
                poll_fn(|context| socket.with(|tcp| tcp.poll_read_ready(context))).await.unwrap();
            }
            assert!(!socket.is_gone() && !socket.is_known_gone());
            let _open = end(client);
            assert!(socket.is_gone(), "before the event loop has come round to it");
            while !socket.is_known_gone() {
                tokio::task::yield_now().await;
            }
            assert!(socket.is_gone());
        }
    }
}
