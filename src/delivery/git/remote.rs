//! A remote: its branches and tags, and the files at one commit, fetched, listed and read, never checked out.

use super::fault::{self, GitError};
use super::names::{Commit, RefName, Remote, TreePath};
use super::process::{GitCommand, Program};
use super::scratch::{RepositoryPaths, Scratch};

/// The ref of the fetched commit in our repository.
const FETCHED: &str = "refs/lockkeeper/fetched";

/// A branch or a tag by its full name.
pub(super) struct ResolvedReference {
    pub name: String,
    pub commit: Commit,
}

/// The branch that the remote's `HEAD` names; `None` if it names none or has no commits yet.
pub(super) async fn default_branch(program: &Program, remote: &Remote) -> Result<Option<RefName>, GitError> {
    let words = ["ls-remote", "--quiet", "--symref", "--", remote.url.as_str(), "HEAD"];
    let listed = GitCommand::new(&words).with_remote(remote).run(program).await?;
    Ok(default_in(&listed))
}

/// Parses the output of `ls-remote --symref`.
pub(super) fn default_in(listed: &[u8]) -> Option<RefName> {
    let text = String::from_utf8_lossy(listed);
    let target = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
    target.and_then(|name| RefName::parse(name).ok())
}

pub(super) async fn find(
    program: &Program,
    remote: &Remote,
    reference: &RefName,
) -> Result<ResolvedReference, GitError> {
    let [branch, tag, peeled] = full_names(reference);
    let words = ["ls-remote", "--quiet", "--", remote.url.as_str(), &branch, &tag, &peeled];
    let listed = GitCommand::new(&words).with_remote(remote).run(program).await?;
    let missing = || GitError::NotFound(format!("the repository has no branch or tag {reference}"));
    found_in(&listed, reference).ok_or_else(missing)
}

/// The branch, the tag, and the commit of an annotated tag.
fn full_names(reference: &RefName) -> [String; 3] {
    [format!("refs/heads/{reference}"), format!("refs/tags/{reference}"), format!("refs/tags/{reference}^{{}}")]
}

/// Parses the output of `ls-remote`. A branch wins over a tag of the same name, as for `git clone --branch`.
pub(super) fn found_in(listed: &[u8], reference: &RefName) -> Option<ResolvedReference> {
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
        return Some(ResolvedReference { name: branch, commit });
    }
    let commit = commit_of(&peeled).or_else(|| commit_of(&tag))?;
    Some(ResolvedReference { name: tag, commit })
}

/// Fetches the commit of a full name, without its history.
pub(super) async fn fetch_into(
    program: &Program,
    remote: &Remote,
    name: &str,
    paths: RepositoryPaths,
) -> Result<Commit, GitError> {
    let refspec = format!("+{name}:{FETCHED}");
    let words = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
    let source = ["--", remote.url.as_str(), refspec.as_str()];
    GitCommand::new(&words).and(&source).with_remote(remote).within(paths.clone()).run(program).await?;
    let peeled = format!("{FETCHED}^{{commit}}");
    let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled];
    let output = GitCommand::new(&words).within(paths).run(program).await;
    output
        .ok()
        .and_then(|output| Commit::parse(String::from_utf8_lossy(&output).trim()).ok())
        .ok_or_else(|| GitError::NotFound(format!("{name} is not a commit")))
}

/// Per entry of a listed directory: mode, kind, hash, size and name.
const ENTRY_BYTES_MAX: usize = 512;
/// Git's header and line breaks around each file.
const FRAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub struct Snapshot {
    program: Program,
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
    pub(super) fn new(program: Program, scratch: Scratch, commit: Commit) -> Self {
        Self { program, scratch, commit }
    }

    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// The files directly in a directory, sorted by name; empty if there is no such directory. More than `max` entries
    /// are an error.
    pub async fn files(&self, directory: &TreePath, max: usize) -> Result<Vec<File>, GitError> {
        let below = format!("{}/", directory.as_str());
        let words = ["ls-tree", "-z", "--long", "--full-tree", self.commit.as_str(), "--", &below];
        let too_many = || GitError::TooLarge(format!("{below} has more than {max} entries"));
        let command =
            GitCommand::new(&words).within(self.scratch.paths()).output_max(max.saturating_mul(ENTRY_BYTES_MAX));
        let listed = match command.run(&self.program).await {
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
        let frames = files.len() * FRAME_BYTES_MAX;
        let command = GitCommand::new(&["cat-file", "--batch"]).within(self.scratch.paths()).input(asked.as_bytes());
        let output = command.output_max(max_bytes + frames).run(&self.program).await?;
        split(&output, files).ok_or_else(|| GitError::Failed("it returned other files than requested".to_owned()))
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
