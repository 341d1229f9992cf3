//! Wraps sled safely: guarded opening, and durability by our own `fdatasync`.
//!
//! sled orders its writes with `sync_file_range`, which flushes neither the file size nor the device cache. It relies
//! on that order twice: a segment's header claims that the segment before the last is on disk, and a freed segment is
//! overwritten as soon as its replacement counts as written. So a power cut could lose data that was durable long
//! before. We enforce the order: the file is synced at least once per segment's worth of writes ([`Pace`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::Dir;

use super::batch::{Change, Pair};
use super::contract::StoreError;
use super::data_dir::OpenError;
use super::fatal::panic_text;
use super::space::{allocate, free_bytes, is_lack_of_space, retrying, sync_dir, tells_of_lack_of_space};

/// sled's default of 512 KiB would require a sync every few hundred keys. Must never change for an existing data
/// directory.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that sled may write between two syncs. A quarter of a segment, since it is only measured after each step.
const SYNC_EVERY_BYTES: usize = SEGMENT_BYTES / 4;
/// Bytes that a step should write at most; a step that writes more makes the next one shorter.
const STEP_BYTES: usize = SYNC_EVERY_BYTES / 2;
/// A change writes its own entry and, at worst, its leaf of up to 16 entries and one more page that sled moves out of a
/// segment it wants to free: usually 1 KiB in all.
const MAX_STEP_CHANGES: usize = 256;
/// A change next to values of this size may write as much as a whole step.
const LARGE_VALUE_BYTES: usize = STEP_BYTES / 32;
/// Allocated beyond the end of the file before each step: a step writes less, into at most one new segment. Opening
/// also fills the rest of the last segment.
const STEP_ROOM: u64 = SEGMENT_BYTES as u64;
/// Allocated while the disk has room: the growth available to the database on a full disk.
const HELD_ROOM: u64 = 3 * STEP_ROOM;
/// Opening writes a snapshot: a few bytes per page, and a page averages a kilobyte.
const SNAPSHOT_MIN_BYTES: u64 = 8 * 1024 * 1024;
const SNAPSHOT_PART: u64 = 32;
/// We hold the data directory, so a remaining lock belongs to a sled instance that is about to release it.
const LOCK_ATTEMPTS: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The thread that opens sled; its panics become errors and are not printed.
const OPENER: &str = "database-open";
const APPLIED: &[u8] = b"applied";

pub struct Database {
    data: sled::Tree,
    meta: sled::Tree,
    db: sled::Db,
    file: File,
    blobs: Blobs,
    dir: PathBuf,
}

/// Why changes were not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("no space is left on the disk")]
    NoRoom,
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ApplyError {
    fn from(reason: String) -> ApplyError {
        ApplyError::Failed(reason)
    }
}

/// Bytes that opening the database in this directory may write besides its file.
pub fn bytes_to_open(dir: &Path) -> u64 {
    let length = dir.join("db").metadata().map_or(0, |found| found.len());
    SNAPSHOT_MIN_BYTES + length / SNAPSHOT_PART
}

impl Database {
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Database, OpenError> {
        let failed = |reason: String| match tells_of_lack_of_space(&reason) {
            true => OpenError::no_space("open the database in", dir),
            false => OpenError::Database { path: dir.to_owned(), reason },
        };
        if !dir.exists() {
            create(dir, cache_bytes).map_err(failed)?;
        }
        clean_up(dir).map_err(OpenError::io("prepare the database in", dir))?;
        let (db, data, meta) = open_contained(dir, cache_bytes).map_err(failed)?;
        let file = File::options().read(true).write(true).open(dir.join("db"));
        let file = file.map_err(OpenError::io("open the database file in", dir))?;
        // Opening may have written a snapshot and removed the old one.
        sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        let blobs = Blobs::of(dir).map_err(OpenError::io("open the blobs of", dir))?;
        Ok(Database { data, meta, db, file, blobs, dir: dir.to_owned() })
    }

    /// The sequence up to which the database includes every batch.
    pub fn applied(&self) -> Result<u64, OpenError> {
        let failed = |reason: String| OpenError::Database { path: self.dir.clone(), reason };
        let Some(found) = self.meta.get(APPLIED).map_err(|error| failed(error_text(&error)))? else {
            return Ok(0);
        };
        let bytes = found.as_ref().try_into().map_err(|_| failed("its applied sequence is not a number".to_owned()))?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Writes the changes and, once they are durable, the applied sequence `last`.
    ///
    /// The changes are written one by one, because a sled batch would block readers. After a crash midway, the log is
    /// replayed.
    pub fn apply<'a>(&self, changes: impl Iterator<Item = Change<'a>>, last: u64) -> Result<(), ApplyError> {
        self.make_room(STEP_ROOM)?;
        let mut pace = Pace { step: MAX_STEP_CHANGES, in_step: 0, unsynced: 0 };
        for Change { key, value } in changes {
            match value {
                Some(value) => self.data.insert(key, value),
                None => self.data.remove(key),
            }
            .map_err(|error| error_text(&error))?;
            if pace.ends_step(value.map_or(0, <[u8]>::len)) {
                let flushed = self.db.flush().map_err(|error| error_text(&error))?;
                if pace.wants_sync(flushed) {
                    self.sync()?;
                }
                self.make_room(STEP_ROOM)?;
            }
        }
        self.sync()?;
        self.meta.insert(APPLIED, &last.to_be_bytes()).map_err(|error| error_text(&error))?;
        Ok(self.sync()?)
    }

    /// Allocates the growth available to the database on a full disk.
    pub fn hold_room(&self) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        allocate(&self.file, end, HELD_ROOM).map(|_| ())
    }

    /// Allocates the blocks of the next step: sled cannot continue after a failed write.
    fn make_room(&self, bytes: u64) -> Result<(), ApplyError> {
        let end = self.file.metadata().map_err(|error| error.to_string())?.len();
        let has_room = match allocate(&self.file, end, bytes) {
            Ok(true) => true,
            Ok(false) => free_bytes(&self.dir).map_err(|error| error.to_string())? >= 2 * bytes,
            Err(error) if is_lack_of_space(&error) => false,
            Err(error) => return Err(ApplyError::Failed(error.to_string())),
        };
        if has_room { Ok(()) } else { Err(ApplyError::NoRoom) }
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.data.get(key).map_err(|error| StoreError::Read(error_text(&error)))?;
        Ok(found.map(|value| value.to_vec()))
    }

    pub fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Result<Pair, StoreError>> + use<> {
        self.data.range(from..to).map(|found| match found {
            Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
            Err(error) => Err(StoreError::Read(error_text(&error))),
        })
    }

    fn sync(&self) -> Result<(), String> {
        self.db.flush().map_err(|error| error_text(&error))?;
        self.file.sync_data().and_then(|()| self.blobs.sync()).map_err(|error| error.to_string())
    }
}

/// Decides when sled's file is synced, by the bytes that its flushes report.
struct Pace {
    step: usize,
    in_step: usize,
    unsynced: usize,
}

impl Pace {
    fn ends_step(&mut self, value_len: usize) -> bool {
        self.in_step += 1;
        self.in_step >= self.step || value_len >= LARGE_VALUE_BYTES
    }

    fn wants_sync(&mut self, flushed: usize) -> bool {
        self.in_step = 0;
        self.step = if flushed > STEP_BYTES { (self.step / 4).max(1) } else { (self.step * 2).min(MAX_STEP_CHANGES) };
        self.unsynced += flushed;
        let wants = self.unsynced >= SYNC_EVERY_BYTES;
        if wants {
            self.unsynced = 0;
        }
        wants
    }
}

/// Creates an empty database under a temporary name and renames it: sled does not sync the files it creates, and a
/// directory left incomplete by a power cut could never be opened again.
fn create(dir: &Path, cache_bytes: u64) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let new = dir.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(text)?;
    }
    drop(open_contained(&new, cache_bytes)?);
    for name in ["db", "conf"] {
        File::open(new.join(name)).and_then(|file| file.sync_all()).map_err(text)?;
    }
    sync_dir(&new.join("blobs")).and_then(|()| sync_dir(&new)).map_err(text)?;
    std::fs::rename(&new, dir).map_err(text)?;
    dir.parent().map_or(Ok(()), sync_dir).map_err(text)
}

/// Cleans up after a killed server.
fn clean_up(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        // Left by a crash while sled was opening; sled would use it as the newest snapshot and never open again.
        if name.to_str().is_some_and(|name| name.starts_with("snap.") && name.ends_with(".generating")) {
            tracing::warn!(file = %entry.path().display(), "removing an unfinished snapshot");
            std::fs::remove_file(entry.path())?;
        }
    }
    // Data in the page cache must reach the disk before sled writes a snapshot that relies on it.
    File::options().write(true).open(dir.join("db"))?.sync_all()?;
    Blobs::of(dir)?.sync()
}

type Opened = (sled::Db, sled::Tree, sled::Tree);

/// Opens sled in a separate thread, so that a panic becomes an error.
fn open_contained(dir: &Path, cache_bytes: u64) -> Result<Opened, String> {
    silence_opener_panics();
    let dir = dir.to_owned();
    let thread = std::thread::Builder::new().name(OPENER.to_owned());
    let opening = thread.spawn(move || catch_unwind(AssertUnwindSafe(|| open_unlocked(&dir, cache_bytes))));
    let opened = opening.map_err(|error| error.to_string())?.join();
    match opened {
        Ok(Ok(result)) => result.map_err(|error| error_text(&error)),
        Ok(Err(panic)) | Err(panic) => Err(panic_text(&*panic)),
    }
}

/// The text of an error without sled's internals.
fn error_text(error: &sled::Error) -> String {
    match error {
        sled::Error::Corruption { .. } => "its file is damaged".to_owned(),
        sled::Error::Io(error) => error.to_string(),
        // Omits sled's request to report the bug to its authors.
        sled::Error::ReportableBug(what) => what.lines().collect::<Vec<_>>().join(" "),
        sled::Error::CollectionNotFound(_) | sled::Error::Unsupported(_) => error.to_string(),
    }
}

fn open_unlocked(dir: &Path, cache_bytes: u64) -> sled::Result<Opened> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match open_sled(dir, cache_bytes) {
            Err(error) if attempt < LOCK_ATTEMPTS && error.to_string().contains("could not acquire lock") => {
                std::thread::sleep(LOCK_PAUSE);
            }
            other => return other,
        }
    }
}

fn open_sled(dir: &Path, cache_bytes: u64) -> sled::Result<Opened> {
    let db = sled::Config::new()
        .path(dir)
        .cache_capacity(cache_bytes)
        .segment_size(SEGMENT_BYTES)
        // The applier flushes after it has written something.
        .flush_every_ms(None)
        .open()?;
    let (data, meta) = (db.open_tree("data")?, db.open_tree("meta")?);
    Ok((db, data, meta))
}

fn silence_opener_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(OPENER) {
                before(info);
            }
        }));
    });
}

/// sled's blobs: a page larger than a quarter of a segment gets a separate file, which sled does not sync.
///
/// Our records are far smaller, so blobs are very rare. But every sync must look for them, even when clients use up all
/// file descriptors, so the directory is kept open.
struct Blobs {
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
                // sled has removed the blob in the meantime.
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
