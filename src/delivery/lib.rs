//! Deployments: running steps, their output, the installed git, and steps that pipelines share.

pub mod archive;
pub mod git;
pub mod logs;
pub mod registries;
pub mod runner;

use std::io;

use rustix::process::Pid;

/// Never resolves without a future.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// `None` if the file does not exist.
fn if_present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

async fn blocking<T: Send + 'static>(action: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(action).await.map_err(io::Error::other)?
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}
