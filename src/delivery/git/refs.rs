//! The branches and tags of a remote, and fetching one of them.

use super::fault::GitError;
use super::names::{Commit, RefName, Remote};
use super::process::{GitCommand, Program};
use super::scratch::RepositoryPaths;

/// The fetched commit in a repository of ours.
const FETCHED: &str = "refs/lockkeeper/fetched";

/// A branch or a tag by its full name.
pub(super) struct Found {
    pub name: String,
    pub commit: Commit,
}

/// The branch that the remote's `HEAD` names; `None` if it names none or has no commits yet.
pub(super) async fn default_branch(program: &Program, remote: &Remote) -> Result<Option<RefName>, GitError> {
    let words = ["ls-remote", "--quiet", "--symref", "--", remote.url.as_str(), "HEAD"];
    let listed = GitCommand::new(&words).with_remote(remote).run(program).await?;
    Ok(default_in(&listed))
}

/// Of `ls-remote --symref`.
pub(super) fn default_in(listed: &[u8]) -> Option<RefName> {
    let text = String::from_utf8_lossy(listed);
    let target = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
    target.and_then(|name| RefName::parse(name).ok())
}

pub(super) async fn find(program: &Program, remote: &Remote, reference: &RefName) -> Result<Found, GitError> {
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

/// Of `ls-remote`. A branch wins over a tag of the same name, as for `git clone --branch`.
pub(super) fn found_in(listed: &[u8], reference: &RefName) -> Option<Found> {
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
        return Some(Found { name: branch, commit });
    }
    let commit = commit_of(&peeled).or_else(|| commit_of(&tag))?;
    Some(Found { name: tag, commit })
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
