//! The working directories of deployments: one per deployment, shared by its stages and all their attempts.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::domain::DeploymentId;

const ONLY_OWNER: u32 = 0o700;

pub(super) fn path(work_dir: &Path, deployment: DeploymentId) -> PathBuf {
    work_dir.join(deployment.to_string())
}

pub(super) fn create(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)
}

pub(super) fn remove_unless(work_dir: &Path, keep: impl Fn(DeploymentId) -> bool) {
    let Ok(entries) = fs::read_dir(work_dir) else { return };
    for entry in entries.flatten() {
        let Some(deployment) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if keep(deployment) {
            continue;
        }
        let path = entry.path();
        // Some build tools leave directories that even their owner may not write to, so they cannot be emptied.
        let removed = fs::remove_dir_all(&path).or_else(|_| {
            make_writable(&path)?;
            fs::remove_dir_all(&path)
        });
        if let Err(error) = removed {
            warn!(%deployment, %error, "cannot remove the working directory of a deployment");
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
