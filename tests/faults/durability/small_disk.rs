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
    /// `None`, with a message, if this user may not mount.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        Self::mounted(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=700"), "tmpfs"])
    }

    /// The same with this limit on files.
    pub fn with_files(mebibytes: u32, files: u32) -> Option<Self> {
        Self::mounted(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m,nr_inodes={files},mode=700"), "tmpfs"])
    }

    /// A file system on a file: unlike one in memory, it counts the writes of each process.
    pub fn on_blocks(mebibytes: u32) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(u64::from(mebibytes) * 1024 * 1024).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image.path()).output();
        if !made.is_ok_and(|output| output.status.success()) {
            skipped("mkfs.ext4 does not work here");
            return None;
        }
        // The mount keeps the file after its name is removed.
        Self::mounted(&["-o", "loop", image.path().to_str().unwrap()])
    }

    fn mounted(arguments: &[&str]) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        match Command::new("mount").args(arguments).arg(&data).output() {
            Ok(output) if output.status.success() => Some(Self { home }),
            Ok(_) | Err(_) => {
                skipped("mounting a small file system is not permitted");
                None
            }
        }
    }

    /// For a server run by this user.
    pub fn belongs_to(&self, user: u32) {
        for dir in [self.home().to_owned(), self.mounted_at()] {
            std::os::unix::fs::chown(dir, Some(user), Some(user)).unwrap();
        }
    }

    /// Creates files until that fails.
    pub fn fill_files(&self) {
        let dir = self.mounted_at().join("fillers");
        std::fs::create_dir_all(&dir).ok();
        for number in 0.. {
            match File::create_new(dir.join(number.to_string())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn remove_files(&self) {
        std::fs::remove_dir_all(self.mounted_at().join("fillers")).unwrap();
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
        // Lazily, so that it works even while a server of a failed test still uses it.
        Command::new("umount").arg("-l").arg(self.mounted_at()).status().ok();
    }
}
