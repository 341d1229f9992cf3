//! The files of a commit, changed by a patch or individually, committed, and pushed as a branch that is never the
//! default one. All of this happens in git's index: no file of the repository is ever written to disk.

use super::fault::{self, GitError};
use super::names::{Author, Commit, RefName, Remote, TreePath};
use super::process::{GitCommand, OrganizationGit};
use super::remote;
use super::scratch::Scratch;

const MIB: u64 = 1024 * 1024;
/// Far more than anybody would review.
const PATCH_BYTES_MAX: usize = 1024 * 1024;
/// For git's list of the changed files.
const CHANGES_BYTES_MAX: usize = 1024 * 1024;
/// For the list of all files.
const LISTED_BYTES_MAX: usize = 16 * 1024 * 1024;
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct WorkTree {
    git: OrganizationGit,
    scratch: Scratch,
    remote: Remote,
    base: RefName,
}

impl OrganizationGit {
    /// The files at a branch of the remote, to change them and push them as another branch.
    pub async fn work_on(&self, remote: &Remote, base: &RefName) -> Result<WorkTree, GitError> {
        let (name, _) = self.find(remote, base).await?;
        self.work_tree(remote, base, &name).await
    }

    /// The files at a commit, if the remote serves it by its hash.
    pub async fn work_at(&self, remote: &Remote, base: &RefName, commit: &Commit) -> Result<WorkTree, GitError> {
        self.work_tree(remote, base, commit.as_str()).await
    }

    async fn work_tree(&self, remote: &Remote, base: &RefName, name: &str) -> Result<WorkTree, GitError> {
        let (scratch, commit) = self.fetch_commit(remote, name, true).await?;
        let tree = WorkTree { git: self.clone(), scratch, remote: remote.clone(), base: base.clone() };
        tree.check_size(&commit).await?;
        tree.here(&["update-ref", "--no-deref", "HEAD", commit.as_str()]).run().await?;
        tree.undo().await?;
        Ok(tree)
    }
}

impl WorkTree {
    /// A pack of some kilobytes can contain any number of files of any size.
    async fn check_size(&self, commit: &Commit) -> Result<(), GitError> {
        let words = ["ls-tree", "-r", "-z", "--long", "--full-tree", commit.as_str()];
        let most = self.git.git.settings.max_bytes;
        let (mut seen, mut bytes, mut is_larger) = (0, 0_u64, false);
        let adding_up = |listed: &[u8]| {
            let end = listed.iter().rposition(|byte| *byte == 0).map_or(seen, |last| last + 1);
            bytes = bytes.saturating_add(remote::tree_bytes(&listed[seen..end]));
            seen = end;
            is_larger = bytes > most;
            if is_larger { Err(GitError::TooLarge(String::new())) } else { Ok(()) }
        };
        let check = Box::new(adding_up);
        match (GitCommand { output_max: LISTED_BYTES_MAX, check, ..self.here(&words) }).run().await {
            Err(GitError::TooLarge(_)) if is_larger => Err(GitError::TooLarge(format!(
                "the repository's files have more than the {} MiB of git.max_repository_mb",
                most / MIB
            ))),
            Err(GitError::TooLarge(_)) => {
                let most = LISTED_BYTES_MAX / MIB as usize;
                Err(GitError::TooLarge(format!("the list of the repository's files is over {most} MiB")))
            }
            listed => listed.map(drop),
        }
    }

    /// The paths of all files: no links and no submodules.
    pub async fn files(&self) -> Result<Vec<String>, GitError> {
        let listed = self.output_of(&["ls-files", "--stage", "-z"], LISTED_BYTES_MAX).await?;
        let entries = String::from_utf8_lossy(&listed);
        let is_file = |entry: &&str| entry.starts_with("100");
        let paths = entries.split('\0').filter(is_file).filter_map(|entry| entry.split_once('\t'));
        Ok(paths.map(|(_, path)| path.to_owned()).collect())
    }

    /// The content of a file of at most `max_bytes`; `None` if there is no such file.
    pub async fn read(&self, path: &TreePath, max_bytes: usize) -> Result<Option<Vec<u8>>, GitError> {
        let spec = format!(":{}", path.as_str());
        match self.output_of(&["cat-file", "blob", &spec], max_bytes).await {
            Ok(content) => Ok(Some(content)),
            Err(GitError::NotFound(_) | GitError::Failed(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds or replaces a file.
    pub async fn write(&self, path: &TreePath, content: &[u8]) -> Result<(), GitError> {
        let taken = || GitError::PathTaken(path.as_str().to_owned());
        let mode = match self.mode_of(path).await?.as_deref() {
            None => "100644".to_owned(),
            Some(mode) if mode.starts_with("100") => mode.to_owned(),
            // A link or a submodule.
            Some(_) => return Err(taken()),
        };
        let words = ["hash-object", "-w", "--no-filters", "--stdin"];
        let hashed = GitCommand { input: content, ..self.here(&words) }.run().await?;
        let hash = String::from_utf8_lossy(&hashed);
        let entry = format!("{mode},{},{}", hash.trim(), path.as_str());
        match self.here(&["update-index", "--add", "--cacheinfo", &entry]).run().await {
            Err(GitError::NotFound(_) | GitError::Failed(_)) => Err(taken()),
            added => added.map(drop),
        }
    }

    /// The mode of the entry at exactly this path.
    async fn mode_of(&self, path: &TreePath) -> Result<Option<String>, GitError> {
        let words = ["--literal-pathspecs", "ls-files", "--stage", "-z", "--", path.as_str()];
        let listed = self.output_of(&words, LISTED_BYTES_MAX).await?;
        let entries = String::from_utf8_lossy(&listed);
        let entry = entries.split('\0').filter_map(|entry| entry.split_once('\t')).find(|(_, of)| *of == path.as_str());
        Ok(entry.and_then(|(head, _)| head.split(' ').next()).map(str::to_owned))
    }

    /// Applies all of the patch or nothing. Returns the changed paths, which may differ from those the patch appears to
    /// name. Git itself refuses paths outside the tree and its own files; links and submodules are refused here, since
    /// their targets are not in the patch.
    pub async fn apply(&self, patch: &str) -> Result<Vec<String>, GitError> {
        if patch.len() > PATCH_BYTES_MAX {
            return Err(GitError::Patch(format!("it has {} bytes, the limit is {PATCH_BYTES_MAX}", patch.len())));
        }
        let words = ["apply", "--cached", "--whitespace=nowarn", "-"];
        let applied = GitCommand { input: patch.as_bytes(), ..self.here(&words) }.run().await;
        applied.map_err(as_patch_error)?;
        let words = ["diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "HEAD"];
        let changes = changes_of(&self.output_of(&words, CHANGES_BYTES_MAX).await?);
        if let Some(other) = changes.iter().find(|change| !change.is_file_or_gone) {
            self.undo().await?;
            let path = fault::printable(&other.path);
            return Err(GitError::Patch(format!("{path} would become a link or a submodule")));
        }
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// The changes since the base commit, as a patch of at most `max_bytes`.
    pub async fn diff(&self, max_bytes: usize) -> Result<String, GitError> {
        let words = ["diff", "--cached", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv", "HEAD"];
        let patch = self.output_of(&words, max_bytes).await?;
        String::from_utf8(patch).map_err(|_| GitError::Patch("it is not UTF-8".to_owned()))
    }

    /// Restores the initial state of the work tree.
    pub async fn undo(&self) -> Result<(), GitError> {
        self.here(&["read-tree", "HEAD"]).run().await.map(drop)
    }

    /// Commits all changes.
    pub async fn commit(&self, author: &Author, message: &str) -> Result<Commit, GitError> {
        let changed = ["diff", "--cached", "--name-only", "-z", "--no-ext-diff", "HEAD"];
        if self.output_of(&changed, CHANGES_BYTES_MAX).await?.is_empty() {
            return Err(GitError::NothingChanged);
        }
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        let words = ["commit", "--quiet", "--no-verify", "--cleanup=whitespace", "--file=-"];
        let input = &message.as_bytes()[..end];
        GitCommand { author: Some(author), input, ..self.here(&words) }.run().await?;
        let output = self.here(&["rev-parse", "--verify", "HEAD"]).run().await?;
        Commit::parse(String::from_utf8_lossy(&output).trim())
            .map_err(|_| GitError::Failed("it did not create a commit".to_owned()))
    }

    /// Pushes the commit as a new branch. An existing branch is never changed, even if the push would only add to it.
    /// Default branches are refused: that of the remote, and the one that the work tree is based on.
    pub async fn push(&self, branch: &RefName) -> Result<(), GitError> {
        let default = self.git.default_branch(&self.remote).await?;
        if branch.may_equal(&self.base) || default.is_some_and(|default| branch.may_equal(&default)) {
            return Err(GitError::DefaultBranch(branch.to_string()));
        }
        let refspec = format!("HEAD:refs/heads/{branch}");
        // The branch must not exist yet.
        let lease = format!("--force-with-lease=refs/heads/{branch}:");
        let words = ["push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"];
        let words = [&words[..], &[&lease, "--", self.remote.url.as_str(), &refspec]].concat();
        GitCommand { remote: Some(&self.remote), ..self.here(&words) }.run().await.map(drop)
    }

    async fn output_of(&self, words: &[&str], output_max: usize) -> Result<Vec<u8>, GitError> {
        GitCommand { output_max, ..self.here(words) }.run().await
    }

    fn here<'a>(&'a self, words: &[&'a str]) -> GitCommand<'a> {
        GitCommand { paths: Some(self.scratch.paths()), ..self.git.command(words) }
    }
}

fn as_patch_error(error: GitError) -> GitError {
    match error {
        GitError::NotFound(why) | GitError::Failed(why) | GitError::Rejected(why) => GitError::Patch(why),
        other => other,
    }
}

pub(super) struct Change {
    path: String,
    pub is_file_or_gone: bool,
}

/// Parses the output of `diff --raw -z`: `:mode mode hash hash status`, NUL, path, NUL, for each file.
pub(super) fn changes_of(raw: &[u8]) -> Vec<Change> {
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
