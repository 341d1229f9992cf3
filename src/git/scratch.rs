//! Directories that last as long as somebody works in them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

const ONLY_OWNER: u32 = 0o700;

/// Makes the directory that all others are in, and removes what a run of the server that was killed has left there.
pub(super) fn prepare(scratch: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(scratch)?;
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "what an earlier run has left cannot be removed");
        }
    }
    Ok(())
}

/// Gone when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
    /// Whether it has the files of a work tree, which may be very many.
    has_tree: bool,
}

/// Where git finds its repository, and the files of its work tree if it has one.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub repository: PathBuf,
    pub tree: Option<PathBuf>,
}

impl Scratch {
    pub fn bare(parent: &Path) -> io::Result<Self> {
        Self::make(parent, false)
    }

    pub fn with_tree(parent: &Path) -> io::Result<Self> {
        Self::make(parent, true)
    }

    fn make(parent: &Path, has_tree: bool) -> io::Result<Self> {
        let dir = parent.join(uuid::Uuid::now_v7().simple().to_string());
        DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(&dir)?;
        Ok(Self { dir, has_tree })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn place(&self) -> Place {
        let dir = self.dir.clone();
        if self.has_tree {
            Place { repository: dir.join(".git"), tree: Some(dir) }
        } else {
            Place { repository: dir, tree: None }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        match Handle::try_current() {
            // The thread has others to serve. A bare repository is a handful of files.
            Ok(runtime) if self.has_tree => _ = runtime.spawn_blocking(move || remove(&dir)),
            Ok(_) | Err(_) => remove(&dir),
        }
    }
}

fn remove(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir) {
        tracing::warn!(path = %dir.display(), %error, "a directory of git cannot be removed; the next start tries again");
    }
}
