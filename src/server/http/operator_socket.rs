//! The operator socket: a file in the data directory for the operator's commands. It serves data that no single
//! organization may see, and only to processes of the server's user or root that know the key of the current start.
//!
//! Checking the user is not enough: steps may run as that user, and without a mount namespace they can connect, because
//! Landlock does not restrict connections to sockets before Linux 7.1. But Landlock keeps steps from reading the key
//! file.

use std::fs::{File, OpenOptions, Permissions};
use std::future::pending;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_server::{Server, ServerHandle};
use actix_service::fn_service;
use actix_web::http::header::AUTHORIZATION;
use actix_web::rt::net::UnixStream;
use sha2::{Digest, Sha256};

use super::access;
use super::codes::Code;
use super::problem::Problem;
use super::resources::{audit, operator};
use super::state::Realm;
use http1::{Incoming, Reply, Request, Response, Rules, serve};

/// The socket's name in the data directory.
pub const OPERATOR_SOCKET: &str = "operator.sock";
/// The file with the key of this start, which is sent as a bearer token.
pub const OPERATOR_KEY: &str = "operator.key";
const ONLY_OWNER: u32 = 0o600;
/// The operator needs only a few connections at the same time.
const CONNECTIONS_MAX: usize = 16;
/// Enough for a request that fits into one packet.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Removed when dropped.
pub struct OperatorSocket {
    data_dir: PathBuf,
    handle: ServerHandle,
}

impl OperatorSocket {
    /// Opens the socket in a data directory that this process has locked.
    pub fn open(data_dir: &Path, realm: Arc<Realm>) -> io::Result<Self> {
        let path = data_dir.join(OPERATOR_SOCKET);
        // A killed server leaves its socket.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // The key must exist before anybody can connect.
        let key = Arc::new(Key::write(data_dir)?);
        let listener = bind(data_dir)?;
        std::fs::set_permissions(&path, Permissions::from_mode(ONLY_OWNER))?;
        let service = move || {
            let (realm, key) = (realm.clone(), key.clone());
            let operator = Rc::new(Operator { realm, key, rules: Rules::new(HEAD_TIMEOUT) });
            fn_service(move |stream: UnixStream| operator.clone().serve(stream))
        };
        let builder = Server::build().workers(1).max_concurrent_connections(CONNECTIONS_MAX).disable_signals();
        let server = builder.listen_uds("operator", listener, service)?.run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        Ok(Self { data_dir: data_dir.to_owned(), handle })
    }

    /// Removes the files of an earlier start if there should be no socket.
    pub fn remove(data_dir: &Path) {
        for name in [OPERATOR_SOCKET, OPERATOR_KEY] {
            let _ = std::fs::remove_file(data_dir.join(name));
        }
    }

    pub async fn close(self) {
        self.handle.stop(false).await;
    }
}

impl Drop for OperatorSocket {
    fn drop(&mut self) {
        Self::remove(&self.data_dir);
    }
}

/// Stored as a hash, so that comparing takes equally long for all wrong keys.
struct Key {
    hash: [u8; 32],
    refused: AtomicBool,
}

impl Key {
    /// Creates a new key that replaces that of an earlier start.
    fn write(data_dir: &Path) -> io::Result<Self> {
        let text: String = rand::random::<[u128; 2]>().iter().map(|part| format!("{part:032x}")).collect();
        let mut options = OpenOptions::new();
        // Overwrites the old key, which has the same length: on a full disk, a freed block might not be available
        // again.
        options.write(true).create(true).truncate(false).mode(ONLY_OWNER);
        let mut file = options.open(data_dir.join(OPERATOR_KEY))?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        Ok(Self { hash: Sha256::digest(text).into(), refused: AtomicBool::new(false) })
    }

    fn check(&self, request: &Request) -> Result<(), Problem> {
        let given = request.headers().get(&AUTHORIZATION).and_then(access::bearer);
        if given.is_some_and(|given| <[u8; 32]>::from(Sha256::digest(given)) == self.hash) {
            return Ok(());
        }
        // Logged only once: a step that keeps trying must not fill the log.
        if !self.refused.swap(true, Ordering::Relaxed) {
            tracing::warn!("a process without the operator's key was refused at the operator's socket");
        }
        let detail = format!(
            "the request must carry the key in {OPERATOR_KEY} of the data directory; each start makes a new one"
        );
        Err(Problem::unauthenticated(Code::InvalidToken, detail))
    }
}

struct Operator {
    realm: Arc<Realm>,
    key: Arc<Key>,
    rules: Rules,
}

impl Operator {
    async fn serve(self: Rc<Self>, stream: UnixStream) -> io::Result<()> {
        admit(&stream)?;
        let answered = async |request: Request, _: Incoming| {
            let response = match self.key.check(&request) {
                Ok(()) => answer(&self.realm, &request).await,
                Err(problem) => Err(problem),
            };
            let response = response.unwrap_or_else(|problem| problem.render("operator"));
            Reply { is_last: true, ..response.into() }
        };
        serve(stream, None, &self.rules, pending(), answered).await
    }
}

/// Binds through the directory's descriptor, since a socket path may have at most 107 bytes.
fn bind(data_dir: &Path) -> io::Result<UnixListener> {
    let dir = File::open(data_dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{OPERATOR_SOCKET}", dir.as_raw_fd()))
}

/// Only the server's own user and root.
fn admit(stream: &UnixStream) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer != 0 && peer != rustix::process::geteuid().as_raw() {
        tracing::warn!(uid = peer, "another user was refused at the operator's socket");
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

async fn answer(realm: &Realm, request: &Request) -> Result<Response, Problem> {
    let method = request.method().as_str();
    match (method, request.path()) {
        ("GET", "/api/v1/backup") => operator::whole_backup(realm).await,
        ("GET", "/api/v1/audit") => audit::whole(realm, request).await,
        (_, "/api/v1/backup" | "/api/v1/audit") => Err(Problem::method_not_allowed(method, "GET")),
        (_, _) => {
            let detail = "the operator's socket serves GET /api/v1/backup and GET /api/v1/audit";
            Err(Problem::new(Code::RouteNotFound, detail))
        }
    }
}
