//! The listening server: its limits on slow and many clients, and its end.

use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_http::HttpService;
use actix_http::error::DispatchError;
use actix_server::{GracefulShutdownSignal, Server, ServerHandle};
use actix_service::{ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::rt::net::TcpStream;
use futures_util::TryFutureExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use super::connections::Stream;
use super::router::Router;
use super::state::{Node, Realm};
use super::{observe, state};

/// How the server listens.
#[derive(Debug, Clone)]
pub struct Front {
    pub listen: SocketAddr,
    pub workers: usize,
    pub head_timeout: Duration,
    pub keep_alive: Duration,
    pub max_connections: usize,
}

/// A server that accepts requests.
pub struct Running {
    pub address: SocketAddr,
    pub node: Arc<Node>,
    pub realm: Arc<Realm>,
    handle: ServerHandle,
    ended: actix_web::rt::task::JoinHandle<io::Result<()>>,
}

/// What the kernel holds for us while all workers are busy accepting: enough for a fleet that starts at once.
const BACKLOG: u32 = 4096;
/// After a drain only idle keep-alive connections are left; nobody waits for those.
const LINGER_SECONDS: u64 = 1;

/// What a worker takes before it has any connection: its event loop.
const DESCRIPTORS_PER_WORKER: u64 = 4;
/// What connections leave to everything else. The store, the log and the runtime hold about twenty; the rest is for
/// what they open in passing.
const RESERVED_DESCRIPTORS: std::ops::RangeInclusive<u64> = 48..=256;

/// An address that is ours and that nobody can connect to yet.
pub struct Reserved(Socket);

/// Takes the address first of all, so that a start that cannot have it has not begun anything else. Reuses one whose last
/// connections are still fading, so that a restart does not have to wait for them, and refuses one that somebody
/// listens on.
pub fn reserve(address: SocketAddr) -> io::Result<Reserved> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(Reserved(socket))
}

pub fn start(front: &Front, Reserved(socket): Reserved, node: Node, realm: Realm) -> io::Result<Running> {
    let (node, realm) = (Arc::new(node), Arc::new(realm));
    socket.listen(BACKLOG as i32)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    let builder = Server::build()
        .workers(front.workers)
        .max_concurrent_connections(connections_per_worker(front))
        .shutdown_timeout(LINGER_SECONDS)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let serve = {
        let (front, node, realm) = (front.clone(), node.clone(), realm.clone());
        move || serve(&front, state::App::new(node.clone(), realm.clone()), stopping.clone())
    };
    let server = builder.listen("http", listener, serve)?.run();
    let handle = server.handle();
    Ok(Running { address, node, realm, handle, ended: actix_web::rt::spawn(server) })
}

/// What a worker does with the connections it is given. It is what the web framework's own server does, but with sockets
/// that we can look at while requests of theirs are under way.
fn serve(
    front: &Front,
    app: state::App,
    stopping: GracefulShutdownSignal,
) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = DispatchError, InitError = ()> + use<> {
    let (connections, router) = (app.node.connections.clone(), Rc::new(Router::new()));
    // One service for everything: a layer of the web framework for each thing that one function does costs more than
    // all of them do.
    let answer = move |request| observe::observe(app.clone(), router.clone(), request).map_err(Into::into);
    let app = App::new().default_service(fn_service(answer));
    let http = HttpService::build()
        .client_request_timeout(front.head_timeout)
        .client_disconnect_timeout(Duration::from_secs(LINGER_SECONDS))
        .keep_alive(front.keep_alive)
        .graceful_shutdown_signal(move || {
            let stopping = stopping.clone();
            async move { stopping.notified().await }
        })
        .on_connect_ext(Stream::introduce)
        // Nothing here asks the framework for the server's own name or address.
        .h1(map_config(app, |()| AppConfig::default()));
    let open = move |tcp: TcpStream| {
        let peer = tcp.peer_addr().ok();
        ready(Ok((connections.opened(tcp), peer)))
    };
    fn_service(open).and_then(http)
}

/// As many as configured, or as the limit on descriptors allows; further ones wait to be accepted. Without this, clients
/// could take the descriptors that the server itself needs.
fn connections_per_worker(front: &Front) -> usize {
    let Some(limit) = raise_descriptor_limit() else { return front.max_connections };
    let fitting = fitting_connections(limit, front.workers);
    if fitting < front.max_connections {
        tracing::warn!(
            configured = front.max_connections,
            used = fitting,
            limit,
            "http.max_connections is lowered to fit in the limit on file descriptors; raise that (ulimit -n) to have more"
        );
    }
    front.max_connections.min(fitting)
}

/// The limit on descriptors, raised as far as this process may; `None` if there is none.
fn raise_descriptor_limit() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Some systems refuse what they say is allowed; then it stays as it was.
    setrlimit(Resource::Nofile, raised).ok();
    getrlimit(Resource::Nofile).current
}

/// A connection takes one descriptor, its socket.
fn fitting_connections(limit: u64, workers: usize) -> usize {
    let workers = workers.max(1) as u64;
    let reserved = (limit / 4).clamp(*RESERVED_DESCRIPTORS.start(), *RESERVED_DESCRIPTORS.end());
    let left = limit.saturating_sub(reserved + DESCRIPTORS_PER_WORKER * workers);
    usize::try_from(left / workers).unwrap_or(usize::MAX).max(1)
}

impl Running {
    /// Stops accepting, answers what is under way for up to `patience`, and ends. Says how many were left unanswered.
    pub async fn drain(self, patience: Duration) -> usize {
        self.node.draining.store(true, Ordering::Relaxed);
        self.handle.pause().await;
        self.realm.environments.send_waiters_away();
        let answered = async {
            while self.node.underway.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let drained = tokio::time::timeout(patience, answered).await;
        let left = if drained.is_err() { self.node.underway.load(Ordering::Acquire) } else { 0 };
        self.handle.stop(true).await;
        if let Err(error) = self.ended.await {
            tracing::warn!(%error, "the server did not end cleanly");
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_take_what_the_server_needs_for_itself() {
        for (limit, workers, fitting) in [(1024, 2, 380), (128, 2, 36), (1_048_576, 16, 65_516), (20, 4, 1)] {
            assert_eq!(fitting_connections(limit, workers), fitting, "{limit} descriptors, {workers} workers");
        }
    }
}
