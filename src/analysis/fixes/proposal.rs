//! From an analysis to a branch at the remote, and to the pull request for it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::FixError;
use super::document::{self, Document};
use super::github::{GitHub, NewPull};
use super::repositories::{Provision, Repositories, Target, compare, open_secrets, unusable};
use crate::service::{Analyses, Analysis, AnalysisError, Clock, Mask, Masks, PullRequest, Pushing, Status};
use delivery::git::{Author, Commit, GitError, RefName, TreePath, WorkTree};
use domain::{
    AnalysisId, CharClass, EventData, Holder, Identifier, Initiator, Malformed, PipelineKey, PullRequestCreatedData,
    TextRule,
};
use events::Cause;
use outbound::Policy;
use shares::{Capacity, Permits};
use store::Batch;

/// Fixes in progress or waiting: each runs git several times. Callers would not wait longer.
const IN_PROGRESS_MAX: usize = 32;

/// Name and e-mail address of the commits' author.
const AUTHOR: (&str, &str) = ("Lockkeeper", "lockkeeper@localhost");
/// Files that build servers run as soon as they are pushed. A patch that changes one is attached for review, not
/// applied: the engines that suggest patches read logs, and a writer of a log must not be able to control a build
/// server.
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

/// The parts of the server that fixes need.
pub struct FixDependencies {
    pub repositories: Repositories,
    /// The permitted destinations of requests to a repository's API.
    pub policy: Policy,
    pub analyses: Analyses,
    pub masks: Masks,
    pub clock: Clock,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Fixes {
    inner: Arc<Inner>,
}

struct Inner {
    server: FixDependencies,
    github: GitHub,
    admitted: Permits,
    /// One fix at a time per analysis, so that two simultaneous callers get one pull request.
    gates: Mutex<HashMap<AnalysisId, Weak<tokio::sync::Mutex<()>>>>,
}

/// The pull request of an analysis.
#[derive(Debug, Clone)]
pub struct Proposed {
    pub analysis: Analysis,
    pub pull_request: PullRequest,
    /// False if the pull request existed before.
    pub is_new: bool,
}

/// The options of a request for a fix.
#[derive(Debug, Clone, Default)]
pub struct FixRequest {
    pub branch: Option<RefName>,
    pub title: Option<Title>,
    /// Ignored if the provider has no drafts.
    pub draft: bool,
}

/// The title of a pull request and of its commit.
#[derive(Debug, Clone)]
pub struct Title(String);

impl Title {
    pub const RULE: TextRule = TextRule::of(
        1..=200,
        CharClass::NO_CONTROL,
        "must be 1 to 200 characters, without control characters and not only spaces",
    );
    /// Replaces the general pattern for texts, to require more than spaces.
    pub const PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[!-~][^\u0000-\u001f\u007f-\u009f]*$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text)?;
        if text.trim().is_empty() { Err(Malformed(Self::RULE.message)) } else { Ok(Self(text.to_owned())) }
    }
}

impl Fixes {
    /// For a server with this many organizations.
    pub fn new(server: FixDependencies, organizations: usize) -> Self {
        let inner = Inner {
            github: GitHub::new(server.policy.clone()),
            server,
            admitted: Permits::without_queue("fixes", Capacity::turns(IN_PROGRESS_MAX).among(organizations)),
            gates: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The pull request of an analysis: the existing one, or a new one. `keep` adds to the batch that records a new
    /// pull request; its result is held until that batch is durable. Call this in a separate task, which continues if
    /// the caller goes away.
    pub async fn propose<Held>(
        &self,
        organization: &Identifier,
        id: AnalysisId,
        request: &FixRequest,
        (by, holder): (&Initiator, Holder),
        keep: impl FnOnce(&PullRequest, &Analysis, &mut Batch) -> Held,
    ) -> Result<Proposed, FixError> {
        let _admitted = self.inner.admitted.try_acquire_for(organization, Some(holder)).map_err(FixError::Crowded)?;
        let gate = self.gate(id);
        let _alone = gate.lock().await;
        let known = self.inner.server.analyses.get(organization, id).map_err(AnalysisError::from)?;
        let analysis = known.ok_or(AnalysisError::NotFound)?;
        if let Some(made) = analysis.pull_request.clone() {
            return Ok(Proposed { analysis, pull_request: made, is_new: false });
        }
        if analysis.status() != Status::Completed {
            return Err(FixError::NotCompleted(analysis.status()));
        }
        let (analysis, made) = self.create(analysis, request).await?;
        let (recorded, kept) = (made.clone(), made.clone());
        let change = |analysis: &mut Analysis| {
            analysis.pull_request = Some(recorded);
            analysis.pushing = None;
        };
        let keep = |analysis: &Analysis, batch: &mut Batch| {
            record(batch, analysis, &kept, by);
            keep(&kept, analysis, batch)
        };
        let analysis = self.inner.server.analyses.change(analysis, change, keep).await?;
        metrics::counter!("lockkeeper_fix_pull_requests_total").increment(1);
        Ok(Proposed { analysis, pull_request: made, is_new: true })
    }

    fn gate(&self, id: AnalysisId) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.inner.gates.lock();
        gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = gates.get(&id).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::default();
        gates.insert(id, Arc::downgrade(&gate));
        gate
    }

    async fn create(&self, analysis: Analysis, request: &FixRequest) -> Result<(Analysis, PullRequest), FixError> {
        let server = &self.inner.server;
        let key = &analysis.environment.pipeline;
        let target = server.repositories.target(key).await?;
        let default_name = || RefName::parse(&format!("lockkeeper/fix-{}", analysis.id)).map_err(unusable);
        let branch = request.branch.clone().map_or_else(default_name, Ok)?;
        if branch.may_equal(&target.base) {
            return Err(FixError::DefaultBranch(branch.to_string()));
        }
        let mask = self.mask(key).await?;
        let title = request.title.as_ref().map_or_else(|| document::title(&analysis), |title| title.0.clone());
        let document = Document { analysis: &analysis, mask: &*mask };
        let pushed = self.push_branch(analysis.clone(), &target, &branch, &title, &document).await?;
        let (head, base) = (branch.as_str(), target.base.as_str());
        let (url, number) = match &target.provision {
            Provision::BranchOnly => (compare(target.remote.url.as_str(), base, head), None),
            Provision::GitHubPull { of, token } => {
                let pull = NewPull { title: &title, head, base, body: &document.text(None), draft: request.draft };
                let made = self.inner.github.pull_request(of, token, &pull).await?;
                (made.url, Some(made.number))
            }
        };
        let created_at = (server.clock)();
        Ok((pushed, PullRequest { url, branch: branch.to_string(), number, created_at }))
    }

    async fn mask(&self, key: &PipelineKey) -> Result<Mask, FixError> {
        let (masks, key) = (self.inner.server.masks.clone(), key.clone());
        open_secrets(move || masks(&key)).await
    }

    /// Pushes the branch, or finds that an earlier attempt already did.
    async fn push_branch(
        &self,
        analysis: Analysis,
        target: &Target,
        branch: &RefName,
        title: &str,
        document: &Document<'_>,
    ) -> Result<Analysis, FixError> {
        let server = &self.inner.server;
        let git = server.repositories.git.on_behalf_of(&analysis.environment.pipeline.organization);
        // The remote's default branch may differ from the pipeline's.
        if git.default_branch(&target.remote).await?.is_some_and(|default| branch.may_equal(&default)) {
            return Err(FixError::DefaultBranch(branch.to_string()));
        }
        let existing = match git.resolve(&target.remote, branch).await {
            Ok(commit) => Some(commit),
            Err(GitError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(commit) = existing {
            return match &analysis.pushing {
                Some(ours) if ours.branch == branch.as_str() && ours.commit == commit.as_str() => Ok(analysis),
                Some(_) | None => Err(FixError::BranchExists(branch.to_string())),
            };
        }
        let tree = git.work_on(&target.remote, &target.base).await?;
        let commit = commit(&tree, &analysis, title, document).await?;
        let pushing = Pushing { branch: branch.to_string(), commit: commit.to_string() };
        let change = |analysis: &mut Analysis| analysis.pushing = Some(pushing);
        let analysis = server.analyses.change(analysis, change, |_, _| ()).await?;
        tree.push(branch).await.map_err(|error| match error {
            GitError::DefaultBranch(branch) => FixError::DefaultBranch(branch),
            error => error.into(),
        })?;
        tracing::info!(analysis = %analysis.id, %branch, %commit, "pushed a fix");
        Ok(analysis)
    }
}

/// Commits the patch, if there is one that applies; otherwise the analysis as a document, with the patch as a file.
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
                Err(GitError::NothingChanged) => Some("it changes nothing".to_owned()),
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

/// Returns the reason if the patch was not applied.
async fn apply(tree: &WorkTree, patch: &str, document: &Document<'_>) -> Result<Option<String>, FixError> {
    if (document.mask)(patch) != patch {
        return Ok(Some("it contains the value of a secret".to_owned()));
    }
    let changed = match tree.apply(patch).await {
        Ok(changed) => changed,
        Err(GitError::Patch(why)) => return Ok(Some(format!("it does not apply: {why}"))),
        Err(error) => return Err(error.into()),
    };
    // Checks the changed files, not the names in the patch, from which git drops the first directory.
    let Some(path) = changed.iter().find(|path| is_run_by_build_servers(path)) else { return Ok(None) };
    tree.undo().await?;
    Ok(Some(format!("it changes {path}, which build servers run automatically: review it first")))
}

fn is_run_by_build_servers(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let last = path.rsplit('/').next().unwrap_or_default();
    RUN_BY_BUILD_SERVERS.iter().any(|known| path.starts_with(known) || last.starts_with(known))
}

fn record(batch: &mut Batch, analysis: &Analysis, made: &PullRequest, by: &Initiator) {
    let data = EventData::PullRequestCreated(PullRequestCreatedData {
        analysis_id: analysis.id,
        url: Arc::from(&*made.url),
        branch: Arc::from(&*made.branch),
        number: made.number,
    });
    analysis.record_event(batch, &data, Cause::by(by, made.created_at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_build_servers_run_are_recognised() {
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
    fn a_title_is_one_nonempty_line() {
        for (text, is_valid) in [("Install jq", true), ("", false), ("  ", false), ("a\nb", false)] {
            assert_eq!(Title::parse(text).is_ok(), is_valid, "{text:?}");
        }
        assert!(Title::parse(&"ä".repeat(200)).is_ok() && Title::parse(&"ä".repeat(201)).is_err());
    }
}
