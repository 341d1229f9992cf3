//! Temporary directories for repositories.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

/// Creates the parent directory, and removes leftovers of a killed run of the server.
pub(super) fn prepare(scratch: &Path) -> io::Result<()> {
    create(scratch)?;
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "cannot remove a leftover of an earlier run");
        }
    }
    Ok(())
}

fn create(dir: &Path) -> io::Result<()> {
    const ONLY_OWNER: u32 = 0o700;
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
    /// Whether it contains a work tree, which may have very many files.
    has_tree: bool,
}

/// The paths of a repository and of its work tree, if it has one.
#[derive(Debug, Clone)]
pub(super) struct RepositoryPaths {
    pub repository: PathBuf,
    pub tree: Option<PathBuf>,
}

impl Scratch {
    pub fn new(parent: &Path, has_tree: bool) -> io::Result<Self> {
        let dir = parent.join(uuid::Uuid::now_v7().simple().to_string());
        create(&dir)?;
        Ok(Self { dir, has_tree })
    }

    pub fn paths(&self) -> RepositoryPaths {
        let dir = self.dir.clone();
        if self.has_tree {
            RepositoryPaths { repository: dir.join(".git"), tree: Some(dir) }
        } else {
            RepositoryPaths { repository: dir, tree: None }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        match Handle::try_current() {
            // Removing many files would block the thread. A bare repository has only a handful.
            Ok(runtime) if self.has_tree => _ = runtime.spawn_blocking(move || remove(&dir)),
            Ok(_) | Err(_) => remove(&dir),
        }
    }
}

fn remove(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir) {
        tracing::warn!(path = %dir.display(), %error, "cannot remove a directory of git; the next start tries again");
    }
}
