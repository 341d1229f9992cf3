//! The operations on analyses of failed deployments, and on the fixes they suggest.

use serde_json::{Value, json};

use super::operation::Operation;
use super::{DEPLOYMENT_PATTERN, IDENTIFIER_PATTERN};
use crate::analysis::service::{EngineName, Status};
use crate::http::codes::Code;
use crate::http::resources::analyses::WAIT_SECONDS_MAX;

const ANALYSIS: &str = "Analysis";
/// One line, not of spaces alone.
const TITLE_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[!-~][^\u0000-\u001f\u007f-\u009f]*$";
/// Git allows less; what it does not is refused with a reason.
const BRANCH_PATTERN: &str = "^[!-,.-~][!-~]{0,127}$";

pub fn request_bodies() -> [(&'static str, Value); 2] {
    [
        (
            "AnalysisRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "engine": { "enum": [EngineName::Builtin.as_str(), EngineName::Llm.as_str(), null],
                                "description": "Who looks: the server's own if left out. `llm` only where the operator \
                                                has configured a model." },
                    "waitSeconds": { "type": ["integer", "null"], "minimum": 0, "maximum": WAIT_SECONDS_MAX,
                                     "description": "How long to wait for the end: 200 if it comes within." },
                },
            }),
        ),
        (
            "FixPullRequestRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "branch": { "type": ["string", "null"], "pattern": BRANCH_PATTERN,
                                "examples": ["fix/missing-jq"],
                                "description": "What to push it as, `lockkeeper/fix-{analysisId}` if left out. Never \
                                                the default branch." },
                    "title": { "type": ["string", "null"], "minLength": 1, "maxLength": 200,
                               "pattern": TITLE_PATTERN },
                    "draft": { "type": ["boolean", "null"], "default": false,
                               "description": "Whether it is a draft, for a provider that knows drafts." },
                },
            }),
        ),
    ]
}

pub fn list_analyses() -> Operation {
    let deployment = json!({ "type": "string", "pattern": DEPLOYMENT_PATTERN });
    Operation::api(ANALYSIS, "listAnalyses", "List Analyses", "Newest first. The newest 1000 are remembered.")
        .query("deploymentId", "Only those of this deployment", deployment)
        .query("pipelineId", "Only those of this pipeline", json!({ "type": "string", "pattern": IDENTIFIER_PATTERN }))
        .query("status", "Only those that stand so", json!({ "enum": Status::ALL.map(Status::as_str) }))
        .slice()
        .answers_list("The analyses", "Analysis", "Pagination")
}

pub fn list_deployment_analyses() -> Operation {
    Operation::api(
        ANALYSIS,
        "listDeploymentAnalyses",
        "List Analyses of a Deployment",
        "Newest first. The newest 20 of a deployment are remembered.",
    )
    .slice()
    .answers_list("The analyses", "Analysis", "Pagination")
    .fails(&[Code::DeploymentNotFound])
}

pub fn create_analysis() -> Operation {
    Operation::api(
        ANALYSIS,
        "createAnalysis",
        "Analyse a Deployment",
        "Looks into why a deployment failed: its records, its log, and the last deployment of the same environment that \
         succeeded. It goes on in the background, through a restart too.",
    )
    .body("AnalysisRequest", false)
    .writes()
    .answers(202, "It runs", "Analysis", &["Location"])
    .answers(200, "It ended within `waitSeconds`", "Analysis", &["Location"])
    .fails(&[Code::DeploymentNotFound, Code::DeploymentNotFailed, Code::AnalysisDisabled, Code::ClientGone])
}

pub fn get_analysis() -> Operation {
    Operation::api(
        ANALYSIS,
        "getAnalysis",
        "Get Analysis",
        "What was found, how sure that is, and what to do about it.",
    )
    .until_changed()
    .answers(200, "The analysis", "Analysis", &["ETag"])
    .answers_nothing(304, "It has not changed", &["ETag"])
    .fails(&[Code::AnalysisNotFound, Code::ClientGone])
}

pub fn create_fix_pull_request() -> Operation {
    Operation::api(
        ANALYSIS,
        "createFixPullRequest",
        "Propose a Fix",
        "Puts the suggested patch on a branch of the pipeline's repository and opens a pull request; without a patch that \
         applies, a branch with the analysis as a document. An analysis has one pull request: asked again, that is \
         answered. What was cut off goes on where it was.",
    )
    .body("FixPullRequestRequest", false)
    .writes()
    .answers(201, "The pull request", "FixPullRequest", &["Location"])
    .answers(200, "There was one before", "FixPullRequest", &["Location"])
    .answers(202, "It takes longer; look at the analysis' `pullRequest`", "Analysis", &["Location"])
    .fails(&[
        Code::AnalysisNotFound,
        Code::AnalysisNotCompleted,
        Code::RepositoryMissing,
        Code::RepositoryUnusable,
        Code::CredentialMissing,
        Code::BranchExists,
        Code::RemoteFailed,
        Code::GitUnavailable,
        Code::InternalError,
    ])
}
