//! The listening server: its limits on slow clients and on their number, and its shutdown.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_server::{GracefulShutdownSignal, Server, ServerHandle};
use actix_service::{ServiceFactory, fn_service};
use actix_web::rt::net::TcpStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use super::call::{Cluster, Front, Realms};
use super::content::TransportSecurity;
use super::observe;
use super::router::Router;
use super::state::{Node, Realm, Whereabouts};
use crate::tls::ServerTls;
use http1::{HandshakeCounters, HandshakeLimit, Handshakes, Rules, Transport, serve};

#[derive(Debug, Clone)]
pub struct ListenOptions {
    pub workers: usize,
    pub head_timeout: Duration,
    pub max_connections: usize,
    /// Whether the operator set this number.
    pub max_connections_given: bool,
}

/// The addresses that the server listens on.
pub struct Listeners {
    pub main: ReservedAddress,
    /// `None`: the main listener serves plain HTTP.
    pub encryption: Option<Encryption>,
}

/// TLS on the main listener.
pub struct Encryption {
    pub tls: Arc<ServerTls>,
    /// How long browsers remember to use TLS; zero: not at all.
    pub hsts: Duration,
    /// An additional listener for plain HTTP.
    pub plain: Option<ReservedAddress>,
}

/// A server that accepts requests.
pub struct RunningServer {
    pub address: SocketAddr,
    pub encrypted: Option<EncryptedServer>,
    pub node: Arc<Node>,
    pub realms: Served,
    handle: ServerHandle,
    ended: actix_web::rt::task::JoinHandle<io::Result<()>>,
}

/// The parts of a server with TLS.
pub struct EncryptedServer {
    pub tls: Arc<ServerTls>,
    pub handshakes: Arc<Handshakes>,
    /// The address without TLS.
    pub plain_address: Option<SocketAddr>,
}

/// The stores that requests are answered from.
#[derive(Clone)]
pub enum Served {
    Only(Arc<Realm>),
    Shards(Arc<Cluster>),
}

impl Served {
    fn per_thread(&self) -> Realms {
        match self {
            Served::Only(realm) => Realms::Only(Rc::new(realm.clone())),
            Served::Shards(cluster) => Realms::Shards(Rc::new(cluster.clone())),
        }
    }

    /// The current realms of this process.
    pub fn here(&self) -> Vec<Arc<Realm>> {
        match self {
            Served::Only(realm) => vec![realm.clone()],
            Served::Shards(cluster) => {
                let here = |place| match place {
                    Whereabouts::Here(realm) => Some(realm),
                    Whereabouts::At(_) | Whereabouts::Nowhere => None,
                };
                cluster.shards.everywhere().into_iter().filter_map(here).collect()
            }
        }
    }
}

/// Connections that the kernel queues while all workers are busy: enough for a fleet that starts simultaneously.
const BACKLOG: u32 = 4096;
/// Additional connections of a worker beyond its limit: enough for probes to get through while a crowd connects.
const SURPLUS_MAX: usize = 64;
/// How long a client may go without reading its response while the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// After draining, only idle keep-alive connections are left, which need no waiting.
const LINGER_SECONDS: u64 = 1;

/// File descriptors of a worker without connections: its event loop.
const DESCRIPTORS_PER_WORKER: u64 = 4;
/// File descriptors that connections must leave free. The store, the log and the runtime hold about twenty; the rest is
/// for files that they open temporarily.
const RESERVED_DESCRIPTORS: std::ops::RangeInclusive<u64> = 48..=256;

/// A bound address that does not yet accept connections.
pub struct ReservedAddress(Socket);

impl ReservedAddress {
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

/// Binds the address before anything else starts, so that a failure has no effect. Lingering connections of an earlier
/// server do not block the address; another program that listens on it does.
pub fn reserve(address: SocketAddr) -> io::Result<ReservedAddress> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(ReservedAddress(socket))
}

pub fn start(
    options: &ListenOptions,
    listeners: Listeners,
    node: Arc<Node>,
    realms: Served,
) -> io::Result<RunningServer> {
    let per_worker = connections_per_worker(options);
    let limit = per_worker.usual.saturating_mul(options.workers);
    node.share_connections(limit);
    if let Served::Shards(cluster) = &realms {
        node.cluster.get_or_init(|| cluster.shards.clone());
    }
    node.connections.set_limit(limit);
    let mut builder = Server::build()
        .workers(options.workers)
        .max_concurrent_connections(per_worker.usual.saturating_add(per_worker.surplus))
        .shutdown_timeout(LINGER_SECONDS)
        .disable_signals();
    let service = Service {
        options: options.clone(),
        node: node.clone(),
        realms: realms.clone(),
        stopping: builder.graceful_shutdown_signal(),
    };
    let (main, address) = listen(listeners.main)?;
    let encrypted = match listeners.encryption {
        None => {
            builder = builder.listen("http", main, move || service.plain())?;
            None
        }
        Some(Encryption { tls, hsts, plain }) => {
            node.tls.get_or_init(|| tls.clone());
            let mut plain_address = None;
            if let Some((listener, address)) = plain.map(listen).transpose()? {
                let service = service.clone();
                builder = builder.listen("http", listener, move || service.plain())?;
                plain_address = Some(address);
            }
            let handshakes = Arc::new(handshakes(tls.clone(), options.head_timeout));
            let (security, shaking) = (TransportSecurity::new(hsts), handshakes.clone());
            builder = builder.listen("https", main, move || service.encrypted(&shaking, &security))?;
            Some(EncryptedServer { tls, handshakes, plain_address })
        }
    };
    let server = builder.run();
    let handle = server.handle();
    Ok(RunningServer { address, encrypted, node, realms, handle, ended: actix_web::rt::spawn(server) })
}

fn handshakes(tls: Arc<ServerTls>, time: Duration) -> Handshakes {
    let counter = |outcome| metrics::counter!("lockkeeper_tls_handshakes_total", "outcome" => outcome);
    let counters = HandshakeCounters {
        anonymous: counter("anonymous"),
        certified: counter("certified"),
        failed: counter("failed"),
        timed_out: counter("timed_out"),
    };
    let limit = HandshakeLimit { time, exceeded: "it took longer than http.head_timeout_seconds" };
    Handshakes::new(move || tls.config(), limit, counters)
}

fn listen(ReservedAddress(socket): ReservedAddress) -> io::Result<(TcpListener, SocketAddr)> {
    socket.listen(BACKLOG as i32)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Shared by all worker threads.
#[derive(Clone)]
struct Service {
    options: ListenOptions,
    node: Arc<Node>,
    realms: Served,
    stopping: GracefulShutdownSignal,
}

/// The state of one worker thread, shared by its connections.
struct Worker {
    front: Front,
    router: Router,
    rules: Rules,
    stopping: GracefulShutdownSignal,
    /// Set for a TLS listener.
    security: Option<TransportSecurity>,
}

impl Service {
    fn plain(
        &self,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = io::Error, InitError = ()> + use<> {
        let (worker, connections) = (self.worker(None), self.node.connections.clone());
        fn_service(move |tcp: TcpStream| worker.clone().serve(connections.opened(tcp)))
    }

    /// A connection counts from its start, before its handshake.
    fn encrypted(
        &self,
        handshakes: &Arc<Handshakes>,
        security: &TransportSecurity,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = io::Error, InitError = ()> + use<> {
        let (worker, connections) = (self.worker(Some(security.clone())), self.node.connections.clone());
        let handshakes = handshakes.clone();
        fn_service(move |tcp: TcpStream| {
            let opened = connections.opened(tcp);
            let (handshakes, worker) = (handshakes.clone(), worker.clone());
            async move {
                let encrypted = tokio::select! {
                    encrypted = handshakes.complete(opened) => encrypted?,
                    () = worker.stopping.notified() => return Err(io::ErrorKind::ConnectionAborted.into()),
                };
                worker.serve(encrypted).await
            }
        })
    }

    fn worker(&self, security: Option<TransportSecurity>) -> Rc<Worker> {
        Rc::new(Worker {
            front: Front {
                node: Rc::new(self.node.clone()),
                realms: self.realms.per_thread(),
                encrypted: security.is_some(),
            },
            router: Router::new(),
            rules: Rules::new(self.options.head_timeout),
            stopping: self.stopping.clone(),
            security,
        })
    }
}

impl Worker {
    async fn serve<T: Transport>(self: Rc<Self>, transport: T) -> io::Result<()> {
        let connection = transport.connection().clone();
        let answer =
            |request, incoming| observe::observe(&self.front, &self.router, self.security.as_ref(), request, incoming);
        serve(transport, Some(connection), &self.rules, self.stopping.notified(), answer).await
    }
}

/// The maximum numbers of connections of a worker.
#[derive(Debug, PartialEq, Eq)]
struct PerWorker {
    usual: usize,
    /// Connections beyond the usual number: for probes, and until a usual connection has been closed to make room.
    surplus: usize,
}

/// The configured number, or as many as the limit on file descriptors allows. Otherwise clients could use up the
/// descriptors that the server itself needs.
fn connections_per_worker(options: &ListenOptions) -> PerWorker {
    let limit = raise_descriptor_limit();
    let fitting = limit.map_or(usize::MAX, |limit| fitting_connections(limit, options.workers));
    let per_worker = divided(options.max_connections, fitting);
    let (configured, used) = (options.max_connections, per_worker.usual);
    if used >= configured {
        return per_worker;
    }
    if options.max_connections_given {
        tracing::warn!(
            configured,
            used,
            limit,
            "http.max_connections is lowered to fit the limit on file descriptors; raise that limit (ulimit -n) for more"
        );
    } else {
        tracing::info!(
            used,
            limit,
            "as many connections per worker as the limit on file descriptors (ulimit -n) allows"
        );
    }
    per_worker
}

fn divided(configured: usize, fitting: usize) -> PerWorker {
    let surplus = SURPLUS_MAX.min(fitting / 4).max(1);
    PerWorker { usual: configured.min(fitting.saturating_sub(surplus)).max(1), surplus }
}

/// The limit on file descriptors, raised as far as allowed; `None` if unlimited.
fn raise_descriptor_limit() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Some systems refuse even the maximum that they report; then the limit stays unchanged.
    setrlimit(Resource::Nofile, raised).ok();
    getrlimit(Resource::Nofile).current
}

/// A connection needs one file descriptor, for its socket.
fn fitting_connections(limit: u64, workers: usize) -> usize {
    let workers = workers.max(1) as u64;
    let reserved = (limit / 4).clamp(*RESERVED_DESCRIPTORS.start(), *RESERVED_DESCRIPTORS.end());
    let left = limit.saturating_sub(reserved + DESCRIPTORS_PER_WORKER * workers);
    usize::try_from(left / workers).unwrap_or(usize::MAX).max(1)
}

impl RunningServer {
    /// Stops accepting, answers the requests in progress for up to `patience`, and stops. Returns how many were left
    /// unanswered.
    pub async fn drain(self, patience: Duration) -> usize {
        self.node.draining.store(true, Ordering::Relaxed);
        self.handle.pause().await;
        self.realms.here().iter().for_each(|realm| realm.environments.send_waiters_away());
        let answered = async {
            while self.node.underway.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                self.node.connections.shut_unread(STOP_GRACE);
            }
        };
        let drained = tokio::time::timeout(patience, answered).await;
        let left = if drained.is_err() { self.node.underway.load(Ordering::Acquire) } else { 0 };
        self.handle.stop(true).await;
        if let Err(error) = self.ended.await {
            tracing::warn!(%error, "the server did not stop cleanly");
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_are_left_for_probes() {
        for (configured, fitting, usual, surplus) in
            [(25_000, 500_000, 25_000, 64), (50, usize::MAX, 50, 64), (25_000, 36, 27, 9), (25_000, 1, 1, 1)]
        {
            assert_eq!(divided(configured, fitting), PerWorker { usual, surplus }, "{configured} of {fitting}");
        }
    }

    #[test]
    fn connections_leave_the_file_descriptors_that_the_server_needs() {
        for (limit, workers, fitting) in [(1024, 2, 380), (128, 2, 36), (1_048_576, 16, 65_516), (20, 4, 1)] {
            assert_eq!(fitting_connections(limit, workers), fitting, "{limit} descriptors, {workers} workers");
        }
    }
}
