//! Deployments: what people and the runner ask of them, what is kept of each, and what a start finds of them.

mod reading;
mod records;
mod starting;

pub(super) use reading::with_runs;
pub use reading::{ApprovalFilter, ApprovalFound, ApprovalPage, DeploymentFilter, DeploymentFound, DeploymentPage};
pub(super) use records::{RecentDeployments, Traces, is_unfinished};

use super::crowd::Keyed;
use super::environments::{Environments, Failure};
use crate::domain::{
    ApprovalRecord, BeginStage, CancelStage, DecideApproval, Deploy, DeploymentRecord, EndStage, EnvironmentKey,
    ReportSteps, RetryStage, Swept,
};

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

    /// For the runner: it may execute the first step once this is answered, and must not if it is refused.
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

    /// For the runner: nothing is left of what an earlier run of the server had begun.
    pub async fn swept(&self, key: &EnvironmentKey, swept: Swept) -> Result<(), Failure> {
        self.ask(key, swept).await
    }
}
