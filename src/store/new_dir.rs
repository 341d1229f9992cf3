//! Creates a data directory in one step: everything is written to a folder inside it, and moved into place when it is
//! complete. The format file is moved last, so an interrupted attempt leaves no valid data directory.
//!
//! The folder is inside and not beside it, because a data directory is often a separate mount.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::data_dir::{self, DirContent, FORMAT, NOT_CONTENT, OpenError, RESTORING, create_for_owner};
use super::space::sync_dir;

/// The future data directory, next to the mark.
const CONTENT: &str = "data";
/// Placed in the folder, so that a foreign folder of the same name is not mistaken for ours.
const MARK: &str = "UNFINISHED";
const MARK_TEXT: &str =
    "A restore or an export of lockkeeper writes here. It was interrupted if none is running: run it again.\n";

/// One second in total, far longer than needed.
const REMOVE_ATTEMPTS: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// A data directory under construction. Removed on drop, unless finished.
pub struct NewDataDir {
    path: PathBuf,
    /// Whether the directory itself is new.
    made: bool,
    finished: bool,
    _lock: data_dir::Lock,
}

impl NewDataDir {
    /// Begins in a directory that is missing, empty, or left by an interrupted attempt.
    pub fn begin(path: &Path) -> Result<Self, OpenError> {
        data_dir::check_no_file(path)?;
        let made = !path.exists();
        if made {
            create_for_owner(path).map_err(OpenError::io("create the data directory", path))?;
        } else {
            check_unused(path)?;
        }
        data_dir::close_to_others(path, &DirContent::Nothing)?;
        let lock = data_dir::lock(path)?;
        // Another process may have taken the directory first.
        check_unused(path)?;
        let new = Self { path: path.to_owned(), made, finished: false, _lock: lock };
        remove_parts(path).map_err(OpenError::io("remove what an interrupted restore has left in", path))?;
        new.mark().map_err(OpenError::io("write to", path))?;
        Ok(new)
    }

    /// The folder to write to: the data directory and its other files.
    pub fn folder(&self) -> PathBuf {
        self.path.join(RESTORING).join(CONTENT)
    }

    /// Moves the folder into place as the data directory. Everything in it must be durable.
    pub fn finish(mut self) -> Result<(), OpenError> {
        self.move_parts().map_err(OpenError::io("move the restored files to", &self.path))?;
        self.finished = true;
        // If this fails, the next start removes the folder.
        let _ = fs::remove_dir_all(self.path.join(RESTORING));
        Ok(())
    }

    fn mark(&self) -> io::Result<()> {
        let folder = self.path.join(RESTORING);
        create_for_owner(&folder)?;
        let mut mark = File::create(folder.join(MARK))?;
        mark.write_all(MARK_TEXT.as_bytes())?;
        mark.sync_all()?;
        sync_dir(&folder)?;
        sync_dir(&self.path)
    }

    fn move_parts(&self) -> io::Result<()> {
        let folder = self.folder();
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name();
            if name != FORMAT && !NOT_CONTENT.iter().any(|known| name == *known) {
                fs::rename(folder.join(&name), self.path.join(&name))?;
            }
        }
        sync_dir(&self.path)?;
        fs::rename(folder.join(FORMAT), self.path.join(FORMAT))?;
        sync_dir(&self.path)
    }

    /// Cleans up for a process that has begun a directory and cannot continue.
    pub fn remove_unfinished(path: &Path) {
        if !path.join(FORMAT).exists()
            && let Err(error) = remove_parts(path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove what was written");
        }
    }
}

/// Removes everything that an unfinished attempt created in the directory; the mark last.
fn remove_parts(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == RESTORING || NOT_CONTENT.iter().any(|known| name == *known) {
            continue;
        }
        remove_dir(&entry.path())?;
    }
    remove_dir(&path.join(RESTORING))
}

/// Retries, because a database that was just closed may still create a file while its folder is being removed.
fn remove_dir(path: &Path) -> io::Result<()> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempt < REMOVE_ATTEMPTS => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => return Ok(()),
        }
    }
}

impl Drop for NewDataDir {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let removed = remove_parts(&self.path).and_then(|()| fs::remove_file(self.path.join(data_dir::LOCK)));
        if let Err(error) = removed.and_then(|()| if self.made { fs::remove_dir(&self.path) } else { Ok(()) }) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove what was written");
        }
    }
}

/// Refuses a directory with content that no interrupted attempt created.
fn check_unused(path: &Path) -> Result<(), OpenError> {
    let refused = || OpenError::NotEmpty { path: path.to_owned() };
    let read = || OpenError::io("read the data directory", path);
    if path.join(FORMAT).exists() {
        return Err(refused());
    }
    let interrupted = path.join(RESTORING).join(MARK).exists();
    for entry in fs::read_dir(path).map_err(read())? {
        let name = entry.map_err(read())?.file_name();
        let is_empty_folder = || fs::read_dir(path.join(&name)).is_ok_and(|mut entries| entries.next().is_none());
        let ours = NOT_CONTENT.iter().any(|known| name == *known) || (name == RESTORING && is_empty_folder());
        if !ours && !interrupted {
            return Err(refused());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::DataDir;

    fn fill(new: &NewDataDir) {
        drop(DataDir::open(&new.folder()).unwrap());
        for part in ["log", "sled"] {
            fs::create_dir(new.folder().join(part)).unwrap();
            fs::write(new.folder().join(part).join("file"), part).unwrap();
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_a_data_directory_only_when_it_is_finished() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/data");
        let new = NewDataDir::begin(&path).unwrap();
        fill(&new);
        let refused = DataDir::open(&path).unwrap_err().to_string();
        assert!(refused.contains("restore"), "{refused}");
        new.finish().unwrap();
        assert_eq!(names(&path), ["FORMAT", "LOCK", "log", "sled"]);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn nothing_is_left_of_one_that_is_given_up() {
        let home = tempfile::tempdir().unwrap();
        let (missing, empty) = (home.path().join("missing"), home.path().join("empty"));
        fs::create_dir(&empty).unwrap();
        for path in [&missing, &empty] {
            let new = NewDataDir::begin(path).unwrap();
            fill(&new);
        }
        assert!(!missing.exists());
        assert_eq!(names(&empty), Vec::<String>::new());
    }

    #[test]
    fn wherever_it_is_interrupted_it_begins_again_or_is_complete() {
        for moved in [&[][..], &["log"], &["log", "sled"], &["log", "sled", "FORMAT"]] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("data");
            let new = NewDataDir::begin(&path).unwrap();
            fill(&new);
            for part in moved {
                fs::rename(new.folder().join(part), path.join(part)).unwrap();
            }
            // Simulates a killed process.
            std::mem::forget(new);
            fs::remove_file(path.join("LOCK")).unwrap();
            if moved.contains(&"FORMAT") {
                assert!(matches!(NewDataDir::begin(&path), Err(OpenError::NotEmpty { .. })));
                drop(DataDir::open(&path).unwrap());
                assert_eq!(names(&path), ["FORMAT", "LOCK", "log", "sled"], "a start tidies up");
                continue;
            }
            assert!(DataDir::open(&path).is_err());
            let again = NewDataDir::begin(&path).unwrap();
            assert_eq!(names(&path), ["LOCK", "restoring"]);
            fill(&again);
            again.finish().unwrap();
            DataDir::open(&path).unwrap();
        }
    }

    #[test]
    fn a_directory_with_anything_in_it_is_refused_and_left_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("data");
        drop(DataDir::open(&path).unwrap());
        assert!(matches!(NewDataDir::begin(&path), Err(OpenError::NotEmpty { .. })));
        assert_eq!(names(&path), ["FORMAT", "LOCK"]);
        let foreign = home.path().join("foreign");
        fs::create_dir_all(foreign.join(RESTORING).join("thesis")).unwrap();
        fs::create_dir_all(foreign.join("logs")).unwrap();
        assert!(matches!(NewDataDir::begin(&foreign), Err(OpenError::NotEmpty { .. })));
        assert_eq!(names(&foreign), ["logs", "restoring"]);
        let file = home.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(matches!(NewDataDir::begin(&file), Err(OpenError::NotADirectory { .. })));
    }
}
