//! A directory that all nodes share, such as one on NFS. Blocking.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::object::Uploaded;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

#[derive(Clone)]
pub struct Directory {
    /// Never created: it may be a disk that is not mounted at the moment.
    root: PathBuf,
    /// The name of this node, for files that are being written.
    node: String,
}

impl Directory {
    pub fn new(root: &Path, node: &str) -> Self {
        Self { root: root.to_owned(), node: node.replace('/', "_") }
    }

    /// Readers see all of it or what was there before.
    pub fn put(&self, names: &[String; 3], body: &Uploaded) -> io::Result<()> {
        self.check()?;
        let [organization, deployment, name] = names;
        let mut dir = self.root.clone();
        for folder in [organization, deployment] {
            dir.push(folder);
            match DirBuilder::new().mode(DIR_MODE).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let written = dir.join(format!("{}{}", unfinished(name), self.node));
        let put = write(&written, body).and_then(|()| fs::rename(&written, dir.join(name)));
        // Those of uploads that were killed, and the own one if it failed.
        remove_unfinished(&dir, name);
        put?;
        File::open(dir)?.sync_all()
    }

    /// At most so many bytes from there on; `None` if there is no such object.
    pub fn get(&self, names: &[String; 3], from: u64, max: usize) -> io::Result<Option<Vec<u8>>> {
        self.check()?;
        let file = match File::open(self.path(names)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let left = usize::try_from(file.metadata()?.len().saturating_sub(from)).unwrap_or(max);
        let mut bytes = vec![0; left.min(max)];
        file.read_exact_at(&mut bytes, from)?;
        Ok(Some(bytes))
    }

    pub fn remove(&self, names: &[String; 3]) -> io::Result<()> {
        self.check()?;
        let path = self.path(names);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if let Some(dir) = path.parent() {
            remove_unfinished(dir, &names[2]);
            // With the last part; the one of the organization may be needed again at once.
            fs::remove_dir(dir).ok();
        }
        Ok(())
    }

    pub fn check(&self) -> io::Result<()> {
        let is_there = self.root.is_dir();
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", self.root.display()));
        is_there.then_some(()).ok_or_else(missing)
    }

    fn path(&self, names: &[String; 3]) -> PathBuf {
        names.iter().fold(self.root.clone(), |path, name| path.join(name))
    }
}

/// The beginning of the names of files in which this object is written; the name of the node follows.
fn unfinished(name: &str) -> String {
    format!(".{name}.")
}

fn write(path: &Path, body: &Uploaded) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    let mut from = 0;
    loop {
        let piece = body.piece(from)?;
        if piece.is_empty() {
            return file.sync_all();
        }
        file.write_all(&piece)?;
        from += piece.len() as u64;
    }
}

/// One node writes a part, so no other upload of it is under way. Best effort: the next upload or the removal tries again.
fn remove_unfinished(dir: &Path, name: &str) {
    let prefix = unfinished(name);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            fs::remove_file(entry.path()).ok();
        }
    }
}
