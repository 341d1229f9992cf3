//! From an analysis to a branch at the remote, and to the pull request for it.

use super::document::{self, Document};
use super::github::{NewPull, Repository as GitHubRepository};
use super::{FixError, Fixes, links};
use crate::analysis::service::{Analysis, Mask, PullRequest, Pushing};
use crate::domain::{AnalysisId, CharClass, Malformed, PipelineKey, TextRule};
use crate::git::{Author, Commit, Credential, GitError, RefName, Remote, RemoteUrl, TreePath, WorkTree};
use crate::pipelines::{Provider, Repository};
use crate::secrets::SecretValue;

/// Who the commits are by.
const AUTHOR: (&str, &str) = ("Lockkeeper", "lockkeeper@localhost");
/// What runs by itself when it is pushed: a patch that changes it is attached for people to look at, not applied, since
/// what suggests patches reads logs, and whoever writes to a log must not get to choose what a build server runs.
const RUN_BY_BUILD_SERVERS: [&str; 13] = [
    ".github/",
    ".gitlab/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".buildkite/",
    ".drone.yml",
    ".travis.yml",
    ".woodpecker",
    ".gitea/",
    ".forgejo/",
    "azure-pipelines",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
];

/// What whoever asks for a fix may choose.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub branch: Option<RefName>,
    pub title: Option<Title>,
    /// Where the provider knows drafts.
    pub draft: bool,
}

/// Of a pull request and of its commit.
#[derive(Debug, Clone)]
pub struct Title(String);

impl Title {
    pub const RULE: TextRule = TextRule::of(
        1..=200,
        CharClass::NO_CONTROL,
        "must be 1 to 200 characters, without control characters and not only spaces",
    );
    /// In place of the rule's own: not only spaces.
    pub const PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[!-~][^\u0000-\u001f\u007f-\u009f]*$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text)?;
        if text.trim().is_empty() { Err(Malformed(Self::RULE.message)) } else { Ok(Self(text.to_owned())) }
    }
}

/// What a fix is pushed as where nobody says otherwise.
fn branch_name(id: AnalysisId) -> String {
    format!("lockkeeper/fix-{id}")
}

/// A repository, and what lets us in.
struct Place {
    remote: Remote,
    base: RefName,
    host: Host,
}

/// What a branch becomes at the remote.
enum Host {
    /// A branch, and nothing more.
    Git,
    GitHub {
        of: GitHubRepository,
        token: SecretValue,
    },
}

impl Fixes {
    pub(super) async fn make(&self, analysis: Analysis, wish: &Wish) -> Result<(Analysis, PullRequest), FixError> {
        let parts = &self.shared.parts;
        let key = &analysis.environment.pipeline;
        let pipeline = parts.pipelines.get(&key.organization, key.pipeline.as_str()).ok_or(FixError::NoRepository)?;
        let place = self.place(key, pipeline.repository.as_ref().ok_or(FixError::NoRepository)?).await?;
        let default_name = || RefName::parse(&branch_name(analysis.id)).map_err(unusable);
        let branch = wish.branch.clone().map_or_else(default_name, Ok)?;
        if branch.may_be(&place.base) {
            return Err(FixError::DefaultBranch(branch.to_string()));
        }
        let mask = self.mask(key).await?;
        let title = wish.title.as_ref().map_or_else(|| document::title(&analysis), |title| title.0.clone());
        let document = Document { analysis: &analysis, mask: &*mask };
        let pushed = self.put_there(analysis.clone(), &place, &branch, &title, &document).await?;
        let (head, base) = (branch.as_str(), place.base.as_str());
        let (url, number) = match &place.host {
            Host::Git => (links::compare(place.remote.url.as_str(), base, head), None),
            Host::GitHub { of, token } => {
                let pull = NewPull { title: &title, head, base, body: &document.text(None), draft: wish.draft };
                let made = self.shared.github.pull_request(of, token, &pull).await?;
                (made.url, Some(made.number))
            }
        };
        let created_at = (parts.clock)();
        Ok((pushed, PullRequest { url, branch: branch.to_string(), number, created_at }))
    }

    async fn place(&self, key: &PipelineKey, repository: &Repository) -> Result<Place, FixError> {
        let url = RemoteUrl::parse(&repository.url, self.shared.parts.git.allows_file()).map_err(unusable)?;
        let base = RefName::parse(&repository.default_branch).map_err(unusable)?;
        let token = self.credential(key, repository).await?;
        let credential = token.as_ref().map(|token| Credential::token(token.reveal()));
        let host = match repository.provider {
            Provider::Git => Host::Git,
            Provider::GitHub => {
                let why = "its URL does not end in an owner and a repository, such as https://github.com/acme/shop";
                let of = links::github(&repository.url, repository.api_url.as_deref());
                let of = of.ok_or_else(|| FixError::UnusableRepository(why.to_owned()))?;
                Host::GitHub { of, token: token.ok_or(FixError::NoCredential)? }
            }
        };
        Ok(Place { remote: Remote { url, credential }, base, host })
    }

    async fn credential(&self, key: &PipelineKey, repository: &Repository) -> Result<Option<SecretValue>, FixError> {
        let Some(name) = repository.credential.clone() else { return Ok(None) };
        let (vault, key) = (self.shared.parts.vault.clone(), key.clone());
        let secrets = opened(move || vault.open_for(&key).map_err(|error| error.to_string())).await?;
        let found = secrets.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| Some(value)).ok_or(FixError::CredentialNotFound(name))
    }

    async fn mask(&self, key: &PipelineKey) -> Result<Mask, FixError> {
        let (masks, key) = (self.shared.parts.masks.clone(), key.clone());
        opened(move || masks(&key)).await
    }

    /// The branch is at the remote when this is done.
    async fn put_there(
        &self,
        analysis: Analysis,
        place: &Place,
        branch: &RefName,
        title: &str,
        document: &Document<'_>,
    ) -> Result<Analysis, FixError> {
        let parts = &self.shared.parts;
        // Of the remote, which may be another than the pipeline says.
        if parts.git.default_branch(&place.remote).await?.is_some_and(|default| branch.may_be(&default)) {
            return Err(FixError::DefaultBranch(branch.to_string()));
        }
        let there = match parts.git.resolve(&place.remote, branch).await {
            Ok(commit) => Some(commit),
            Err(GitError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(commit) = there {
            return match &analysis.pushing {
                Some(ours) if ours.branch == branch.as_str() && ours.commit == commit.as_str() => Ok(analysis),
                Some(_) | None => Err(FixError::BranchExists(branch.to_string())),
            };
        }
        let tree = parts.git.work_on(&place.remote, &place.base).await?;
        let commit = commit(&tree, &analysis, title, document).await?;
        let pushing = Pushing { branch: branch.to_string(), commit: commit.to_string() };
        let change = |analysis: &mut Analysis| analysis.pushing = Some(pushing);
        let analysis = parts.analyses.change(analysis, change, |_, _| ()).await?;
        tree.push(branch).await.map_err(|error| match error {
            GitError::DefaultBranch(branch) => FixError::DefaultBranch(branch),
            error => error.into(),
        })?;
        tracing::info!(analysis = %analysis.id, %branch, %commit, "a fix was pushed");
        Ok(analysis)
    }
}

/// What is read of the vault, on a thread that may wait for the disk.
async fn opened<T: Send + 'static>(open: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, FixError> {
    let opened = tokio::task::spawn_blocking(open).await;
    opened.unwrap_or_else(|error| Err(error.to_string())).map_err(FixError::Secrets)
}

/// The patch, if there is one that can be applied; else the analysis as a document, with the patch beside it.
async fn commit(
    tree: &WorkTree,
    analysis: &Analysis,
    title: &str,
    document: &Document<'_>,
) -> Result<Commit, FixError> {
    let patch = analysis.report().and_then(|report| report.fix.as_ref()?.patch.as_deref());
    let author = Author::new(AUTHOR.0, AUTHOR.1);
    let message = document::message(analysis, title);
    let why_not = match patch {
        None => None,
        Some(patch) => match apply(tree, patch, document).await? {
            None => match tree.commit(&author, &message).await {
                Err(GitError::NothingChanged) => Some("it changes nothing there".to_owned()),
                committed => return Ok(committed?),
            },
            why_not => why_not,
        },
    };
    let path = |extension: &str| {
        TreePath::parse(&format!(".lockkeeper/analyses/{}.{extension}", analysis.id)).map_err(unusable)
    };
    tree.write(&path("md")?, document.text(why_not.as_deref()).as_bytes()).await?;
    if let Some(patch) = patch {
        tree.write(&path("patch")?, (document.mask)(patch).as_bytes()).await?;
    }
    Ok(tree.commit(&author, &message).await?)
}

/// Why it was not applied, if it was not.
async fn apply(tree: &WorkTree, patch: &str, document: &Document<'_>) -> Result<Option<String>, FixError> {
    if (document.mask)(patch) != patch {
        return Ok(Some("it has the value of a secret in it".to_owned()));
    }
    let changed = match tree.apply(patch).await {
        Ok(changed) => changed,
        Err(GitError::Patch(why)) => return Ok(Some(format!("it does not apply: {why}"))),
        Err(error) => return Err(error.into()),
    };
    // By what has changed, not by what the patch names: git leaves out the first directory of a name, whatever it is.
    let Some(path) = changed.iter().find(|path| is_run_by_build_servers(path)) else { return Ok(None) };
    tree.undo().await?;
    Ok(Some(format!("it changes {path}, which build servers run by themselves: look at it first")))
}

fn is_run_by_build_servers(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let last = path.rsplit('/').next().unwrap_or_default();
    RUN_BY_BUILD_SERVERS.iter().any(|known| path.starts_with(known) || last.starts_with(known))
}

fn unusable(malformed: Malformed) -> FixError {
    FixError::UnusableRepository(format!("a name of it {malformed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_build_servers_run_is_known_by_its_path() {
        for path in [
            ".github/workflows/ci.yml",
            ".GitHub/actions/x",
            ".gitlab-ci.yml",
            "Jenkinsfile",
            "sub/azure-pipelines.yaml",
        ] {
            assert!(is_run_by_build_servers(path), "{path}");
        }
        for path in ["src/main.rs", "docs/github.md", "docs/.github.md", "github/workflows/ci.yml"] {
            assert!(!is_run_by_build_servers(path), "{path}");
        }
    }

    #[test]
    fn a_title_is_one_line_with_something_in_it() {
        for (text, is_sane) in [("Install jq", true), ("", false), ("  ", false), ("a\nb", false)] {
            assert_eq!(Title::parse(text).is_ok(), is_sane, "{text:?}");
        }
        assert!(Title::parse(&"ä".repeat(200)).is_ok() && Title::parse(&"ä".repeat(201)).is_err());
    }
}
