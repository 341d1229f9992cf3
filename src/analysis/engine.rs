//! The interface of engines: a [`Case`] in, a [`Finding`] out.

use std::sync::Arc;

use super::category::Category;
use super::plain::last_shown;
use domain::named::named_enum;
use domain::{CommitId, DeploymentId, Identifier, StageStatus, StepStatus};

/// With more lines, it would be a log again.
pub const EVIDENCE_MAX: usize = 5;
/// With more causes, it would not be an answer.
pub const ALTERNATIVES_MAX: usize = 3;
/// The length of a line of evidence: enough to recognise it; the log has the whole line.
pub const EVIDENCE_CHARACTERS_MAX: usize = 500;
/// The length of a summary, of the cause and of the fix, which are read in a list.
pub const SUMMARY_CHARACTERS_MAX: usize = 500;
/// A patch is kept with its analysis and applied as one commit.
pub const PATCH_BYTES_MAX: usize = 64 * 1024;

/// All input of an engine. Logs are masked when they are written, so it contains no printed secrets.
#[derive(Debug, Clone)]
pub struct Case {
    pub deployment: DeploymentId,
    pub organization: Identifier,
    pub pipeline: Identifier,
    pub environment: Identifier,
    pub commit: CommitId,
    /// The error of the deployment.
    pub error: Option<Arc<str>>,
    pub stages: Vec<CaseStage>,
    /// The log lines of the last attempt of each stage, in the order of writing.
    pub lines: Vec<CaseLine>,
    pub last_success: Option<Success>,
}

#[derive(Debug, Clone)]
pub struct CaseStage {
    pub name: Identifier,
    pub status: StageStatus,
    pub attempt: u32,
    pub timeout_seconds: Option<u32>,
    pub steps: Vec<CaseStep>,
}

#[derive(Debug, Clone)]
pub struct CaseStep {
    pub name: Identifier,
    pub status: StepStatus,
    pub exit_code: Option<i32>,
    /// Program and arguments, or method and URL, as text.
    pub action: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseLine {
    pub stage: Identifier,
    pub step: Identifier,
    /// Counted from 1 in the output of that step.
    pub number: u32,
    pub text: String,
}

/// The last successful deployment to the same environment before the failed one.
#[derive(Debug, Clone)]
pub struct Success {
    pub deployment: DeploymentId,
    pub commit: CommitId,
    pub lines: Vec<CaseLine>,
    /// The lines of earlier successful deployments, newest first.
    pub earlier: Vec<Vec<CaseLine>>,
    /// `stage/step` of each step whose action has changed since.
    pub actions_differ: Vec<String>,
}

named_enum! {
    pub enum EngineName {
        Builtin = "builtin",
        Llm = "llm",
    }
}

/// The result of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The engine that actually answered.
    pub engine: EngineName,
    pub category: Category,
    pub summary: String,
    /// Lines of the case, most significant first; at most [`EVIDENCE_MAX`].
    pub evidence: Vec<Evidence>,
    /// From 0 to 1.
    pub confidence: f64,
    pub fix: Option<SuggestedFix>,
    /// Added by the service.
    pub compared_with: Option<Compared>,
    /// Other failures in the log, most likely first: consequences of the cause, or causes themselves if the engine is
    /// wrong. At most [`ALTERNATIVES_MAX`].
    pub alternatives: Vec<Alternative>,
}

/// Another possible cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    pub category: Category,
    pub summary: String,
    /// Lines of the case, most significant first; at most [`EVIDENCE_MAX`].
    pub evidence: Vec<Evidence>,
    /// From 0 to 1; less than the confidence in the cause.
    pub confidence: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub stage: Identifier,
    pub step: Identifier,
    pub line: u32,
    /// The line, or its relevant part, as a terminal shows it.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuggestedFix {
    /// One sentence.
    pub summary: String,
    /// A unified diff against the deployed commit, at most [`PATCH_BYTES_MAX`].
    pub patch: Option<String>,
}

/// The successful deployment that a failed one was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub deployment: DeploymentId,
    pub commit: CommitId,
}

/// Why the model found nothing. None of these texts contains received data or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error("the request could not be prepared: {0}")]
    Unprepared(String),
    /// The reason names addresses of the server's network, so it is only for the operator's log.
    #[error("the model cannot be reached; ask an operator for the reason, which is in the server's log")]
    Unreachable(String),
    #[error("the model did not answer within {0} s; raise the timeout or choose a faster model")]
    TimedOut(u64),
    #[error("the model's server answered with status {0}; check its URL, the model's name and the key")]
    Status(u16),
    #[error("the model's answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the model's answer does not have the requested form: {0}")]
    Answer(&'static str),
}

impl From<&CaseLine> for Evidence {
    fn from(line: &CaseLine) -> Self {
        Self {
            stage: line.stage.clone(),
            step: line.step.clone(),
            line: line.number,
            text: clipped(&last_shown(&line.text), EVIDENCE_CHARACTERS_MAX),
        }
    }
}

/// With `…` at the end if it was cut.
pub(super) fn clipped(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.char_indices().nth(characters_max - 1).map_or(0, |(at, _)| at);
            format!("{}…", &text[..kept])
        }
    }
}
