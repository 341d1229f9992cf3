//! A remote: its branches and tags, and the files at one commit, fetched, listed and read, never checked out.

use super::fault::{self, GitError};
use super::names::{Commit, RefName, Remote, TreePath};
use super::process::{GitCommand, OrganizationGit};
use super::scratch::Scratch;

/// The ref of the fetched commit in our repository.
const FETCHED: &str = "refs/lockkeeper/fetched";

impl OrganizationGit {
    /// The current commit of a branch or a tag of the remote.
    pub async fn resolve(&self, remote: &Remote, reference: &RefName) -> Result<Commit, GitError> {
        self.find(remote, reference).await.map(|(_, commit)| commit)
    }

    /// The branch that the remote's `HEAD` names; `None` if it names none or has no commits yet.
    pub async fn default_branch(&self, remote: &Remote) -> Result<Option<RefName>, GitError> {
        let words = ["ls-remote", "--quiet", "--symref", "--", remote.url.as_str(), "HEAD"];
        let listed = GitCommand { remote: Some(remote), ..self.command(&words) }.run().await?;
        Ok(default_in(&listed))
    }

    /// The current files of a branch or a tag of the remote, without history.
    pub async fn fetch(&self, remote: &Remote, reference: &RefName) -> Result<Snapshot, GitError> {
        let (name, _) = self.find(remote, reference).await?;
        let (scratch, commit) = self.fetch_commit(remote, &name, false).await?;
        Ok(Snapshot { git: self.clone(), scratch, commit })
    }

    /// The full name and the commit of a branch or a tag.
    pub(super) async fn find(&self, remote: &Remote, reference: &RefName) -> Result<(String, Commit), GitError> {
        let [branch, tag, peeled] = full_names(reference);
        let words = ["ls-remote", "--quiet", "--", remote.url.as_str(), &branch, &tag, &peeled];
        let listed = GitCommand { remote: Some(remote), ..self.command(&words) }.run().await?;
        let missing = || GitError::NotFound(format!("the repository has no branch or tag {reference}"));
        found_in(&listed, reference).ok_or_else(missing)
    }

    /// Fetches the commit of a full name into a new repository, without its history.
    pub(super) async fn fetch_commit(
        &self,
        remote: &Remote,
        name: &str,
        with_tree: bool,
    ) -> Result<(Scratch, Commit), GitError> {
        let scratch = Scratch::new(&self.git.settings.scratch, with_tree)?;
        let here = |words| GitCommand { paths: Some(scratch.paths()), ..self.command(words) };
        let init: &[&str] = if with_tree { &["init", "--quiet", "."] } else { &["init", "--quiet", "--bare", "."] };
        here(init).run().await?;
        let refspec = format!("+{name}:{FETCHED}");
        let words = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let words = [&words[..], &["--", remote.url.as_str(), &refspec]].concat();
        GitCommand { remote: Some(remote), ..here(&words) }.run().await?;
        let peeled = format!("{FETCHED}^{{commit}}");
        let output = here(&["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled]).run().await;
        let commit = output.ok().and_then(|output| Commit::parse(String::from_utf8_lossy(&output).trim()).ok());
        let commit = commit.ok_or_else(|| GitError::NotFound(format!("{name} is not a commit")))?;
        Ok((scratch, commit))
    }
}

/// Parses the output of `ls-remote --symref`.
pub(super) fn default_in(listed: &[u8]) -> Option<RefName> {
    let text = String::from_utf8_lossy(listed);
    let target = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
    target.and_then(|name| RefName::parse(name).ok())
}

/// The branch, the tag, and the commit of an annotated tag.
fn full_names(reference: &RefName) -> [String; 3] {
    [format!("refs/heads/{reference}"), format!("refs/tags/{reference}"), format!("refs/tags/{reference}^{{}}")]
}

/// Parses the output of `ls-remote`. A branch wins over a tag of the same name, as for `git clone --branch`.
pub(super) fn found_in(listed: &[u8], reference: &RefName) -> Option<(String, Commit)> {
    let [branch, tag, peeled] = full_names(reference);
    let text = String::from_utf8_lossy(listed);
    let commit_of = |wanted: &str| {
        let of_name = |line: &str| {
            let (commit, name) = line.split_once('\t')?;
            (name == wanted).then(|| Commit::parse(commit).ok())?
        };
        text.lines().find_map(of_name)
    };
    if let Some(commit) = commit_of(&branch) {
        return Some((branch, commit));
    }
    let commit = commit_of(&peeled).or_else(|| commit_of(&tag))?;
    Some((tag, commit))
}

/// Per entry of a listed directory: mode, kind, hash, size and name.
const ENTRY_BYTES_MAX: usize = 512;
/// Git's header and line breaks around each file.
const FRAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub struct Snapshot {
    git: OrganizationGit,
    scratch: Scratch,
    commit: Commit,
}

/// A plain file: no link, submodule or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// From the root of the repository.
    pub path: String,
    pub bytes: u64,
    object: Commit,
}

impl Snapshot {
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// The files directly in a directory, sorted by name; empty if there is no such directory. More than `max` entries
    /// are an error.
    pub async fn files(&self, directory: &TreePath, max: usize) -> Result<Vec<File>, GitError> {
        let below = format!("{}/", directory.as_str());
        let words = ["ls-tree", "-z", "--long", "--full-tree", self.commit.as_str(), "--", &below];
        let too_many = || GitError::TooLarge(format!("{below} has more than {max} entries"));
        let output_max = max.saturating_mul(ENTRY_BYTES_MAX);
        let listed = match (GitCommand { output_max, ..self.here(&words) }).run().await {
            Err(GitError::TooLarge(_)) => return Err(too_many()),
            listed => listed?,
        };
        if entries_in(&listed).count() > max {
            return Err(too_many());
        }
        Ok(files_in(&listed))
    }

    /// The contents of the files, in their order. `max_bytes` is the limit for all of them together.
    pub async fn read(&self, files: &[File], max_bytes: usize) -> Result<Vec<Vec<u8>>, GitError> {
        let total = total_bytes(files);
        if total > max_bytes as u64 {
            return Err(GitError::TooLarge(format!("the files have {total} bytes, the limit is {max_bytes}")));
        }
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let asked: String = files.iter().map(|file| format!("{}\n", file.object)).collect();
        let (input, output_max) = (asked.as_bytes(), max_bytes + files.len() * FRAME_BYTES_MAX);
        let output = GitCommand { input, output_max, ..self.here(&["cat-file", "--batch"]) }.run().await?;
        split(&output, files).ok_or_else(|| GitError::Failed("it returned other files than requested".to_owned()))
    }

    fn here<'a>(&'a self, words: &[&'a str]) -> GitCommand<'a> {
        GitCommand { paths: Some(self.scratch.paths()), ..self.git.command(words) }
    }
}

fn entries_in(listed: &[u8]) -> impl Iterator<Item = &[u8]> {
    listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty())
}

/// Parses the output of `ls-tree -z --long`.
pub(super) fn files_in(listed: &[u8]) -> Vec<File> {
    entries_in(listed).filter_map(file).collect()
}

/// Adds sizes that a program has printed, which may be any number.
pub(super) fn total_bytes(files: &[File]) -> u64 {
    files.iter().fold(0, |total, file| total.saturating_add(file.bytes))
}

/// The sum of the file sizes in the output of `ls-tree -r --long -z`, links included. An unreadable size counts as too
/// large.
pub(super) fn tree_bytes(listed: &[u8]) -> u64 {
    let sizes = entries_in(listed).map(|entry| {
        let head = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
        let mut words = std::str::from_utf8(head).unwrap_or_default().split_ascii_whitespace();
        let (kind, size) = (words.nth(1), words.nth(1));
        match kind {
            // A submodule has no content here.
            Some("commit") => 0,
            Some(_) | None => size.and_then(|size| size.parse().ok()).unwrap_or(u64::MAX),
        }
    });
    sizes.fold(0, u64::saturating_add)
}

/// Parses `mode kind hash size<TAB>path`; `None` if it is not a plain file or its name is not UTF-8.
fn file(entry: &[u8]) -> Option<File> {
    let (head, path) = std::str::from_utf8(entry).ok()?.split_once('\t')?;
    let mut words = head.split_ascii_whitespace();
    let (mode, kind, object, bytes) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if kind != "blob" || !matches!(mode, "100644" | "100755") {
        return None;
    }
    let path = fault::printable(path);
    Some(File { path, bytes: bytes.parse().ok()?, object: Commit::parse(object).ok()? })
}

/// Each file is `hash kind size`, a line break, its bytes, a line break.
pub(super) fn split(mut output: &[u8], files: &[File]) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::with_capacity(files.len());
    for file in files {
        let end = output.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&output[..end]).ok()?;
        if head != format!("{} blob {}", file.object, file.bytes) {
            return None;
        }
        let (content, rest) = output[end + 1..].split_at_checked(usize::try_from(file.bytes).ok()?)?;
        contents.push(content.to_vec());
        output = rest.strip_prefix(b"\n")?;
    }
    output.is_empty().then_some(contents)
}
