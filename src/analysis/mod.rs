//! Why a deployment failed: engines that look at what is left of it and name a root cause with the lines that show it.
//!
//! Engines get a [`Case`] and give a [`Finding`]; they read no store and know neither deployments that run nor HTTP.
//! `builtin` needs nothing but the case and answers the same each time; `llm` asks a model elsewhere, which is why
//! everything is masked before it leaves and everything that comes back is checked.

pub mod builtin;
mod category;
mod fallback;
pub mod llm;
pub mod patch;
mod record;
pub mod service;
mod stored;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use category::Category;
pub use fallback::WithFallback;

use crate::domain::{CommitId, DeploymentId, Identifier, StageStatus, StepStatus};

/// More would be a log again, and not what to look at.
pub const EVIDENCE_MAX: usize = 5;
/// Characters of a line that is shown as evidence: enough to recognise it; the log has all of it.
pub const EVIDENCE_CHARACTERS_MAX: usize = 500;
/// Characters of a summary, of the cause as of the fix: it is read in a list.
pub const SUMMARY_CHARACTERS_MAX: usize = 500;
/// A patch is kept with its analysis and applied as one commit.
pub const PATCH_BYTES_MAX: usize = 64 * 1024;

/// Everything an engine may look at. Logs are masked where they are written, so it holds no secret's value that steps
/// printed.
#[derive(Debug, Clone)]
pub struct Case {
    pub deployment: DeploymentId,
    pub organization: Identifier,
    pub pipeline: Identifier,
    pub environment: Identifier,
    pub commit: CommitId,
    /// As the deployment has it.
    pub error: Option<Arc<str>>,
    pub stages: Vec<CaseStage>,
    /// Those of the last attempt of each stage, in the order in which they were written.
    pub lines: Vec<Line>,
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
pub struct Line {
    pub stage: Identifier,
    pub step: Identifier,
    /// From 1, in the output of that step.
    pub number: u32,
    pub text: String,
}

/// The last deployment of the same environment that succeeded before it.
#[derive(Debug, Clone)]
pub struct Success {
    pub deployment: DeploymentId,
    pub commit: CommitId,
    pub lines: Vec<Line>,
    /// `stage/step` of each step whose action is not what it was then.
    pub actions_differ: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The name of the engine that found it.
    pub engine: &'static str,
    pub category: Category,
    pub summary: String,
    /// The most telling first; at most [`EVIDENCE_MAX`]. Each is a line of the case.
    pub evidence: Vec<Evidence>,
    /// From 0 to 1.
    pub confidence: f64,
    pub fix: Option<SuggestedFix>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub stage: Identifier,
    pub step: Identifier,
    pub line: u32,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedFix {
    /// What to do, as a sentence.
    pub summary: String,
    /// A unified diff against the deployed commit, at most [`PATCH_BYTES_MAX`].
    pub patch: Option<String>,
}

pub trait Engine: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>>;
}

/// Why an engine found nothing. None of these texts has anything that was received, or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error("the request could not be made: {0}")]
    Unprepared(String),
    #[error("the model did not answer: {0}")]
    Unreachable(String),
    #[error("the model did not answer within {0} s; raise its time-out or choose a faster one")]
    TimedOut(u64),
    #[error("the model's server answered with status {0}; check its URL, the model's name and the key")]
    Status(u16),
    #[error("the model's answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the model's answer is not what was asked for: {0}")]
    Answer(&'static str),
}

impl From<&Line> for Evidence {
    fn from(line: &Line) -> Self {
        Self {
            stage: line.stage.clone(),
            step: line.step.clone(),
            line: line.number,
            text: clipped(&line.text, EVIDENCE_CHARACTERS_MAX),
        }
    }
}

/// With `…` where something is missing.
fn clipped(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.char_indices().nth(characters_max - 1).map_or(0, |(at, _)| at);
            format!("{}…", &text[..kept])
        }
    }
}
