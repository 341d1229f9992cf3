//! From a stream to a file: checked while it is written, and renamed to its final name only when complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::stream::{BackupReader, Fault, Header, Totals};
use store::sync_dir;

/// A backup contains the hashes of tokens and passwords, and everything that the API shows.
const ONLY_OWNER: u32 = 0o600;

/// Why nothing was saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("{0} exists; choose another name, or remove it")]
    Exists(PathBuf),
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("the backup {0}")]
    Fault(#[from] Fault),
}

/// A complete backup.
pub struct Saved {
    pub header: Header,
    pub totals: Totals,
    pub bytes: u64,
}

/// Refuses an existing file, before any request to a server.
pub fn check_new(path: &Path) -> Result<(), SaveError> {
    if path.symlink_metadata().is_ok() { Err(SaveError::Exists(path.to_owned())) } else { Ok(()) }
}

/// Writes a backup to a new file.
pub fn save(input: impl Read, path: &Path) -> Result<Saved, SaveError> {
    let failed = |source| SaveError::Write { path: path.to_owned(), source };
    check_new(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = Part { path: path.with_file_name(name), kept: false };
    // Overwrites the remains of an interrupted run.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(ONLY_OWNER)
        .open(&part.path)
        .map_err(|source| SaveError::Write { path: part.path.clone(), source })?;
    let saved = save_to(input, &mut file, &part.path)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&part.path, path).map_err(failed)?;
    part.keep();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(dir).map_err(failed)?;
    Ok(saved)
}

/// Writes a backup to `out`, which errors call `name`. The backup is complete if this returns `Ok`.
pub fn save_to(input: impl Read, out: impl Write, name: &Path) -> Result<Saved, SaveError> {
    let mut tee = Tee { input, out, bytes: 0, failed: None };
    let checked = (|| {
        let (mut reader, header) = BackupReader::open(&mut tee)?;
        loop {
            if let Err(totals) = reader.next()? {
                return Ok((header, totals));
            }
        }
    })();
    let failed = |source| SaveError::Write { path: name.to_owned(), source };
    match (checked, tee.failed) {
        (_, Some(source)) => Err(failed(source)),
        (Err(fault), None) => Err(SaveError::Fault(fault)),
        (Ok((header, totals)), None) => {
            tee.out.flush().map_err(failed)?;
            Ok(Saved { header, totals, bytes: tee.bytes })
        }
    }
}

/// Writes everything that is read through it to `out`.
struct Tee<R, W> {
    input: R,
    out: W,
    bytes: u64,
    failed: Option<io::Error>,
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(bytes)?;
        if let Err(error) = self.out.write_all(&bytes[..read]) {
            let told = io::Error::from(error.kind());
            self.failed = Some(error);
            return Err(told);
        }
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A file that is removed on drop unless `kept` is set.
struct Part {
    path: PathBuf,
    kept: bool,
}

impl Part {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path)?))
}
