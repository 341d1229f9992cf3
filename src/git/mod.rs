//! Runs the real `git`: what a remote has, what is in it at a commit, and a branch of changes pushed to it. Knows nothing
//! of registries or pipelines.
//!
//! Whoever names a remote is not trusted with the machine: a URL is one of a few forms, no option, helper, hook, filter or
//! submodule of a repository runs, nothing of the server's environment or of the user's configuration of git is seen, and
//! every process ends within its time with all that it started. A credential is in no argument and in no error.

mod fault;
mod names;
mod process;
mod scratch;
mod snapshot;
mod work_tree;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

pub use fault::GitError;
pub use names::{Commit, Credential, RefName, Remote, RemoteUrl, TreePath};
pub use snapshot::{File, Snapshot};
pub use work_tree::{Author, WorkTree};

use process::Command;
use scratch::Scratch;

/// Processes of git at a time: each has a connection and unpacks what it gets, and steps need the machine too.
const PROCESSES_MAX: usize = 4;
/// Of what a remote lists for the few names it is asked about.
const LISTED_BYTES_MAX: usize = 64 * 1024;
/// Where what was fetched is kept in a repository of ours.
const FETCHED: &str = "refs/lockkeeper/fetched";

#[derive(Debug, Clone)]
pub struct GitSettings {
    /// A path, or a name that is looked for in the server's `PATH`.
    pub program: PathBuf,
    /// For each process.
    pub timeout: Duration,
    /// Whether repositories of this machine may be named by `file://`. Whoever may name one then reads, as the server's
    /// user, any repository there is.
    pub allow_file: bool,
    /// A directory that is nobody else's. What an earlier run left there is removed.
    pub scratch: PathBuf,
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Git {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: GitSettings,
    path: std::ffi::OsString,
    turns: Semaphore,
}

impl Git {
    pub fn new(settings: GitSettings) -> io::Result<Self> {
        let settings = GitSettings { scratch: std::path::absolute(&settings.scratch)?, ..settings };
        scratch::prepare(&settings.scratch)?;
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        Ok(Self { inner: Arc::new(Inner { settings, path, turns: Semaphore::new(PROCESSES_MAX) }) })
    }

    /// Whether repositories of this machine may be named.
    pub fn allows_file(&self) -> bool {
        self.inner.settings.allow_file
    }

    /// What each process has.
    pub fn timeout(&self) -> Duration {
        self.inner.settings.timeout
    }

    /// The commit that a branch or a tag of the remote is at now.
    pub async fn resolve(&self, remote: &Remote, reference: &RefName) -> Result<Commit, GitError> {
        self.find(remote, reference).await.map(|found| found.commit)
    }

    /// The branch that the remote's `HEAD` names; none if it names none or has no commits yet.
    pub async fn default_branch(&self, remote: &Remote) -> Result<Option<RefName>, GitError> {
        let words = ["ls-remote", "--quiet", "--symref", "--", remote.url.as_str(), "HEAD"];
        let command = Command::new(&words).talks_to(remote).keeps(LISTED_BYTES_MAX);
        let listed = command.run(self).await?;
        let text = String::from_utf8_lossy(&listed);
        let target = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        Ok(target.and_then(|name| RefName::parse(name).ok()))
    }

    /// What a branch or a tag of the remote is at now, without its past.
    pub async fn fetch(&self, remote: &Remote, reference: &RefName) -> Result<Snapshot, GitError> {
        let found = self.find(remote, reference).await?;
        let scratch = Scratch::bare(&self.inner.settings.scratch)?;
        Command::new(&["init", "--quiet", "--bare", "."]).within(scratch.place()).run(self).await?;
        let commit = self.fetch_into(remote, &found.name, scratch.place()).await?;
        Ok(Snapshot::new(self.clone(), scratch, commit))
    }

    /// A work tree at a branch of the remote, to be changed and pushed as another branch.
    pub async fn work_on(&self, remote: &Remote, base: &RefName) -> Result<WorkTree, GitError> {
        let found = self.find(remote, base).await?;
        let scratch = Scratch::with_tree(&self.inner.settings.scratch)?;
        Command::new(&["init", "--quiet", "."]).within(scratch.place()).run(self).await?;
        let commit = self.fetch_into(remote, &found.name, scratch.place()).await?;
        let words = ["checkout", "--quiet", "--detach", commit.as_str()];
        Command::new(&words).within(scratch.place()).run(self).await?;
        Ok(WorkTree::new(self.clone(), scratch, remote.clone(), base.clone(), commit))
    }

    async fn fetch_into(&self, remote: &Remote, name: &str, place: scratch::Place) -> Result<Commit, GitError> {
        let refspec = format!("+{name}:{FETCHED}");
        let words = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let place_of_remote = ["--", remote.url.as_str(), refspec.as_str()];
        let fetch = Command::new(&words).and(&place_of_remote).talks_to(remote).within(place.clone());
        fetch.run(self).await?;
        let peeled = format!("{FETCHED}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled];
        let said = Command::new(&words).within(place).run(self).await;
        said.ok()
            .and_then(|said| Commit::parse(String::from_utf8_lossy(&said).trim()).ok())
            .ok_or_else(|| GitError::NotFound(format!("{name} is no commit")))
    }

    /// A branch wins over a tag of its name, as for `git clone --branch`.
    async fn find(&self, remote: &Remote, reference: &RefName) -> Result<Found, GitError> {
        let (branch, tag) = (format!("refs/heads/{reference}"), format!("refs/tags/{reference}"));
        let peeled = format!("{tag}^{{}}");
        let words = ["ls-remote", "--quiet", "--", remote.url.as_str(), &branch, &tag, &peeled];
        let command = Command::new(&words).talks_to(remote).keeps(LISTED_BYTES_MAX);
        let listed = command.run(self).await?;
        let text = String::from_utf8_lossy(&listed);
        let commit_of = |wanted: &str| {
            let of_name = |line: &str| {
                let (commit, name) = line.split_once('\t')?;
                (name == wanted).then(|| Commit::parse(commit).ok())?
            };
            text.lines().find_map(of_name)
        };
        if let Some(commit) = commit_of(&branch) {
            return Ok(Found { name: branch, commit });
        }
        match commit_of(&peeled).or_else(|| commit_of(&tag)) {
            Some(commit) => Ok(Found { name: tag, commit }),
            None => Err(GitError::NotFound(format!("the repository has no branch or tag {reference}"))),
        }
    }
}

/// A branch or a tag by its whole name.
struct Found {
    name: String,
    commit: Commit,
}
