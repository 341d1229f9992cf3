//! The files of a confined step: which it sees (mounts, if it has namespaces), and which it may read and write
//! (Landlock).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};
use rustix::process::{getuid, umask};

use super::super::protocol::Confinement;

const TERMINALS: &str = "/dev/pts";
/// Top-level directories that are not hidden, besides the system's: unchanged, or replaced by the step's own view.
const SHOWN: [&str; 3] = ["/dev", "/proc", "/tmp"];
/// A link that programs expect, for sockets that the operator has added in that directory.
const LINK_TO_RUN: (&str, &str) = ("/var/run", "/run");
/// Directories whose files ssh accepts only from root or from its own user; a user namespace does not map root.
const OWNER_IS_CHECKED: [&str; 2] = ["/etc/ssh/ssh_config.d", "/etc/crypto-policies/back-ends"];
/// The limits of such a directory; configurations are far smaller.
const COPIED_FILES_MAX: usize = 64;
const COPIED_BYTES_MAX: u64 = 64 * 1024;
const EMPTY: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// The paths that are replaced, and those that are restored inside them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Replaced by an empty directory.
    hidden: Vec<PathBuf>,
    /// Replaced by the deployment's directory for temporary files.
    temporary: Vec<PathBuf>,
    /// Paths inside the others that the step must reach.
    kept: Vec<PathBuf>,
}

/// The parts of the machine that the plan depends on.
struct Machine {
    /// The top-level directories, without links.
    top: Vec<PathBuf>,
    /// Paths that every step may read, wherever they are.
    system: Vec<PathBuf>,
}

impl Machine {
    /// Fails on any unreadable entry: an entry that is missing here would not be hidden.
    fn look() -> io::Result<Self> {
        let entries = fs::read_dir("/")?.collect::<io::Result<Vec<_>>>()?;
        let kinds = entries.iter().map(|entry| Ok(entry.file_type()?.is_dir())).collect::<io::Result<Vec<_>>>()?;
        let directories = entries.iter().zip(kinds).filter(|(_, is_dir)| *is_dir).map(|(entry, _)| entry);
        let named = SYSTEM.iter().map(PathBuf::from);
        let real = SYSTEM.iter().filter_map(|path| fs::canonicalize(path).ok());
        let system = named.chain(real).chain(linked()).collect();
        Ok(Self { top: directories.map(|entry| entry.path()).collect(), system })
    }
}

/// `is_closed`: whether the step's user may not enter that directory.
fn plan(
    confinement: &Confinement,
    machine: &Machine,
    is_closed: impl Fn(&Path) -> bool,
    exists: impl Fn(&Path) -> bool,
) -> Plan {
    let data_dir = PathBuf::from(&confinement.data_dir);
    let extra: Vec<PathBuf> = confinement.read_only.iter().chain(&confinement.writable).map(PathBuf::from).collect();
    // Hiding a directory that the step cannot enter costs nothing, and makes the paths restored inside it reachable.
    let closed = extra.iter().chain([&data_dir]).filter_map(|path| {
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|dir| dir.parent().is_some()).collect();
        above.reverse();
        above.into_iter().find(|dir| is_closed(dir)).map(Path::to_owned)
    });
    let is_shown = |path: &PathBuf| SHOWN.iter().any(|shown| path == Path::new(shown)) || machine.system.contains(path);
    let others = machine.top.iter().filter(|path| !is_shown(path) && !extra.contains(path));
    let hidden: BTreeSet<PathBuf> = closed.chain([data_dir.clone()]).chain(others.cloned()).collect();
    let temporary: BTreeSet<PathBuf> = TEMPORARY.iter().map(PathBuf::from).filter(|path| exists(path)).collect();
    let is_inside = |path: &Path| hidden.iter().chain(&temporary).any(|place| path != place && path.starts_with(place));
    let outermost = hidden.iter().filter(|path| !is_inside(path)).cloned().collect();
    let work_dir = PathBuf::from(&confinement.work_dir);
    let wanted = extra.into_iter().chain([work_dir]).chain(machine.system.iter().cloned());
    let kept: BTreeSet<PathBuf> = wanted.filter(|path| is_inside(path) && !temporary.contains(path)).collect();
    Plan { hidden: outermost, temporary: temporary.into_iter().collect(), kept: kept.into_iter().collect() }
}

/// Gives this process and its children their own view of the file system: the programs, libraries and configuration of
/// the machine, the step's working directory, the paths that the operator has added, separate temporary files, and only
/// the step's own processes in `/proc`. All other directories are empty. Landlock would not let the step open anything
/// there; but before Linux 7.1 it does not restrict connections to sockets, and those of the machine's services and
/// users are in `/run`, `/var` and home directories. The error is the end of a sentence.
pub(super) fn arrange(confinement: &Confinement) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)
        .map_err(|error| format!("a mount namespace cannot be had: {}", io::Error::from(error)))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(refused("/"))?;
    // Every user must be able to pass mount points; the step's own mask is set later.
    umask(Mode::from_raw_mode(0o022));
    let machine = Machine::look().map_err(|error| format!("the directories at the top cannot be listed: {error}"))?;
    let plan = plan(confinement, &machine, |dir| is_closed(dir, confinement.user), Path::is_dir);
    let (link, to) = LINK_TO_RUN;
    let is_link = Path::new(link).is_symlink();
    let temporary = plan.temporary.iter().map(|place| (place, Path::new(&confinement.temporary_dir)));
    let kept = plan.kept.iter().filter(|path| path.exists()).map(|path| (path, path.as_path()));
    // Before the originals are covered.
    let copies: Vec<(&PathBuf, OwnedFd, bool)> = temporary
        .chain(kept)
        .map(|(place, original)| Ok((place, copy_of(original)?, original.is_dir())))
        .collect::<Result<_, String>>()?;
    for place in &plan.hidden {
        cover(place)?;
    }
    if is_link && !Path::new(link).is_symlink() {
        std::os::unix::fs::symlink(to, link).map_err(|error| format!("{link} cannot be linked: {error}"))?;
    }
    for (place, copy, is_dir) in copies {
        mount_point(place, is_dir)?;
        put(copy, place)?;
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

/// A second mount of the same directory or file, not attached yet.
fn copy_of(path: &Path) -> Result<OwnedFd, String> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(refused(path))
}

fn put(original: OwnedFd, path: &Path) -> Result<(), String> {
    move_mount(original, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(refused(path))
}

fn mount_point(path: &Path, is_dir: bool) -> Result<(), String> {
    let above = if is_dir { path } else { path.parent().unwrap_or(path) };
    let made = fs::create_dir_all(above);
    // An existing socket, reached through a link, cannot be opened.
    let made = made.and_then(|()| if is_dir || path.exists() { Ok(()) } else { File::create(path).map(drop) });
    made.map_err(refused(path))
}

fn cover(place: &Path) -> Result<(), String> {
    mount("tmpfs", place, "tmpfs", EMPTY, Some(c"mode=755,size=8m")).map_err(refused(place))
}

fn close(place: &Path) -> Result<(), String> {
    mount_remount(place, MountFlags::BIND | MountFlags::RDONLY | EMPTY, "").map_err(refused(place))
}

/// A new instance: the step sees only the terminals that it opens.
fn own_terminals() -> Result<(), String> {
    if !Path::new(TERMINALS).is_dir() {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let own = mount("devpts", TERMINALS, "devpts", flags, Some(c"newinstance,ptmxmode=0666,mode=620"));
    own.or_else(|_| cover(Path::new(TERMINALS)))
}

/// Replaces the files of a directory by copies owned by this user.
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

fn refused<E: std::fmt::Display>(place: impl AsRef<Path>) -> impl FnOnce(E) -> String {
    move |error| format!("nothing can be mounted at {}: {error}", place.as_ref().display())
}

/// The newest rules that we request. An older kernel applies those it knows.
const RULES: ABI = ABI::V9;
/// Programs, libraries and configuration of the machine, which every step may read and execute.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/ca-certificates",
];
/// The directory of the resolver's files, which the resolver replaces rather than rewrites.
const RESOLVER: &str = "/run/systemd/resolve";
/// The places for temporary files and shared memory. A deployment has one directory for all of them.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Files that may be anywhere on a machine, by the links that lead there.
const SYSTEM_LINKS: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/localtime"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// With namespaces, these are the step's own.
const OWN_TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Confines this process and its future children with Landlock: the files that they may read and write, the sockets
/// that they may connect to, and the processes that they may signal. The error is the end of a sentence.
pub(super) fn restrict(confinement: &Confinement) -> Result<(), String> {
    let status = rules(confinement).and_then(RulesetCreated::restrict_self);
    match status.map_err(|error| format!("Landlock refuses: {error}"))?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_owned()),
    }
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let (read, all) = (AccessFs::from_read(RULES), AccessFs::from_all(RULES));
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let own: &[&str] = &[&confinement.work_dir];
    let rules = Ruleset::default()
        .handle_access(all)?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules([RESOLVER], read))?
        .add_rules(path_beneath_rules(linked(), read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&confinement.read_only, read))?
        .add_rules(path_beneath_rules(&confinement.writable, all))?
        .add_rules(path_beneath_rules(own, all))?;
    if confinement.namespaces {
        // Root may change the kernel's settings there even without capabilities.
        let process_files = if getuid().is_root() { read } else { read | AccessFs::WriteFile };
        return rules
            .add_rules(path_beneath_rules(["/proc"], process_files))?
            .add_rules(path_beneath_rules(TEMPORARY, all))?
            .add_rules(path_beneath_rules(OWN_TERMINALS, all));
    }
    rules
        .add_rules(path_beneath_rules(["/proc"], read))?
        .add_rules(path_beneath_rules([&confinement.temporary_dir], all))
}

/// Whether every step may read the path anyway.
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn linked() -> Vec<PathBuf> {
    SYSTEM_LINKS.iter().filter_map(|link| Path::new(link).canonicalize().ok()).collect()
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
            call_filter: true,
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

    fn machine(top: &[&str], system: &[&str]) -> Machine {
        Machine { top: paths(top), system: paths(system) }
    }

    #[test]
    fn everything_is_hidden_but_the_system_and_what_was_added() {
        let machine = machine(
            &["/dev", "/etc", "/home", "/opt", "/proc", "/run", "/srv", "/tmp", "/tools", "/usr", "/var"],
            &["/etc", "/opt", "/run/resolv.conf", "/usr", "/var/opt"],
        );
        let added =
            confinement("/var/lib/lk", &["/srv/repos", "/tools", "/usr/share"], &["/run/engine.sock", "/var/tmp"]);
        let expected = Plan {
            hidden: paths(&["/home", "/run", "/srv", "/var"]),
            temporary: paths(&["/dev/shm", "/tmp", "/var/tmp"]),
            kept: paths(&["/run/engine.sock", "/run/resolv.conf", "/srv/repos", "/var/lib/lk/work/one", "/var/opt"]),
        };
        assert_eq!(plan(&added, &machine, |_| false, |_| true), expected);
    }

    #[test]
    fn a_data_directory_among_the_systems_is_hidden() {
        let plan = plan(&confinement("/opt/lk", &[], &[]), &machine(&["/opt"], &["/opt"]), |_| false, |_| true);
        assert_eq!((plan.hidden, plan.kept), (paths(&["/opt/lk"]), paths(&["/opt/lk/work/one"])));
    }

    #[test]
    fn a_directory_that_the_user_cannot_enter_is_hidden_as_a_whole_and_what_is_needed_is_put_back() {
        let added = confinement("/root/data", &["/root/.cargo", "/usr/share"], &["/home/me/cache"]);
        let closed = |dir: &Path| dir == Path::new("/root") || dir == Path::new("/home/me");
        let plan = plan(&added, &machine(&[], &[]), closed, |path| path != Path::new("/dev/shm"));
        let expected = Plan {
            hidden: paths(&["/home/me", "/root"]),
            temporary: paths(&["/tmp", "/var/tmp"]),
            kept: paths(&["/home/me/cache", "/root/.cargo", "/root/data/work/one"]),
        };
        assert_eq!(plan, expected);
    }

    #[test]
    fn a_data_directory_among_temporary_files_is_hidden_with_them() {
        let added = confinement("/tmp/x/data", &[], &["/tmp/x/open"]);
        let plan = plan(&added, &machine(&[], &[]), |dir| dir == Path::new("/tmp/x"), |_| true);
        assert_eq!(plan.hidden, paths(&[]));
        assert_eq!(plan.kept, paths(&["/tmp/x/data/work/one", "/tmp/x/open"]));
    }
}
