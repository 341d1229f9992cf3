//! All open connections: limits their number, and shuts down those that stall.
//!
//! Only the first head of a connection has a timer. A later head that stalls half-way, or an unread answer, would hold
//! its connection permanently. So each connection records its activity, and a periodic sweep shuts down stalled and
//! idle ones; a timer per request would cost more.
//!
//! Above the limit, a new connection replaces the most expendable one, so that many stalling clients cannot keep others
//! out. If all connections have requests in flight, the new one serves only probes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use metrics::Counter;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::connection::{Activity, Connection, ConnectionTimeouts, Expendable, Stall, Tally, UNASKED_MILLIS_MIN};
use super::socket::Socket;
use super::transport::Plain;

/// One connection in this many is closed per search for room, because each search checks all connections.
const ROOM_SHARE: usize = 256;
/// The pause after a search that found no connection to close.
const SEARCH_PAUSE_MILLIS: u64 = 100;

pub struct Connections {
    tally: Arc<Tally>,
    timeouts: ConnectionTimeouts,
    limit: AtomicUsize,
    open: Mutex<Vec<Weak<Connection>>>,
    no_search_until_millis: AtomicU64,
    cut_off: CutOffCounters,
}

/// The numbers of connections that were shut down.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Shut {
    /// Idle for the keep-alive time; not counted as cut off.
    pub idle: usize,
    /// Sent only part of a head, or nothing at all.
    pub silent: usize,
    /// Did not read a response.
    pub unread: usize,
}

/// Count the connections that are cut off.
pub struct CutOffCounters {
    pub silent: Counter,
    pub unread: Counter,
    /// Replaced by newer connections.
    pub crowded: Counter,
}

impl Connections {
    pub fn new(timeouts: ConnectionTimeouts, cut_off: CutOffCounters) -> Arc<Self> {
        Arc::new(Self::since(Tally::new(), timeouts, cut_off))
    }

    fn since(tally: Arc<Tally>, timeouts: ConnectionTimeouts, cut_off: CutOffCounters) -> Self {
        Self {
            tally,
            timeouts,
            limit: AtomicUsize::new(usize::MAX),
            open: Mutex::default(),
            no_search_until_millis: AtomicU64::new(0),
            cut_off,
        }
    }

    /// Sets the number of connections above which old ones are closed in favour of new ones.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Registers a new connection. Dropping the returned transport closes it.
    pub fn opened(&self, tcp: TcpStream) -> Plain {
        let connection = Arc::new(Connection::new(Socket::new(tcp), self.tally.clone()));
        if self.excess() > 0 && !self.make_room() {
            connection.set_surplus(true);
        }
        self.open.lock().push(Arc::downgrade(&connection));
        Plain::new(connection)
    }

    /// Whether this connection only serves probes, until there is room again.
    pub fn serves_only_probes(&self, connection: &Connection) -> bool {
        if connection.is_surplus() && self.excess() == 0 {
            connection.set_surplus(false);
        }
        connection.is_surplus()
    }

    pub fn staying(&self) -> usize {
        self.tally.staying()
    }

    /// Shuts down stalled connections, and removes closed ones from the list.
    pub fn shut_stalled(&self) -> Shut {
        let shut = self.sweep(|connection| connection.timeouts(self.timeouts));
        if self.excess() > 0 {
            self.make_room();
        }
        shut
    }

    /// Like [`Self::shut_stalled`], while the server stops: a client that has not read for `grace` does not delay it.
    pub fn shut_unread(&self, grace: Duration) -> Shut {
        self.sweep(|_| ConnectionTimeouts { unread: grace, ..self.timeouts })
    }

    fn sweep(&self, timeouts: impl Fn(&Connection) -> ConnectionTimeouts) -> Shut {
        let now = self.tally.now_millis();
        let mut shut = Shut::default();
        self.open.lock().retain(|connection| {
            let Some(connection) = connection.upgrade().filter(|connection| connection.is_open()) else { return false };
            match connection.activity().stalled(now, timeouts(&connection)) {
                None => {
                    // A connection that does not read cannot notice that its client has closed.
                    connection.read_on();
                    return true;
                }
                // The next request is on its way.
                Some(Stall::Idle) if connection.socket.has_unread_bytes() => return true,
                Some(Stall::Idle) => shut.idle += usize::from(connection.cut_off()),
                Some(Stall::Silent) => shut.silent += usize::from(connection.cut_off()),
                Some(Stall::Unread) => shut.unread += usize::from(connection.cut_off()),
            }
            // A request may have begun meanwhile, which keeps the connection.
            connection.is_open()
        });
        self.cut_off.silent.increment(shut.silent as u64);
        self.cut_off.unread.increment(shut.unread as u64);
        shut
    }

    fn excess(&self) -> usize {
        self.tally.staying().saturating_sub(self.limit.load(Ordering::Relaxed))
    }

    /// Closes the most expendable connections. False if all have requests in flight.
    fn make_room(&self) -> bool {
        let now = self.tally.now_millis();
        if now < self.no_search_until_millis.load(Ordering::Relaxed) {
            return false;
        }
        let wanted = self.excess().max(self.limit.load(Ordering::Relaxed) / ROOM_SHARE);
        let mut closed = 0;
        for connection in self.most_expendable(now, wanted) {
            closed += usize::from(connection.cut_off());
        }
        if closed == 0 {
            self.no_search_until_millis.store(now + SEARCH_PAUSE_MILLIS, Ordering::Relaxed);
        }
        self.cut_off.crowded.increment(closed as u64);
        self.excess() == 0
    }

    fn most_expendable(&self, now_millis: u64, wanted: usize) -> Vec<Arc<Connection>> {
        let open: Vec<_> = {
            let open = self.open.lock();
            let open = open.iter().filter_map(Weak::upgrade).filter(|connection| connection.is_open());
            open.map(|connection| (connection.activity(), connection)).collect()
        };
        // Usually, connections that have sent requests make room for new ones. If most are new and silent, those make
        // room.
        let unasked = open.iter().filter(|(activity, _)| !activity.has_asked).count();
        let unasked_millis_min = if unasked > open.len() / 2 { 0 } else { UNASKED_MILLIS_MIN };
        let expendable = |(activity, connection): (Activity, _)| {
            Some((activity.expendable(now_millis, unasked_millis_min)?, connection))
        };
        let mut candidates: Vec<_> = open.into_iter().filter_map(expendable).collect();
        if candidates.len() > wanted {
            candidates.select_nth_unstable_by_key(wanted, |(rank, _)| *rank);
            candidates.truncate(wanted);
        }
        // A connection whose next request is on its way is not closed.
        let is_quiet = |rank: Expendable, connection: &Connection| {
            rank == Expendable::Unread || !connection.socket.has_unread_bytes()
        };
        let quiet = candidates.into_iter().filter(|((rank, _), connection)| is_quiet(*rank, connection));
        quiet.map(|(_, connection)| connection).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::time::Instant;

    use rcgen::CertifiedKey;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::response::Response;
    use crate::serve::{self, Rules};
    use crate::transport::{Encrypted, Transport};

    const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
        idle: Duration::from_secs(4),
        silence: Duration::from_secs(5),
        unread: Duration::from_secs(2),
    };

    struct Open {
        stream: Plain,
        connection: Arc<Connection>,
        client: std::net::TcpStream,
    }

    /// Connections of a server that started ten seconds ago.
    fn connections() -> Connections {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let counters = CutOffCounters { silent: Counter::noop(), unread: Counter::noop(), crowded: Counter::noop() };
        Connections::since(Tally::since(began), TIMEOUTS, counters)
    }

    fn open(connections: &Connections) -> Open {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let stream = connections.opened(TcpStream::from_std(accepted).unwrap());
        let connection = stream.connection().clone();
        Open { stream, connection, client }
    }

    /// A client that reads nothing, although it is sent more than the buffers hold.
    async fn unread(connections: &Connections) -> Open {
        let mut open = open(connections);
        open.stream.write_all(&[0]).await.unwrap();
        let endless = async {
            loop {
                open.stream.write_all(&[0; 64 * 1024]).await.unwrap();
            }
        };
        tokio::select! {
            biased;
            () = endless => {}
            () = async { while !open.connection.is_unread() { tokio::task::yield_now().await } } => {}
        }
        open
    }

    #[actix::test]
    async fn a_quiet_connection_is_shut_unless_a_request_of_it_is_under_way() {
        let connections = connections();
        let Open { mut stream, connection, mut client } = open(&connections);
        let busy = connection.request_began();
        connection.quiet_since(1);
        assert_eq!(connections.shut_stalled(), Shut::default());
        drop(busy);
        assert_eq!(connections.shut_stalled(), Shut::default(), "it has just done something");
        connection.quiet_since(1);
        assert_eq!(connections.shut_stalled(), Shut { idle: 1, ..Shut::default() });
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the server sees the end");
        drop(stream);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "and so does the client");
        assert_eq!(connections.shut_stalled(), Shut::default(), "once is enough");
    }

    #[actix::test]
    async fn an_idle_connection_is_not_shut_under_its_next_request_and_one_that_stalls_in_it_is_silent() {
        let connections = connections();
        let Open { mut stream, connection, mut client } = open(&connections);
        drop(connection.request_began());
        connection.quiet_since(1);
        client.write_all(b"GET").unwrap();
        while !connection.socket.has_unread_bytes() {
            tokio::task::yield_now().await;
        }
        assert_eq!(connections.shut_stalled(), Shut::default(), "what has come was not read yet");
        stream.read_exact(&mut [0; 3]).await.unwrap();
        connection.note_head();
        assert_eq!(connections.shut_stalled(), Shut { silent: 1, ..Shut::default() });
    }

    #[actix::test]
    async fn who_takes_nothing_of_its_answer_is_cut_off_and_who_takes_something_is_not() {
        let connections = connections();
        let (mut reading, idle) = (unread(&connections).await, unread(&connections).await);
        reading.client.set_nonblocking(true).unwrap();
        while reading.client.read(&mut [0; 64 * 1024]).is_ok() {}
        let _busy = (reading.connection.request_began(), idle.connection.request_began());
        tokio::time::timeout(Duration::from_secs(30), reading.stream.write_all(&[0])).await.unwrap().unwrap();
        idle.connection.unread_since(1);
        assert!(!reading.connection.is_unread());
        assert_eq!(connections.shut_stalled(), Shut { unread: 1, ..Shut::default() });
        let Open { mut stream, mut client, .. } = idle;
        assert!(stream.write_all(&[0]).await.is_err(), "its loop learns of it");
        drop(stream);
        let mut taken = Vec::new();
        let end = client.read_to_end(&mut taken);
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "nothing more is kept for it");
    }

    #[actix::test]
    async fn a_stream_of_events_has_a_patience_of_its_own() {
        let connections = connections();
        let events = unread(&connections).await;
        events.connection.unread_since(events.connection.now() - 3_000);
        events.connection.set_patience(Some(Duration::from_secs(30)));
        assert_eq!(connections.shut_stalled(), Shut::default());
        assert_eq!(connections.shut_unread(Duration::from_secs(1)).unread, 1, "when the server stops");
    }

    #[actix::test]
    async fn beyond_the_limit_the_connection_that_is_missed_least_is_closed() {
        let connections = connections();
        connections.set_limit(4);
        let (idle, waiting) = (open(&connections), open(&connections));
        let _request = waiting.connection.request_began();
        drop(idle.connection.request_began());
        idle.connection.quiet_since(1);
        let (unread, silent) = (unread(&connections).await, open(&connections));
        unread.connection.unread_since(unread.connection.now() - 1_500);
        silent.connection.quiet_since(2);
        let mut busy = Vec::new();
        for gone in [&unread, &silent, &idle] {
            let new = open(&connections);
            assert!(!gone.connection.is_open() && !new.connection.is_surplus());
            busy.push((new.connection.request_began(), new));
        }
        let surplus = open(&connections);
        assert!(waiting.connection.is_open() && connections.serves_only_probes(&surplus.connection));
        assert_eq!(connections.staying(), 5);
        drop(waiting.stream);
        assert!(!connections.serves_only_probes(&surplus.connection), "there is room again");
    }

    #[actix::test]
    async fn one_whose_request_is_on_its_way_is_not_closed_under_it() {
        let connections = connections();
        connections.set_limit(1);
        let mut asking = open(&connections);
        asking.client.write_all(b"GET").unwrap();
        while !asking.connection.socket.has_unread_bytes() {
            tokio::task::yield_now().await;
        }
        let new = open(&connections);
        assert!(asking.connection.is_open() && new.connection.is_surplus());
    }

    #[actix::test]
    async fn one_that_is_closed_before_its_first_request_is_refused_even_if_that_comes_then() {
        let connections = connections();
        connections.set_limit(1);
        let Open { stream, connection, client } = open(&connections);
        connection.quiet_since(1);
        assert!(!open(&connections).connection.is_surplus() && !connection.is_open());
        client.set_nonblocking(true).unwrap();
        let mut client = TcpStream::from_std(client).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let rules = Rules::new(Duration::from_secs(5));
        let answer = async |_, _| panic!("it is not served");
        let serving = serve::serve(stream, Some(connection), &rules, std::future::pending(), answer);
        let mut told = [0; 12];
        tokio::select! {
            ended = serving => panic!("{ended:?}"),
            read = client.read_exact(&mut told) => assert_eq!(read.unwrap(), 12),
        }
        assert_eq!(told, *b"HTTP/1.1 503");
    }

    #[actix::test]
    async fn an_idle_one_that_is_closed_refuses_the_request_that_comes_just_then_and_else_only_ends() {
        for sent in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /", ""] {
            let connections = connections();
            let Open { stream, connection, mut client } = open(&connections);
            drop(connection.request_began());
            connection.quiet_since(1);
            assert_eq!(connections.shut_stalled(), Shut { idle: 1, ..Shut::default() });
            client.write_all(sent.as_bytes()).unwrap();
            client.set_nonblocking(true).unwrap();
            let mut client = TcpStream::from_std(client).unwrap();
            let rules = Rules::new(Duration::from_secs(5));
            let answer = async |_, _| panic!("it is not served");
            let mut told = String::new();
            let serving = serve::serve(stream, Some(connection), &rules, std::future::pending(), answer);
            let (_, read) = tokio::join!(serving, client.read_to_string(&mut told));
            if sent.ends_with("\r\n\r\n") {
                read.unwrap();
                assert!(told.starts_with("HTTP/1.1 503") && told.contains("connection: close"), "{told}");
            } else {
                assert_eq!(told, "", "nothing was asked");
            }
        }
    }

    #[actix::test]
    async fn the_same_goes_for_an_idle_one_with_tls() {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();

        let connections = connections();
        let Open { stream, connection, client } = open(&connections);
        client.set_nonblocking(true).unwrap();
        let (accept, connect) = (TlsAcceptor::from(Arc::new(tls)), TlsConnector::from(Arc::new(config)));
        let name = ServerName::try_from("localhost").unwrap();
        let client = connect.connect(name, TcpStream::from_std(client).unwrap());
        let (stream, client) = tokio::join!(accept.accept(stream), client);
        let (stream, mut client) = (Encrypted::new(stream.unwrap()), client.unwrap());
        drop(connection.request_began());
        connection.quiet_since(1);
        assert_eq!(connections.shut_stalled(), Shut { idle: 1, ..Shut::default() });
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let rules = Rules::new(Duration::from_secs(5));
        let answer = async |_, _| panic!("it is not served");
        let serving = serve::serve(stream, Some(connection), &rules, std::future::pending(), answer);
        let mut told = String::new();
        let (_, read) = tokio::join!(serving, client.read_to_string(&mut told));
        read.unwrap();
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("connection: close"), "{told}");
    }

    #[actix::test]
    async fn one_whose_request_is_being_answered_is_not_cut_off_and_the_next_one_may_be() {
        let connections = connections();
        let Open { stream, connection, client } = open(&connections);
        client.set_nonblocking(true).unwrap();
        let mut client = TcpStream::from_std(client).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let rules = Rules::new(Duration::from_secs(5));
        let asked = connection.clone();
        // Another task has chosen the connection for cutting off just before.
        let answer = async |_, _| {
            assert!(!asked.cut_off());
            Response::no_content().into()
        };
        let serving = serve::serve(stream, Some(connection.clone()), &rules, std::future::pending(), answer);
        let reading = async {
            let mut told = [0; 12];
            client.read_exact(&mut told).await.unwrap();
            assert_eq!(told, *b"HTTP/1.1 204");
            while !connection.cut_off() {
                tokio::task::yield_now().await;
            }
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
        };
        let (served, ()) = tokio::join!(serving, reading);
        served.unwrap();
    }

    #[actix::test]
    async fn one_whose_request_begins_while_it_is_chosen_is_not_cut_off() {
        let connections = connections();
        let Open { stream: _stream, connection, client: _client } = open(&connections);
        drop(connection.request_began());
        connection.quiet_since(1);
        let chosen = connection.activity().stalled(connection.now(), TIMEOUTS);
        assert_eq!(chosen, Some(Stall::Idle));
        assert!(connection.begin_answer());
        assert_eq!(connections.shut_stalled(), Shut::default(), "its request has begun");
        assert!(!connection.cut_off() && connection.is_open());
        connection.end_answer();
        assert_eq!(connections.shut_stalled(), Shut { idle: 1, ..Shut::default() }, "it was not forgotten");
        assert!(!connection.begin_answer(), "the next one is refused");
        assert_eq!(connections.staying(), 0);
    }

    #[actix::test]
    async fn a_closed_connection_is_dropped() {
        let connections = connections();
        let Open { stream, connection, mut client } = open(&connections);
        assert_eq!(connections.staying(), 1);
        drop(stream);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "nobody else keeps it open");
        assert!(connection.socket.is_gone() && connections.staying() == 0);
        drop(connection);
        assert_eq!((connections.shut_stalled(), connections.open.lock().len()), (Shut::default(), 0));
    }
}
