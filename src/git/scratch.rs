//! Directories that last as long as somebody works in them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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
pub(super) struct Scratch(PathBuf);

/// Where git finds its repository, and the files of its work tree if it has one.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub repository: PathBuf,
    pub tree: Option<PathBuf>,
}

impl Scratch {
    pub fn make(parent: &Path) -> io::Result<Self> {
        let dir = parent.join(uuid::Uuid::now_v7().simple().to_string());
        DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(&dir)?;
        Ok(Self(dir))
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    pub fn bare(&self) -> Place {
        Place { repository: self.0.clone(), tree: None }
    }

    pub fn tree(&self) -> Place {
        Place { repository: self.0.join(".git"), tree: Some(self.0.clone()) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a directory of git cannot be removed; the next start tries again");
        }
    }
}
