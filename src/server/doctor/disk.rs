//! The data directory and its disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::finding::Finding;
use store::{Inspection, OpenError, inspect};

const DIRECTORY: &str = "data directory";
const KIND: &str = "file system";
const SPACE: &str = "free space";
const INODES: &str = "free inodes";
const SYNC: &str = "fsync";

/// Room for the log and the database to grow until an operator looks again.
const COMFORTABLE_FREE: u64 = 2 * 1024 * 1024 * 1024;
/// Step logs and working directories are many small files.
const INODES_FEW: u64 = 10_000;
const INODES_NONE: u64 = 100;
/// Each response to a write waits for at least one sync.
const SYNC_SLOW: Duration = Duration::from_millis(20);
const SYNCS: usize = 5;
/// The size of one commit on a quiet server.
const PROBE_BYTES: usize = 4_096;
const MIB: u64 = 1024 * 1024;

/// File system types of `statfs(2)`, from the kernel's `magic.h`.
const VOLATILE: [u64; 2] = [0x0102_1994, 0x8584_58f6];
const OVERLAY: u64 = 0x794c_7630;
const NETWORK: [(u64, &str); 7] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
];

/// The measurements of a disk.
#[derive(Debug, Clone, Copy)]
struct Disk {
    kind: u64,
    free_bytes: u64,
    /// `None`: the file system has no fixed number of inodes.
    free_inodes: Option<u64>,
}

pub fn examine(data_dir: &Path, min_free_bytes: u64) -> Vec<Finding> {
    let mut findings = vec![directory(data_dir)];
    // A missing directory will be created below its nearest existing ancestor.
    let existing = data_dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    match look(existing) {
        Ok(disk) => {
            findings.extend([kind(disk.kind), space(disk.free_bytes, min_free_bytes)]);
            findings.extend(disk.free_inodes.map(inodes));
        }
        Err(error) => findings.push(Finding::warning(SPACE, format!("cannot be asked: {error}"), "look with df")),
    }
    findings.extend(time_syncs(existing).map(sync));
    findings
}

fn directory(path: &Path) -> Finding {
    let shown = path.display();
    match inspect(path) {
        Ok(Inspection::Missing { parent_writable: true }) => {
            Finding::ok(DIRECTORY, format!("{shown} does not exist; the first start makes it"))
        }
        Ok(Inspection::Missing { parent_writable: false }) => Finding::fault(
            DIRECTORY,
            format!("{shown} does not exist, and this user may not make it"),
            "make it, and give it to the server's user, or name another with --data-dir",
        ),
        Ok(Inspection::Empty) => Finding::ok(DIRECTORY, format!("{shown} is empty")),
        Ok(Inspection::Ours { format, holder, owned: true }) => {
            let used = holder.map_or_else(|| "no server uses it".to_owned(), |holder| format!("in use by {holder}"));
            Finding::ok(DIRECTORY, format!("{shown}, format {format}, {used}"))
        }
        Ok(Inspection::Ours { owned: false, .. }) => Finding::fault(
            DIRECTORY,
            format!("{shown} belongs to another user"),
            "run the server, and this command, as that user",
        ),
        // These messages already say what to do.
        Err(error @ OpenError::Io { .. }) => {
            Finding::fault(DIRECTORY, error.to_string(), "run this as the server's user")
        }
        Err(error) => Finding::fault(DIRECTORY, error.to_string(), "the server does not start like this"),
    }
}

fn look(path: &Path) -> std::io::Result<Disk> {
    let kind = rustix::fs::statfs(path)?;
    let space = rustix::fs::statvfs(path)?;
    // A 32-bit number; sign extension is cut off.
    let kind = kind.f_type as u64 & 0xffff_ffff;
    Ok(Disk {
        kind,
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        free_inodes: (space.f_files > 0).then_some(space.f_favail),
    })
}

fn kind(kind: u64) -> Finding {
    if VOLATILE.contains(&kind) {
        return Finding::warning(KIND, "in memory: all data is gone after a restart of the machine", "use a disk");
    }
    if kind == OVERLAY {
        let words = "a layer of a container: all data is gone with the container";
        return Finding::warning(KIND, words, "mount a volume");
    }
    match NETWORK.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => Finding::warning(
            KIND,
            format!("{name}: whether locks and synced writes hold there depends on its server"),
            "use a local disk, or a block device over the network",
        ),
        None => Finding::ok(KIND, "local"),
    }
}

fn space(free: u64, min_free: u64) -> Finding {
    let words = format!("{} MiB", free / MIB);
    if free < min_free {
        let needed = min_free / MIB;
        let words = format!("{words}, less than the {needed} MiB of storage.min_free_mb: writes are refused");
        return Finding::fault(SPACE, words, "make room, or a larger disk");
    }
    if free < min_free.saturating_mul(2).max(COMFORTABLE_FREE) {
        return Finding::warning(SPACE, words, "make room before writes are refused (storage.min_free_mb)");
    }
    Finding::ok(SPACE, words)
}

fn inodes(free: u64) -> Finding {
    let words = free.to_string();
    match free {
        0..INODES_NONE => Finding::fault(INODES, words, "delete files, or make a file system with more inodes"),
        INODES_NONE..INODES_FEW => Finding::warning(INODES, words, "delete small files before there are none left"),
        INODES_FEW.. => Finding::ok(INODES, words),
    }
}

fn sync(took: Duration) -> Finding {
    let words = format!("{:.1} ms for {PROBE_BYTES} bytes", took.as_secs_f64() * 1_000.0);
    if took > SYNC_SLOW {
        let advice = "every write waits for one, so use a faster disk (an SSD with power-loss protection is best)";
        return Finding::warning(SYNC, words, advice);
    }
    Finding::ok(SYNC, words)
}

/// The median of a few syncs of an unnamed temporary file. `None` if there cannot be such a file.
fn time_syncs(directory: &Path) -> Option<Duration> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut probe = File::from(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR).ok()?);
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        probe.write_all(&[b'x'; PROBE_BYTES]).and_then(|()| probe.sync_data()).ok()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times.get(SYNCS / 2).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_file_system_that_forgets_or_is_far_away_is_a_warning() {
        for (number, said) in
            [(VOLATILE[0], "in memory"), (OVERLAY, "container"), (0x6969, "NFS"), (0x6573_5546, "FUSE")]
        {
            let finding = kind(number);
            assert_eq!(finding.level, Level::Warning);
            assert!(finding.words.contains(said), "{finding}");
        }
        assert_eq!(kind(0xef53).level, Level::Ok);
    }

    #[test]
    fn space_is_judged_by_what_the_server_refuses_writes_for() {
        let min = 512 * MIB;
        assert_eq!(space(511 * MIB, min).level, Level::Fault);
        assert_eq!(space(1_500 * MIB, min).level, Level::Warning);
        assert_eq!(space(3_000 * MIB, min).level, Level::Ok);
        assert_eq!(
            [inodes(3).level, inodes(500).level, inodes(50_000).level],
            [Level::Fault, Level::Warning, Level::Ok]
        );
    }

    #[test]
    fn a_slow_sync_is_a_warning() {
        assert_eq!(sync(Duration::from_millis(1)).level, Level::Ok);
        assert_eq!(sync(Duration::from_millis(40)).level, Level::Warning);
    }

    #[test]
    fn an_examination_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let missing = home.path().join("a/b");
        let found = examine(&missing, 0);
        assert!(found[0].words.contains("the first start makes it"), "{}", found[0]);
        assert_eq!(home.path().read_dir().unwrap().count(), 0);
        std::fs::create_dir_all(&missing).unwrap();
        assert_eq!(examine(&missing, 0)[0].level, Level::Ok);
        assert_eq!(missing.read_dir().unwrap().count(), 0);
        std::fs::write(missing.join("letter.txt"), "x").unwrap();
        assert_eq!(examine(&missing, 0)[0].level, Level::Fault);
        let file = home.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(examine(&file, 0)[0].level, Level::Fault);
    }
}
