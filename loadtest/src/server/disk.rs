//! Owns the measuring of a directory on the disk.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of `st_blocks`, whatever the file system's own.
const BYTES_PER_BLOCK: u64 = 512;

/// What all its files really take: a preallocated file counts in full, a hole does not.
pub fn bytes(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Files come and go while the server runs.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { bytes(&entry.path())? } else { metadata.blocks() * BYTES_PER_BLOCK };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_wherever_they_are() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("deeper")).expect("a directory");
        std::fs::write(directory.path().join("deeper/file"), vec![7; 100_000]).expect("a file");
        assert!(bytes(directory.path()).expect("readable") >= 100_000);
    }
}
