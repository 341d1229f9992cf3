//! The directories of deployments: a working directory and one for temporary files, shared by the stages of a
//! deployment and all their attempts.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use tracing::warn;

use domain::DeploymentId;

const ONLY_OWNER: u32 = 0o700;
/// The suffix of a deployment's directory for temporary files. Not inside the working directory, which a step may
/// expect to be empty.
const TEMPORARY: &str = ".tmp";

pub(super) fn path(work_dir: &Path, deployment: DeploymentId) -> PathBuf {
    work_dir.join(deployment.to_string())
}

/// Next to the working directory.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// The working directory, and the one for temporary files.
pub(super) fn both(work_dir: &Path, deployment: DeploymentId) -> Vec<PathBuf> {
    let path = path(work_dir, deployment);
    let temporary = temporary(&path);
    vec![path, temporary]
}

/// The deployments with a working directory.
pub(super) fn deployments(work_dir: &Path) -> Vec<DeploymentId> {
    let entries = fs::read_dir(work_dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Creates a directory owned by this user, or by the server's.
pub(super) fn create(dir: &Path, user: Option<u32>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)?;
    let own = getuid();
    let owner = user.unwrap_or(own.as_raw());
    // Only root can have given the directory to another user, and only root can take it back.
    if own.is_root() && fs::symlink_metadata(dir)?.uid() != owner { hand_over(dir, owner) } else { Ok(()) }
}

/// Files of earlier stages go to the next stage, even if the setting for users has changed since.
fn hand_over(path: &Path, owner: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            hand_over(&entry?.path(), owner)?;
        }
    }
    // The directory itself last: after an interruption, everything is repeated.
    lchown(path, Some(owner), Some(owner))
}

pub(super) fn remove_unless(work_dir: &Path, keep: impl Fn(DeploymentId) -> bool) {
    let Ok(entries) = fs::read_dir(work_dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().map(|name| name.strip_suffix(TEMPORARY).unwrap_or(name));
        let Some(deployment) = id.and_then(|id| id.parse().ok()) else { continue };
        if keep(deployment) {
            continue;
        }
        remove_or_warn(&entry.path(), deployment);
    }
}

/// Frees the space of a deployment without running processes.
pub(super) fn remove(path: &Path, deployment: DeploymentId) {
    for dir in [path, &temporary(path)] {
        if dir.exists() {
            remove_or_warn(dir, deployment);
        }
    }
}

fn remove_or_warn(path: &Path, deployment: DeploymentId) {
    // Some build tools leave directories that are read-only even for their owner, and so cannot be emptied.
    let removed = fs::remove_dir_all(path).or_else(|_| {
        make_writable(path)?;
        fs::remove_dir_all(path)
    });
    if let Err(error) = removed {
        warn!(%deployment, %error, "cannot remove the working directory of a deployment");
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
