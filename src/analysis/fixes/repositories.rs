//! The repositories of pipelines: a pipeline's remote with its credential, the patches that apply to it, and data
//! derived from its URL: the web page of a branch, and the address of a GitHub server's API.

use std::sync::Arc;

use super::FixError;
use super::github::Repository as GitHubRepository;
use crate::edits::Edit;
use crate::{PATCH_BYTES_MAX, SuggestedFix, patch};
use accounts::secrets::{SecretValue, Vault};
use delivery::git::{Commit, Credential, Git, GitError, RefName, Remote, RemoteUrl, TreePath, WorkTree};
use domain::{CommitId, Malformed, PipelineKey};
use locks::pipelines::{Pipelines, Provider, Repository};
use outbound::percent_encoded;

/// The maximum number of files with one name that are read for an edit.
const EDITED_FILES_MAX: usize = 8;
/// The limit for a source file.
const EDITED_BYTES_MAX: usize = 256 * 1024;

/// Cheap to clone.
#[derive(Clone)]
pub struct Repositories {
    pub git: Git,
    pub pipelines: Pipelines,
    pub vault: Arc<Vault>,
}

/// A repository with its credential.
pub(super) struct Target {
    pub remote: Remote,
    pub base: RefName,
    pub provision: Provision,
}

/// What to create in addition to the branch.
pub(super) enum Provision {
    /// Nothing.
    BranchOnly,
    GitHubPull {
        of: GitHubRepository,
        token: SecretValue,
    },
}

impl Repositories {
    /// Whether a patch applies to the commit, if the pipeline has a repository.
    pub async fn check(&self, key: &PipelineKey, commit: &CommitId, patch: &str) -> Result<(), FixError> {
        if let Some(tree) = self.tree(key, commit).await? {
            tree.apply(patch).await?;
        }
        Ok(())
    }

    /// The first of these edits that fits the files of the commit, as a patch for that commit. An edit that fits
    /// several files is ambiguous, and is not applied.
    pub async fn write(
        &self,
        key: &PipelineKey,
        commit: &CommitId,
        edits: &[Edit],
    ) -> Result<Option<SuggestedFix>, FixError> {
        let Some(tree) = self.tree(key, commit).await? else { return Ok(None) };
        let files = tree.files().await?;
        for edit in edits {
            let mut fitting = Vec::new();
            for place in edit.places(&files).into_iter().take(EDITED_FILES_MAX) {
                let Ok(path) = TreePath::parse(place.path) else { continue };
                let content = tree.read(&path, EDITED_BYTES_MAX).await?.map(String::from_utf8);
                if let Some(Ok(text)) = content
                    && let Some(edited) = place.applied(&text)
                {
                    fitting.push((path, edited, place.summary()));
                }
            }
            if let [(path, edited, summary)] = &fitting[..] {
                tree.write(path, edited.as_bytes()).await?;
                let patch = tree.diff(PATCH_BYTES_MAX).await?;
                tree.undo().await?;
                patch::check(&patch).map_err(|why| GitError::Patch(why.to_owned()))?;
                tree.apply(&patch).await?;
                return Ok(Some(SuggestedFix { summary: summary.clone(), patch: Some(patch) }));
            }
        }
        Ok(None)
    }

    /// The files of the commit, or of the default branch if the repository does not serve that commit; `None` without a
    /// repository.
    async fn tree(&self, key: &PipelineKey, commit: &CommitId) -> Result<Option<WorkTree>, FixError> {
        let target = match self.target(key).await {
            Err(FixError::NoRepository) => return Ok(None),
            target => target?,
        };
        let git = self.git.on_behalf_of(&key.organization);
        if let Ok(commit) = Commit::parse(commit.as_str()) {
            match git.work_at(&target.remote, &target.base, &commit).await {
                // Servers may refuse to send a commit that no branch names.
                Err(GitError::NotFound(_) | GitError::Failed(_) | GitError::Rejected(_)) => {}
                tree => return Ok(Some(tree?)),
            }
        }
        Ok(Some(git.work_on(&target.remote, &target.base).await?))
    }

    pub(super) async fn target(&self, key: &PipelineKey) -> Result<Target, FixError> {
        let pipeline = self.pipelines.get(&key.organization, key.pipeline.as_str()).ok_or(FixError::NoRepository)?;
        let repository = pipeline.repository.as_ref().ok_or(FixError::NoRepository)?;
        let url = RemoteUrl::parse(&repository.url, self.git.allows_file()).map_err(unusable)?;
        let base = RefName::parse(&repository.default_branch).map_err(unusable)?;
        let token = self.credential(key, repository).await?;
        let credential = token.as_ref().map(|token| Credential::token(token.reveal()));
        let provision = match repository.provider {
            Provider::Git => Provision::BranchOnly,
            Provider::GitHub => {
                let why = "its URL does not end in an owner and a repository, such as https://github.com/acme/shop";
                let of = github(&repository.url, repository.api_url.as_deref());
                let of = of.ok_or_else(|| FixError::UnusableRepository(why.to_owned()))?;
                Provision::GitHubPull { of, token: token.ok_or(FixError::NoCredential)? }
            }
        };
        Ok(Target { remote: Remote { url, credential }, base, provision })
    }

    async fn credential(&self, key: &PipelineKey, repository: &Repository) -> Result<Option<SecretValue>, FixError> {
        let Some(name) = repository.credential.clone() else { return Ok(None) };
        let (vault, key) = (self.vault.clone(), key.clone());
        let secrets = open_secrets(move || vault.open_for(&key).map_err(|error| error.to_string())).await?;
        let found = secrets.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| Some(value)).ok_or(FixError::CredentialNotFound(name))
    }
}

/// Reads the vault on a thread that may wait for the disk.
pub(super) async fn open_secrets<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, FixError> {
    let opened = tokio::task::spawn_blocking(open).await;
    opened.unwrap_or_else(|error| Err(error.to_string())).map_err(FixError::Secrets)
}

pub(super) fn unusable(malformed: Malformed) -> FixError {
    FixError::UnusableRepository(format!("one of its names {malformed}"))
}

const GITHUB_API: &str = "https://api.github.com";

/// The page that compares a branch with its base, for known hosts; otherwise the remote and the branch's name.
pub(super) fn compare(url: &str, base: &str, branch: &str) -> String {
    let [base_name, name] = [base, branch].map(|branch| percent_encoded(branch).replace("%2F", "/"));
    let Some((host, path)) = host_and_path(url).filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        return format!("{url}#{branch}");
    };
    let is = |name: &str| host == format!("{name}.com") || host.starts_with(&format!("{name}."));
    if is("github") {
        format!("https://{host}/{path}/compare/{base_name}...{name}?expand=1")
    } else if is("gitlab") {
        format!("https://{host}/{path}/-/compare/{base_name}...{name}")
    } else if host == "bitbucket.org" {
        format!("https://{host}/{path}/branches/compare/{name}%0D{base_name}")
    } else {
        format!("{url}#{branch}")
    }
}

/// Derives a GitHub repository from its URL: the last two segments are owner and name.
fn github(url: &str, api_url: Option<&str>) -> Option<GitHubRepository> {
    let (host, path) = host_and_path(url)?;
    let mut segments = path.rsplit('/');
    let (name, owner) = (segments.next()?, segments.next()?);
    let is_name = |text: &str| {
        let sane = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        sane && !matches!(text, "" | "." | "..")
    };
    if !is_name(name) || !is_name(owner) {
        return None;
    }
    let api = match api_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if host == "github.com" || host == "ssh.github.com" => GITHUB_API.to_owned(),
        None if !host.is_empty() => format!("https://{host}/api/v3"),
        None => return None,
    };
    Some(GitHubRepository { api, owner: owner.to_owned(), name: name.to_owned() })
}

/// The host without user and port, and the path without `.git`. A file URL has no host.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let (authority, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = authority.rsplit('@').next()?.split(':').next()?;
    let path = path.trim_matches('/');
    Some((host, path.strip_suffix(".git").unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hosts_have_a_page_that_compares_and_others_are_named_with_the_branch() {
        for (url, expected) in [
            ("https://github.com/acme/shop.git", "https://github.com/acme/shop/compare/main...fix/1%231?expand=1"),
            ("git@github.com:acme/shop.git", "https://github.com/acme/shop/compare/main...fix/1%231?expand=1"),
            (
                "https://github.example:8443/acme/shop",
                "https://github.example/acme/shop/compare/main...fix/1%231?expand=1",
            ),
            ("ssh://git@gitlab.com/acme/web/shop.git", "https://gitlab.com/acme/web/shop/-/compare/main...fix/1%231"),
            ("https://bitbucket.org/acme/shop", "https://bitbucket.org/acme/shop/branches/compare/fix/1%231%0Dmain"),
            ("https://git.example/shop.git", "https://git.example/shop.git#fix/1#1"),
            ("file:///srv/git/shop.git", "file:///srv/git/shop.git#fix/1#1"),
        ] {
            assert_eq!(compare(url, "main", "fix/1#1"), expected, "{url}");
        }
    }

    #[test]
    fn a_github_repository_is_found_by_its_url() {
        let found = |url, api| github(url, api).map(|found| (found.api, found.owner, found.name));
        let is = |api: &str, owner: &str, name: &str| Some((api.to_owned(), owner.to_owned(), name.to_owned()));
        assert_eq!(found("https://github.com/acme/shop.git", None), is(GITHUB_API, "acme", "shop"));
        assert_eq!(found("git@github.com:acme/shop", None), is(GITHUB_API, "acme", "shop"));
        assert_eq!(found("https://git.example/acme/shop/", None), is("https://git.example/api/v3", "acme", "shop"));
        let own = Some("https://api.git.example/v3/");
        assert_eq!(found("ssh://git@git.example/acme/shop.git", own), is("https://api.git.example/v3", "acme", "shop"));
        assert_eq!(found("file:///srv/acme/shop.git", own), is("https://api.git.example/v3", "acme", "shop"));
        for none in
            ["https://github.com/shop", "https://github.com/acme/sh%6Fp", "https://github.com/../shop", "file:///a/b"]
        {
            assert_eq!(found(none, None), None, "{none}");
        }
    }
}
