//! What every Prometheus client library says of its process, under the same names. Read when somebody asks.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The start of the process, or of its telemetry a moment later.
static STARTED: OnceLock<f64> = OnceLock::new();

pub fn started() -> f64 {
    *STARTED.get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

/// Adds the metrics of the process. One that cannot be read is left out.
pub fn render(text: &mut String) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let max_descriptors = getrlimit(Resource::Nofile).current.map(|limit| limit as f64);
    let metrics = [
        ("process_cpu_seconds_total", "counter", "CPU time that the process has used", Some(cpu_seconds)),
        ("process_resident_memory_bytes", "gauge", "Memory of the process", bytes_of(&status, "VmRSS:")),
        ("process_virtual_memory_bytes", "gauge", "Address space of the process", bytes_of(&status, "VmSize:")),
        ("process_open_fds", "gauge", "Open file descriptors", open_descriptors()),
        ("process_max_fds", "gauge", "The limit on open file descriptors", max_descriptors),
        ("process_start_time_seconds", "gauge", "When the process started, in seconds since 1970", Some(started())),
    ];
    for (name, kind, help, value) in metrics {
        if let Some(value) = value {
            // Writing to a text does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
}

/// A line of `/proc/self/status` such as `VmRSS:    1234 kB`.
fn bytes_of(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Newer kernels tell the number as the size of the directory; others list them.
fn open_descriptors() -> Option<f64> {
    const DESCRIPTORS: &str = "/proc/self/fd";
    match std::fs::metadata(DESCRIPTORS).ok()?.len() {
        0 => Some(std::fs::read_dir(DESCRIPTORS).ok()?.count() as f64),
        count => Some(count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_of_the_process_is_there_with_a_sane_value() {
        let mut text = String::new();
        render(&mut text);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")));
        assert!(value("process_start_time_seconds") > 1.7e9);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tlockkeeper\nVmSize:\t  200 kB\nVmRSS:\t     100 kB\n";
        assert_eq!((bytes_of(status, "VmRSS:"), bytes_of(status, "VmSwap:")), (Some(102_400.0), None));
    }
}
