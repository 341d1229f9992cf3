//! The data directory: only one process at a time may use it, and it must be one of ours with a supported format.
//!
//! Layout: `LOCK` (held while the store is open), `FORMAT` (kind and format number), `log/` (redo log), `sled/`
//! (database).

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::space::{self, is_lack_of_space, sync_dir};

pub(super) const LOCK: &str = "LOCK";
pub(super) const FORMAT: &str = "FORMAT";
/// Marks the directory of a node of a cluster, which has no database.
const NODE: &str = "NODE";
const FORMAT_BEING_WRITTEN: &str = "FORMAT.new";
const FORMAT_PREFIX: &str = "lockkeeper data directory, format ";
/// The written format. Extending a record does not change it: records have their own versions.
pub const FORMAT_NUMBER: u32 = 4;
/// The oldest format that can be read.
const OLDEST_FORMAT: u32 = 4;
/// Files of a fresh file system or an interrupted start; a directory with nothing else counts as empty.
pub(super) const NOT_CONTENT: [&str; 3] = [LOCK, FORMAT_BEING_WRITTEN, "lost+found"];
/// A restore writes here until it is complete.
pub(super) const RESTORING: &str = "restoring";
const ONLY_OWNER: u32 = 0o700;
const GROUP_AND_OTHERS: u32 = 0o077;

/// If a server is killed while starting a program, the forked process may hold the lock until it executes the program.
const HANDED_BACK_WITHIN: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Why the store did not open, each with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "data directory {path} is in use by {holder}; stop that server or choose another directory with --data-dir"
    )]
    InUse { path: PathBuf, holder: Holder },
    #[error(
        "{path} is not empty and not a lockkeeper data directory; choose an empty or new directory with --data-dir"
    )]
    NotOurs { path: PathBuf },
    #[error(
        "a restore or an export into {path} was not finished; run `lockkeeper restore` or `lockkeeper cluster export` again, or \
         choose another directory"
    )]
    Unfinished { path: PathBuf },
    #[error(
        "{path} has the data of a server on one machine; a node of a cluster needs a directory of its own: choose an empty or \
         new one with --data-dir"
    )]
    OfOneMachine { path: PathBuf },
    #[error(
        "{path} belongs to a node of a cluster, whose data lies in its engine; set cluster.engine, or choose another directory \
         with --data-dir"
    )]
    OfNode { path: PathBuf },
    #[error("{path} is not empty; name an empty or new directory")]
    NotEmpty { path: PathBuf },
    #[error("{path} is {what}, not a directory; choose an empty or new directory with --data-dir")]
    NotADirectory { path: PathBuf, what: &'static str },
    #[error(
        "data directory {path} has format {found}, and this server reads formats {OLDEST_FORMAT} to {FORMAT_NUMBER}; \
         {} version of lockkeeper wrote it: start that one", if *found > FORMAT_NUMBER { "a newer" } else { "an older" }
    )]
    Format { path: PathBuf, found: u32 },
    #[error(
        "data directory {path} is open to other users (its mode is {mode:03o}), and it holds keys, tokens and logs; run \
         chmod 700 {path} and start again, and if any of them may have read it, replace what they saw: \
         `lockkeeper secrets rotate-key`, new tokens"
    )]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error(
        "cannot {doing} {path}: no space is left on its disk; nothing is damaged or lost: free some space there, then start \
         again ({usage})"
    )]
    NoSpace { doing: &'static str, path: PathBuf, usage: String },
    #[error("cannot {doing} {path}: {source}; check the permissions of this user and the disk")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the log is damaged in {file} at byte {offset}: {what}; restore the data directory from a backup, or start once \
         with --discard-damaged-log to move this and all later records to {dir}/damaged-* and continue without them"
    )]
    DamagedLog { file: PathBuf, offset: u64, what: String, dir: PathBuf },
    #[error("the database in {path} cannot be used: {reason}; restore the data directory from a backup")]
    Database { path: PathBuf, reason: String },
}

impl OpenError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
        move |source| match is_lack_of_space(&source) {
            true => OpenError::no_space(doing, path),
            false => OpenError::Io { doing, path: path.to_owned(), source },
        }
    }

    /// The error lists the largest files in the data directory, which is derived from the path.
    pub(super) fn no_space(doing: &'static str, path: &Path) -> OpenError {
        let data_dir = path.ancestors().find(|dir| dir.join(FORMAT).exists()).or(path.parent()).unwrap_or(path);
        OpenError::NoSpace { doing, path: path.to_owned(), usage: space::describe(data_dir) }
    }
}

/// The process that holds a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Process(u32),
    Unknown,
}

impl Holder {
    fn is_gone(self) -> bool {
        match self {
            Holder::Process(pid) => !Path::new(&format!("/proc/{pid}")).exists(),
            Holder::Unknown => false,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Holder::Process(pid) => write!(f, "process {pid}"),
            Holder::Unknown => f.write_str("another process"),
        }
    }
}

/// A data directory, held exclusively until this value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: Lock,
}

impl DataDir {
    /// Opens the directory of a server with a local database.
    pub fn open(path: &Path) -> Result<DataDir, OpenError> {
        if path.join(NODE).exists() {
            return Err(OpenError::OfNode { path: path.to_owned() });
        }
        DataDir::hold(path)
    }

    /// Opens the directory of a node of a cluster, which keeps only logs, working directories and the like.
    pub fn open_for_node(path: &Path) -> Result<DataDir, OpenError> {
        let dir = DataDir::hold(path)?;
        if dir.database().exists() {
            return Err(OpenError::OfOneMachine { path: path.to_owned() });
        }
        let marker = path.join(NODE);
        File::create(&marker).map_err(OpenError::io("write", &marker))?;
        Ok(dir)
    }

    fn hold(path: &Path) -> Result<DataDir, OpenError> {
        create(path)?;
        // Checked before the lock file is created, so that a foreign directory stays unchanged.
        let found = check_format(path)?;
        close_to_others(path, &found)?;
        let lock = lock(path)?;
        if check_format(path)? == DirContent::Nothing {
            write_format(path).map_err(OpenError::io("write the format file in", path))?;
        }
        // Left by a restore that was killed after finishing.
        let _ = std::fs::remove_dir_all(path.join(RESTORING));
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("sled")
    }
}

/// The state of a data directory, found without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    Missing {
        /// Whether this user could create the directory.
        parent_writable: bool,
    },
    Empty,
    Ours {
        format: u32,
        holder: Option<Holder>,
        /// Whether the directory belongs to this user.
        owned: bool,
    },
}

/// Inspects a data directory without changing or locking it, so that a server starting meanwhile is not affected.
pub fn inspect(path: &Path) -> Result<Inspection, OpenError> {
    check_no_file(path)?;
    let Ok(metadata) = path.metadata() else {
        let parent = path.ancestors().skip(1).find(|part| part.is_dir()).unwrap_or(Path::new("."));
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        return Ok(Inspection::Missing { parent_writable: rustix::fs::access(parent, access).is_ok() });
    };
    let owned = metadata.uid() == rustix::process::geteuid().as_raw();
    match check_format(path)? {
        DirContent::Nothing => Ok(Inspection::Empty),
        DirContent::Ours => {
            let mode = metadata.permissions().mode() & 0o777;
            if mode & GROUP_AND_OTHERS != 0 {
                return Err(OpenError::OpenToOthers { path: path.to_owned(), mode });
            }
            Ok(Inspection::Ours { format: FORMAT_NUMBER, holder: holder(path), owned })
        }
    }
}

/// The holder of the lock, from the kernel's list of file locks.
fn holder(path: &Path) -> Option<Holder> {
    let inode = path.join(LOCK).metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locker(&locks, inode)?;
    Some(u32::try_from(pid).ok().filter(|pid| *pid > 0).map_or(Holder::Unknown, Holder::Process))
}

/// Finds the process that holds the lock, in lines like `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. Only the
/// inode is compared, since the device numbers differ from those of files.
fn locker(locks: &str, inode: u64) -> Option<i64> {
    let lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = lines.filter_map(|words| match words[..] {
        [_, "FLOCK", _, "WRITE", pid, file, ..] => {
            Some((pid.parse::<i64>().ok()?, file.rsplit(':').next()?.parse::<u64>().ok()?))
        }
        _ => None,
    });
    found.find(|(_, locked)| *locked == inode).map(|(pid, _)| pid)
}

fn create(path: &Path) -> Result<(), OpenError> {
    check_no_file(path)?;
    if !path.exists() {
        create_for_owner(path).map_err(OpenError::io("create the data directory", path))?;
        // Fails if the user may write to the parent but not read it; the system then writes the name to disk some time
        // later.
        let _ = path.parent().map(sync_dir);
    }
    Ok(())
}

/// Fails if the path or one of its parents is a file.
pub(super) fn check_no_file(path: &Path) -> Result<(), OpenError> {
    let Some(existing) = path.ancestors().find(|part| part.symlink_metadata().is_ok()) else { return Ok(()) };
    let what = match existing.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "a file",
        Err(_) => "a link that leads nowhere",
    };
    Err(OpenError::NotADirectory { path: existing.to_owned(), what })
}

/// Closes an empty directory to other users. Refuses one with content, since that was open to them, which the operator
/// should know.
pub(super) fn close_to_others(path: &Path, found: &DirContent) -> Result<(), OpenError> {
    let metadata = path.metadata().map_err(OpenError::io("read the data directory", path))?;
    let mode = metadata.permissions().mode() & 0o777;
    match found {
        _ if mode & GROUP_AND_OTHERS == 0 => Ok(()),
        DirContent::Ours => Err(OpenError::OpenToOthers { path: path.to_owned(), mode }),
        DirContent::Nothing => std::fs::set_permissions(path, Permissions::from_mode(ONLY_OWNER))
            .map_err(OpenError::io("close to other users (chmod 700) the data directory", path)),
    }
}

/// Creates the directory with its parents, accessible only to the server's user.
pub(super) fn create_for_owner(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(path)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DirContent {
    Ours,
    Nothing,
}

fn check_format(path: &Path) -> Result<DirContent, OpenError> {
    let file = path.join(FORMAT);
    match std::fs::read(&file) {
        Ok(content) => {
            let content = String::from_utf8_lossy(&content).trim_end().to_owned();
            match content.strip_prefix(FORMAT_PREFIX).and_then(|number| number.parse().ok()) {
                Some(OLDEST_FORMAT..=FORMAT_NUMBER) => Ok(DirContent::Ours),
                Some(found) => Err(OpenError::Format { path: path.to_owned(), found }),
                None => Err(OpenError::NotOurs { path: path.to_owned() }),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join(RESTORING).exists() {
                return Err(OpenError::Unfinished { path: path.to_owned() });
            }
            let entries = std::fs::read_dir(path).map_err(OpenError::io("read the data directory", path))?;
            for entry in entries {
                let name = entry.map_err(OpenError::io("read the data directory", path))?.file_name();
                if !NOT_CONTENT.iter().any(|known| name == *known) {
                    return Err(OpenError::NotOurs { path: path.to_owned() });
                }
            }
            Ok(DirContent::Nothing)
        }
        Err(error) => Err(OpenError::io("read", &file)(error)),
    }
}

pub(super) fn lock(path: &Path) -> Result<Lock, OpenError> {
    let file = path.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&file)
        .map_err(OpenError::io("open", &file))?;
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(&file).ok().and_then(|content| content.trim().parse().ok());
                let holder = holder.map_or(Holder::Unknown, Holder::Process);
                if !holder.is_gone() || began.elapsed() > HANDED_BACK_WITHIN {
                    return Err(OpenError::InUse { path: path.to_owned(), holder });
                }
                std::thread::sleep(TRY_AGAIN);
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io("lock", &file)(error)),
        }
    }
    match write_holder(&lock) {
        // The content only names the holder, so other failures are ignored.
        Err(error) if !is_lack_of_space(&error) => Err(OpenError::io("write", &file)(error)),
        Ok(()) | Err(_) => Ok(Lock(lock)),
    }
}

/// Overwrites the old number and truncates afterwards, which works on a full disk.
fn write_holder(lock: &File) -> io::Result<()> {
    let holder = format!("{}\n", std::process::id());
    lock.write_all_at(holder.as_bytes(), 0)?;
    lock.set_len(holder.len() as u64)
}

/// The lock of a data directory.
///
/// Released explicitly: a process forked meanwhile has a copy of the file until it executes its program, and would keep
/// the lock until then.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the data directory stays locked until this process has ended");
        }
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(FORMAT_BEING_WRITTEN);
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT_PREFIX}{FORMAT_NUMBER}")?;
    file.sync_all()?;
    std::fs::rename(&new, path.join(FORMAT))?;
    sync_dir(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_new_directory_is_made_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/data");
        let opened = DataDir::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(opened);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_read_is_refused_with_what_to_run_and_an_empty_one_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let set = |mode| std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let mode = || dir.path().metadata().unwrap().permissions().mode() & 0o777;
        set(0o755);
        drop(DataDir::open(dir.path()).unwrap());
        assert_eq!(mode(), 0o700, "it was empty");
        for open in [0o755, 0o750, 0o710, 0o701, 0o707] {
            set(open);
            let refused = DataDir::open(dir.path()).unwrap_err().to_string();
            let run = format!(
                "its mode is {open:o}), and it holds keys, tokens and logs; run chmod 700 {}",
                dir.path().display()
            );
            assert!(refused.contains(&run), "{refused}");
            assert_eq!(mode(), open, "left as it was");
        }
        set(0o700);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn a_lock_that_a_killed_server_left_to_a_child_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path()).unwrap();
        // No process has this number.
        std::fs::write(dir.path().join(LOCK), "4194305\n").unwrap();
        let child = std::thread::spawn(move || drop(held));
        DataDir::open(dir.path()).unwrap();
        child.join().unwrap();
    }

    #[test]
    fn a_directory_that_was_given_up_is_free_also_while_a_forked_process_has_its_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path()).unwrap();
        let _in_a_child = held._lock.0.try_clone().unwrap();
        drop(held);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn a_second_server_is_told_who_holds_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _held = DataDir::open(dir.path()).unwrap();
        let refused = DataDir::open(dir.path()).unwrap_err();
        let pid = std::process::id();
        assert!(matches!(refused, OpenError::InUse { holder: Holder::Process(holder), .. } if holder == pid));
        assert!(refused.to_string().contains(&format!("in use by process {pid}")), "{refused}");
    }

    #[test]
    fn who_only_looks_changes_nothing_and_sees_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        assert_eq!(inspect(&path).unwrap(), Inspection::Missing { parent_writable: true });
        std::fs::create_dir(&path).unwrap();
        assert_eq!(inspect(&path).unwrap(), Inspection::Empty);
        assert_eq!(path.read_dir().unwrap().count(), 0);
        let held = DataDir::open(&path).unwrap();
        let seen = |holder| Inspection::Ours { format: FORMAT_NUMBER, holder, owned: true };
        // A container may show the lock without its holder.
        let holder = inspect(&path).unwrap();
        let pid = std::process::id();
        assert!(holder == seen(Some(Holder::Process(pid))) || holder == seen(Some(Holder::Unknown)), "{holder:?}");
        drop(held);
        assert_eq!(inspect(&path).unwrap(), seen(None));
        std::fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(inspect(&path), Err(OpenError::OpenToOthers { mode: 0o750, .. })));
    }

    #[test]
    fn the_kernels_list_of_locks_names_the_holder() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:55 0 EOF\n2: FLOCK  ADVISORY  WRITE 812 08:01:55 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 9 08:01:56 0 EOF\n";
        assert_eq!([locker(locks, 55), locker(locks, 56), locker("", 55)], [Some(812), None, None]);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "mine").unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(OpenError::NotOurs { .. })));
        assert!(!dir.path().join(LOCK).exists());
    }

    #[test]
    fn another_format_is_refused_and_names_the_formats() {
        let dir = tempfile::tempdir().unwrap();
        for (format, said) in [(3, "an older version"), (5, "a newer version")] {
            std::fs::write(dir.path().join(FORMAT), format!("{FORMAT_PREFIX}{format}\n")).unwrap();
            let refused = DataDir::open(dir.path()).unwrap_err().to_string();
            let numbers = format!("has format {format}, and this server reads formats 4 to 4");
            assert!(refused.contains(&numbers) && refused.contains(said), "{refused}");
        }
        std::fs::write(dir.path().join(FORMAT), format!("{FORMAT_PREFIX}of its own\n")).unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(OpenError::NotOurs { .. })));
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "mine").unwrap();
        std::os::unix::fs::symlink(dir.path().join("nothing"), &link).unwrap();
        for (path, told) in [
            (file.clone(), "/file is a file, not a directory; choose an empty or new directory with --data-dir"),
            (file.join("deep/data"), "/file is a file, not a directory"),
            (link, "/link is a link that leads nowhere, not a directory"),
        ] {
            let refused = DataDir::open(&path).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    }

    #[test]
    fn a_start_cut_short_before_the_format_was_written_is_taken_up_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK), "1\n").unwrap();
        std::fs::write(dir.path().join(FORMAT_BEING_WRITTEN), "lockk").unwrap();
        DataDir::open(dir.path()).unwrap();
    }
}
