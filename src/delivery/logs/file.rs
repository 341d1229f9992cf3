//! The files of logs: their names, and their format: a header, then frames with length and checksum, so that a tail
//! torn by a crash is recognised.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use domain::{DeploymentId, Identifier, Timestamp};

pub(super) const EXTENSION: &str = "log";
/// The extension of the empty file next to a log that is not in the store yet.
pub(super) const PENDING: &str = "upload";
/// The extension of a log that is being fetched.
pub(super) const FETCHED: &str = "fetch";

/// The file of a log, or of a part of one. On one machine a deployment has one file. In a cluster it has one per part
/// of its log, and the name includes the organization: a node also has logs whose records are on other nodes. Sorts by
/// age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogFile {
    pub deployment: DeploymentId,
    /// The number of the part.
    pub number: u32,
    /// `None` on one machine.
    pub organization: Option<Identifier>,
}

/// The log of a deployment, with the numbers of its parts in the order of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogId {
    pub organization: Identifier,
    pub deployment: DeploymentId,
    pub parts: Vec<u32>,
}

impl LogId {
    /// A log that is written by one machine.
    pub fn whole(organization: &Identifier, deployment: DeploymentId) -> Self {
        Self::of(organization, deployment, [])
    }

    /// A log of these parts; if none are recorded, it has one.
    pub fn of(organization: &Identifier, deployment: DeploymentId, parts: impl IntoIterator<Item = u32>) -> Self {
        let mut parts: Vec<_> = parts.into_iter().collect();
        if parts.is_empty() {
            parts.push(0);
        }
        Self { organization: organization.clone(), deployment, parts }
    }
}

impl LogFile {
    pub(super) fn name(&self, extension: &str) -> String {
        format!("{self}.{extension}")
    }

    /// The file with this name and extension, if it is one of ours.
    pub(super) fn parse(name: &Path, extension: &str) -> Option<Self> {
        if name.extension()? != extension {
            return None;
        }
        let mut words = name.file_stem()?.to_str()?.splitn(3, '.');
        let deployment = words.next()?.parse().ok()?;
        let Some(number) = words.next() else {
            return Some(Self { deployment, number: 0, organization: None });
        };
        let organization = Some(Identifier::parse(words.next()?).ok()?);
        let file = Self { deployment, number: number.parse().ok()?, organization };
        // Refuses other spellings of the same name.
        (name.file_stem()?.to_str()? == file.to_string()).then_some(file)
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.organization {
            None => write!(f, "{}", self.deployment),
            Some(organization) => write!(f, "{}.{}.{organization}", self.deployment, self.number),
        }
    }
}

/// Every log begins with this; another number is another format.
pub(super) const HEADER: &[u8; 8] = b"lklog 1\n";

/// Longer lines become several frames, so that a reader needs memory for only one frame.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024;
/// The longest frame; a larger length is damage and not a reason to allocate.
const PAYLOAD_BYTES_MAX: usize = LINE_BYTES_MAX + 64;
/// Kind, length and checksum.
const PREFIX_BYTES: usize = 1 + 4 + 4;
/// Timestamp, and whether the line ends here.
const LINE_PREFIX_BYTES: usize = 8 + 1;

const SECTION: u8 = b'S';
const LINE: u8 = b'L';

/// The part of a deployment that wrote a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub stage: Arc<str>,
    pub step: Arc<str>,
    pub attempt: u32,
}

pub(super) enum Frame {
    Section(Section),
    Line { at: Timestamp, bytes: Vec<u8>, ends_line: bool },
}

pub(super) fn put_section(section: &Section, to: &mut Vec<u8>) {
    let fields = (&*section.stage, &*section.step, section.attempt);
    let payload = postcard::to_stdvec(&fields).expect("strings and a number can always be encoded");
    put(SECTION, &[&payload], to);
}

/// `bytes` contains no line break and is at most [`LINE_BYTES_MAX`] long.
pub(super) fn put_line(at: Timestamp, bytes: &[u8], ends_line: bool, to: &mut Vec<u8>) {
    put(LINE, &[&at.as_millis().to_le_bytes(), &[u8::from(ends_line)], bytes], to);
}

fn put(kind: u8, payload: &[&[u8]], to: &mut Vec<u8>) {
    let length = payload.iter().map(|part| part.len()).sum::<usize>();
    let length = u32::try_from(length).expect("a frame is a few kilobytes").to_le_bytes();
    let sum = payload.iter().fold(checksum_of_prefix(kind, length), |sum, part| crc32c::crc32c_append(sum, part));
    to.push(kind);
    to.extend_from_slice(&length);
    to.extend_from_slice(&sum.to_le_bytes());
    payload.iter().for_each(|part| to.extend_from_slice(part));
}

/// The next frame and its size in bytes; `None` if it is incomplete: not fully written, or torn.
pub(super) fn read(from: &mut impl Read) -> io::Result<Option<(Frame, u64)>> {
    let mut prefix = [0; PREFIX_BYTES];
    if !fill(from, &mut prefix)? {
        return Ok(None);
    }
    let [kind, a, b, c, d, sum @ ..] = prefix;
    let length_bytes = [a, b, c, d];
    let length = u32::from_le_bytes(length_bytes) as usize;
    if length > PAYLOAD_BYTES_MAX {
        return Ok(None);
    }
    let mut payload = vec![0; length];
    if !fill(from, &mut payload)? {
        return Ok(None);
    }
    if crc32c::crc32c_append(checksum_of_prefix(kind, length_bytes), &payload) != u32::from_le_bytes(sum) {
        return Ok(None);
    }
    Ok(parse(kind, payload).map(|frame| (frame, (PREFIX_BYTES + length) as u64)))
}

fn parse(kind: u8, mut payload: Vec<u8>) -> Option<Frame> {
    match kind {
        SECTION => {
            let (stage, step, attempt) = postcard::from_bytes::<(&str, &str, u32)>(&payload).ok()?;
            Some(Frame::Section(Section { stage: Arc::from(stage), step: Arc::from(step), attempt }))
        }
        LINE => {
            let (millis, rest) = payload.split_first_chunk::<8>()?;
            let at = Timestamp::from_millis(i64::from_le_bytes(*millis));
            let ends_line = *rest.first()? == 1;
            payload.drain(..LINE_PREFIX_BYTES);
            Some(Frame::Line { at, bytes: payload, ends_line })
        }
        _ => None,
    }
}

fn checksum_of_prefix(kind: u8, length: [u8; 4]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[kind]), &length)
}

/// False if the input ends before the buffer is full.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::IdSeed;

    #[test]
    fn a_file_is_known_by_its_name_and_nothing_else_is_one() {
        let deployment = DeploymentId(IdSeed([7; 12]));
        let acme = Identifier::parse("acme").unwrap();
        let dotted = Identifier::parse("acme.more").unwrap();
        for (number, organization) in [(0, None), (0, Some(acme.clone())), (12, Some(acme)), (1, Some(dotted))] {
            let file = LogFile { deployment, number, organization };
            let name = file.name(EXTENSION);
            assert_eq!(LogFile::parse(Path::new(&name), EXTENSION), Some(file));
            assert_eq!(LogFile::parse(Path::new(&name), PENDING), None);
        }
        for name in ["log", ".log", "x.log", "{d}.1.log", "{d}.x.acme.log", "{d}.01.acme.log", "{d}.1.A!.log"] {
            let name = name.replace("{d}", &deployment.to_string());
            assert_eq!(LogFile::parse(Path::new(&name), EXTENSION), None, "{name}");
        }
    }

    #[test]
    fn files_sort_by_age() {
        let file = |seed, number| LogFile { deployment: DeploymentId(IdSeed([seed; 12])), number, organization: None };
        let mut files = vec![file(2, 0), file(1, 1), file(1, 0)];
        files.sort();
        assert_eq!(files, [file(1, 0), file(1, 1), file(2, 0)]);
    }
}
