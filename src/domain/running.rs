//! What the runner reports, and what becomes of deployments that a run of the server left behind.

use std::sync::Arc;

use super::stages::{self, Maker};
use super::{
    Command, Deployment, DeploymentId, Draft, Effect, Notice, Rejection, StageEnd, StageRun, StageStatus, StepRun,
    StepStatus, Timestamp, deploy,
};

/// Which run of which stage a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageAttempt {
    pub deployment: DeploymentId,
    pub stage: usize,
    pub attempt: u32,
}

/// The runner is about to execute the first step. It does not, if this is refused.
#[derive(Debug, Clone)]
pub struct BeginStage(pub StageAttempt);

impl Command for BeginStage {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        match self.0.status(draft)? {
            StageStatus::Queued => {}
            // It has been said before, and nobody knows whether it was heard.
            StageStatus::Running => return Ok(()),
            StageStatus::Pending
            | StageStatus::AwaitingApproval
            | StageStatus::Cancelling
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => return Err(Rejection::DeploymentNotRunning),
        }
        draft.touch();
        let (deployment, maker, scene) = draft.deployment(self.0.deployment).ok_or(Rejection::DeploymentNotFound)?;
        let stage = self.0.stage_of(deployment)?;
        stage.status = StageStatus::Running;
        stages::tell(scene.outcome, Notice::StageStarted, &maker, self.0.deployment, stage);
        stages::record(deployment, &maker, scene.outcome);
        Ok(())
    }
}

/// How the steps of a stage stand.
#[derive(Debug, Clone)]
pub struct ReportSteps {
    pub of: StageAttempt,
    pub steps: Vec<StepRun>,
}

impl Command for ReportSteps {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        self.of.check_begun(draft)?;
        draft.touch();
        let (deployment, maker, scene) = draft.deployment(self.of.deployment).ok_or(Rejection::DeploymentNotFound)?;
        self.of.stage_of(deployment)?.steps = self.steps;
        stages::record(deployment, &maker, scene.outcome);
        Ok(())
    }
}

/// Nothing of the stage runs any more.
#[derive(Debug, Clone)]
pub struct EndStage {
    pub of: StageAttempt,
    pub end: StageEnd,
    pub steps: Vec<StepRun>,
}

impl Command for EndStage {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        let (of, end) = (self.of, self.end);
        if of.status(draft)? == StageStatus::AwaitingApproval {
            return Err(Rejection::DeploymentNotRunning);
        }
        draft.touch();
        let (deployment, maker, mut scene) = draft.deployment(of.deployment).ok_or(Rejection::DeploymentNotFound)?;
        of.stage_of(deployment)?.steps = self.steps;
        if let Some(outcome) = stages::end_stage(deployment, &maker, &mut scene, of.stage, end) {
            deploy::finish(draft, of.deployment, outcome);
        }
        Ok(())
    }
}

/// The server has started: what became of the deployment that had begun here?
#[derive(Debug, Clone)]
pub struct Recover;

impl Command for Recover {
    type Reply = ();

    /// What has begun is not changed by it: also a store that takes nothing does not keep what is left from being swept.
    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        let begun = draft.next.current_deployment().map(|deployment| deployment.id);
        let begun = begun.and_then(|id| draft.next.unfinished_deployment(id));
        if let Some((deployment, session)) = begun
            && let Some((index, stage)) = deployment.run.as_ref().and_then(|run| run.active())
        {
            match stage.status {
                // Nothing of it was executed, or it could not be in this state.
                StageStatus::Queued => {
                    let maker = session.map_or_else(|| Maker::system(draft.next.last_reset), Maker::of);
                    let deployment = deployment.clone();
                    stages::order(&deployment, &maker, &mut draft.scene(), index);
                }
                StageStatus::Running | StageStatus::Cancelling => {
                    let sweep = Effect::Sweep(deployment.id);
                    draft.outcome.effects.push(sweep);
                }
                StageStatus::AwaitingApproval
                | StageStatus::Pending
                | StageStatus::Succeeded
                | StageStatus::Failed
                | StageStatus::Cancelled
                | StageStatus::Skipped => {}
            }
        }
        deploy::advance(draft);
        Ok(())
    }
}

/// Nothing of what an earlier run of the server had begun runs any more.
#[derive(Debug, Clone)]
pub struct Swept(pub StageAttempt);

impl Command for Swept {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        let StageAttempt { deployment: id, stage: index, .. } = self.0;
        let status = self.0.status(draft)?;
        let run = draft.next.current_deployment().and_then(|deployment| deployment.run.as_ref());
        let idempotent = run.is_some_and(|run| run.blueprint.stages[index].idempotent);
        let end = match status {
            StageStatus::Cancelling => StageEnd::Cancelled,
            StageStatus::Running if idempotent => return run_again(draft, id, index),
            StageStatus::Running => StageEnd::Interrupted,
            StageStatus::Queued
            | StageStatus::AwaitingApproval
            | StageStatus::Pending
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => return Err(Rejection::DeploymentNotRunning),
        };
        draft.touch();
        let (deployment, maker, mut scene) = draft.deployment(id).ok_or(Rejection::DeploymentNotFound)?;
        let now = scene.at;
        end_steps(deployment, index, now);
        if let Some(outcome) = stages::end_stage(deployment, &maker, &mut scene, index, end) {
            deploy::finish(draft, id, outcome);
        }
        Ok(())
    }
}

/// It does no harm to run it again, and nothing of the first time is left.
fn run_again(draft: &mut Draft<'_>, id: DeploymentId, index: usize) -> Result<(), Rejection> {
    draft.touch();
    let (deployment, maker, mut scene) = draft.deployment(id).ok_or(Rejection::DeploymentNotFound)?;
    let run = deployment.run.as_mut().map(Arc::make_mut).ok_or(Rejection::DeploymentNotRunning)?;
    let stage = &mut run.stages[index];
    let approval = stage.approval.take();
    stage.begin_anew(&run.blueprint.stages[index]);
    stage.approval = approval;
    stage.attempt += 1;
    stages::tell(scene.outcome, Notice::StageRetried, &maker, id, stage);
    stages::hand_to_runner(deployment, &maker, &mut scene, index);
    Ok(())
}

/// Nobody saw how the step ended that was being executed.
fn end_steps(deployment: &mut Deployment, index: usize, now: Timestamp) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    for step in run.stages[index].steps.iter_mut().filter(|step| step.status == StepStatus::Running) {
        step.status = StepStatus::Cancelled;
        step.finished_at = Some(now);
    }
}

impl StageAttempt {
    /// How the stage stands, if its deployment is at this attempt of it.
    fn status(self, draft: &Draft<'_>) -> Result<StageStatus, Rejection> {
        let current = draft.next.current_deployment().filter(|deployment| deployment.id == self.deployment);
        let active = current.and_then(|deployment| deployment.run.as_ref()?.active());
        match active {
            Some((index, stage)) if (index, stage.attempt) == (self.stage, self.attempt) => Ok(stage.status),
            Some(_) | None => Err(Rejection::DeploymentNotRunning),
        }
    }

    fn check_begun(self, draft: &Draft<'_>) -> Result<(), Rejection> {
        match self.status(draft)? {
            StageStatus::Running | StageStatus::Cancelling => Ok(()),
            StageStatus::Queued
            | StageStatus::AwaitingApproval
            | StageStatus::Pending
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => Err(Rejection::DeploymentNotRunning),
        }
    }

    fn stage_of(self, deployment: &mut Deployment) -> Result<&mut StageRun, Rejection> {
        let run = deployment.run.as_mut().map(Arc::make_mut).ok_or(Rejection::DeploymentNotRunning)?;
        run.stages.get_mut(self.stage).ok_or(Rejection::DeploymentNotRunning)
    }
}
