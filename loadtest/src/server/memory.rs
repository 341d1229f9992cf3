//! Owns the reading of a process's resident memory from `/proc`.

use std::io;

/// In bytes.
pub fn read(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse(&status).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its status file is not understood"))
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(parse("VmPeak:\t  10 kB\nVmRSS:\t  2048 kB\n"), Some(2_097_152));
        assert_eq!(parse("VmPeak:\t  10 kB\n"), None);
    }
}
