//! The operations on analyses of failed deployments, and on the fixes they suggest.

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::analyses::{AnalysisForm, FixForm};
use crate::http::resources::analyses::{AnalysisView, FixView};
use analysis::service::Status;
use domain::{DeploymentId, Identifier};

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
