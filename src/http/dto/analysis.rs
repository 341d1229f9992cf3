//! An analysis of a failed deployment, and the pull request made from it.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Text, Time, UserView};
use crate::analysis::service::{Analysis, Compared, EngineName, PullRequest, Report, Standing, Status};
use crate::analysis::{Evidence, SuggestedFix};
use crate::domain::{AnalysisId, DeploymentId};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Analysis)]
pub struct AnalysisView<'a> {
    #[schema(value_type = String, example = "anl_0199f3c2a4b07f3e9d2c5a1b")]
    analysis_id: Text<AnalysisId>,
    #[schema(value_type = String, example = "dep_0199f3c2a4b07f3e9d2c5a1b")]
    deployment_id: Text<DeploymentId>,
    pipeline_id: &'a str,
    env_name: &'a str,
    status: Status,
    /// The engine that was asked; once it is completed, the one that answered.
    engine: EngineName,
    /// Null until it is completed.
    root_cause: Option<RootCauseView<'a>>,
    /// The confidence in the root cause, from 0 to 1. Null until it is completed.
    #[schema(minimum = 0.0, maximum = 1.0)]
    confidence: Option<f64>,
    suggested_fix: Option<SuggestedFixView<'a>>,
    /// The environment's last successful deployment before it, if there is one.
    compared_with: Option<ComparedView<'a>>,
    /// Null until `POST …/fix-pull-request` has opened it.
    pull_request: Option<PullRequestView<'a>>,
    /// The member who requested it.
    requested_by: UserView<'a>,
    created_at: Time,
    completed_at: Option<Time>,
    /// Why it failed; null if it did not.
    error: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RootCause)]
pub struct RootCauseView<'a> {
    #[schema(example = "missing_command")]
    category: &'static str,
    summary: &'a str,
    /// The most significant first.
    evidence: Vec<EvidenceView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Evidence)]
pub struct EvidenceView<'a> {
    #[schema(example = "build")]
    stage: &'a str,
    #[schema(example = "step-1")]
    step: &'a str,
    /// From 1, in the answer to `GET …/logs?stage=…&step=…`.
    line: u32,
    text: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SuggestedFix)]
pub struct SuggestedFixView<'a> {
    summary: &'a str,
    /// A unified diff, if one can be derived.
    patch: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ComparedDeployment)]
pub struct ComparedView<'a> {
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    commit_id: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PullRequest)]
pub struct PullRequestView<'a> {
    /// The pull request's page; for a branch without one, the page that compares it, or the remote with the branch.
    #[schema(example = "https://github.example/acme/shop/pull/7")]
    url: &'a str,
    branch: &'a str,
    /// Null for a branch without a pull request.
    number: Option<u64>,
    created_at: Time,
}

/// A pull request with its analysis.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FixPullRequest)]
pub struct FixView<'a> {
    #[schema(value_type = String, example = "anl_0199f3c2a4b07f3e9d2c5a1b")]
    analysis_id: Text<AnalysisId>,
    #[serde(flatten)]
    pull_request: PullRequestView<'a>,
}

impl<'a> AnalysisView<'a> {
    pub fn new(analysis: &'a Analysis) -> Self {
        let report = analysis.report();
        let pipeline = &analysis.environment.pipeline;
        Self {
            analysis_id: Text(analysis.id),
            deployment_id: Text(analysis.deployment),
            pipeline_id: pipeline.pipeline.as_str(),
            env_name: analysis.environment.name.as_str(),
            status: analysis.status(),
            engine: analysis.answered_by(),
            root_cause: report.map(RootCauseView::from),
            confidence: report.map(|report| report.confidence),
            suggested_fix: report.and_then(|report| report.fix.as_ref()).map(SuggestedFixView::from),
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
            category: report.category.as_str(),
            summary: &report.summary,
            evidence: report.evidence.iter().map(EvidenceView::from).collect(),
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
        Self { deployment_id: Text(compared.deployment), commit_id: compared.commit.as_str() }
    }
}

impl<'a> From<&'a PullRequest> for PullRequestView<'a> {
    fn from(made: &'a PullRequest) -> Self {
        Self { url: &made.url, branch: &made.branch, number: made.number, created_at: Time(made.created_at) }
    }
}

impl<'a> FixView<'a> {
    pub fn new(analysis: &Analysis, made: &'a PullRequest) -> Self {
        Self { analysis_id: Text(analysis.id), pull_request: PullRequestView::from(made) }
    }
}
