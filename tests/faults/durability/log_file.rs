//! The files of the redo log on disk, for tests that damage them. Written from the description in
//! `src/store/log/format.rs`, and not with its code, so that both must agree.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub const SECTOR: usize = 512;
const PAGE: usize = 4096;
const SECTOR_DATA: usize = SECTOR - 1;
const MARK: u8 = 0xA5;
const HEADER: usize = 28;

/// The segment that is being written.
pub struct LogFile {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// A group of batches in it.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub offset: usize,
    pub extent: usize,
    pub first: u64,
    pub count: u32,
}

impl LogFile {
    pub fn last(data_dir: &Path) -> Self {
        let files = std::fs::read_dir(data_dir.join("log")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let path = files.filter(|path| path.extension().is_some_and(|e| e == "log")).max().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        Self { path, bytes }
    }

    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut offset = 0;
        while self.bytes[offset..].starts_with(b"LKG1") {
            let number = |at: usize| u32::from_le_bytes(self.bytes[offset + at..offset + at + 4].try_into().unwrap());
            let extent = extent(number(4) as usize);
            groups.push(Group {
                offset,
                extent,
                first: u64::from(number(8)) | u64::from(number(12)) << 32,
                count: number(16),
            });
            offset += extent;
        }
        groups
    }

    /// The first group that contains this text.
    pub fn group_with(&self, text: &str) -> Group {
        let has = |group: &Group| {
            let bytes = &self.bytes[group.offset..group.offset + group.extent];
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        self.groups().into_iter().find(has).unwrap()
    }

    /// Writes to the file behind the server's back.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, offset as u64).unwrap();
    }

    pub fn flip(&self, offset: usize) {
        self.write(offset, &[self.bytes[offset] ^ 0x10]);
    }

    pub fn mend(&self, offset: usize) {
        self.write(offset, &self.bytes[offset..=offset]);
    }

    /// A group as the server would write it next; its offset and its sectors.
    pub fn next_group(&self, payload: &[u8]) -> (usize, Vec<u8>) {
        let last = *self.groups().last().unwrap();
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(b"LKG1");
        header.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        header.extend_from_slice(&(last.first + u64::from(last.count)).to_le_bytes());
        header.extend_from_slice(&1_u32.to_le_bytes());
        header.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        header.extend_from_slice(payload);
        let mut sectors = vec![0; extent(payload.len())];
        for (sector, data) in sectors.chunks_mut(SECTOR).zip(header.chunks(SECTOR_DATA)) {
            sector[..data.len()].copy_from_slice(data);
        }
        sectors.chunks_mut(SECTOR).for_each(|sector| sector[SECTOR_DATA] = MARK);
        (last.offset + last.extent, sectors)
    }
}

fn extent(payload: usize) -> usize {
    ((HEADER + payload).div_ceil(SECTOR_DATA) * SECTOR).next_multiple_of(PAGE)
}
