//! Why the server could not start or continue.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::moving::NotReady;
use crate::tls;
use accounts::secrets;
use locks::Failure;

/// Why the server did not start, or stopped unexpectedly: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Open(#[from] store::OpenError),
    #[error(transparent)]
    Secrets(#[from] secrets::OpenError),
    #[error("{}", said(.0))]
    Tls(Vec<tls::TlsError>),
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: String },
    #[error("cannot prepare the data directory: {0}")]
    Store(#[from] store::StoreError),
    #[error("cannot create a declared environment: {0}")]
    Declare(#[from] Failure),
    #[error("cannot resume the deployments of the previous run: {0}")]
    Recover(#[source] Failure),
    #[error("{0}")]
    Isolation(String),
    #[error("cluster: {0}")]
    Engine(#[from] store::engine::EngineError),
    #[error("cluster: cannot read {path}: {source}")]
    EngineFile { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error("cluster: {0}")]
    Cluster(String),
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

impl ServeError {
    pub fn listen(address: SocketAddr, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "the address is in use by another program; stop it, or choose another address with --listen".to_owned()
            }
            io::ErrorKind::PermissionDenied => {
                "the port requires more privileges; choose one above 1023 with --listen".to_owned()
            }
            _ => format!("{error}; choose another address with --listen"),
        };
        Self::Listen { address, reason }
    }
}

fn said(unfit: &[tls::TlsError]) -> String {
    unfit.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}
