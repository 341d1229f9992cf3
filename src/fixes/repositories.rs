//! The repositories of pipelines: where a pipeline's code is, with its credential, and whether a patch applies to it.

use std::sync::Arc;

use super::error::FixError;
use super::github::Repository as GitHubRepository;
use super::links;
use crate::domain::{CommitId, Malformed, PipelineKey};
use crate::git::{Commit, Credential, Git, GitError, RefName, Remote, RemoteUrl};
use crate::pipelines::{Pipelines, Provider, Repository};
use crate::secrets::{SecretValue, Vault};

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

/// What is created besides the branch.
pub(super) enum Provision {
    /// Nothing.
    BranchOnly,
    GitHubPull {
        of: GitHubRepository,
        token: SecretValue,
    },
}

impl Repositories {
    /// Whether the patch applies to the commit of the pipeline's repository, or to its default branch if it has no such
    /// commit; also if the pipeline has no repository to apply it to. The error says why not.
    pub async fn check_patch(&self, key: &PipelineKey, commit: &CommitId, patch: &str) -> Result<(), FixError> {
        let target = match self.target(key).await {
            Err(FixError::NoRepository) => return Ok(()),
            target => target?,
        };
        let git = self.git.on_behalf_of(&key.organization);
        let tree = match Commit::parse(commit.as_str()) {
            Ok(commit) => match git.work_at(&target.remote, &target.base, &commit).await {
                // Servers may refuse to send what no branch names.
                Err(GitError::NotFound(_) | GitError::Failed(_) | GitError::Rejected(_)) => None,
                tree => Some(tree?),
            },
            Err(_) => None,
        };
        let tree = match tree {
            Some(tree) => tree,
            None => git.work_on(&target.remote, &target.base).await?,
        };
        tree.apply(patch).await?;
        Ok(())
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
                let of = links::github(&repository.url, repository.api_url.as_deref());
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
