//! The store of logs that all nodes share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::directory::Directory;
use super::error::StoreFailure;
use super::object::{Uploaded, names};
use super::s3::S3;
use crate::logs::LogFile;
use ambient::backoff::Backoff;

/// How often a read is tried that may work a moment later, and with which pauses.
const READ_ATTEMPTS: u32 = 4;
const READ_BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));

/// Cheap to clone.
#[derive(Clone)]
pub struct LogStore(Kind);

#[derive(Clone)]
enum Kind {
    Directory(Directory),
    S3(Arc<S3>),
}

impl LogStore {
    /// `node` is the name of this node.
    pub fn directory(root: &Path, node: &str) -> Self {
        Self(Kind::Directory(Directory::new(root, node)))
    }

    pub fn s3(s3: S3) -> Self {
        Self(Kind::S3(Arc::new(s3)))
    }

    /// Replaces what is there.
    pub(super) async fn put(&self, file: &LogFile, body: Uploaded) -> Result<(), StoreFailure> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => {
                let directory = directory.clone();
                blocking(move || directory.put(&names, &body)).await
            }
            Kind::S3(s3) => s3.put(&names, &body).await,
        }
    }

    /// At most so many bytes from there on; `None` if there is no such log.
    pub async fn get(&self, file: &LogFile, from: u64, max: usize) -> Result<Option<Vec<u8>>, StoreFailure> {
        let mut attempt = 1;
        loop {
            match self.get_once(file, from, max).await {
                Err(error) if error.is_passing && attempt < READ_ATTEMPTS => {
                    tokio::time::sleep(READ_BACKOFF.pause(attempt, rand::random())).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// The same without a second try.
    pub(super) async fn get_once(
        &self,
        file: &LogFile,
        from: u64,
        max: usize,
    ) -> Result<Option<Vec<u8>>, StoreFailure> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => {
                let directory = directory.clone();
                blocking(move || directory.get(&names, from, max)).await
            }
            Kind::S3(s3) => s3.get(&names, from, max).await,
        }
    }

    pub async fn remove(&self, file: &LogFile) -> Result<(), StoreFailure> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => {
                let directory = directory.clone();
                blocking(move || directory.remove(&names)).await
            }
            Kind::S3(s3) => s3.remove(&names).await,
        }
    }

    /// Whether it is there and may be used.
    pub async fn check(&self) -> Result<(), StoreFailure> {
        match &self.0 {
            Kind::Directory(directory) => {
                let directory = directory.clone();
                blocking(move || directory.check()).await
            }
            Kind::S3(s3) => s3.check().await,
        }
    }
}

fn names_of(file: &LogFile) -> Result<[String; 3], StoreFailure> {
    names(file).ok_or_else(|| StoreFailure::lasting("a log of one machine has no place in the store"))
}

async fn blocking<T: Send + 'static>(
    action: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, StoreFailure> {
    Ok(tokio::task::spawn_blocking(action).await.map_err(std::io::Error::other)??)
}
