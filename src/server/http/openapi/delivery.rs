//! The operations on pipelines and step registries; on deployments, their logs and approvals; and on analyses of failed
//! deployments and the fixes they suggest.

use serde_json::json;

use super::operation::{Offset, Operation};
use crate::forms::{Integer, PipelineForm};
use crate::http::codes::Code;
use crate::http::dto::DeploymentView;
use crate::http::resources::analyses::{AnalysisForm, AnalysisView, FixForm, FixView};
use crate::http::resources::approvals::{ApprovalView, ApproveForm, RejectForm};
use crate::http::resources::deployments::StageActionForm;
use crate::http::resources::logs::{Format, LINES_MAX, LineView, NEXT_OFFSET};
use crate::http::resources::pipelines::{PipelineView, ResumeForm, StopForm};
use crate::http::resources::step_registries::{RegistryForm, RegistryStepView, RegistryView, SyncView};
use analysis::service::Status;
use domain::{ApprovalStatus, DeploymentId, DeploymentStatus, Identifier, SessionId};

const PIPELINES: &str = "Pipelines";

pub fn list_pipelines() -> Operation {
    Operation::api(PIPELINES, "listPipelines")
        .about("The organization's pipelines, by id.")
        .lists::<PipelineView<'_>>("The pipelines")
}

pub fn get_pipeline() -> Operation {
    Operation::api(PIPELINES, "getPipeline")
        .about(
            "With the definitions of its stages. `stages`, `variables` and `repository` can be sent back unchanged \
             with a PUT.",
        )
        .answers_unless_known::<PipelineView<'_>>("The pipeline")
}

pub fn put_pipeline() -> Operation {
    Operation::api(PIPELINES, "putPipeline")
        .about(
            "Creates or replaces it: what is left out has its default, and without stages a deployment succeeds at \
             once. Deployments that have started keep their stages. A stopped pipeline stays stopped.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .header("If-None-Match", "`*`: only if the pipeline does not exist yet")
        .creates("pipelineId")
        .body::<PipelineForm>()
        .answers::<PipelineView<'_>>(200, "Changed", &["ETag"])
        .answers::<PipelineView<'_>>(201, "Created", &["ETag", "Location"])
        .fails(&[Code::PipelineLimitReached, Code::PreconditionFailed])
}

pub fn delete_pipeline() -> Operation {
    Operation::api(PIPELINES, "deletePipeline")
        .about(
            "A pipeline with environments is not deleted. A pipeline declared in a file stays deleted until its \
             declaration changes.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .on_example("pipelineId")
        .deletes("Deleted")
        .fails(&[Code::PipelineInUse, Code::PreconditionFailed])
}

pub fn stop_pipeline() -> Operation {
    Operation::api(PIPELINES, "stopPipeline")
        .about(
            "Running deployments finish; new ones wait as `queued` until it is resumed. Claims still work. Stopping a \
             stopped pipeline changes nothing.",
        )
        .on_example("pipelineId")
        .body::<StopForm>()
        .answers::<PipelineView<'_>>(200, "The pipeline, stopped", &[])
}

pub fn resume_pipeline() -> Operation {
    Operation::api(PIPELINES, "resumePipeline")
        .about("Waiting deployments start. Resuming a running pipeline changes nothing.")
        .on_example("pipelineId")
        .body::<ResumeForm>()
        .answers::<PipelineView<'_>>(200, "The pipeline, running", &[])
}

const REGISTRIES: &str = "Step registries";

pub fn list_registries() -> Operation {
    Operation::api(REGISTRIES, "listStepRegistries")
        .about("Oldest first.")
        .lists::<RegistryView<'_>>("The step registries")
}

pub fn create_registry() -> Operation {
    Operation::api(REGISTRIES, "createStepRegistry")
        .about(
            "With its steps, or with their repository, which is fetched before the answer. If that fails the registry \
             is created all the same, with the status `failed` and the reason in `error`.",
        )
        .body::<RegistryForm>()
        .answers::<RegistryView<'_>>(201, "The step registry", &["Location", "ETag"])
        .fails(&[Code::RegistryExists, Code::RegistryLimitReached])
}

pub fn get_registry() -> Operation {
    Operation::api(REGISTRIES, "getStepRegistry")
        .about("With its status, without its steps.")
        .answers_unless_known::<RegistryView<'_>>("The step registry")
}

pub fn update_registry() -> Operation {
    Operation::api(REGISTRIES, "updateStepRegistry")
        .about(
            "Replaces all of it. Another repository is fetched before the answer. Nothing changes if that fails, or if \
             pipelines would lose a step they use.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<RegistryForm>()
        .answers::<RegistryView<'_>>(200, "The step registry", &["ETag"])
        .fails(&[Code::RegistryExists, Code::RegistryInUse, Code::SyncFailed, Code::PreconditionFailed])
}

pub fn delete_registry() -> Operation {
    Operation::api(REGISTRIES, "deleteStepRegistry")
        .about("Refused while pipelines use it: `usedBy` names them. Deployments keep their steps.")
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .deletes("Deleted")
        .fails(&[Code::RegistryInUse, Code::PreconditionFailed])
}

pub fn sync_registry() -> Operation {
    Operation::api(REGISTRIES, "syncStepRegistry")
        .about(
            "Fetches the repository and applies all its steps or none. A step whose content has changed under the same \
             version is listed as `changed`. If a file has faults, or pipelines would lose a step they use, the steps \
             stay as they were.",
        )
        .body::<ResumeForm>()
        .answers::<SyncView<'_>>(200, "The changes", &[])
        .fails(&[
            Code::RegistryHasNoRepository,
            Code::SyncInProgress,
            Code::SyncFailed,
            Code::RegistryInUse,
            Code::PreconditionFailed,
        ])
}

pub fn list_registry_steps() -> Operation {
    Operation::api(REGISTRIES, "listRegistrySteps")
        .titled("List Steps of a Registry")
        .about("By name and version.")
        .lists::<RegistryStepView<'_>>("The steps")
}

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

const INTERVENTION_FAULTS: [Code; 2] = [Code::NotSessionHolder, Code::EnvironmentNotFound];

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

const DECISION_FAULTS: [Code; 2] = [Code::ApprovalNotPending, Code::EnvironmentNotFound];

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
        .fails(&[Code::DeploymentNotFailed, Code::AnalysisDisabled, Code::ClientGone])
}

pub fn get_analysis() -> Operation {
    Operation::api(ANALYSIS, "getAnalysis")
        .about("The findings, their confidence, and suggested fixes.")
        .answers_when_changed::<AnalysisView<'_>>("The analysis")
        .fails(&[Code::ClientGone])
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
