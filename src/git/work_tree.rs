//! A work tree to change: a patch or files, a commit, and a push as a branch that is never the default one.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::fault::{self, GitError};
use super::names::{Commit, RefName, Remote, TreePath};
use super::process::Command;
use super::scratch::Scratch;
use super::{Git, LISTED_BYTES_MAX};

/// Far above what anybody would review.
const PATCH_BYTES_MAX: usize = 1024 * 1024;
/// Of what a patch has changed, as git lists it.
const CHANGES_BYTES_MAX: usize = 1024 * 1024;
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
const NAME_CHARS_MAX: usize = 100;

#[derive(Debug)]
pub struct WorkTree {
    git: Git,
    scratch: Scratch,
    remote: Remote,
    base: RefName,
    base_commit: Commit,
}

/// Who a commit is by.
#[derive(Debug, Clone)]
pub struct Author {
    name: String,
    email: String,
}

impl Author {
    /// Without what git does not take in a name.
    pub fn new(name: &str, email: &str) -> Self {
        let plain = |text: &str| -> String {
            let kept = text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>'));
            kept.take(NAME_CHARS_MAX)
                .collect::<String>()
                .trim_matches([' ', '.', ',', ':', ';', '"', '\'', '\\'])
                .to_owned()
        };
        let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
        Self { name: or(plain(name), "lockkeeper"), email: or(plain(email), "lockkeeper@localhost") }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn email(&self) -> &str {
        &self.email
    }
}

impl WorkTree {
    pub(super) fn new(git: Git, scratch: Scratch, remote: Remote, base: RefName, base_commit: Commit) -> Self {
        Self { git, scratch, remote, base, base_commit }
    }

    /// The commit that it began with.
    pub fn base_commit(&self) -> &Commit {
        &self.base_commit
    }

    /// A file as it stands, up to so many bytes; none if there is no such file.
    pub async fn read(&self, path: &TreePath, max_bytes: usize) -> Result<Option<Vec<u8>>, GitError> {
        let spec = format!(":{}", path.as_str());
        let words = ["cat-file", "blob", &spec];
        match self.here(&words).keeps(max_bytes).run(&self.git).await {
            Ok(content) => Ok(Some(content)),
            Err(GitError::NotFound(_) | GitError::Failed(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds or replaces a file.
    pub async fn write(&self, path: &TreePath, content: &[u8]) -> Result<(), GitError> {
        let file = self.path_of(path);
        let writing = async {
            if let Some(parent) = file.parent() {
                tokio::fs::create_dir_all(parent).await?;
            }
            tokio::fs::write(&file, content).await
        };
        writing.await.map_err(|error| match error.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists | ErrorKind::IsADirectory => {
                GitError::InTheWay(path.as_str().to_owned())
            }
            _ => error.into(),
        })?;
        let words = ["add", "--force", "--", path.as_str()];
        self.here(&words).run(&self.git).await.map(|_| ())
    }

    /// All of it or nothing; the paths that it has changed, which may be others than it seems to name. Git itself refuses
    /// paths outside and those of its own; links and submodules are refused here, since what they lead to is not in the
    /// patch.
    pub async fn apply(&self, patch: &str) -> Result<Vec<String>, GitError> {
        if patch.len() > PATCH_BYTES_MAX {
            return Err(GitError::Patch(format!("it has {} bytes, and {PATCH_BYTES_MAX} is the most", patch.len())));
        }
        let words = ["apply", "--index", "--whitespace=nowarn", "-"];
        let applied = self.here(&words).reads(patch.as_bytes()).run(&self.git).await;
        applied.map_err(as_patch)?;
        let words = ["diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "HEAD"];
        let changes = self.here(&words).keeps(CHANGES_BYTES_MAX).run(&self.git).await?;
        let changes = changes_of(&changes);
        if let Some(other) = changes.iter().find(|change| !change.is_file_or_gone) {
            self.undo().await?;
            let path = fault::cleaned(&other.path);
            return Err(GitError::Patch(format!("{path} would be a link or a submodule")));
        }
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// Back to what it began with.
    pub async fn undo(&self) -> Result<(), GitError> {
        self.here(&["reset", "--quiet", "--hard", "HEAD"]).run(&self.git).await.map(|_| ())
    }

    /// Everything that has changed.
    pub async fn commit(&self, author: &Author, message: &str) -> Result<Commit, GitError> {
        let changed = ["diff", "--cached", "--name-only", "-z", "--no-ext-diff", "HEAD"];
        if self.here(&changed).keeps(CHANGES_BYTES_MAX).run(&self.git).await?.is_empty() {
            return Err(GitError::NothingChanged);
        }
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        let words = ["commit", "--quiet", "--no-verify", "--cleanup=whitespace", "--file=-"];
        let committing = self.here(&words).by(author).reads(&message.as_bytes()[..end]);
        committing.run(&self.git).await?;
        let said = self.here(&["rev-parse", "--verify", "HEAD"]).run(&self.git).await?;
        let said = String::from_utf8_lossy(&said);
        Commit::parse(said.trim()).map_err(|_| GitError::Failed("it made no commit".to_owned()))
    }

    /// Pushes what was committed as this branch, which is a new one: what anybody has put there meanwhile is left alone, also
    /// where this would only add to it. The default branch, that of the remote and the one that this began with, is refused.
    pub async fn push(&self, branch: &RefName) -> Result<(), GitError> {
        let default = self.git.default_branch(&self.remote).await?;
        if branch.may_be(&self.base) || default.is_some_and(|default| branch.may_be(&default)) {
            return Err(GitError::DefaultBranch(branch.to_string()));
        }
        let refspec = format!("HEAD:refs/heads/{branch}");
        // Expected to be nothing.
        let lease = format!("--force-with-lease=refs/heads/{branch}:");
        let words = ["push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"];
        let pushing =
            self.here(&words).and(&[&lease, "--"]).and(&[self.remote.url.as_str(), &refspec]).talks_to(&self.remote);
        pushing.keeps(LISTED_BYTES_MAX).run(&self.git).await.map(|_| ())
    }

    fn here<'a>(&self, words: &[&'a str]) -> Command<'a> {
        Command::new(words).within(self.scratch.place())
    }

    fn path_of(&self, path: &TreePath) -> PathBuf {
        self.scratch.dir().join(path.as_str())
    }
}

fn as_patch(error: GitError) -> GitError {
    match error {
        GitError::NotFound(said) | GitError::Failed(said) | GitError::Rejected(said) => GitError::Patch(said),
        other => other,
    }
}

struct Change {
    path: String,
    is_file_or_gone: bool,
}

/// Of `:mode mode hash hash status`, NUL, path, NUL; for each.
fn changes_of(raw: &[u8]) -> Vec<Change> {
    let mut fields = raw.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
        let head = String::from_utf8_lossy(head);
        let new_mode = head.split(' ').nth(1).unwrap_or_default();
        let is_file_or_gone = matches!(new_mode, "100644" | "100755" | "000000");
        changes.push(Change { path: String::from_utf8_lossy(path).into_owned(), is_file_or_gone });
    }
    changes
}
