//! A deployment: brief within its session, and in full.

use super::values::{Time, UserView};
use super::written::{
    ApprovalId, ApprovalStatus, DeploymentId, DeploymentStatus, Named, SessionId, StageStatus, StepStatus, Written,
};
use domain::{Approval, Deployment, DeploymentRecord, EnvironmentKey, StageRun, StepReference, StepRun, StepSource};

view! {
    /// A deployment without its stages.
    pub struct DeploymentBrief<'a> of (deployment: &'a Deployment) {
        deployment_id: DeploymentId = Written(deployment.id),
        /// The commit.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = deployment.commit.as_str(),
        status: DeploymentStatus = Named(deployment.status),
        /// When the deployment was requested.
        created_at: Time = Time(deployment.created_at),
        /// When the deployment started; null before.
        started_at: Option<Time> = deployment.started_at.map(Time),
        /// When the deployment ended; null before.
        finished_at: Option<Time> = deployment.finished_at.map(Time),
        /// Why the deployment failed; null if it did not.
        #[schema(example = "step compile exited with 1")]
        error: Option<&'a str> = deployment.error.as_deref(),
    }
}

view! {
    /// The deployment of an environment that runs or waits for an approval, with its progress.
    pub struct CurrentDeploymentView<'a> as CurrentDeployment of (deployment: &'a Deployment)
    let stages = deployment.run.as_ref().map_or(&[][..], |run| &run.stages);
    {
        #[serde(flatten)]
        brief: DeploymentBrief<'a> = DeploymentBrief::new(deployment),
        /// The current stage; null between two stages.
        #[schema(example = "build")]
        stage: Option<&'a str> = stages.iter().find(|stage| stage.status.is_active()).map(|stage| stage.name.as_str()),
        /// How many stages of the deployment have succeeded.
        #[schema(example = 1)]
        stages_done: usize = stages.iter().filter(|stage| stage.status == domain::StageStatus::Succeeded).count(),
        /// How many stages the deployment has.
        #[schema(example = 4)]
        stages_total: usize = stages.len(),
    }
}

view! {
    /// The deployment of a commit to an environment.
    pub struct DeploymentView<'a> as Deployment of (key: &'a EnvironmentKey, record: &'a DeploymentRecord)
    let deployment = &record.deployment;
    {
        deployment_id: DeploymentId = Written(deployment.id),
        /// The deployment's pipeline.
        #[schema(example = "shop")]
        pipeline_id: &'a str = key.pipeline.pipeline.as_str(),
        /// The deployment's environment.
        #[schema(example = "staging-1")]
        env_name: &'a str = key.name.as_str(),
        /// The session; null for the reset of an environment after a release.
        session_id: Option<SessionId> = record.session.map(Written),
        /// The commit.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = deployment.commit.as_str(),
        /// The fencing token of the lock's grant. Steps get it, so that the systems they change can refuse an older
        /// one.
        #[schema(example = 42)]
        fencing_token: u64 = record.fencing_token,
        /// The holder of the session.
        user: Option<UserView<'a>> = record.user.as_ref().map(UserView::new),
        status: DeploymentStatus = Named(deployment.status),
        /// The stages, fixed when the deployment starts; empty before, and for a pipeline without stages.
        stages: Vec<StageRunView<'a>> = record.stages.iter().map(StageRunView::new).collect(),
        /// The member who last retried a stage.
        retried_by: Option<UserView<'a>> = record.retried.as_ref().map(|retried| UserView::new(&retried.by)),
        /// When the deployment was requested.
        created_at: Time = Time(deployment.created_at),
        /// When the deployment started; null before.
        started_at: Option<Time> = deployment.started_at.map(Time),
        /// When the deployment ended; null before.
        finished_at: Option<Time> = deployment.finished_at.map(Time),
        /// Why the deployment failed; null if it did not.
        #[schema(example = "step compile exited with 1")]
        error: Option<&'a str> = deployment.error.as_deref(),
    }
}

view! {
    /// A stage of a deployment.
    pub struct StageRunView<'a> as StageRun of (stage: &'a StageRun) {
        /// The stage's name, unique in its pipeline.
        #[schema(example = "build")]
        name: &'a str = stage.name.as_str(),
        status: StageStatus = Named(stage.status),
        /// The number of attempts so far; 0 before the first.
        #[schema(example = 1)]
        attempt: u32 = stage.attempt,
        /// The approval of this attempt, once it is requested; null if the stage needs none.
        approval_id: Option<ApprovalId> = stage.approval.as_ref().map(|approval| Written(approval.id)),
        /// The approval of this attempt, with its status.
        approval: Option<StageApprovalView> = stage.approval.as_ref().map(StageApprovalView::new),
        /// The steps, in the order in which they run.
        steps: Vec<StepRunView<'a>> = stage.steps.iter().map(StepRunView::new).collect(),
    }
}

view! {
    /// The approval of a stage.
    pub struct StageApprovalView as StageApproval of (approval: &Approval) {
        approval_id: ApprovalId = Written(approval.id),
        status: ApprovalStatus = Named(approval.status),
    }
}

view! {
    /// A step of a deployment.
    pub struct StepRunView<'a> as StepRun of (step: &'a StepRun) {
        /// The step's name, unique in its stage.
        #[schema(example = "compile")]
        name: &'a str = step.name.as_str(),
        /// The step of a registry that it uses, if any.
        uses: Option<StepSourceView<'a>> = step.source.as_deref().map(StepSourceView::new),
        status: StepStatus = Named(step.status),
        /// The exit code of a program that has exited.
        #[schema(example = 0)]
        exit_code: Option<i32> = step.exit_code,
        /// When the step started; null before.
        started_at: Option<Time> = step.started_at.map(Time),
        /// When the step ended; null before.
        finished_at: Option<Time> = step.finished_at.map(Time),
    }
}

view! {
    /// The origin of a step from a registry.
    pub struct StepSourceView<'a> as StepSource of (source: &'a StepSource)
    let StepReference { registry, step, version } = &source.reference;
    {
        /// The registry's name.
        #[schema(example = "tools")]
        registry: &'a str = registry.as_str(),
        /// The step's name.
        #[schema(example = "build")]
        step: &'a str = step.as_str(),
        /// The step's version.
        #[schema(example = "1.2.0")]
        version: &'a str = version.as_str(),
        /// The commit of the registry's repository, if it has one.
        #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
        commit: Option<&'a str> = source.commit.as_deref(),
    }
}
