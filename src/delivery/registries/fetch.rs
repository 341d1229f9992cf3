//! Fetches the steps of a repository: `steps/*.toml` at the head of a branch or a tag.

use super::registry::{FileError, GitSource, STEPS_MAX, Steps, SyncError, steps_of};
use super::service::{ReadStep, Registries};
use crate::git::{Commit, Credential, File, GitError, Remote, RemoteUrl, Snapshot, TreePath};
use domain::Identifier;

/// The folder of steps in a repository.
const FOLDER: &str = "steps";
const EXTENSION: &str = ".toml";
/// Entries of the folder of steps, of any kind.
const ENTRIES_MAX: usize = 1_024;
/// Per file: a step is a program with a few inputs.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// All files together, with their comments.
const FILES_BYTES_MAX: usize = 1024 * 1024;
/// Faults reported per repository.
const FAULTS_MAX: usize = 50;

/// The current steps of a repository.
pub(super) struct Fetched {
    pub commit: Commit,
    pub steps: Steps,
}

impl Registries {
    /// The whole fetch has git's timeout.
    pub(super) async fn fetch(&self, organization: &Identifier, source: &GitSource) -> Result<Fetched, SyncError> {
        let remote = self.remote(organization, source)?;
        let timeout = self.inner.git.timeout();
        let fetching = async {
            let snapshot = self.inner.git.on_behalf_of(organization).fetch(&remote, &source.reference).await?;
            let files = step_files(&snapshot).await?;
            let oversized = files.iter().any(|file| file.bytes > FILE_BYTES_MAX);
            let contents = if oversized { Vec::new() } else { snapshot.read(&files, FILES_BYTES_MAX).await? };
            Ok::<_, GitError>((snapshot.commit().clone(), files, contents))
        };
        let fetched = tokio::time::timeout(timeout, fetching).await;
        let fetched = fetched.unwrap_or_else(|_| {
            let reason = format!("git took longer than {} seconds (git.timeout_seconds)", timeout.as_secs());
            tracing::warn!(%organization, reason, "a git remote cannot be reached");
            Err(GitError::Unreachable(reason))
        });
        let (commit, files, contents) = fetched.map_err(|error| SyncError::new(error.to_string()))?;
        Ok(Fetched { steps: read(&files, &contents, self.inner.read_step)?, commit })
    }

    fn remote(&self, organization: &Identifier, source: &GitSource) -> Result<Remote, SyncError> {
        let url = RemoteUrl::parse(source.url.as_str(), self.inner.git.allows_file());
        let url = url.map_err(|malformed| SyncError::new(format!("its URL {malformed}")))?;
        let Some(name) = &source.credential else { return Ok(Remote::public(url)) };
        let secret = self.inner.vault.open_one(organization, name).map_err(|error| {
            tracing::error!(%organization, secret = %name, %error, "cannot decrypt the credential of a registry");
            SyncError::new(format!("its credential, the secret {name}, cannot be decrypted; set its value again"))
        })?;
        let missing = || SyncError::new(format!("its credential, the secret {name}, does not exist; create it first"));
        let credential = Some(Credential::token(secret.ok_or_else(missing)?.reveal()));
        Ok(Remote { url, credential })
    }
}

async fn step_files(snapshot: &Snapshot) -> Result<Vec<File>, GitError> {
    let folder = TreePath::parse(FOLDER).map_err(|malformed| GitError::Failed(malformed.to_string()))?;
    let mut files = snapshot.files(&folder, ENTRIES_MAX).await?;
    files.retain(|file| file.path.ends_with(EXTENSION));
    Ok(files)
}

/// All steps, or all faults of the files.
fn read(files: &[File], contents: &[Vec<u8>], read_step: ReadStep) -> Result<Steps, SyncError> {
    if files.is_empty() {
        return Err(SyncError::new(format!("the repository has no {FOLDER}/*{EXTENSION} at this reference")));
    }
    let mut faults = Vec::new();
    let mut fault = |file: &File, message: String| faults.push(FileError { file: file.path.clone(), message });
    for file in files.iter().filter(|file| file.bytes > FILE_BYTES_MAX) {
        fault(file, format!("must have at most {FILE_BYTES_MAX} bytes, has {}", file.bytes));
    }
    if files.len() > STEPS_MAX {
        fault(&files[STEPS_MAX], format!("is one too many: a registry has at most {STEPS_MAX} steps"));
    }
    let mut steps = Vec::new();
    let mut places = Vec::new();
    for (file, content) in files.iter().zip(contents) {
        let Ok(text) = std::str::from_utf8(content) else {
            fault(file, "is not UTF-8".to_owned());
            continue;
        };
        match read_step(text) {
            Ok(step) => {
                steps.push(step);
                places.push(file);
            }
            Err(found) => found.into_iter().for_each(|message| fault(file, message)),
        }
    }
    let steps = steps_of(steps, |place, message| {
        if place != STEPS_MAX {
            fault(places[place], message);
        }
    });
    if faults.is_empty() {
        return Ok(steps);
    }
    let count = faults.len();
    faults.truncate(FAULTS_MAX);
    let first = &faults[0];
    let more = if count == 1 { String::new() } else { format!(" (and {} more)", count - 1) };
    Err(SyncError { message: format!("{}: {}{more}", first.file, first.message), faults })
}
