//! A file system of a few MiB under a server's data directory, to be filled.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::skipped;

pub struct SmallDisk {
    home: TempDir,
}

impl SmallDisk {
    /// `None`, and a line that says so, where this user may not mount.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let options = format!("size={mebibytes}m,mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&data).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { home }),
            Ok(_) | Err(_) => {
                skipped("mounting a small file system is not permitted");
                None
            }
        }
    }

    /// A server's home; only its data is on the small disk, so that its log and settings have room.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(self.mounted_at()).unwrap();
        found.f_bavail * found.f_frsize
    }

    /// Writes a file that leaves at most this much free.
    pub fn fill(&self, leave: u64) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).unwrap();
        for step in [1024 * 1024, 4096_usize] {
            while self.free() >= leave + step as u64 {
                match filler.write_all(&vec![0; step]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    pub fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn mounted_at(&self) -> PathBuf {
        self.home().join("data")
    }

    fn filler(&self) -> PathBuf {
        self.mounted_at().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that it also goes while a server that a failed test left behind still holds it.
        Command::new("umount").arg("-l").arg(self.mounted_at()).status().ok();
    }
}
