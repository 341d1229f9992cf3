//! The key that wraps all others: from the environment, or from a file in the data directory that only its owner may
//! read.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::sealing::{KEY_BYTES, Key};
use domain::{Hex, Identifier, Malformed, VariableName, read_hex};
use store::{StoreError, sync_dir};

const FILE: &str = "master.key";
/// The new key during a rotation. It replaces the other key when nothing needs that key any more.
const NEXT_FILE: &str = "master.key.new";
/// A key file gets its final name only when it is complete and durable.
const BEING_WRITTEN: &str = "master.key.tmp";
/// The fingerprint of the key that last opened the data: used to recognise a wrong or missing key.
const FINGERPRINT_FILE: &str = "master.key.id";
const FINGERPRINT_DIGITS: usize = 16;
const ONLY_OWNER: u32 = 0o600;
const GROUP_AND_OTHERS: u32 = 0o077;
/// A key with its line end and some spaces; a larger file is not a key file.
const FILE_BYTES_MAX: u64 = 4_096;

/// Its `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKey {
    pub(super) key: Key,
    pub(super) source: Source,
}

/// Where a master key came from, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Variable,
    File(PathBuf),
}

/// Why the secrets cannot be used. Each message says what happened and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{path} can be read by other users (its mode is {mode:03o}); run chmod 600 {path}, and if any of them may have read \
         it, `lockkeeper secrets rotate-key` with the server stopped"
    )]
    WideRights { path: PathBuf, mode: u32 },
    #[error("{path} holds no master key, which is 64 hexadecimal digits; restore the file from a backup")]
    Malformed { path: PathBuf },
    #[error(
        "{path} is missing{}, and only its key opens the secrets and the key that seals the audit log{}; restore the file from a \
         backup (mode 600), or set LOCKKEEPER_MASTER_KEY to the key; if it is lost for good, `lockkeeper serve \
         --forget-master-key` starts without it: the secrets and the signing secrets of webhooks that it alone opens are deleted, \
         and if it sealed the audit log, the seals so far can no longer be checked", of_fingerprint(.known),
        if *.has_next { "; master.key.new of an interrupted rotation does not open all of them" } else { "" }
    )]
    Missing { path: PathBuf, known: Option<String>, has_next: bool },
    #[error(
        "the key that seals the audit log was sealed under another master key than that of {origin}; bring back the key of this \
         data directory, in its file master.key or as LOCKKEEPER_MASTER_KEY; where a rotation was cut off, run `lockkeeper secrets \
         rotate-key` again with the two keys it had; if it is lost for good, `lockkeeper serve \
         --forget-master-key` goes on with this one: the secrets and the signing secrets of webhooks that it does not open are \
         deleted, and the seals of the audit log so far can no longer be checked"
    )]
    ForeignSeals { origin: Source },
    #[error("cannot {doing} {path}: {source}; check the permissions of the directory and the disk")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the secrets of organization {organization} were sealed under another master key than that of {path}; restore the \
         file that belongs to this data directory, or set LOCKKEEPER_MASTER_KEY if its key came from there"
    )]
    WrongFile { path: PathBuf, organization: Identifier },
    #[error(
        "the secrets of organization {organization} were sealed under another master key than that of \
         LOCKKEEPER_MASTER_KEY; set it to the key of this data directory, or unset it if that is in its file master.key; \
         where a rotation was cut off, run `lockkeeper secrets rotate-key` again with the two keys it had"
    )]
    WrongVariable { organization: Identifier },
    #[error(
        "the key of the secrets of organization {organization} is missing from the database; restore the data directory \
         from a backup"
    )]
    KeyLost { organization: Identifier },
    #[error(
        "the secret {name} of organization {organization} does not open: its record is damaged; delete it or set it again \
         while the server runs, or restore the data directory from a backup"
    )]
    DoesNotOpen { organization: Identifier, name: VariableName },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str("LOCKKEEPER_MASTER_KEY"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

fn of_fingerprint(known: &Option<String>) -> String {
    known.as_ref().map(|known| format!(" (its key has the fingerprint {known})")).unwrap_or_default()
}

impl MasterKey {
    /// The value of `LOCKKEEPER_MASTER_KEY`.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let key = parse_hex(text).or_else(|| parse_base64(text));
        let key = key.ok_or(Malformed("is neither 64 hexadecimal digits nor the base64 of 32 bytes"))?;
        Ok(Self { key, source: Source::Variable })
    }

    /// Identifies the key without revealing it: a hash of 256 random bits.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", self.short_hash())
    }

    pub fn short_hash(&self) -> u64 {
        let hash = Sha256::new_with_prefix(b"lockkeeper master key fingerprint").chain_update(self.key.reveal());
        hash.finalize().iter().take(8).fold(0, |short, byte| short << 8 | u64::from(*byte))
    }

    /// A key for one other purpose, from which the master key cannot be derived.
    pub fn derived(&self, purpose: &str) -> Zeroizing<[u8; KEY_BYTES]> {
        let hash =
            Sha256::new_with_prefix(b"lockkeeper key for ").chain_update(purpose).chain_update(self.key.reveal());
        Zeroizing::new(hash.finalize().into())
    }

    pub(super) fn foreign_seals(&self) -> OpenError {
        OpenError::ForeignSeals { origin: self.source.clone() }
    }

    pub(super) fn refusal(&self, organization: Identifier) -> OpenError {
        match &self.source {
            Source::Variable => OpenError::WrongVariable { organization },
            Source::File(path) => OpenError::WrongFile { path: path.clone(), organization },
        }
    }
}

/// The fingerprint of the master key of a data directory, if it has one; `given` comes from the environment.
pub fn fingerprint(data_dir: &Path, given: Option<&MasterKey>) -> Result<Option<String>, OpenError> {
    match given {
        Some(key) => Ok(Some(key.fingerprint())),
        None => Ok(KeyFiles(data_dir).current()?.map(|key| key.fingerprint())),
    }
}

/// The fingerprint of the key that a data directory was last opened with, if that is known.
pub fn known_fingerprint(data_dir: &Path) -> Option<String> {
    let text = fs::read_to_string(data_dir.join(FINGERPRINT_FILE)).ok()?;
    let digits = text.trim_end();
    let is_one = digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_one.then(|| digits.to_owned())
}

/// Stores the fingerprint. Only error messages depend on it, so a failure is only logged.
pub fn note_fingerprint(data_dir: &Path, fingerprint: &str) {
    if known_fingerprint(data_dir).as_deref() == Some(fingerprint) {
        return;
    }
    let (path, new) = (data_dir.join(FINGERPRINT_FILE), data_dir.join(format!("{FINGERPRINT_FILE}.tmp")));
    let noted = fs::write(&new, format!("{fingerprint}\n")).and_then(|()| fs::rename(&new, &path));
    if let Err(error) = noted {
        tracing::warn!(path = %path.display(), %error, "cannot note the fingerprint of the master key");
    }
}

/// The key files of a data directory, which the store has locked for this process.
pub struct KeyFiles<'a>(pub &'a Path);

impl KeyFiles<'_> {
    pub fn current(&self) -> Result<Option<MasterKey>, OpenError> {
        read(self.path(FILE))
    }

    pub fn next(&self) -> Result<Option<MasterKey>, OpenError> {
        read(self.path(NEXT_FILE))
    }

    pub fn make_current(&self) -> Result<MasterKey, OpenError> {
        self.make(FILE)
    }

    pub fn make_next(&self) -> Result<MasterKey, OpenError> {
        self.make(NEXT_FILE)
    }

    /// Replaces the current key by the next one.
    pub fn promote_next(&self) -> Result<(), OpenError> {
        let path = self.path(FILE);
        let renamed = fs::rename(self.path(NEXT_FILE), &path).and_then(|()| sync_dir(self.0));
        renamed.map_err(io_error("replace", &path))
    }

    /// `has_next`: there is also the key of an interrupted rotation, which opens at most a part of the data.
    pub fn missing(&self, has_next: bool) -> OpenError {
        OpenError::Missing { path: self.path(FILE), known: known_fingerprint(self.0), has_next }
    }

    fn make(&self, name: &str) -> Result<MasterKey, OpenError> {
        let (path, being_written) = (self.path(name), self.path(BEING_WRITTEN));
        let key = Key::generate();
        self.write(&being_written, &key).map_err(io_error("write", &being_written))?;
        let named = fs::rename(&being_written, &path).and_then(|()| sync_dir(self.0));
        named.map_err(io_error("write", &path))?;
        Ok(MasterKey { key, source: Source::File(path) })
    }

    fn write(&self, path: &Path, key: &Key) -> io::Result<()> {
        // A file that an interrupted start left behind was never used as a key.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(ONLY_OWNER).open(path)?;
        file.write_all(hex_line(key).as_bytes())?;
        file.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn read(path: PathBuf) -> Result<Option<MasterKey>, OpenError> {
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let mode = file.metadata().map_err(io_error("read", &path))?.permissions().mode() & 0o777;
    if mode & GROUP_AND_OTHERS != 0 {
        return Err(OpenError::WideRights { path, mode });
    }
    // With the full capacity from the start: growing the buffer would leave a copy of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(io_error("read", &path))?;
    match std::str::from_utf8(&text).ok().and_then(|text| parse_hex(text.trim_end())) {
        Some(key) => Ok(Some(MasterKey { key, source: Source::File(path) })),
        None => Err(OpenError::Malformed { path }),
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { doing, path, source }
}

fn hex_line(key: &Key) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES + 1));
    writeln!(text, "{}", Hex(key.reveal())).expect("a string takes any text");
    text
}

fn parse_hex(text: &str) -> Option<Key> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    read_hex(text, &mut *bytes).then(|| Key::from_bytes(&*bytes))?
}

/// Either alphabet, padded or not: tools differ.
fn parse_base64(text: &str) -> Option<Key> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decode = |alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok().map(Zeroizing::new);
    let bytes = decode(&STANDARD).or_else(|| decode(&URL_SAFE))?;
    Key::from_bytes(&bytes)
}
