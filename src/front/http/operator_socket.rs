//! The operator's socket: a file in the data directory, for commands of who runs the server. It has no tokens: the kernel says
//! whose process is at the other end. It serves only what no single organization may see.

use std::fs::{File, Permissions};
use std::future::pending;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_server::{Server, ServerHandle};
use actix_service::fn_service;
use actix_web::rt::net::UnixStream;

use super::codes::Code;
use super::incoming::Incoming;
use super::problem::Problem;
use super::reply::Reply;
use super::request::Request;
use super::resources::{audit, backups};
use super::response::Response;
use super::state::Realm;
use super::wire::{self, Rules};

/// Its name in the data directory.
pub const OPERATOR_SOCKET: &str = "operator.sock";
const ONLY_OWNER: u32 = 0o600;
/// An operator has a few at once.
const CONNECTIONS_MAX: usize = 16;
/// For a request that fits into one packet.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Removed when this is dropped.
pub struct OperatorSocket {
    path: PathBuf,
    handle: ServerHandle,
}

impl OperatorSocket {
    /// In a data directory that this process holds.
    pub fn open(data_dir: &Path, realm: Arc<Realm>) -> io::Result<Self> {
        let path = data_dir.join(OPERATOR_SOCKET);
        // One that a killed server has left.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = bind(data_dir)?;
        std::fs::set_permissions(&path, Permissions::from_mode(ONLY_OWNER))?;
        let service = move || {
            let operator = Rc::new(Operator { realm: realm.clone(), rules: Rules::new(HEAD_TIMEOUT) });
            fn_service(move |stream: UnixStream| operator.clone().serve(stream))
        };
        let builder = Server::build().workers(1).max_concurrent_connections(CONNECTIONS_MAX).disable_signals();
        let server = builder.listen_uds("operator", listener, service)?.run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        Ok(Self { path, handle })
    }

    pub async fn close(self) {
        self.handle.stop(false).await;
    }
}

impl Drop for OperatorSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Operator {
    realm: Arc<Realm>,
    rules: Rules,
}

impl Operator {
    async fn serve(self: Rc<Self>, stream: UnixStream) -> io::Result<()> {
        admit(&stream)?;
        let answered = async |request: Request, _: Incoming| {
            let response = answer(&self.realm, &request).await;
            let response = response.unwrap_or_else(|problem| problem.render("operator"));
            Reply { is_last: true, ..response.into() }
        };
        wire::serve(stream, None, &self.rules, pending(), answered).await
    }
}

/// The name of a socket has at most 107 bytes, and the path of a data directory may be longer: it is named by its descriptor.
fn bind(data_dir: &Path) -> io::Result<UnixListener> {
    let dir = File::open(data_dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{OPERATOR_SOCKET}", dir.as_raw_fd()))
}

/// Only the server's own user, and root.
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
        ("GET", "/api/v1/backup") => backups::whole(realm).await,
        ("GET", "/api/v1/audit") => audit::whole(realm, request).await,
        (_, "/api/v1/backup" | "/api/v1/audit") => Err(Problem::method_not_allowed(method, "GET")),
        (_, _) => {
            let detail = "the operator's socket serves GET /api/v1/backup and GET /api/v1/audit";
            Err(Problem::new(Code::RouteNotFound, detail))
        }
    }
}
