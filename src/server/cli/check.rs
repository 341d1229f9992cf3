//! `lockkeeper check`: the files that a server would serve with, and what they would change in its data.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::output::{EXIT_CONFIG, EXIT_FAILED, complain, say};
use crate::app;
use crate::config::{self, Summary};
use store::{LoggedStore, OpenError};

#[derive(clap::Args)]
pub struct Check {
    /// The file; files that it names are checked too
    file: PathBuf,
    /// Also show what the files would create, change and remove in a data directory, which no server uses; as the server's user
    #[arg(long, requires = "data_dir")]
    diff: bool,
    /// The data directory to compare with
    #[arg(long, value_name = "DIR", requires = "diff")]
    data_dir: Option<PathBuf>,
}

/// Why the files could not be compared with the data.
#[derive(Debug, thiserror::Error)]
enum DiffError {
    #[error("data directory {0} does not exist; name the server's with --data-dir")]
    NoData(PathBuf),
    #[error("data directory {0} belongs to another user; run this as the server's user, or on a copy of your own")]
    NotOurs(PathBuf),
    #[error(
        "data directory {path} is in use by {holder}; stop it, or compare with a copy: `lockkeeper backup - --data-dir {path} | \
         lockkeeper restore - --data-dir COPY`"
    )]
    InUse { path: PathBuf, holder: store::Holder },
    #[error(transparent)]
    Open(OpenError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

pub fn check(arguments: &Check) -> ExitCode {
    let summary = match config::check_file(&arguments.file) {
        Ok(summary) => summary,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    let Some(data_dir) = &arguments.data_dir else { return say(&summary.to_string()) };
    match differences(&summary, data_dir) {
        Ok(lines) if lines.is_empty() => say(&format!("{summary}\nnothing would change")),
        Ok(lines) => say(&format!("{summary}\n{}", lines.join("\n"))),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

fn differences(summary: &Summary, data_dir: &Path) -> Result<Vec<String>, DiffError> {
    // The store would create it.
    let Ok(found) = data_dir.metadata() else { return Err(DiffError::NoData(data_dir.to_owned())) };
    // What opening it writes would belong to us, and the server could not start any more.
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(DiffError::NotOurs(data_dir.to_owned()));
    }
    let segment_bytes = store::MIN_SEGMENT_BYTES;
    let options = store::Options { segment_bytes, min_free_bytes: 0, ..store::Options::default() };
    let store = LoggedStore::open(data_dir, options);
    let store = store.map_err(|error| match error {
        OpenError::InUse { path, holder } => DiffError::InUse { path, holder },
        error => DiffError::Open(error),
    })?;
    let mut lines = Vec::new();
    for (_, organization) in &summary.organizations {
        lines.append(&mut app::differences(&store, organization)?);
    }
    store.close();
    Ok(lines)
}
