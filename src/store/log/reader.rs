//! Reads groups from the log while it is written: only those that are known to be durable.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{self, Found, Group, MAX_GROUP_BYTES, PAGE};

/// Read at once: several of the largest groups.
const WINDOW: usize = 4 * 1024 * 1024;

/// Why a group could not be read that must be there.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(String),
}

/// A segment, read from its beginning.
pub struct SegmentReader {
    file: File,
    /// Where its end page begins.
    room: u64,
    /// The offset of the first byte in `window`.
    offset: u64,
    window: Vec<u8>,
    /// How much of `window` has been read.
    read: usize,
}

impl SegmentReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let room = file.metadata()?.len().saturating_sub(PAGE as u64);
        Ok(Self { file, room, offset: 0, window: Vec::new(), read: 0 })
    }

    /// The next group; `None` at the end of the segment, or where nothing has been written yet.
    pub fn next(&mut self) -> Result<Option<Group>, ReadError> {
        self.refill()?;
        let rest = &self.window[self.read..];
        if rest.is_empty() {
            return Ok(None);
        }
        match format::examine(rest) {
            Found::Group(group) => {
                self.read += group.extent;
                Ok(Some(group))
            }
            // One that is being written may be there in part.
            Found::Blank | Found::Unfinished { .. } => Ok(None),
            Found::Damaged(what) => Err(ReadError::Damaged(what.to_owned())),
        }
    }

    /// Has the largest group in the window, or everything that is left.
    fn refill(&mut self) -> io::Result<()> {
        let at = self.offset + self.read as u64;
        let left = usize::try_from(self.room.saturating_sub(at)).unwrap_or(usize::MAX);
        if self.window.len() - self.read >= format::extent(MAX_GROUP_BYTES).min(left) {
            return Ok(());
        }
        self.window.resize(WINDOW.min(left), 0);
        self.file.read_exact_at(&mut self.window, at)?;
        (self.offset, self.read) = (at, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sealed(first: u64, payload: &[u8]) -> Vec<u8> {
        let mut pages = vec![0; format::extent(payload.len())];
        format::seal(first, 1, payload, &mut pages);
        pages
    }

    #[test]
    fn all_groups_of_a_segment_are_read_whatever_their_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let sizes = [1, 5_000, MAX_GROUP_BYTES, 3, MAX_GROUP_BYTES, MAX_GROUP_BYTES, 70_000];
        let groups: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
        let mut bytes: Vec<u8> = groups.iter().zip(1..).flat_map(|(payload, first)| sealed(first, payload)).collect();
        // With room left, and without.
        for blank in [0, 3 * PAGE] {
            bytes.resize(bytes.len() + blank, 0);
            std::fs::write(&path, [bytes.as_slice(), &format::END_PAGE].concat()).unwrap();
            let mut reader = SegmentReader::open(&path).unwrap();
            for (payload, first) in groups.iter().zip(1..) {
                let group = reader.next().unwrap().unwrap();
                assert_eq!((group.first, group.payload == *payload), (first, true));
            }
            assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_group_that_is_being_written_is_not_there_yet_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let mut second = sealed(2, &[7; 5_000]);
        let read = |second: &[u8]| {
            std::fs::write(&path, [&sealed(1, b"a"), second, &format::END_PAGE].concat()).unwrap();
            let mut reader = SegmentReader::open(&path).unwrap();
            assert_eq!(reader.next().unwrap().unwrap().first, 1);
            reader.next()
        };
        assert!(read(&second).unwrap().is_some());
        second[700] ^= 1;
        assert!(matches!(read(&second), Err(ReadError::Damaged(_))));
        let end = second.len() - 1;
        second[end] = 0;
        assert!(read(&second).unwrap().is_none());
    }
}
