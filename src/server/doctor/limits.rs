//! What the system lets the server have: file descriptors, memory, processes.

use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;

const DESCRIPTORS: &str = "file descriptors";
const MEMORY: &str = "memory";
const PROCESSES: &str = "processes";

/// Enough for the server, without what steps take.
const MEMORY_ENOUGH: u64 = 256 * 1024 * 1024;
/// A step is a supervisor, an init and its own programs.
const PROCESSES_PER_STEP: u64 = 8;
/// Threads of the server itself count, too.
const PROCESSES_OF_SERVER: u64 = 64;
const MIB: u64 = 1024 * 1024;

/// What the settings ask for.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    pub workers: usize,
    /// Of one worker.
    pub connections: usize,
    pub steps: usize,
}

pub fn examine(needs: Needs) -> Vec<Finding> {
    // The server raises the current limit to the maximum.
    let mut findings = vec![descriptors(getrlimit(Resource::Nofile).maximum, needs)];
    findings.extend(limit_of_group("memory.max").map(memory));
    findings.extend(limit_of_group("pids.max").map(|limit| processes(limit, needs)));
    findings
}

fn descriptors(limit: Option<u64>, needs: Needs) -> Finding {
    let Some(limit) = limit else { return Finding::ok(DESCRIPTORS, "no limit") };
    let wanted = (needs.workers.max(1) as u64).saturating_mul(needs.connections as u64);
    if limit <= wanted {
        return Finding::warning(
            DESCRIPTORS,
            format!("at most {limit}, and {wanted} connections are configured; there will be fewer"),
            "raise the limit (ulimit -n, LimitNOFILE=), or lower http.max_connections",
        );
    }
    Finding::ok(DESCRIPTORS, format!("at most {limit}"))
}

fn memory(limit: u64) -> Finding {
    let words = format!("at most {} MiB (control group)", limit / MIB);
    if limit < MEMORY_ENOUGH {
        return Finding::warning(MEMORY, words, format!("allow {} MiB, and what steps take", MEMORY_ENOUGH / MIB));
    }
    Finding::ok(MEMORY, words)
}

fn processes(limit: u64, needs: Needs) -> Finding {
    let wanted = PROCESSES_OF_SERVER + (needs.steps as u64).saturating_mul(PROCESSES_PER_STEP);
    let words = format!("at most {limit} (control group)");
    if limit < wanted {
        let steps = needs.steps;
        let advice = format!("allow {wanted} for {steps} steps at once (TasksMax=), or lower runner.max_running_steps");
        return Finding::warning(PROCESSES, words, advice);
    }
    Finding::ok(PROCESSES, words)
}

/// A limit of the control group of this process; `None` if there is none, or it cannot be read.
fn limit_of_group(file: &str) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let text = std::fs::read_to_string(PathBuf::from("/sys/fs/cgroup").join(path).join(file)).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    const NEEDS: Needs = Needs { workers: 2, connections: 1_000, steps: 10 };

    #[test]
    fn limits_are_judged_by_what_the_settings_ask_for() {
        let levels = |limits: [Option<u64>; 3]| limits.map(|limit| descriptors(limit, NEEDS).level);
        assert_eq!(levels([None, Some(1_024), Some(65_536)]), [Level::Ok, Level::Warning, Level::Ok]);
        assert_eq!([memory(64 * MIB).level, memory(1_024 * MIB).level], [Level::Warning, Level::Ok]);
        assert_eq!([processes(100, NEEDS).level, processes(1_000, NEEDS).level], [Level::Warning, Level::Ok]);
    }
}
