//! An analysis of a failed deployment, and the pull request made from it.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{AnalysisId, DeploymentId, Written};
use super::statuses::{AnalysisStatus, Category, EngineName, Named};
use super::values::{Time, UserView};
use analysis::service::{Analysis, Compared, PullRequest, Report, Standing};
use analysis::{Alternative, Evidence, SuggestedFix};

/// Why a deployment failed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Analysis)]
pub struct AnalysisView<'a> {
    analysis_id: AnalysisId,
    /// The deployment that failed.
    deployment_id: DeploymentId,
    /// Its pipeline.
    #[schema(example = "shop")]
    pipeline_id: &'a str,
    /// Its environment.
    #[schema(example = "staging-1")]
    env_name: &'a str,
    status: AnalysisStatus,
    /// The engine that was asked; once it is completed, the one that answered.
    engine: EngineName,
    /// Null until it is completed.
    root_cause: Option<RootCauseView<'a>>,
    /// The confidence in the root cause, from 0 to 1. Null until it is completed.
    #[schema(minimum = 0.0, maximum = 1.0, example = 0.9)]
    confidence: Option<f64>,
    /// Null if there is none.
    suggested_fix: Option<SuggestedFixView<'a>>,
    /// Other failures that the log tells of, the most likely first: consequences of the root cause, or the cause itself if
    /// the confidence is low. At most 3; empty until it is completed.
    #[schema(max_items = 3)]
    alternatives: Vec<AlternativeView<'a>>,
    /// The environment's last successful deployment before it, if there is one.
    compared_with: Option<ComparedView<'a>>,
    /// Null until `POST …/fix-pull-request` has opened it.
    pull_request: Option<PullRequestView<'a>>,
    /// The member who requested it.
    requested_by: UserView<'a>,
    /// When it was requested.
    created_at: Time,
    /// When it ended; null before.
    completed_at: Option<Time>,
    /// Why the analysis itself failed; null if it did not.
    #[schema(example = "the log could not be read")]
    error: Option<&'a str>,
}

/// What made a deployment fail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RootCause)]
pub struct RootCauseView<'a> {
    category: Category,
    /// In a sentence.
    #[schema(example = "the program `jq` is not installed where the step runs")]
    summary: &'a str,
    /// The most significant first.
    evidence: Vec<EvidenceView<'a>>,
}

/// Another possible cause of a failed deployment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AlternativeCause)]
pub struct AlternativeView<'a> {
    category: Category,
    /// In a sentence.
    #[schema(example = "a connection is refused: nothing is listening there")]
    summary: &'a str,
    /// The most significant first.
    evidence: Vec<EvidenceView<'a>>,
    /// The confidence in it, from 0 to 1: less than that in the root cause.
    #[schema(minimum = 0.0, maximum = 1.0, example = 0.2)]
    confidence: f64,
}

/// A line of the log that shows the cause.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Evidence)]
pub struct EvidenceView<'a> {
    /// The stage that wrote it.
    #[schema(example = "build")]
    stage: &'a str,
    /// The step that wrote it.
    #[schema(example = "step-1")]
    step: &'a str,
    /// Its number, from 1, in the answer to `GET …/logs?stage=…&step=…`.
    #[schema(example = 4)]
    line: u32,
    /// The line itself as a terminal shows it; of a long one the part that matters.
    #[schema(example = "sh: 1: jq: not found")]
    text: &'a str,
}

/// How the cause could be removed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SuggestedFix)]
pub struct SuggestedFixView<'a> {
    /// In a sentence.
    #[schema(example = "install jq in the image of the runner")]
    summary: &'a str,
    /// A unified diff, if one can be derived.
    #[schema(
        example = "--- a/Dockerfile\n+++ b/Dockerfile\n@@ -1 +1,2 @@\n FROM debian\n+RUN apt-get install -y jq\n"
    )]
    patch: Option<&'a str>,
}

/// The deployment that a failed one was compared with.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ComparedDeployment)]
pub struct ComparedView<'a> {
    deployment_id: DeploymentId,
    /// What it deployed.
    #[schema(example = "decade2")]
    commit_id: &'a str,
}

/// The pull request with a fix.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PullRequest)]
pub struct PullRequestView<'a> {
    /// The pull request's page; for a branch without one, the page that compares it, or the remote with the branch.
    #[schema(example = "https://github.example/acme/shop/pull/7")]
    url: &'a str,
    /// The branch that was pushed.
    #[schema(example = "fix/missing-jq")]
    branch: &'a str,
    /// Null for a branch without a pull request.
    #[schema(example = 7)]
    number: Option<u64>,
    /// When it was opened.
    created_at: Time,
}

/// A pull request with its analysis.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FixPullRequest)]
pub struct FixView<'a> {
    analysis_id: AnalysisId,
    #[serde(flatten)]
    pull_request: PullRequestView<'a>,
}

impl<'a> AnalysisView<'a> {
    pub fn new(analysis: &'a Analysis) -> Self {
        let report = analysis.report();
        let pipeline = &analysis.environment.pipeline;
        Self {
            analysis_id: Written(analysis.id),
            deployment_id: Written(analysis.deployment),
            pipeline_id: pipeline.pipeline.as_str(),
            env_name: analysis.environment.name.as_str(),
            status: Named(analysis.status()),
            engine: Named(analysis.answered_by()),
            root_cause: report.map(RootCauseView::from),
            confidence: report.map(|report| report.confidence),
            suggested_fix: report.and_then(|report| report.fix.as_ref()).map(SuggestedFixView::from),
            alternatives: report
                .map_or(&[][..], |report| &report.alternatives)
                .iter()
                .map(AlternativeView::from)
                .collect(),
            compared_with: report.and_then(|report| report.compared_with.as_ref()).map(ComparedView::from),
            pull_request: analysis.pull_request.as_ref().map(PullRequestView::from),
            requested_by: UserView::from(&analysis.requested_by.person),
            created_at: Time(analysis.created_at),
            completed_at: analysis.completed_at().map(Time),
            error: match &analysis.standing {
                Standing::Failed { reason, .. } => Some(reason),
                Standing::Running | Standing::Completed { .. } => None,
            },
        }
    }
}

impl<'a> From<&'a Report> for RootCauseView<'a> {
    fn from(report: &'a Report) -> Self {
        Self {
            category: Named(report.category),
            summary: &report.summary,
            evidence: report.evidence.iter().map(EvidenceView::from).collect(),
        }
    }
}

impl<'a> From<&'a Alternative> for AlternativeView<'a> {
    fn from(alternative: &'a Alternative) -> Self {
        Self {
            category: Named(alternative.category),
            summary: &alternative.summary,
            evidence: alternative.evidence.iter().map(EvidenceView::from).collect(),
            confidence: alternative.confidence,
        }
    }
}

impl<'a> From<&'a Evidence> for EvidenceView<'a> {
    fn from(evidence: &'a Evidence) -> Self {
        Self { stage: evidence.stage.as_str(), step: evidence.step.as_str(), line: evidence.line, text: &evidence.text }
    }
}

impl<'a> From<&'a SuggestedFix> for SuggestedFixView<'a> {
    fn from(fix: &'a SuggestedFix) -> Self {
        Self { summary: &fix.summary, patch: fix.patch.as_deref() }
    }
}

impl<'a> From<&'a Compared> for ComparedView<'a> {
    fn from(compared: &'a Compared) -> Self {
        Self { deployment_id: Written(compared.deployment), commit_id: compared.commit.as_str() }
    }
}

impl<'a> From<&'a PullRequest> for PullRequestView<'a> {
    fn from(made: &'a PullRequest) -> Self {
        Self { url: &made.url, branch: &made.branch, number: made.number, created_at: Time(made.created_at) }
    }
}

impl<'a> FixView<'a> {
    pub fn new(analysis: &Analysis, made: &'a PullRequest) -> Self {
        Self { analysis_id: Written(analysis.id), pull_request: PullRequestView::from(made) }
    }
}
