//! The server's requirements of this machine: a synchronised clock, file descriptors, memory and processes, git,
//! certificate authorities, and support for confining steps.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::app;
use crate::config::{Isolation, Settings};
use delivery::runner::Layers;

const CLOCK: &str = "clock";
/// File system clocks are coarse, and a server may be writing at this moment.
const TOLERANCE: Duration = Duration::from_secs(2);
/// Folders of the data directory whose files are constantly written.
const WRITTEN: [&str; 2] = ["", "log"];
/// Files examined per folder; the log has few.
const FILES_MAX: usize = 10_000;

/// Whether the clock is synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synchronised {
    Yes,
    No,
    Unknown,
}

pub fn clock(data_dir: &Path) -> Finding {
    judge_clock(SystemTime::now(), newest(data_dir), synchronised())
}

fn judge_clock(now: SystemTime, newest: Option<SystemTime>, synchronised: Synchronised) -> Finding {
    let behind = newest.and_then(|newest| newest.duration_since(now).ok()).filter(|behind| *behind > TOLERANCE);
    if let Some(behind) = behind {
        let words = format!("{} seconds before the newest file of the data directory", behind.as_secs());
        return Finding::fault(
            CLOCK,
            words,
            "set it, and let NTP keep it: times in answers and expiry dates follow it",
        );
    }
    match synchronised {
        Synchronised::Yes => Finding::ok(CLOCK, "synchronised"),
        Synchronised::No => Finding::warning(
            CLOCK,
            "not synchronised",
            "turn on NTP (timedatectl set-ntp true): times in answers and expiry dates follow it",
        ),
        Synchronised::Unknown => {
            Finding::ok(CLOCK, "not before the data; whether it is synchronised cannot be asked here")
        }
    }
}

fn newest(data_dir: &Path) -> Option<SystemTime> {
    let folders = WRITTEN.iter().filter_map(|folder| data_dir.join(folder).read_dir().ok());
    let files = folders.flat_map(|folder| folder.take(FILES_MAX).flatten());
    files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

fn synchronised() -> Synchronised {
    let mut asking = Command::new("timedatectl");
    asking.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null()).stderr(Stdio::null());
    match asking.output() {
        Ok(answer) if answer.status.success() => match answer.stdout.trim_ascii() {
            b"yes" => Synchronised::Yes,
            b"no" => Synchronised::No,
            _ => Synchronised::Unknown,
        },
        Ok(_) | Err(_) => Synchronised::Unknown,
    }
}

const DESCRIPTORS: &str = "file descriptors";
const MEMORY: &str = "memory";
const PROCESSES: &str = "processes";

/// Enough for the server without its steps.
const MEMORY_ENOUGH: u64 = 256 * 1024 * 1024;
/// A step consists of a supervisor, an init process and its own programs.
const PROCESSES_PER_STEP: u64 = 8;
/// The server's own threads count, too.
const PROCESSES_OF_SERVER: u64 = 64;
const MIB: u64 = 1024 * 1024;

/// The limits that the settings need.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    pub workers: usize,
    /// Per worker.
    pub connections: usize,
    pub steps: usize,
}

pub fn limits(needs: Needs) -> Vec<Finding> {
    // The maximum counts, since the server raises the current limit to it.
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

/// A limit of this process's control group; `None` if unlimited or unreadable.
fn limit_of_group(file: &str) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let text = std::fs::read_to_string(PathBuf::from("/sys/fs/cgroup").join(path).join(file)).ok()?;
    text.trim().parse().ok()
}

const GIT: &str = "git";
const AUTHORITIES: &str = "certificate authorities";
const ISOLATION: &str = "isolation of steps";

/// Where distributions keep certificate authorities.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

pub fn git(program: &Path) -> Finding {
    let asked = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match asked {
        Ok(answer) if answer.status.success() => {
            Finding::ok(GIT, String::from_utf8_lossy(&answer.stdout).trim().chars().take(80).collect::<String>())
        }
        Ok(_) | Err(_) => Finding::warning(
            GIT,
            format!("{} does not run", program.display()),
            "install git for step registries and pull requests (git.program)",
        ),
    }
}

pub fn authorities() -> Finding {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let found = given.into_iter().chain(BUNDLES.map(PathBuf::from)).find(|path| path.is_file());
    match found {
        Some(path) => Finding::ok(AUTHORITIES, path.display().to_string()),
        None => Finding::warning(
            AUTHORITIES,
            "none: no https of webhooks, HTTP steps, git or single sign-on will work",
            "install ca-certificates",
        ),
    }
}

pub fn isolation(settings: &Settings) -> Finding {
    match app::try_isolation(settings) {
        Ok(layers) => judge_isolation(settings.runner.isolation, layers.as_ref()),
        Err(error) => Finding::fault(ISOLATION, error.to_string(), "the server does not start like this"),
    }
}

fn judge_isolation(mode: Isolation, layers: Option<&Layers>) -> Finding {
    let Some(layers) = layers else {
        let words = "off: steps may do whatever the server's user may, also to other organizations";
        return Finding::warning(ISOLATION, words, "set runner.isolation to \"best\" or \"strict\"");
    };
    let names: Vec<_> = layers.held.iter().map(|layer| layer.name()).collect();
    let held = if names.is_empty() { "nothing but limits".to_owned() } else { names.join(", ") };
    let lacking: Vec<_> = layers.lacking().collect();
    if lacking.is_empty() {
        return Finding::ok(ISOLATION, held);
    }
    let words: Vec<_> = lacking.iter().map(|(layer, reason)| format!("no {}: {reason}", layer.name())).collect();
    let advice: Vec<_> = lacking.iter().map(|(layer, _)| layer.advice()).collect();
    let (words, advice) = (format!("{held}; {}", words.join("; ")), advice.join("; "));
    match mode {
        Isolation::Strict => Finding::fault(ISOLATION, words, advice),
        Isolation::Best | Isolation::Off => Finding::warning(ISOLATION, words, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_before_the_data_is_a_fault_and_one_that_nobody_keeps_a_warning() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let later = Some(now + Duration::from_secs(600));
        assert_eq!(judge_clock(now, later, Synchronised::Yes).level, Level::Fault);
        let just_now = Some(now + Duration::from_secs(1));
        assert_eq!(judge_clock(now, just_now, Synchronised::Yes).level, Level::Ok);
        assert_eq!(judge_clock(now, None, Synchronised::No).level, Level::Warning);
        assert_eq!(judge_clock(now, None, Synchronised::Unknown).level, Level::Ok);
    }

    const NEEDS: Needs = Needs { workers: 2, connections: 1_000, steps: 10 };

    #[test]
    fn limits_are_judged_by_what_the_settings_ask_for() {
        let levels = |limits: [Option<u64>; 3]| limits.map(|limit| descriptors(limit, NEEDS).level);
        assert_eq!(levels([None, Some(1_024), Some(65_536)]), [Level::Ok, Level::Warning, Level::Ok]);
        assert_eq!([memory(64 * MIB).level, memory(1_024 * MIB).level], [Level::Warning, Level::Ok]);
        assert_eq!([processes(100, NEEDS).level, processes(1_000, NEEDS).level], [Level::Warning, Level::Ok]);
    }

    use delivery::runner::Layer;

    #[test]
    fn a_layer_that_is_missing_is_a_fault_only_if_all_are_demanded() {
        let layers =
            Layers { held: vec![Layer::FileRules], missing: vec![(Layer::Namespaces, "a seccomp filter".to_owned())] };
        assert_eq!(judge_isolation(Isolation::Strict, Some(&layers)).level, Level::Fault);
        let best = judge_isolation(Isolation::Best, Some(&layers));
        assert_eq!(best.level, Level::Warning);
        assert!(best.to_string().contains("no namespaces: a seccomp filter; allow user namespaces"), "{best}");
        assert_eq!(judge_isolation(Isolation::Off, None).level, Level::Warning);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_warning() {
        assert_eq!(git(Path::new("/no/such/git")).level, Level::Warning);
    }
}
