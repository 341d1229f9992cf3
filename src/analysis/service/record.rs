//! One analysis, from when it is asked for to what became of its fix.

use std::sync::Arc;

use super::super::{Category, Evidence, SuggestedFix};
use crate::domain::named::named_enum;
use crate::domain::{Agent, AnalysisId, CommitId, DeploymentId, EnvironmentKey, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    pub id: AnalysisId,
    pub environment: EnvironmentKey,
    pub deployment: DeploymentId,
    /// The engine that was asked for.
    pub engine: EngineName,
    /// Who asked for it, and by which request.
    pub requested_by: Agent,
    pub created_at: Timestamp,
    pub standing: Standing,
    /// What a fix is about to be pushed as, known before it is, so that whoever goes on after a crash knows it again.
    pub pushing: Option<Pushing>,
    pub pull_request: Option<PullRequest>,
    /// Rises with every change.
    pub revision: u32,
}

/// How an analysis stands.
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
    /// None where it is a branch and nothing more.
    pub number: Option<u64>,
    pub created_at: Timestamp,
}

named_enum! {
    pub enum EngineName {
        Builtin = "builtin",
        Llm = "llm",
    }
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

    /// The engine that was asked; once it is completed, the one that answered.
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
