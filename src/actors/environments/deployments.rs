//! Commands on deployments, from callers and from the runner.

use super::Environments;
use crate::actors::failure::Failure;
use crate::actors::services::clients::Keyed;
use crate::actors::services::signals::Signal;
use crate::domain::{
    ApprovalRecord, BeginStage, CancelStage, DecideApproval, Deploy, DeploymentRecord, EndStage, EnvironmentKey,
    PipelineKey, ReportSteps, RetryStage, Swept,
};

/// How many environments are signalled about a resumed pipeline before other tasks get their turn on the thread.
const SIGNALLED_AT_ONCE: usize = 64;

impl Environments {
    pub async fn deploy(
        &self,
        key: &EnvironmentKey,
        deploy: Deploy,
        keyed: Option<Keyed<DeploymentRecord>>,
    ) -> Result<DeploymentRecord, Failure> {
        self.ask_keyed(key, deploy, keyed).await
    }

    pub async fn cancel_stage(
        &self,
        key: &EnvironmentKey,
        cancel: CancelStage,
        keyed: Option<Keyed<DeploymentRecord>>,
    ) -> Result<DeploymentRecord, Failure> {
        self.ask_keyed(key, cancel, keyed).await
    }

    pub async fn retry_stage(
        &self,
        key: &EnvironmentKey,
        retry: RetryStage,
        keyed: Option<Keyed<DeploymentRecord>>,
    ) -> Result<DeploymentRecord, Failure> {
        self.ask_keyed(key, retry, keyed).await
    }

    pub async fn decide_approval(
        &self,
        key: &EnvironmentKey,
        decide: DecideApproval,
        keyed: Option<Keyed<ApprovalRecord>>,
    ) -> Result<ApprovalRecord, Failure> {
        self.ask_keyed(key, decide, keyed).await
    }

    /// For the runner: it may execute the first step once this succeeds.
    pub async fn begin_stage(&self, key: &EnvironmentKey, begin: BeginStage) -> Result<(), Failure> {
        self.ask(key, begin).await
    }

    pub async fn report_steps(&self, key: &EnvironmentKey, report: ReportSteps) -> Result<(), Failure> {
        self.ask(key, report).await
    }

    /// For the runner: nothing of the stage runs any more.
    pub async fn end_stage(&self, key: &EnvironmentKey, end: EndStage) -> Result<(), Failure> {
        self.ask(key, end).await
    }

    /// For the runner: nothing of an earlier run of the server is left running.
    pub async fn swept(&self, key: &EnvironmentKey, swept: Swept) -> Result<(), Failure> {
        self.ask(key, swept).await
    }

    /// The pipeline starts deployments again: signals every environment that is held back, oldest deployment first. Call
    /// it once the pipeline is known to be running.
    pub async fn resume_pipeline(&self, pipeline: &PipelineKey) {
        for some in self.services().pipelines.held_back(pipeline).chunks(SIGNALLED_AT_ONCE) {
            for key in some {
                self.services().signal(key, Signal::Resume);
            }
            tokio::task::yield_now().await;
        }
    }
}
