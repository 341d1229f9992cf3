//! The working directories of deployments: one each, shared by its stages and all their attempts.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::domain::DeploymentId;

const ONLY_OWNER: u32 = 0o700;

pub(super) fn dir(work_dir: &Path, deployment: DeploymentId) -> PathBuf {
    work_dir.join(deployment.to_string())
}

pub(super) fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)
}

/// Removes all that are not to be kept.
pub(super) fn forget(work_dir: &Path, keep: impl Fn(DeploymentId) -> bool) {
    let Ok(entries) = fs::read_dir(work_dir) else { return };
    for entry in entries.flatten() {
        let Some(deployment) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if keep(deployment) {
            continue;
        }
        let path = entry.path();
        // Build tools leave directories that not even their owner may write, and so not empty either.
        let removed = fs::remove_dir_all(&path).or_else(|_| {
            make_writable(&path)?;
            fs::remove_dir_all(&path)
        });
        if let Err(error) = removed {
            warn!(%deployment, %error, "the working directory of a deployment cannot be removed");
        }
    }
}

fn make_writable(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(ONLY_OWNER))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}
