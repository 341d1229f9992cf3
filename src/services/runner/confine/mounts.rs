//! What a step sees of the file system: the machine's, with directories of its own for temporary files, only its own
//! processes in `/proc`, and an empty place where the data directory is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};
use rustix::process::{getuid, umask};

use super::super::protocol::Confinement;

/// The places for temporary files and shared memory. A deployment has one directory for all of them.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
const TERMINALS: &str = "/dev/pts";
/// ssh takes these files only from root or from its own user, and a user namespace does not know root.
const OWNER_IS_CHECKED: [&str; 2] = ["/etc/ssh/ssh_config.d", "/etc/crypto-policies/back-ends"];
/// Of such a directory; configurations are far smaller.
const COPIED_FILES_MAX: usize = 64;
const COPIED_BYTES_MAX: u64 = 64 * 1024;
const EMPTY: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Which places are replaced, and what is put back into them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Replaced by an empty directory.
    hidden: Vec<PathBuf>,
    /// Replaced by the deployment's directory for temporary files.
    temporary: Vec<PathBuf>,
    /// Paths inside the others that the step must reach.
    kept: Vec<PathBuf>,
}

/// `is_closed`: whether the step's user may not enter that directory.
fn plan(confinement: &Confinement, is_closed: impl Fn(&Path) -> bool, exists: impl Fn(&Path) -> bool) -> Plan {
    let data_dir = PathBuf::from(&confinement.data_dir);
    let extra: Vec<PathBuf> = confinement.read_only.iter().chain(&confinement.writable).map(PathBuf::from).collect();
    // Nothing is lost by hiding a directory that the step cannot enter, and what is put back can then be reached.
    let closed = extra.iter().chain([&data_dir]).filter_map(|path| {
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|dir| dir.parent().is_some()).collect();
        above.reverse();
        above.into_iter().find(|dir| is_closed(dir)).map(Path::to_owned)
    });
    let hidden: BTreeSet<PathBuf> = closed.chain([data_dir.clone()]).collect();
    let temporary: BTreeSet<PathBuf> = TEMPORARY.iter().map(PathBuf::from).filter(|path| exists(path)).collect();
    let is_inside = |path: &Path| hidden.iter().chain(&temporary).any(|place| path != place && path.starts_with(place));
    let outermost = |places: &BTreeSet<PathBuf>| places.iter().filter(|path| !is_inside(path)).cloned().collect();
    let work_dir = PathBuf::from(&confinement.work_dir);
    let kept: BTreeSet<PathBuf> = extra.into_iter().chain([work_dir]).filter(|path| is_inside(path)).collect();
    Plan { hidden: outermost(&hidden), temporary: outermost(&temporary), kept: kept.into_iter().collect() }
}

/// Gives this process and its children a view of their own. The error is the end of a sentence.
pub(super) fn arrange(confinement: &Confinement) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)
        .map_err(|error| format!("a mount namespace cannot be had: {}", io::Error::from(error)))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(refused("/"))?;
    // Mount points are for everybody to pass; the step's own mask is set later.
    umask(Mode::from_raw_mode(0o022));
    let plan = plan(confinement, |dir| is_closed(dir, confinement.user), Path::is_dir);
    let kept: Vec<(&PathBuf, OwnedFd, bool)> = plan
        .kept
        .iter()
        .filter(|path| path.exists())
        .map(|path| Ok((path, copy_of(path)?, path.is_dir())))
        .collect::<Result<_, String>>()?;
    let temporary: Vec<(&PathBuf, OwnedFd)> = plan
        .temporary
        .iter()
        .map(|place| Ok((place, copy_of(Path::new(&confinement.temporary_dir))?)))
        .collect::<Result<_, String>>()?;
    for place in &plan.hidden {
        cover(place)?;
    }
    for (place, directory) in temporary {
        put(directory, place)?;
    }
    for (path, original, is_dir) in kept {
        mount_point(path, is_dir).map_err(refused(path))?;
        put(original, path)?;
    }
    plan.hidden.iter().try_for_each(|place| close(place))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(refused("/proc"))?;
    own_terminals()?;
    if !getuid().is_root() {
        OWNER_IS_CHECKED.iter().try_for_each(|dir| own_copies(Path::new(dir)))?;
    }
    Ok(())
}

fn is_closed(dir: &Path, user: Option<u32>) -> bool {
    let (Some(user), Ok(found)) = (user, fs::metadata(dir)) else { return false };
    found.uid() != user && found.permissions().mode() & 0o001 == 0
}

/// A second place for the same directory or file, not yet anywhere.
fn copy_of(path: &Path) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(refused(path))
}

fn put(original: OwnedFd, path: &Path) -> Result<(), String> {
    move_mount(original, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(refused(path))
}

fn mount_point(path: &Path, is_dir: bool) -> rustix::io::Result<()> {
    let above = if is_dir { path } else { path.parent().unwrap_or(path) };
    let made = fs::create_dir_all(above).and_then(|()| if is_dir { Ok(()) } else { File::create(path).map(drop) });
    made.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
}

fn cover(place: &Path) -> Result<(), String> {
    mount("tmpfs", place, "tmpfs", EMPTY, Some(c"mode=755,size=8m")).map_err(refused(place))
}

fn close(place: &Path) -> Result<(), String> {
    mount_remount(place, MountFlags::BIND | MountFlags::RDONLY | EMPTY, "").map_err(refused(place))
}

/// Terminals that the step opens are new ones, and it sees no other.
fn own_terminals() -> Result<(), String> {
    if !Path::new(TERMINALS).is_dir() {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let own = mount("devpts", TERMINALS, "devpts", flags, Some(c"newinstance,ptmxmode=0666,mode=620"));
    own.or_else(|_| cover(Path::new(TERMINALS)))
}

/// Replaces the files of a directory by copies that belong to this user.
fn own_copies(dir: &Path) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    let mut copies = Vec::new();
    for entry in entries.flatten().take(COPIED_FILES_MAX) {
        let is_small = fs::metadata(entry.path()).is_ok_and(|found| found.is_file() && found.len() <= COPIED_BYTES_MAX);
        if is_small && let Ok(content) = fs::read(entry.path()) {
            copies.push((entry.path(), content));
        }
    }
    if copies.is_empty() {
        return Ok(());
    }
    cover(dir)?;
    for (path, content) in copies {
        fs::write(&path, content).map_err(|error| format!("{} cannot be copied: {error}", path.display()))?;
    }
    close(dir)
}

fn refused(place: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> String {
    move |error| format!("nothing can be mounted at {}: {error}", place.as_ref().display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::protocol::StepNetwork;

    fn confinement(data_dir: &str, read_only: &[&str], writable: &[&str]) -> Confinement {
        let texts = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        Confinement {
            user: Some(7),
            namespaces: true,
            file_rules: true,
            network: StepNetwork::Open,
            data_dir: data_dir.to_owned(),
            work_dir: format!("{data_dir}/work/one"),
            temporary_dir: format!("{data_dir}/work/one.tmp"),
            read_only: texts(read_only),
            writable: texts(writable),
            limits: Default::default(),
            control_groups: Vec::new(),
        }
    }

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn the_data_directory_is_hidden_but_for_the_work_directory() {
        let plan = plan(&confinement("/var/lib/lk", &["/srv/repos"], &[]), |_| false, |_| true);
        let expected = Plan {
            hidden: paths(&["/var/lib/lk"]),
            temporary: paths(&["/dev/shm", "/tmp", "/var/tmp"]),
            kept: paths(&["/var/lib/lk/work/one"]),
        };
        assert_eq!(plan, expected);
    }

    #[test]
    fn a_directory_that_the_user_cannot_enter_is_hidden_as_a_whole_and_what_is_needed_is_put_back() {
        let added = confinement("/root/data", &["/root/.cargo", "/usr/share"], &["/home/me/cache"]);
        let closed = |dir: &Path| dir == Path::new("/root") || dir == Path::new("/home/me");
        let plan = plan(&added, closed, |path| path != Path::new("/dev/shm"));
        let expected = Plan {
            hidden: paths(&["/home/me", "/root"]),
            temporary: paths(&["/tmp", "/var/tmp"]),
            kept: paths(&["/home/me/cache", "/root/.cargo", "/root/data/work/one"]),
        };
        assert_eq!(plan, expected);
    }

    #[test]
    fn a_data_directory_among_temporary_files_is_hidden_with_them() {
        let plan = plan(&confinement("/tmp/x/data", &[], &["/tmp/x/open"]), |dir| dir == Path::new("/tmp/x"), |_| true);
        assert_eq!(plan.hidden, paths(&[]));
        assert_eq!(plan.kept, paths(&["/tmp/x/data/work/one", "/tmp/x/open"]));
    }
}
