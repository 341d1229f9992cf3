//! The operations on deployments, their logs and their approvals, on analyses of failed ones, and on the fixes they suggest.

use serde_json::json;

use super::operation::{Offset, Operation};
use crate::forms::Integer;
use crate::http::codes::Code;
use crate::http::dto::DeploymentView;
use crate::http::resources::analyses::{AnalysisForm, AnalysisView, FixForm, FixView};
use crate::http::resources::approvals::{ApprovalView, ApproveForm, RejectForm};
use crate::http::resources::deployments::StageActionForm;
use crate::http::resources::logs::{Format, LINES_MAX, LineView, NEXT_OFFSET};
use analysis::service::Status;
use domain::{ApprovalStatus, DeploymentId, DeploymentStatus, Identifier, SessionId};

const DEPLOYMENTS: &str = "Deployments";
const APPROVALS: &str = "Approvals";

pub fn list_deployments() -> Operation {
    Operation::api(DEPLOYMENTS, "listDeployments")
        .about(
            "Newest first. A deployment and its log are kept as long as its session, the newest 100 per session; of \
             the resets of an environment, the last.",
        )
        .query::<Identifier>("pipelineId", "Only those of this pipeline")
        .query::<Identifier>("envName", "Only those in environments of this name")
        .query::<SessionId>("sessionId", "Only those of this session")
        .query::<DeploymentStatus>("status", "Only those with this status")
        .lists::<DeploymentView<'_>>("The deployments")
}

pub fn get_deployment() -> Operation {
    Operation::api(DEPLOYMENTS, "getDeployment")
        .about("With each of its stages and steps. With `waitSeconds` it waits for a change.")
        .answers_when_changed::<DeploymentView<'_>>("The deployment")
        .fails(&[Code::DeploymentNotFound])
}

pub fn get_logs() -> Operation {
    Operation::api(DEPLOYMENTS, "getDeploymentLogs")
        .titled("Get Logs")
        .about(
            "The output of its steps, with secrets masked. As text it is the raw output; as JSON one object per line. \
             With `follow` new output follows until the deployment has finished or the server stops: look at the \
             deployment to see which. A line that is very long, or written in pieces, counts as several.",
        )
        .query::<Format>("format", "`text` if left out")
        .query::<Offset>("offset", "From which line on, 0 if left out")
        .query::<Integer<1, { LINES_MAX as i64 }>>("limit", "How many lines, all if left out")
        .query_by("follow", "Whether to wait for more", json!({ "type": "boolean", "examples": [false] }))
        .query::<Identifier>("stage", "Only lines of this stage")
        .query::<Identifier>("step", "Only lines of steps of this name")
        .answers_lines::<LineView<'_>>("The log; empty if there is none", &["Link", NEXT_OFFSET])
        .fails(&[Code::DeploymentNotFound])
}

pub fn cancel_stage() -> Operation {
    Operation::api(DEPLOYMENTS, "cancelStage")
        .about(
            "Stops the current stage with all its processes and skips the rest; a deployment that still waits is \
             cancelled by its first stage. Only by the session's own user or a maintainer. Repeating it is no error.",
        )
        .body::<StageActionForm>()
        .answers::<DeploymentView<'_>>(200, "It has ended", &["Location"])
        .answers::<DeploymentView<'_>>(202, "It is being stopped", &["Location"])
        .fails(&INTERVENTION_FAULTS)
        .fails(&[Code::StageNotRunning])
}

pub fn retry_stage() -> Operation {
    Operation::api(DEPLOYMENTS, "retryStage")
        .about(
            "Runs a failed or cancelled stage again from its first step, with the same commit, and continues from \
             there; only while the session has the lock. Only by the session's own user or a maintainer.",
        )
        .body::<StageActionForm>()
        .answers::<DeploymentView<'_>>(200, "It has ended already", &["Location"])
        .answers::<DeploymentView<'_>>(202, "It runs again, or waits", &["Location"])
        .fails(&INTERVENTION_FAULTS)
        .fails(&[
            Code::StageNotRetryable,
            Code::SessionNotFound,
            Code::SessionReleased,
            Code::SessionOverridden,
            Code::SessionExpired,
            Code::QueueFull,
        ])
}

const INTERVENTION_FAULTS: [Code; 4] =
    [Code::NotSessionHolder, Code::DeploymentNotFound, Code::StageNotFound, Code::EnvironmentNotFound];

pub fn list_approvals() -> Operation {
    Operation::api(APPROVALS, "listApprovals")
        .about("Newest first. `status=pending` lists those to decide.")
        .query::<ApprovalStatus>("status", "Only those with this status")
        .query::<Identifier>("pipelineId", "Only those of this pipeline")
        .query::<Identifier>("envName", "Only those in environments of this name")
        .query::<DeploymentId>("deploymentId", "Only those of this deployment")
        .lists::<ApprovalView<'_>>("The approvals")
}

pub fn get_approval() -> Operation {
    Operation::api(APPROVALS, "getApproval")
        .about("The stage to approve, and the decision.")
        .answers::<ApprovalView<'_>>(200, "The approval", &[])
        .fails(&[Code::ApprovalNotFound])
}

pub fn approve() -> Operation {
    Operation::api(APPROVALS, "approveStage")
        .titled("Approve")
        .about(
            "Starts the stage. If the pipeline has `selfApproval` off, members cannot approve what they deployed or \
             retried. Approving twice is no error.",
        )
        .body::<ApproveForm>()
        .answers::<ApprovalView<'_>>(200, "The approval", &[])
        .fails(&DECISION_FAULTS)
        .fails(&[Code::SelfApprovalDenied])
}

pub fn reject() -> Operation {
    Operation::api(APPROVALS, "rejectStage")
        .titled("Reject")
        .about("The stage and its deployment fail. A retry of the stage requests a new approval.")
        .body::<RejectForm>()
        .answers::<ApprovalView<'_>>(200, "The approval", &[])
        .fails(&DECISION_FAULTS)
}

const DECISION_FAULTS: [Code; 3] = [Code::ApprovalNotFound, Code::ApprovalNotPending, Code::EnvironmentNotFound];

const ANALYSIS: &str = "Analysis";

pub fn list_analyses() -> Operation {
    Operation::api(ANALYSIS, "listAnalyses")
        .about("Newest first. The newest 1000 are kept.")
        .query::<DeploymentId>("deploymentId", "Only those of this deployment")
        .query::<Identifier>("pipelineId", "Only those of this pipeline")
        .query::<Status>("status", "Only those with this status")
        .lists::<AnalysisView<'_>>("The analyses")
}

pub fn list_deployment_analyses() -> Operation {
    Operation::api(ANALYSIS, "listDeploymentAnalyses")
        .titled("List Analyses of a Deployment")
        .about("Newest first. The newest 20 per deployment are kept.")
        .lists::<AnalysisView<'_>>("The analyses")
        .fails(&[Code::DeploymentNotFound])
}

pub fn create_analysis() -> Operation {
    Operation::api(ANALYSIS, "createAnalysis")
        .titled("Analyse a Deployment")
        .about(
            "Finds out why a deployment failed, from its records, its log, and the environment's last successful \
             deployment. It runs in the background and continues after a restart.",
        )
        .body::<AnalysisForm>()
        .answers::<AnalysisView<'_>>(202, "It runs", &["Location"])
        .answers::<AnalysisView<'_>>(200, "It ended within `waitSeconds`", &["Location"])
        .fails(&[Code::DeploymentNotFound, Code::DeploymentNotFailed, Code::AnalysisDisabled, Code::ClientGone])
}

pub fn get_analysis() -> Operation {
    Operation::api(ANALYSIS, "getAnalysis")
        .about("The findings, their confidence, and suggested fixes.")
        .answers_when_changed::<AnalysisView<'_>>("The analysis")
        .fails(&[Code::AnalysisNotFound, Code::ClientGone])
}

pub fn create_fix_pull_request() -> Operation {
    Operation::api(ANALYSIS, "createFixPullRequest")
        .titled("Propose a Fix")
        .about(
            "Puts the suggested patch on a branch of the pipeline's repository and opens a pull request; without a \
             patch that applies, a branch with the analysis as a document. An analysis has one pull request, which a \
             repeated request returns. An interrupted proposal is resumed.",
        )
        .body::<FixForm>()
        .answers::<FixView<'_>>(201, "The pull request", &["Location"])
        .answers::<FixView<'_>>(200, "It already exists", &["Location"])
        .answers::<AnalysisView<'_>>(202, "It takes longer; see `pullRequest` of the analysis", &["Location"])
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
