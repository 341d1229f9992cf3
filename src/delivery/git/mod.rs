//! Runs the installed `git`: looks up and reads remotes, and pushes a branch of changes. Knows nothing of registries or
//! pipelines.
//!
//! A user who may name a remote is not trusted with the machine: only a few forms of URL are allowed; no option,
//! helper, hook, filter or submodule of a repository runs; neither the server's environment nor the user's git
//! configuration is visible; and every process ends within its time limit, together with everything it started. A
//! credential appears in no argument and in no error. A repository is never checked out, since few bytes can unpack to
//! any number of files; the sum of file sizes is limited too. Git connects only through our proxy, under the policy of
//! [`outbound`](outbound).
//!
//! From top to bottom: this file → `work_tree` → `remote` → `process` → `scratch`, `names`, `fault`.

mod fault;
mod names;
mod process;
mod remote;
mod scratch;
mod work_tree;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::time::Duration;

pub use fault::GitError;
pub use names::{Author, Commit, Credential, RefName, Remote, RemoteUrl, TreePath};
pub use process::GitSettings;
pub use remote::{File, Snapshot};
pub use work_tree::WorkTree;

use process::{GitCommand, Installation, Program};
use scratch::Scratch;

use domain::Identifier;

/// Cheap to clone; clones share their limits.
#[derive(Debug, Clone)]
pub struct Git {
    installed: Installation,
}

/// Git for one organization, which has a share of the processes.
#[derive(Debug, Clone)]
pub struct OrganizationGit {
    program: Program,
}

impl Git {
    /// For a server with this many organizations.
    pub fn new(settings: GitSettings, organizations: usize) -> io::Result<Self> {
        Ok(Self { installed: Installation::new(settings, organizations)? })
    }

    pub fn on_behalf_of(&self, organization: &Identifier) -> OrganizationGit {
        OrganizationGit { program: Program { installed: self.installed.clone(), organization: organization.clone() } }
    }

    /// Whether `file://` URLs are allowed.
    pub fn allows_file(&self) -> bool {
        self.installed.settings.allow_file
    }

    /// The limit for each process.
    pub fn timeout(&self) -> Duration {
        self.installed.settings.timeout
    }
}

impl OrganizationGit {
    /// The current commit of a branch or a tag of the remote.
    pub async fn resolve(&self, remote: &Remote, reference: &RefName) -> Result<Commit, GitError> {
        remote::find(&self.program, remote, reference).await.map(|found| found.commit)
    }

    /// The branch that the remote's `HEAD` names; `None` if it names none or has no commits yet.
    pub async fn default_branch(&self, remote: &Remote) -> Result<Option<RefName>, GitError> {
        remote::default_branch(&self.program, remote).await
    }

    /// The current files of a branch or a tag of the remote, without history.
    pub async fn fetch(&self, remote: &Remote, reference: &RefName) -> Result<Snapshot, GitError> {
        let found = remote::find(&self.program, remote, reference).await?;
        let scratch = Scratch::bare(self.scratch())?;
        self.run(&["init", "--quiet", "--bare", "."], &scratch).await?;
        let commit = remote::fetch_into(&self.program, remote, &found.name, scratch.paths()).await?;
        Ok(Snapshot::new(self.program.clone(), scratch, commit))
    }

    /// The files at a branch of the remote, to change them and push them as another branch.
    pub async fn work_on(&self, remote: &Remote, base: &RefName) -> Result<WorkTree, GitError> {
        let found = remote::find(&self.program, remote, base).await?;
        let scratch = Scratch::with_tree(self.scratch())?;
        self.run(&["init", "--quiet", "."], &scratch).await?;
        let commit = remote::fetch_into(&self.program, remote, &found.name, scratch.paths()).await?;
        WorkTree::open(self.program.clone(), scratch, remote.clone(), base.clone(), &commit).await
    }

    /// The same at a commit, if the remote serves it by its hash.
    pub async fn work_at(&self, remote: &Remote, base: &RefName, commit: &Commit) -> Result<WorkTree, GitError> {
        let scratch = Scratch::with_tree(self.scratch())?;
        self.run(&["init", "--quiet", "."], &scratch).await?;
        let commit = remote::fetch_into(&self.program, remote, commit.as_str(), scratch.paths()).await?;
        WorkTree::open(self.program.clone(), scratch, remote.clone(), base.clone(), &commit).await
    }

    fn scratch(&self) -> &Path {
        &self.program.installed.settings.scratch
    }

    async fn run(&self, words: &[&str], scratch: &Scratch) -> Result<Vec<u8>, GitError> {
        GitCommand::new(words).within(scratch.paths()).run(&self.program).await
    }
}
