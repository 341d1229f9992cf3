//! Shared by all connections to engines: the thread that serves them, and their certificates.

use std::convert::Infallible;
use std::io;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

/// A thread that serves the connections to an engine; it ends when this is dropped. Callers run on other threads, some
/// of which block outside of any runtime, but a connection must answer pings at any time.
pub struct Driver {
    runtime: Handle,
    _running: oneshot::Sender<Infallible>,
}

impl Driver {
    pub fn start(name: &str) -> io::Result<Driver> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        let serve = move || {
            // Blocks until the sender is dropped.
            let Err(_) = runtime.block_on(ended);
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Driver { runtime: handle, _running: running })
    }

    /// Runs a task on this thread.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// Tasks spawned while the guard lives run on this thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

/// Certificates in PEM.
pub struct EngineTls {
    /// The authority that must have signed the certificates of the engine's servers.
    pub authority: Vec<u8>,
    /// Our certificate and its key, if the servers require one.
    pub identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}
