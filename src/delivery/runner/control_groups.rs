//! Control groups: one per deployment and hierarchy, with limits for all its processes together. A process cannot leave
//! its groups, so they also list everything that a deployment has started.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::protocol::StepLimits;
use crate::if_present;
use domain::Hex;

/// The prefix of the folder for the groups of deployments, inside the group of the server.
const FOLDER: &str = "lockkeeper-";
/// The suffix of the group to which the server moves if its own group may not contain processes.
const SERVER: &str = "-server";
const MEMBERS: &str = "cgroup.procs";
/// The threads of a group of version 1.
const THREADS: &str = "tasks";
const CONTROLLERS: &str = "cgroup.controllers";
const ENABLED: &str = "cgroup.subtree_control";

/// The hierarchies in which this server may create groups. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    folders: Vec<Folder>,
}

/// The folder of one hierarchy, with the limits of each group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    /// File names and the values written to them.
    limits: Vec<(&'static str, u64)>,
}

impl ControlGroups {
    /// Prepares the hierarchies of this machine, for the server of a data directory. The error is the rest of a
    /// sentence.
    pub fn open(data_dir: &Path, limits: &StepLimits) -> Result<Self, String> {
        // Concurrent servers have different names, and the next server of this directory finds the groups of the
        // previous one.
        let digest = Sha256::digest(data_dir.as_os_str().as_bytes());
        let name = format!("{FOLDER}{}", Hex(&digest[..8]));
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let mut refused = "no hierarchy is mounted at /sys/fs/cgroup".to_owned();
        let mut folders = Vec::new();
        for place in places(&own, Path::new("/sys/fs/cgroup"), Path::is_dir) {
            match place.prepare(&name, limits) {
                Ok(folder) => folders.push(folder),
                Err(error) => refused = format!("{}: {error}", place.group.display()),
            }
        }
        let groups = Self { folders };
        groups.remove_unused();
        if groups.folders.is_empty() { Err(refused) } else { Ok(groups) }
    }

    /// The limits and their effect, for the operator.
    pub fn summary(&self) -> String {
        let files = self.folders.iter().flat_map(|folder| folder.limits.iter().map(|(name, _)| *name));
        let mut limited: Vec<&str> = files.filter_map(|name| name.split('.').next()).collect();
        limited.sort_unstable();
        limited.dedup();
        if limited.is_empty() { "of no controller".to_owned() } else { limited.join(" and ") }
    }

    /// Creates the groups with this name, such as a deployment's, and returns their directories.
    pub(super) fn make(&self, name: &str) -> io::Result<Vec<PathBuf>> {
        for folder in &self.folders {
            let group = folder.path.join(name);
            fs::create_dir_all(&group)?;
            for (file, limit) in &folder.limits {
                fs::write(group.join(file), limit.to_string())?;
            }
        }
        Ok(self.of(name))
    }

    /// The directories of the groups with this name, if they were created.
    pub(super) fn of(&self, name: &str) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.path.join(name)).collect()
    }

    /// Called when no process is left in the groups.
    pub(super) fn remove(&self, name: &str) {
        for group in self.of(name) {
            if let Err(error) = if_present(fs::remove_dir(&group)) {
                warn!(group = %group.display(), %error, "cannot remove a control group");
            }
        }
    }

    /// Called when the server ends.
    pub(super) fn close(&self) {
        self.remove_unused();
        for folder in &self.folders {
            fs::remove_dir(&folder.path).ok();
        }
    }

    /// Removes the groups that an earlier run left; one with processes stays.
    fn remove_unused(&self) {
        for folder in &self.folders {
            for entry in fs::read_dir(&folder.path).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|found| found.is_dir()) {
                    fs::remove_dir(entry.path()).ok();
                }
            }
        }
    }
}

/// The processes in a group, as far as this process can see them.
pub(super) fn members(group: &Path) -> Vec<Pid> {
    let listed = fs::read_to_string(group.join(MEMBERS)).unwrap_or_default();
    listed.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Moves this process, which has one thread, into a group, permanently if it may not write there later. Version 1 can
/// move a single thread, which takes microseconds; moving a process waits for all processors, which takes milliseconds.
pub(super) fn join(group: &Path) -> io::Result<()> {
    let thread = group.join(THREADS);
    fs::write(if thread.exists() { thread } else { group.join(MEMBERS) }, "0")
}

/// The group of the server in one hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct CandidateGroup {
    group: PathBuf,
    controllers: Controllers,
}

#[derive(Debug, PartialEq, Eq)]
enum Controllers {
    /// Version 1: one hierarchy per controller.
    Pids,
    Memory,
    /// Version 2: one hierarchy, whose controllers are handed down.
    Unified,
}

/// `own` is the content of `/proc/self/cgroup`.
fn places(own: &str, root: &Path, exists: impl Fn(&Path) -> bool) -> Vec<CandidateGroup> {
    let mut places = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mounts, controllers) = match names {
            "pids" => (vec![root.join("pids")], Controllers::Pids),
            "memory" => (vec![root.join("memory")], Controllers::Memory),
            // Next to version 1, version 2 is mounted in a separate directory.
            "" if number == "0" => (vec![root.join("unified"), root.to_owned()], Controllers::Unified),
            _ => continue,
        };
        let Some(mount) = mounts.into_iter().find(|mount| exists(mount)) else { continue };
        let group = mount.join(path.trim_start_matches('/'));
        // In a container, the path is often that of the host, and the mount is already the group.
        let group = if exists(&group) { group } else { mount };
        places.push(CandidateGroup { group, controllers });
    }
    // Next to version 1, version 2 has no controllers of its own and adds nothing.
    if places.iter().any(|place| place.controllers != Controllers::Unified) {
        places.retain(|place| place.controllers != Controllers::Unified);
    }
    places
}

impl CandidateGroup {
    fn prepare(&self, name: &str, limits: &StepLimits) -> io::Result<Folder> {
        let path = self.group.join(name);
        fs::create_dir_all(&path)?;
        let limits = match self.controllers {
            Controllers::Pids => vec![("pids.max", limits.processes)],
            Controllers::Memory => vec![("memory.limit_in_bytes", limits.memory_bytes)],
            Controllers::Unified => self.hand_down(&path, limits)?,
        };
        Ok(Folder { path, limits: limits.into_iter().filter_map(|(file, limit)| Some((file, limit?))).collect() })
    }

    /// The limits of the controllers that the folder of version 2 has, or can have.
    fn hand_down(&self, folder: &Path, limits: &StepLimits) -> io::Result<Vec<(&'static str, Option<u64>)>> {
        let available = fs::read_to_string(self.group.join(CONTROLLERS))?;
        let all = [("pids", "pids.max", limits.processes), ("memory", "memory.max", limits.memory_bytes)];
        let mut handed_down = Vec::new();
        for (controller, file, limit) in all {
            let is_available = available.split_whitespace().any(|name| name == controller);
            if is_available && self.enable(controller, folder).is_ok() && enable(folder, controller).is_ok() {
                handed_down.push((file, limit));
            }
        }
        Ok(handed_down)
    }

    /// A group that passes controllers on may have no processes of its own, so the server moves into a sibling group.
    fn enable(&self, controller: &str, folder: &Path) -> io::Result<()> {
        enable(&self.group, controller).or_else(|_| {
            let mut server = folder.as_os_str().to_owned();
            server.push(SERVER);
            fs::create_dir_all(&server)?;
            fs::write(Path::new(&server).join(MEMBERS), "0")?;
            enable(&self.group, controller)
        })
    }
}

fn enable(group: &Path, controller: &str) -> io::Result<()> {
    fs::write(group.join(ENABLED), format!("+{controller}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "/sys/fs/cgroup";

    fn place(group: &str, controllers: Controllers) -> CandidateGroup {
        CandidateGroup { group: PathBuf::from(group), controllers }
    }

    #[test]
    fn the_hierarchies_of_both_versions_are_found() {
        let own = "12:pids:/jobs\n5:memory:/jobs\n4:cpu,cpuacct:/\n1:name=systemd:/\n0::/jobs\n";
        let found = places(own, Path::new(SYSTEM), |_| true);
        let expected = [
            place("/sys/fs/cgroup/pids/jobs", Controllers::Pids),
            place("/sys/fs/cgroup/memory/jobs", Controllers::Memory),
        ];
        assert_eq!(found, expected);
        let found = places("0::/jobs\n", Path::new(SYSTEM), |_| true);
        assert_eq!(found, [place("/sys/fs/cgroup/unified/jobs", Controllers::Unified)]);
    }

    #[test]
    fn a_group_that_only_the_host_sees_is_the_mount_itself() {
        let only_mount = |path: &Path| path == Path::new(SYSTEM);
        let found = places("0::/docker/1234\n", Path::new(SYSTEM), only_mount);
        assert_eq!(found, [place(SYSTEM, Controllers::Unified)]);
        assert_eq!(places("0::/x\n", Path::new(SYSTEM), |_| false), []);
        assert_eq!(places("nonsense\n7:pids\n", Path::new(SYSTEM), |_| true), []);
    }
}
