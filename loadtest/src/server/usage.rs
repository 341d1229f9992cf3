//! Reads resource usage: CPU time and resident memory of processes from `/proc`, and the disk space of a directory.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `USER_HZ`, the unit of `/proc/PID/stat`, is 100 on every supported Linux; querying it would need libc.
const MICROSECONDS_PER_TICK: u64 = 10_000;

/// The times of a process, in ticks.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User and system time of all threads, including ended ones.
    own: u64,
    /// Time of the children that the process has waited for.
    waited_for: u64,
}

/// The CPU time of a process, in microseconds.
pub fn cpu_time(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let stat = parse_stat(&stat);
    let stat = stat.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its stat file is not understood"))?;
    Ok(stat.own * MICROSECONDS_PER_TICK)
}

/// The CPU time of a process and its descendants, in microseconds; reads every process of the machine.
pub fn tree_cpu_time(root: u32) -> io::Result<u64> {
    let mut processes = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The process may have ended since the directory was read.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(stat) = parse_stat(&stat) {
            processes.insert(pid, stat);
        }
    }
    let ticks = sum(&processes, root).ok_or(io::ErrorKind::NotFound)?;
    Ok(ticks * MICROSECONDS_PER_TICK)
}

/// None if the root does not exist.
fn sum(processes: &HashMap<u32, Stat>, root: u32) -> Option<u64> {
    let all = |stat: &Stat| stat.own + stat.waited_for;
    let mut ticks = all(processes.get(&root)?);
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (pid, child) in processes.iter().filter(|(_, process)| process.parent == parent) {
            ticks += all(child);
            parents.push(*pid);
        }
    }
    Some(ticks)
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses and may contain spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        waited_for: number(13)? + number(14)?,
    })
}

/// The resident memory of a process, in bytes.
pub fn resident_memory(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_status(&status).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its status file is not understood"))
}

fn parse_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The unit of `st_blocks` on every file system.
const BYTES_PER_BLOCK: u64 = 512;

/// The space allocated to the files: a preallocated file counts in full, a hole does not.
pub fn disk_bytes(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Files are created and removed while the server runs.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * BYTES_PER_BLOCK };
    }
    Ok(sum)
}

#[cfg(test)]
mod cpu_tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_program_is_called() {
        let stat = parse_stat("42 (a) b (c) S 7 2 3 4 5 6 7 8 9 10 150 50 20 5 20 0 9 0 0");
        assert_eq!(stat, Some(Stat { parent: 7, own: 200, waited_for: 25 }));
        assert_eq!(parse_stat("42 (cut off) S 1 2 3"), None);
    }

    #[test]
    fn the_whole_tree_counts_and_nothing_else() {
        let process = |parent, own| Stat { parent, own, waited_for: 1 };
        let processes = HashMap::from([
            (1, process(0, 1000)),
            (10, process(1, 10)),
            (11, process(10, 20)),
            (12, process(10, 40)),
            (13, process(12, 80)),
            (20, process(1, 100)),
        ]);
        assert_eq!(sum(&processes, 10), Some(154));
        assert_eq!(sum(&processes, 99), None);
    }

    #[test]
    fn this_process_has_a_time() {
        let pid = std::process::id();
        assert!(cpu_time(pid).is_ok() && tree_cpu_time(pid).is_ok());
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(parse_status("VmPeak:\t  10 kB\nVmRSS:\t  2048 kB\n"), Some(2_097_152));
        assert_eq!(parse_status("VmPeak:\t  10 kB\n"), None);
    }
}

#[cfg(test)]
mod disk_tests {
    use super::*;

    #[test]
    fn files_count_wherever_they_are() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("deeper")).expect("a directory");
        std::fs::write(directory.path().join("deeper/file"), vec![7; 100_000]).expect("a file");
        assert!(disk_bytes(directory.path()).expect("readable") >= 100_000);
    }
}
