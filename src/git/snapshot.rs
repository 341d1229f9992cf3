//! What a remote had at one commit: files that are listed and read, never checked out.

use super::fault::GitError;
use super::names::{Commit, TreePath};
use super::process::Command;
use super::scratch::Scratch;
use super::{Git, fault};

/// For each entry of a directory that is listed: its mode, kind, hash, size and name.
const ENTRY_BYTES_MAX: usize = 512;
/// What git says before and after each file it gives out.
const FRAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub struct Snapshot {
    git: Git,
    scratch: Scratch,
    commit: Commit,
}

/// A plain file. Links, submodules and directories are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// From the root of the repository.
    pub path: String,
    pub bytes: u64,
    object: Commit,
}

impl Snapshot {
    pub(super) fn new(git: Git, scratch: Scratch, commit: Commit) -> Self {
        Self { git, scratch, commit }
    }

    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// The files directly in a directory, by name. Empty if there is no such directory. More entries than `max` are an
    /// error.
    pub async fn files(&self, directory: &TreePath, max: usize) -> Result<Vec<File>, GitError> {
        let below = format!("{}/", directory.as_str());
        let words = ["ls-tree", "-z", "--long", "--full-tree", self.commit.as_str(), "--", &below];
        let too_many = || GitError::TooLarge(format!("{below} has more than {max} entries"));
        let command = Command::new(&words).within(self.scratch.place()).keeps(max.saturating_mul(ENTRY_BYTES_MAX));
        let listed = match command.run(&self.git).await {
            Err(GitError::TooLarge(_)) => return Err(too_many()),
            listed => listed?,
        };
        let entries: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).collect();
        if entries.len() > max {
            return Err(too_many());
        }
        Ok(entries.into_iter().filter_map(file).collect())
    }

    /// What is in them, in their order. `max_bytes`: for all of them together.
    pub async fn read(&self, files: &[File], max_bytes: usize) -> Result<Vec<Vec<u8>>, GitError> {
        let total: u64 = files.iter().map(|file| file.bytes).sum();
        if total > max_bytes as u64 {
            return Err(GitError::TooLarge(format!("the files have {total} bytes, and {max_bytes} is the most")));
        }
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let asked: String = files.iter().map(|file| format!("{}\n", file.object)).collect();
        let frames = files.len() * FRAME_BYTES_MAX;
        let command = Command::new(&["cat-file", "--batch"]).within(self.scratch.place()).reads(asked.as_bytes());
        let said = command.keeps(max_bytes + frames).run(&self.git).await?;
        split(&said, files).ok_or_else(|| GitError::Failed("it gave out other files than asked for".to_owned()))
    }
}

/// `mode kind hash size<TAB>path`. What is no plain file, or has a name that is no text, is left out.
fn file(entry: &[u8]) -> Option<File> {
    let (head, path) = std::str::from_utf8(entry).ok()?.split_once('\t')?;
    let mut words = head.split_ascii_whitespace();
    let (mode, kind, object, bytes) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if kind != "blob" || !matches!(mode, "100644" | "100755") {
        return None;
    }
    let path = fault::cleaned(path);
    Some(File { path, bytes: bytes.parse().ok()?, object: Commit::parse(object).ok()? })
}

/// `hash kind size`, a line end, the bytes, a line end; for each.
fn split(mut said: &[u8], files: &[File]) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::with_capacity(files.len());
    for file in files {
        let end = said.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&said[..end]).ok()?;
        if head != format!("{} blob {}", file.object, file.bytes) {
            return None;
        }
        let (content, rest) = said[end + 1..].split_at_checked(usize::try_from(file.bytes).ok()?)?;
        contents.push(content.to_vec());
        said = rest.strip_prefix(b"\n")?;
    }
    said.is_empty().then_some(contents)
}
