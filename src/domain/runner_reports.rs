//! Reports of the runner, and the recovery of deployments after a restart.

use std::sync::Arc;

use super::decision::Owner;
use super::{
    Command, Decision, Deployment, DeploymentId, Effect, EventData, Rejection, StageEnd, StageRun, StageStatus,
    StepRun, StepStatus, Timestamp, deploy, stages,
};

/// The attempt of a stage that a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageAttempt {
    pub deployment: DeploymentId,
    pub stage: usize,
    pub attempt: u32,
}

/// The runner is about to execute the first step, unless this report is refused.
#[derive(Debug, Clone)]
pub struct BeginStage(pub StageAttempt);

impl Command for BeginStage {
    type Reply = ();

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        match self.0.status(decision)? {
            StageStatus::Queued => {}
            // A repeated report; the answer to the first one may have been lost.
            StageStatus::Running => return Ok(()),
            StageStatus::Pending
            | StageStatus::AwaitingApproval
            | StageStatus::Cancelling
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => return Err(Rejection::DeploymentNotRunning),
        }
        decision.touch();
        let (deployment, owner, context) = decision.deployment(self.0.deployment)?;
        let stage = self.0.stage_of(deployment)?;
        stage.status = StageStatus::Running;
        stages::tell(context.outcome, EventData::StageStarted, &owner, self.0.deployment, stage);
        stages::record(deployment, &owner, context.outcome);
        Ok(())
    }
}

/// The state of a stage's steps.
#[derive(Debug, Clone)]
pub struct ReportSteps {
    pub of: StageAttempt,
    pub steps: Vec<StepRun>,
}

impl Command for ReportSteps {
    type Reply = ();

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        match self.of.status(decision)? {
            StageStatus::Running | StageStatus::Cancelling => {}
            StageStatus::Queued
            | StageStatus::AwaitingApproval
            | StageStatus::Pending
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => return Err(Rejection::DeploymentNotRunning),
        }
        decision.touch();
        let (deployment, owner, context) = decision.deployment(self.of.deployment)?;
        self.of.stage_of(deployment)?.steps = self.steps;
        stages::record(deployment, &owner, context.outcome);
        Ok(())
    }
}

/// The stage has ended, with all its processes.
#[derive(Debug, Clone)]
pub struct EndStage {
    pub of: StageAttempt,
    pub end: StageEnd,
    pub steps: Vec<StepRun>,
}

impl Command for EndStage {
    type Reply = ();
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let (of, end) = (self.of, self.end);
        if of.status(decision)? == StageStatus::AwaitingApproval {
            return Err(Rejection::DeploymentNotRunning);
        }
        decision.touch();
        let (deployment, owner, mut context) = decision.deployment(of.deployment)?;
        of.stage_of(deployment)?.steps = self.steps;
        if let Some(outcome) = stages::end_stage(deployment, &owner, &mut context, of.stage, end) {
            deploy::finish(decision, of.deployment, outcome);
        }
        Ok(())
    }
}

/// The server has started: recovers the deployment that was running.
#[derive(Debug, Clone)]
pub struct Recover;

impl Command for Recover {
    type Reply = ();
    const ENDS: bool = true;

    /// The running state stays unchanged here, so that leftover processes are removed even if the store refuses writes.
    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let begun = decision.next.current_deployment().map(|deployment| deployment.id);
        let begun = begun.and_then(|id| decision.next.unfinished_deployment(id));
        if let Some((deployment, session)) = begun
            && let Some((index, stage)) = deployment.run.as_ref().and_then(|run| run.active())
        {
            match stage.status {
                // In this state, nothing of the stage has been executed.
                StageStatus::Queued => {
                    let owner = Owner::of_deployment(session, decision.next);
                    let deployment = deployment.clone();
                    stages::order(&deployment, &owner, &mut decision.context(), index);
                }
                StageStatus::Running | StageStatus::Cancelling => {
                    let sweep = Effect::Sweep(deployment.id);
                    decision.outcome.effects.push(sweep);
                }
                StageStatus::AwaitingApproval
                | StageStatus::Pending
                | StageStatus::Succeeded
                | StageStatus::Failed
                | StageStatus::Cancelled
                | StageStatus::Skipped => {}
            }
        }
        deploy::advance(decision);
        Ok(())
    }
}

/// All processes of an earlier run of the server are gone.
#[derive(Debug, Clone)]
pub struct Swept(pub StageAttempt);

impl Command for Swept {
    type Reply = ();
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let StageAttempt { deployment: id, stage: index, .. } = self.0;
        let status = self.0.status(decision)?;
        let run = decision.next.current_deployment().and_then(|deployment| deployment.run.as_ref());
        let idempotent = run.is_some_and(|run| run.blueprint.stages[index].idempotent);
        let end = match status {
            StageStatus::Cancelling => StageEnd::Cancelled,
            StageStatus::Running if idempotent => return run_again(decision, id, index),
            StageStatus::Running => StageEnd::Interrupted,
            StageStatus::Queued
            | StageStatus::AwaitingApproval
            | StageStatus::Pending
            | StageStatus::Succeeded
            | StageStatus::Failed
            | StageStatus::Cancelled
            | StageStatus::Skipped => return Err(Rejection::DeploymentNotRunning),
        };
        decision.touch();
        let (deployment, owner, mut context) = decision.deployment(id)?;
        let now = context.at;
        end_steps(deployment, index, now);
        if let Some(outcome) = stages::end_stage(deployment, &owner, &mut context, index, end) {
            deploy::finish(decision, id, outcome);
        }
        Ok(())
    }
}

/// The stage is idempotent and all processes of its first attempt are gone, so it is run again.
fn run_again(decision: &mut Decision<'_>, id: DeploymentId, index: usize) -> Result<(), Rejection> {
    decision.touch();
    let (deployment, owner, mut context) = decision.deployment(id)?;
    let run = deployment.run.as_mut().map(Arc::make_mut).ok_or(Rejection::DeploymentNotRunning)?;
    let stage = &mut run.stages[index];
    let approval = stage.approval.take();
    stage.begin_anew(&run.blueprint.stages[index]);
    stage.approval = approval;
    stage.attempt += 1;
    stages::tell(context.outcome, EventData::StageRetried, &owner, id, stage);
    stages::hand_to_runner(deployment, &owner, &mut context, index);
    Ok(())
}

/// The result of the running step is unknown.
fn end_steps(deployment: &mut Deployment, index: usize, now: Timestamp) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    for step in run.stages[index].steps.iter_mut().filter(|step| step.status == StepStatus::Running) {
        step.status = StepStatus::Cancelled;
        step.finished_at = Some(now);
    }
}

impl StageAttempt {
    /// The state of the stage, if this attempt is the current one.
    fn status(self, decision: &Decision<'_>) -> Result<StageStatus, Rejection> {
        let current = decision.next.current_deployment().filter(|deployment| deployment.id == self.deployment);
        let active = current.and_then(|deployment| deployment.run.as_ref()?.active());
        match active {
            Some((index, stage)) if (index, stage.attempt) == (self.stage, self.attempt) => Ok(stage.status),
            Some(_) | None => Err(Rejection::DeploymentNotRunning),
        }
    }

    fn stage_of(self, deployment: &mut Deployment) -> Result<&mut StageRun, Rejection> {
        let run = deployment.run.as_mut().map(Arc::make_mut).ok_or(Rejection::DeploymentNotRunning)?;
        run.stages.get_mut(self.stage).ok_or(Rejection::DeploymentNotRunning)
    }
}
