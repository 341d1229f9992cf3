//! Fixes as branches and pull requests: what an analysis suggests is put on a branch of the pipeline's repository, never
//! the default one, and proposed there.
//!
//! The steps can be cut off anywhere. What is about to be pushed is durable before it is, so whoever asks again knows a
//! branch of ours from somebody else's and goes on from there; a pull request that is there already is found.

mod document;
mod github;
mod links;
mod proposal;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub use github::GitHubError;
pub use proposal::{Title, Wish};

use self::github::GitHub;
use crate::analysis::service::{Analyses, Analysis, AnalysisError, Clock, Masks, PullRequest, Status};
use crate::domain::{Agent, AnalysisId, Data, EnvironmentKey, Identifier, Notice, VariableName};
use crate::events::{self, Happening};
use crate::git::{Git, GitError};
use crate::pipelines::Pipelines;
use crate::secrets::Vault;
use crate::store::{Batch, StoreError};

/// Fixes that are made or wait to be: each takes several calls of git. More would wait longer than their callers do.
const UNDER_WAY_MAX: usize = 32;

/// What fixes need of the rest of the server.
pub struct Parts {
    pub git: Git,
    pub analyses: Analyses,
    pub pipelines: Pipelines,
    pub vault: Arc<Vault>,
    pub masks: Masks,
    pub clock: Clock,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Fixes {
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    github: GitHub,
    admitted: Semaphore,
    /// One at a time for each analysis, so that two who ask at once get one pull request.
    gates: Mutex<HashMap<AnalysisId, Weak<tokio::sync::Mutex<()>>>>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Proposed {
    pub analysis: Analysis,
    pub pull_request: PullRequest,
    /// False where it was there before.
    pub is_new: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FixError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no such analysis, or no longer")]
    NotFound,
    #[error("the analysis is {}", .0.as_str())]
    NotCompleted(Status),
    #[error("the pipeline has no repository")]
    NoRepository,
    #[error("the pipeline's repository cannot be used: {0}")]
    UnusableRepository(String),
    #[error("the repository names no credential")]
    NoCredential,
    #[error("the secret {0} that the repository names as its credential does not exist")]
    CredentialNotFound(VariableName),
    #[error("the pipeline's secrets cannot be opened: {0}")]
    Secrets(String),
    #[error("{0} is the default branch, which is never pushed to")]
    DefaultBranch(String),
    #[error("the repository has a branch {0}, which is not ours")]
    BranchExists(String),
    #[error("too many fixes are being made")]
    Overloaded,
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    GitHub(#[from] GitHubError),
}

impl From<AnalysisError> for FixError {
    fn from(error: AnalysisError) -> Self {
        match error {
            AnalysisError::Store(error) => error.into(),
            AnalysisError::Overloaded => FixError::Overloaded,
            AnalysisError::NotFound => FixError::NotFound,
        }
    }
}

impl Fixes {
    pub fn new(parts: Parts) -> Self {
        let shared = Shared {
            parts,
            github: GitHub::default(),
            admitted: Semaphore::new(UNDER_WAY_MAX),
            gates: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The pull request of an analysis: the one there is, or a new one. What `keep` adds goes into the batch that records
    /// a new one; what it returns is held until that is durable. To be called in a task of its own, which goes on where
    /// the caller has gone.
    pub async fn propose<Held>(
        &self,
        organization: &Identifier,
        id: AnalysisId,
        wish: &Wish,
        by: &Agent,
        keep: impl FnOnce(&PullRequest, &Analysis, &mut Batch) -> Held,
    ) -> Result<Proposed, FixError> {
        let Ok(_admitted) = self.shared.admitted.try_acquire() else { return Err(FixError::Overloaded) };
        let gate = self.gate(id);
        let _alone = gate.lock().await;
        let analysis = self.shared.parts.analyses.get(organization, id)?.ok_or(FixError::NotFound)?;
        if let Some(made) = analysis.pull_request.clone() {
            return Ok(Proposed { analysis, pull_request: made, is_new: false });
        }
        if analysis.status() != Status::Completed {
            return Err(FixError::NotCompleted(analysis.status()));
        }
        let (analysis, made) = self.make(analysis, wish).await?;
        let (recorded, kept) = (made.clone(), made.clone());
        let change = |analysis: &mut Analysis| {
            analysis.pull_request = Some(recorded);
            analysis.pushing = None;
        };
        let keep = |analysis: &Analysis, batch: &mut Batch| {
            record(batch, analysis, &kept, by);
            keep(&kept, analysis, batch)
        };
        let analysis = self.shared.parts.analyses.change(analysis, change, keep).await?;
        metrics::counter!("lockkeeper_fix_pull_requests_total").increment(1);
        Ok(Proposed { analysis, pull_request: made, is_new: true })
    }

    fn gate(&self, id: AnalysisId) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.shared.gates.lock();
        gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = gates.get(&id).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::default();
        gates.insert(id, Arc::downgrade(&gate));
        gate
    }
}

fn record(batch: &mut Batch, analysis: &Analysis, made: &PullRequest, by: &Agent) {
    let data = Data::default()
        .with("analysisId", analysis.id.to_string())
        .with("url", made.url.as_str())
        .with("branch", made.branch.as_str())
        .with_some("number", made.number);
    let EnvironmentKey { pipeline, name } = &analysis.environment;
    let happening = Happening {
        environment: Some(name),
        deployment: Some(analysis.deployment),
        ..Happening::new(Notice::PullRequestCreated, made.created_at, Some(by), &data)
    };
    events::record(batch, &pipeline.organization, &happening.in_pipeline(&pipeline.pipeline));
}
