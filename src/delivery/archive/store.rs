//! The store of logs that all nodes share: a bucket of S3, or a directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::object::{ObjectError, Uploaded};
use super::s3::S3;
use crate::logs::{LogFile, read_range};
use crate::{blocking, if_present};
use ambient::backoff::{Backoff, Retries};

/// Attempts of a read after temporary errors, with their pauses.
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

    /// Replaces an existing object.
    pub(super) async fn put(&self, file: &LogFile, body: Uploaded) -> Result<(), ObjectError> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => directory.blocking(move |directory| directory.put(&names, &body)).await,
            Kind::S3(s3) => s3.put(&names, &body).await,
        }
    }

    /// At most `max` bytes from `from`; `None` if there is no such log.
    pub async fn get(&self, file: &LogFile, from: u64, max: usize) -> Result<Option<Vec<u8>>, ObjectError> {
        let mut retries = Retries::new(READ_BACKOFF);
        for _ in 1..READ_ATTEMPTS {
            match self.get_once(file, from, max).await {
                Err(error) if error.is_passing => tokio::time::sleep(retries.failed()).await,
                result => return result,
            }
        }
        self.get_once(file, from, max).await
    }

    /// Like [`LogStore::get`], with a single attempt.
    pub(super) async fn get_once(&self, file: &LogFile, from: u64, max: usize) -> Result<Option<Vec<u8>>, ObjectError> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => directory.blocking(move |directory| directory.get(&names, from, max)).await,
            Kind::S3(s3) => s3.get(&names, from, max).await,
        }
    }

    pub async fn remove(&self, file: &LogFile) -> Result<(), ObjectError> {
        let names = names_of(file)?;
        match &self.0 {
            Kind::Directory(directory) => directory.blocking(move |directory| directory.remove(&names)).await,
            Kind::S3(s3) => s3.remove(&names).await,
        }
    }

    /// Whether the store exists and is accessible.
    pub async fn check(&self) -> Result<(), ObjectError> {
        match &self.0 {
            Kind::Directory(directory) => directory.blocking(Directory::check).await,
            Kind::S3(s3) => s3.check().await,
        }
    }
}

/// The names of an object relative to the root of the store.
fn names_of(file: &LogFile) -> Result<[String; 3], ObjectError> {
    let organization = file.organization.as_ref();
    let organization =
        organization.ok_or_else(|| ObjectError::lasting("a log of one machine has no place in the store"))?;
    Ok([organization.to_string(), file.deployment.to_string(), format!("{}.log", file.number)])
}

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A directory that all nodes share, such as one on NFS. Blocking.
#[derive(Clone)]
struct Directory {
    /// Never created here: the disk may be unmounted at the moment.
    root: PathBuf,
    /// The name of this node, for temporary files.
    node: String,
}

impl Directory {
    pub fn new(root: &Path, node: &str) -> Self {
        Self { root: root.to_owned(), node: node.replace('/', "_") }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        action: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ObjectError> {
        let directory = self.clone();
        Ok(blocking(move || action(&directory)).await?)
    }

    /// Readers see the complete new object or the previous one.
    pub fn put(&self, names: &[String; 3], body: &Uploaded) -> io::Result<()> {
        self.check()?;
        let [organization, deployment, name] = names;
        let mut dir = self.root.clone();
        for folder in [organization, deployment] {
            dir.push(folder);
            match DirBuilder::new().mode(DIR_MODE).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let written = dir.join(format!("{}{}", unfinished(name), self.node));
        let put = write(&written, body).and_then(|()| fs::rename(&written, dir.join(name)));
        // Removes the files of killed uploads, and our own file if the upload failed.
        remove_unfinished(&dir, name);
        put?;
        File::open(dir)?.sync_all()
    }

    /// At most `max` bytes from `from`; `None` if there is no such object.
    pub fn get(&self, names: &[String; 3], from: u64, max: usize) -> io::Result<Option<Vec<u8>>> {
        self.check()?;
        read_range(&self.path(names), from, max)
    }

    pub fn remove(&self, names: &[String; 3]) -> io::Result<()> {
        self.check()?;
        let path = self.path(names);
        if_present(fs::remove_file(&path))?;
        if let Some(dir) = path.parent() {
            remove_unfinished(dir, &names[2]);
            // Succeeds only after the last part. The organization's directory stays: it may soon be needed again.
            fs::remove_dir(dir).ok();
        }
        Ok(())
    }

    pub fn check(&self) -> io::Result<()> {
        let is_there = self.root.is_dir();
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", self.root.display()));
        is_there.then_some(()).ok_or_else(missing)
    }

    fn path(&self, names: &[String; 3]) -> PathBuf {
        names.iter().fold(self.root.clone(), |path, name| path.join(name))
    }
}

/// The prefix of an object's temporary files; the name of the node follows.
fn unfinished(name: &str) -> String {
    format!(".{name}.")
}

fn write(path: &Path, body: &Uploaded) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    body.for_each_piece(|piece| file.write_all(piece))?;
    file.sync_all()
}

/// Only one node writes a part, so no other upload of it is in progress. Best effort: the next upload or the removal
/// tries again.
fn remove_unfinished(dir: &Path, name: &str) {
    let prefix = unfinished(name);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            fs::remove_file(entry.path()).ok();
        }
    }
}
