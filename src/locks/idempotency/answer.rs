//! Answers as they are stored.

use domain::{AnalysisId, DeploymentId, EnvironmentKey, SessionId};

/// The answer to a request, as it is stored for a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Vec<u8>,
    pub subject: Option<Subject>,
}

/// The object that an answer is about, where a retry does more than repeat the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Session { environment: EnvironmentKey, session: SessionId },
    Deployment(DeploymentId),
    Analysis(AnalysisId),
}
