//! sled's blobs: a page larger than a quarter of a segment has a file of its own, which sled does not sync.
//!
//! Our records are far smaller, so there is hardly ever one. But every sync must look for them, and must not need a
//! descriptor at a time when clients hold all of them: so the directory is kept open.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::Dir;

use super::descriptors::retrying;

pub struct Blobs {
    path: PathBuf,
    dir: Mutex<Dir>,
}

impl Blobs {
    /// The blobs of the database in this directory.
    pub fn of(database: &Path) -> io::Result<Blobs> {
        let path = database.join("blobs");
        let dir = Mutex::new(Dir::new(File::open(&path)?)?);
        Ok(Blobs { path, dir })
    }

    pub fn sync(&self) -> io::Result<()> {
        let mut dir = self.dir.lock();
        let found = list(&mut dir, &self.path)?;
        if found.is_empty() {
            return Ok(());
        }
        for blob in found {
            match retrying(|| File::open(&blob)) {
                Ok(blob) => blob.sync_all()?,
                // sled has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rustix::fs::fsync(dir.fd()?)?)
    }
}

fn list(dir: &mut Dir, path: &Path) -> io::Result<Vec<PathBuf>> {
    dir.rewind();
    let mut found = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(path.join(OsStr::from_bytes(name)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blobs_that_come_and_go_are_seen_through_a_directory_that_stays_open() {
        let database = tempfile::tempdir().unwrap();
        let path = database.path().join("blobs");
        std::fs::create_dir(&path).unwrap();
        let blobs = Blobs::of(database.path()).unwrap();
        let seen = || list(&mut blobs.dir.lock(), &path).unwrap();
        assert!(seen().is_empty());
        for name in ["1", "22"] {
            std::fs::write(path.join(name), "page").unwrap();
            assert!(seen().contains(&path.join(name)));
            blobs.sync().unwrap();
        }
        std::fs::remove_file(path.join("1")).unwrap();
        assert_eq!(seen(), [path.join("22")]);
    }
}
