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
        /// What is deployed.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = deployment.commit.as_str(),
        status: DeploymentStatus = Named(deployment.status),
        /// When it was requested.
        created_at: Time = Time(deployment.created_at),
        /// When it started; null before.
        started_at: Option<Time> = deployment.started_at.map(Time),
        /// When it ended; null before.
        finished_at: Option<Time> = deployment.finished_at.map(Time),
        /// Why it failed; null if it did not.
        #[schema(example = "step compile exited with 1")]
        error: Option<&'a str> = deployment.error.as_deref(),
    }
}

view! {
    /// The deployment of an environment that runs or waits for an approval, with how far it is.
    pub struct CurrentDeploymentView<'a> as CurrentDeployment of (deployment: &'a Deployment)
    let stages = deployment.run.as_ref().map_or(&[][..], |run| &run.stages);
    {
        #[serde(flatten)]
        brief: DeploymentBrief<'a> = DeploymentBrief::new(deployment),
        /// The stage it is at; null between two of them.
        #[schema(example = "build")]
        stage: Option<&'a str> = stages.iter().find(|stage| stage.status.is_active()).map(|stage| stage.name.as_str()),
        /// How many of its stages have succeeded.
        #[schema(example = 1)]
        stages_done: usize = stages.iter().filter(|stage| stage.status == domain::StageStatus::Succeeded).count(),
        /// How many stages it has.
        #[schema(example = 4)]
        stages_total: usize = stages.len(),
    }
}

view! {
    /// A commit on its way to an environment.
    pub struct DeploymentView<'a> as Deployment of (key: &'a EnvironmentKey, record: &'a DeploymentRecord)
    let deployment = &record.deployment;
    {
        deployment_id: DeploymentId = Written(deployment.id),
        /// Its pipeline.
        #[schema(example = "shop")]
        pipeline_id: &'a str = key.pipeline.pipeline.as_str(),
        /// Its environment.
        #[schema(example = "staging-1")]
        env_name: &'a str = key.name.as_str(),
        /// Null for the reset of an environment after a release.
        session_id: Option<SessionId> = record.session.map(Written),
        /// What is deployed.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = deployment.commit.as_str(),
        /// That of the grant it belongs to; its steps get it, so that what they touch can refuse an older one.
        #[schema(example = 42)]
        fencing_token: u64 = record.fencing_token,
        /// The holder of its session.
        user: Option<UserView<'a>> = record.user.as_ref().map(UserView::new),
        status: DeploymentStatus = Named(deployment.status),
        /// Its stages, fixed when it starts; empty before, and for a pipeline without stages.
        stages: Vec<StageRunView<'a>> = record.stages.iter().map(StageRunView::new).collect(),
        /// The member who last retried a stage.
        retried_by: Option<UserView<'a>> = record.retried.as_ref().map(|retried| UserView::new(&retried.by)),
        /// When it was requested.
        created_at: Time = Time(deployment.created_at),
        /// When it started; null before.
        started_at: Option<Time> = deployment.started_at.map(Time),
        /// When it ended; null before.
        finished_at: Option<Time> = deployment.finished_at.map(Time),
        /// Why it failed; null if it did not.
        #[schema(example = "step compile exited with 1")]
        error: Option<&'a str> = deployment.error.as_deref(),
    }
}

view! {
    /// A stage of a deployment.
    pub struct StageRunView<'a> as StageRun of (stage: &'a StageRun) {
        /// Unique in its pipeline.
        #[schema(example = "build")]
        name: &'a str = stage.name.as_str(),
        status: StageStatus = Named(stage.status),
        /// Counts the runs, from 1; 0 before the first.
        #[schema(example = 1)]
        attempt: u32 = stage.attempt,
        /// The approval of this attempt, once it is requested; null if it needs none.
        approval_id: Option<ApprovalId> = stage.approval.as_ref().map(|approval| Written(approval.id)),
        /// The same approval, with its status.
        approval: Option<StageApprovalView> = stage.approval.as_ref().map(StageApprovalView::new),
        /// In the order in which they run.
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
        /// Unique in its stage.
        #[schema(example = "compile")]
        name: &'a str = step.name.as_str(),
        /// The step of a registry, if it is one.
        uses: Option<StepSourceView<'a>> = step.source.as_deref().map(StepSourceView::new),
        status: StepStatus = Named(step.status),
        /// Of a program that exited.
        #[schema(example = 0)]
        exit_code: Option<i32> = step.exit_code,
        /// When it started; null before.
        started_at: Option<Time> = step.started_at.map(Time),
        /// When it ended; null before.
        finished_at: Option<Time> = step.finished_at.map(Time),
    }
}

view! {
    /// Where a step of a registry comes from.
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
