//! One analysis, from its request to its pull request.

use std::sync::Arc;

use super::{Alternative, Category, EngineName, Evidence, SuggestedFix};
use crate::domain::named::named_enum;
use crate::domain::{AnalysisId, CommitId, DeploymentId, EnvironmentKey, Initiator, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    pub id: AnalysisId,
    pub environment: EnvironmentKey,
    pub deployment: DeploymentId,
    /// The requested engine.
    pub engine: EngineName,
    pub requested_by: Initiator,
    pub created_at: Timestamp,
    pub standing: Standing,
    /// The branch and commit of a fix, stored before it is pushed, so that a retry after a crash recognises its own branch.
    pub pushing: Option<Pushing>,
    pub pull_request: Option<PullRequest>,
    /// Rises with every change.
    pub revision: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Running,
    Completed { at: Timestamp, report: Box<Report> },
    Failed { at: Timestamp, reason: Arc<str> },
}

/// What an engine found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The engine that really answered.
    pub engine: EngineName,
    pub category: Category,
    pub summary: String,
    pub evidence: Vec<Evidence>,
    pub confidence: f64,
    pub fix: Option<SuggestedFix>,
    pub compared_with: Option<Compared>,
    /// Other possible causes, the most likely first.
    pub alternatives: Vec<Alternative>,
}

/// The successful deployment that a failed one was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub deployment: DeploymentId,
    pub commit: CommitId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushing {
    pub branch: String,
    /// The commit, in hexadecimal digits.
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub url: String,
    pub branch: String,
    /// None if there is only a branch.
    pub number: Option<u64>,
    pub created_at: Timestamp,
}

named_enum! {
    pub enum Status {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

impl Analysis {
    pub fn status(&self) -> Status {
        match self.standing {
            Standing::Running => Status::Running,
            Standing::Completed { .. } => Status::Completed,
            Standing::Failed { .. } => Status::Failed,
        }
    }

    pub fn report(&self) -> Option<&Report> {
        match &self.standing {
            Standing::Completed { report, .. } => Some(report),
            Standing::Running | Standing::Failed { .. } => None,
        }
    }

    /// The engine that answered; before that, the requested one.
    pub fn answered_by(&self) -> EngineName {
        self.report().map_or(self.engine, |report| report.engine)
    }

    pub fn completed_at(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Completed { at, .. } | Standing::Failed { at, .. } => Some(at),
            Standing::Running => None,
        }
    }
}
