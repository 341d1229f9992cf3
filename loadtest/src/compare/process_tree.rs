//! Owns the reading of a server's CPU time from `/proc`: of a process, its descendants, and those of them that have
//! ended, since PostgreSQL has a process for each connection.

use std::collections::HashMap;
use std::io;

/// `USER_HZ`, the unit of `/proc/PID/stat`, is 100 on every Linux we build for; asking for it would need libc.
const MICROSECONDS_PER_TICK: u64 = 10_000;

struct Process {
    parent: u32,
    /// Its own, and that of the children that it has waited for.
    ticks: u64,
}

pub fn cpu_microseconds(root: u32) -> io::Result<u64> {
    let mut processes = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have ended since the directory was read.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(process) = parse(&stat) {
            processes.insert(pid, process);
        }
    }
    let ticks = sum(&processes, root);
    ticks.map(|ticks| ticks * MICROSECONDS_PER_TICK).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// None if the root is not there.
fn sum(processes: &HashMap<u32, Process>, root: u32) -> Option<u64> {
    let mut ticks = processes.get(&root)?.ticks;
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (pid, child) in processes.iter().filter(|(_, process)| process.parent == parent) {
            ticks += child.ticks;
            parents.push(*pid);
        }
    }
    Some(ticks)
}

fn parse(stat: &str) -> Option<Process> {
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    // User and system time, then the same of waited-for children.
    let times = fields.get(11..15)?;
    let ticks = times.iter().map(|time| time.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Process { parent, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_and_that_of_ended_children_are_added_whatever_the_program_is_called() {
        let process = parse("42 (a) b (c) S 7 2 3 4 5 6 7 8 9 10 150 50 20 5 20 0 9 0 0").expect("well-formed");
        assert_eq!((process.parent, process.ticks), (7, 225));
        assert!(parse("42 (cut off) S 1 2 3").is_none());
    }

    #[test]
    fn the_whole_tree_counts_and_nothing_else() {
        let process = |parent, ticks| Process { parent, ticks };
        let processes = HashMap::from([
            (1, process(0, 1000)),
            (10, process(1, 1)),
            (11, process(10, 2)),
            (12, process(10, 4)),
            (13, process(12, 8)),
            (20, process(1, 100)),
        ]);
        assert_eq!(sum(&processes, 10), Some(15));
        assert_eq!(sum(&processes, 99), None);
    }

    #[test]
    fn this_process_has_a_time() {
        assert!(cpu_microseconds(std::process::id()).is_ok());
    }
}
