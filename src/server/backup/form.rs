//! The form of a backup: a line that names it, then frames. A frame is its kind, the length of its content, the content, and a
//! checksum of all three; the last one has a hash of everything before it.

use serde::{Deserialize, Serialize};

/// The line without its number and its end.
pub const NAME: &[u8] = b"lockkeeper backup ";
pub const FORM: u32 = 1;
/// No line of a backup is longer: the name and a number.
pub const LINE_BYTES_MAX: usize = 40;

/// A frame of pairs ends when it has this many bytes.
pub const FULL_FRAME_BYTES: usize = 256 * 1024;
/// More than the largest content: a pair or a group of batches is smaller than two megabytes.
pub const CONTENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Kind and length.
pub const HEAD_BYTES: usize = 5;
pub const CHECKSUM_BYTES: usize = 4;

/// In the order in which they come; a failure may come at any place but the first and is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Header,
    Pairs,
    Batches,
    Log,
    Trailer,
    /// Why there is no more.
    Failure,
}

impl Kind {
    pub const fn byte(self) -> u8 {
        match self {
            Kind::Header => b'H',
            Kind::Pairs => b'P',
            Kind::Batches => b'B',
            Kind::Log => b'L',
            Kind::Trailer => b'T',
            Kind::Failure => b'X',
        }
    }

    pub fn of(byte: u8) -> Option<Kind> {
        let all = [Kind::Header, Kind::Pairs, Kind::Batches, Kind::Log, Kind::Trailer, Kind::Failure];
        all.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The server that a backup was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// The version of the program.
    pub version: String,
    pub created_at: String,
    pub organizations: Vec<String>,
    /// Tells master keys apart and says nothing of them; `None` if the key was not there.
    pub master_key: Option<String>,
}

/// The first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    #[serde(flatten)]
    pub about: About,
    /// The format of the data directory.
    pub data_format: u32,
    /// The pairs have every batch up to this one.
    pub sequence: u64,
}

/// The last frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trailer {
    #[serde(flatten)]
    pub totals: Totals,
    /// Of everything before this frame, as hexadecimal digits.
    pub sha256: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// The last batch: the backup is the state after it.
    pub sequence: u64,
    pub pairs: u64,
    pub batches: u64,
    pub logs: u64,
}

/// A frame as it is written.
pub fn frame(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len() + CHECKSUM_BYTES);
    bytes.push(kind.byte());
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
