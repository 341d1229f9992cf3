//! Logs out of a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use domain::DeploymentId;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Writes the logs of a backup to a new folder.
pub struct RestoredLogs {
    dir: PathBuf,
    extension: &'static str,
    current: Option<(DeploymentId, File)>,
    /// How many there are.
    pub files: u64,
}

impl RestoredLogs {
    pub(super) fn begin(dir: &Path, extension: &'static str) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        Ok(Self { dir: dir.to_owned(), extension, current: None, files: 0 })
    }

    /// The next piece of a log; all pieces of one come in a row.
    pub fn append(&mut self, deployment: DeploymentId, piece: &[u8]) -> io::Result<()> {
        if self.current.as_ref().is_none_or(|(current, _)| *current != deployment) {
            self.end_file()?;
            let path = self.dir.join(format!("{deployment}.{}", self.extension));
            let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
            self.files += 1;
            self.current = Some((deployment, file));
        }
        self.current.as_mut().map_or(Ok(()), |(_, file)| file.write_all(piece))
    }

    /// Everything is durable.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end_file()?;
        File::open(&self.dir)?.sync_all()?;
        Ok(self.files)
    }

    fn end_file(&mut self) -> io::Result<()> {
        self.current.take().map_or(Ok(()), |(_, file)| file.sync_all())
    }
}
