//! The stream of a backup, its writer, and its reader, which uses nothing before checking its checksum. The stream
//! begins with a line that names the format, followed by frames. A frame consists of its kind, the length of its
//! content, the content, and a checksum of all three. The last frame contains a hash of everything before it.

use std::io::{self, ErrorKind, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use domain::{DeploymentId, Hex, IdSeed};
use store::{FORMAT_NUMBER, LoggedBatches, Sequence};

/// The first line without its number and line end.
const NAME: &[u8] = b"lockkeeper backup ";
const FORM: u32 = 1;
/// The longest first line: the name and a number.
const LINE_BYTES_MAX: usize = 40;

/// A frame of pairs ends once it has this many bytes.
const FULL_FRAME_BYTES: usize = 256 * 1024;
/// More than the largest content: a pair or a group of batches is smaller than two megabytes.
const CONTENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Kind and length.
const HEAD_BYTES: usize = 5;
const CHECKSUM_BYTES: usize = 4;

/// In the order of the stream. A failure may come anywhere but first, and ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Header,
    Pairs,
    Batches,
    Log,
    Trailer,
    /// Why the stream ends early.
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
    pub version: String,
    pub created_at: String,
    pub organizations: Vec<String>,
    /// A fingerprint, to tell master keys apart; `None` if the key was not there.
    pub master_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    #[serde(flatten)]
    pub about: About,
    pub data_format: u32,
    /// The pairs include every batch up to this one.
    pub sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Trailer {
    #[serde(flatten)]
    totals: Totals,
    /// Of everything before this frame, in hexadecimal.
    sha256: String,
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

/// Encodes a frame.
pub fn frame(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len() + CHECKSUM_BYTES);
    bytes.push(kind.byte());
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

pub struct BackupWriter<W> {
    out: W,
    hash: Sha256,
    pairs: Vec<u8>,
    last_log: Option<DeploymentId>,
    totals: Totals,
}

impl<W: Write> BackupWriter<W> {
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        let totals = Totals::default();
        let mut writer = Self { out, hash: Sha256::new(), pairs: Vec::new(), last_log: None, totals };
        writer.write(&[NAME, FORM.to_string().as_bytes(), b"\n"].concat())?;
        writer.frame(Kind::Header, &serde_json::to_vec(header)?)?;
        Ok(writer)
    }

    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.totals.pairs += 1;
        self.pairs.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.pairs.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.pairs.extend_from_slice(key);
        self.pairs.extend_from_slice(value);
        if self.pairs.len() >= FULL_FRAME_BYTES { self.end_pairs() } else { Ok(()) }
    }

    pub fn batches(&mut self, batches: &LoggedBatches) -> io::Result<()> {
        self.end_pairs()?;
        self.totals.batches += u64::from(batches.count);
        let (first, count) = (batches.first.0.to_le_bytes(), batches.count.to_le_bytes());
        self.frame(Kind::Batches, &[&first, &count[..], &batches.payload].concat())
    }

    /// A piece of a log; the pieces of one log are written consecutively.
    pub fn log(&mut self, deployment: DeploymentId, piece: &[u8]) -> io::Result<()> {
        self.end_pairs()?;
        if self.last_log != Some(deployment) {
            self.last_log = Some(deployment);
            self.totals.logs += 1;
        }
        self.frame(Kind::Log, &[&deployment.0.0, piece].concat())
    }

    pub fn finish(mut self, sequence: Sequence) -> io::Result<Totals> {
        self.end_pairs()?;
        let totals = Totals { sequence: sequence.0, ..self.totals };
        let trailer = Trailer { totals, sha256: Hex(&self.hash.clone().finalize()).to_string() };
        self.frame(Kind::Trailer, &serde_json::to_vec(&trailer)?)?;
        self.out.flush()?;
        Ok(totals)
    }

    /// Ends the stream with a reason instead of a trailer; the reader reports the reason.
    pub fn fail(mut self, reason: &str) -> io::Result<()> {
        self.frame(Kind::Failure, reason.as_bytes())?;
        self.out.flush()
    }

    fn end_pairs(&mut self) -> io::Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let pairs = std::mem::take(&mut self.pairs);
        self.frame(Kind::Pairs, &pairs)
    }

    fn frame(&mut self, kind: Kind, content: &[u8]) -> io::Result<()> {
        self.write(&frame(kind, content))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}

/// Why a backup is refused: each message completes "the backup".
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("is not a backup of Lockkeeper: it is empty, or another kind of file")]
    Foreign,
    #[error(
        "has form {found}, and this program reads form {FORM}; use the version of lockkeeper that made it, or a newer one"
    )]
    NewerForm { found: String },
    #[error(
        "is of a data directory of format {found}, and this program writes format {FORMAT_NUMBER}; use the version of \
         lockkeeper that made it ({version})"
    )]
    OtherFormat { found: u32, version: String },
    #[error("is incomplete: it ends after {at} bytes; take it again")]
    Truncated { at: u64 },
    #[error("is damaged at byte {at}: {what}; use another copy of it, or another backup")]
    Damaged { at: u64, what: &'static str },
    #[error("was not finished by the server: {0}")]
    GivenUp(String),
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// One record of a backup.
pub enum Part {
    Pair { key: Vec<u8>, value: Vec<u8> },
    Batches(LoggedBatches),
    Log { deployment: DeploymentId, piece: Vec<u8> },
}

pub struct BackupReader<R> {
    input: R,
    hash: Sha256,
    /// Bytes read so far.
    at: u64,
    last: Kind,
    pairs: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    last_log: Option<DeploymentId>,
    totals: Totals,
}

impl<R: Read> BackupReader<R> {
    pub fn open(input: R) -> Result<(Self, Header), Fault> {
        let totals = Totals::default();
        let (pairs, last) = (Vec::new().into_iter(), Kind::Header);
        let mut reader = Self { input, hash: Sha256::new(), at: 0, last, pairs, last_log: None, totals };
        reader.line()?;
        let (Kind::Header, content) = reader.frame()? else { return Err(reader.damaged("it has no header")) };
        let header: Header =
            serde_json::from_slice(&content).map_err(|_| reader.damaged("its header cannot be read"))?;
        if header.data_format != FORMAT_NUMBER {
            return Err(Fault::OtherFormat { found: header.data_format, version: header.about.version });
        }
        reader.totals.sequence = header.sequence;
        Ok((reader, header))
    }

    /// The next part, or at the end, when everything has been checked, the totals.
    pub fn next(&mut self) -> Result<Result<Part, Totals>, Fault> {
        loop {
            if let Some((key, value)) = self.pairs.next() {
                return Ok(Ok(Part::Pair { key, value }));
            }
            let before = Hex(&self.hash.clone().finalize()).to_string();
            let (kind, content) = self.frame()?;
            if kind < self.last {
                return Err(self.damaged("a part is out of its order"));
            }
            self.last = kind;
            match kind {
                Kind::Header => return Err(self.damaged("it has two headers")),
                Kind::Pairs => {
                    let pairs = pairs(&content).ok_or_else(|| self.damaged("a part of it has another form"))?;
                    self.totals.pairs += pairs.len() as u64;
                    self.pairs = pairs.into_iter();
                }
                Kind::Batches => return self.batches(&content).map(|batches| Ok(Part::Batches(batches))),
                Kind::Log => return self.log(&content).map(Ok),
                Kind::Trailer => return self.end(&content, &before).map(Err),
                Kind::Failure => return Err(Fault::GivenUp(String::from_utf8_lossy(&content).into_owned())),
            }
        }
    }

    fn batches(&mut self, content: &[u8]) -> Result<LoggedBatches, Fault> {
        let split =
            content.split_first_chunk::<8>().and_then(|(first, rest)| Some((first, rest.split_first_chunk::<4>()?)));
        let (first, (count, payload)) = split.ok_or_else(|| self.damaged("a part of it has another form"))?;
        let (first, count) = (u64::from_le_bytes(*first), u32::from_le_bytes(*count));
        if first != self.totals.sequence + 1 {
            return Err(self.damaged("batches are missing"));
        }
        self.totals.sequence += u64::from(count);
        self.totals.batches += u64::from(count);
        Ok(LoggedBatches { first: Sequence(first), count, payload: payload.to_vec() })
    }

    fn log(&mut self, content: &[u8]) -> Result<Part, Fault> {
        let split = content.split_first_chunk::<12>();
        let (id, piece) = split.ok_or_else(|| self.damaged("a part of it has another form"))?;
        let deployment = DeploymentId(IdSeed(*id));
        if self.last_log != Some(deployment) {
            self.last_log = Some(deployment);
            self.totals.logs += 1;
        }
        Ok(Part::Log { deployment, piece: piece.to_vec() })
    }

    fn end(&mut self, content: &[u8], hash: &str) -> Result<Totals, Fault> {
        let trailer: Trailer = serde_json::from_slice(content).map_err(|_| self.damaged("its end cannot be read"))?;
        if trailer.sha256 != hash || trailer.totals != self.totals {
            return Err(self.damaged("its content is not what its end says"));
        }
        match self.input.read(&mut [0])? {
            0 => Ok(trailer.totals),
            _ => Err(self.damaged("there is more after its end")),
        }
    }

    /// Reads the first line and checks the format number.
    fn line(&mut self) -> Result<(), Fault> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if line.len() == LINE_BYTES_MAX {
                return Err(Fault::Foreign);
            }
            let mut byte = [0];
            match self.read_some(&mut byte)? {
                0 => return Err(Fault::Foreign),
                _ => line.push(byte[0]),
            }
        }
        let number = line.strip_prefix(NAME).and_then(|rest| rest.strip_suffix(b"\n")).ok_or(Fault::Foreign)?;
        match std::str::from_utf8(number).ok().filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(number) if number.parse() == Ok(FORM) => Ok(()),
            Some(number) if !number.is_empty() => Err(Fault::NewerForm { found: number.to_owned() }),
            Some(_) | None => Err(Fault::Foreign),
        }
    }

    fn frame(&mut self) -> Result<(Kind, Vec<u8>), Fault> {
        let mut head = [0; HEAD_BYTES];
        self.read(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        let kind = Kind::of(kind).ok_or_else(|| self.damaged("a part of it is of no known kind"))?;
        if length > CONTENT_BYTES_MAX {
            return Err(self.damaged("a part of it is too long"));
        }
        let mut content = vec![0; length];
        self.read(&mut content)?;
        let mut checksum = [0; CHECKSUM_BYTES];
        self.read(&mut checksum)?;
        if crc32c::crc32c_append(crc32c::crc32c(&head), &content) != u32::from_le_bytes(checksum) {
            return Err(self.damaged("a checksum is wrong"));
        }
        Ok((kind, content))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < bytes.len() {
            match self.read_some(&mut bytes[done..])? {
                0 => return Err(Fault::Truncated { at: self.at }),
                read => done += read,
            }
        }
        Ok(())
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> Result<usize, Fault> {
        let read = loop {
            match self.input.read(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.at += read as u64;
        self.hash.update(&bytes[..read]);
        Ok(read)
    }

    fn damaged(&self, what: &'static str) -> Fault {
        Fault::Damaged { at: self.at, what }
    }
}

fn pairs(mut content: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !content.is_empty() {
        let key = take_length(&mut content)?;
        let value = take_length(&mut content)?;
        pairs.push((content.split_off(..key)?.to_vec(), content.split_off(..value)?.to_vec()));
    }
    Some(pairs)
}

fn take_length(content: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(content.split_off(..4)?.try_into().ok()?) as usize)
}
