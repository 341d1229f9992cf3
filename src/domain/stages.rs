//! The stages of a deployment and their transitions.

use std::sync::Arc;

use super::decision::{ChangeContext, Owner};
use super::deployment::ERROR_BYTES_MAX;
use super::{
    Approval, ApprovalData, ApprovalId, ApprovalRecord, ApprovalRule, ApprovalStatus, Blueprint, Deployment,
    DeploymentData, DeploymentId, DeploymentOutcome, DeploymentRecord, DeploymentStatus, Effect, Environment, Event,
    EventData, LastDeployment, Outcome, PipelineNow, Rejection, Run, Session, Stage, StageData, StageEnd, StageOrder,
    StageRun, StageStatus, Step, StepRun, StepStatus,
};

/// Starts or restarts a deployment. Returns its outcome if it has no stages to run.
pub(super) fn start(
    deployment: &mut Deployment,
    owner: &Owner,
    context: &mut ChangeContext<'_>,
    pipeline: PipelineNow,
) -> Option<DeploymentOutcome> {
    deployment.started_at.get_or_insert(context.at);
    context.outcome.events.push(deployment.event(EventData::DeploymentStarted, owner.session));
    match &deployment.run {
        Some(run) if run.blueprint.uses().next().is_some() => {
            let why = "it was cancelled before its steps from registries were resolved; deploy again";
            return Some(DeploymentOutcome::Failed(Arc::from(why)));
        }
        Some(_) => {}
        None if pipeline.unresolved.is_some() => return pipeline.unresolved.map(DeploymentOutcome::Failed),
        None if pipeline.blueprint.stages.is_empty() => return Some(DeploymentOutcome::Succeeded),
        None => give_run(deployment, context.outcome, pipeline.blueprint),
    }
    enter_next(deployment, owner, context)
}

/// Gives the deployment its stages. Later changes of the pipeline do not affect it.
pub(super) fn give_run(deployment: &mut Deployment, outcome: &mut Outcome, blueprint: Arc<Blueprint>) {
    outcome.blueprints.push((deployment.id, blueprint.clone()));
    deployment.staged = true;
    deployment.run = Some(Arc::new(Run::new(blueprint)));
}

/// Enters the next pending stage. If there is none, the deployment has succeeded.
fn enter_next(
    deployment: &mut Deployment,
    owner: &Owner,
    context: &mut ChangeContext<'_>,
) -> Option<DeploymentOutcome> {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return Some(DeploymentOutcome::Succeeded) };
    let pending = run.stages.iter().position(|stage| stage.status == StageStatus::Pending);
    let Some(index) = pending else { return Some(DeploymentOutcome::Succeeded) };
    let stage = &mut run.stages[index];
    stage.attempt += 1;
    match run.blueprint.stages[index].approval {
        ApprovalRule::Never => hand_to_runner(deployment, owner, context, index),
        ApprovalRule::Always => {
            stage.status = StageStatus::AwaitingApproval;
            stage.approval = Some(Approval {
                id: ApprovalId(context.ports.seed()),
                status: ApprovalStatus::Pending,
                requested_at: context.at,
                decided_at: None,
                decided_by: None,
                comment: None,
            });
            tell_approval(context.outcome, EventData::ApprovalRequested, owner, deployment.id, stage);
            deployment.status = DeploymentStatus::AwaitingApproval;
            record_approval(deployment, owner, context.outcome, index);
            record(deployment, owner, context.outcome);
        }
    }
    None
}

/// Hands the stage to the runner. The stage begins when the runner reports it.
pub(super) fn hand_to_runner(
    deployment: &mut Deployment,
    owner: &Owner,
    context: &mut ChangeContext<'_>,
    index: usize,
) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    run.stages[index].status = StageStatus::Queued;
    deployment.status = DeploymentStatus::Running;
    order(deployment, owner, context, index);
    record(deployment, owner, context.outcome);
}

/// Orders the runner to run a stage, which must not be running anywhere else.
pub(super) fn order(deployment: &Deployment, owner: &Owner, context: &mut ChangeContext<'_>, index: usize) {
    let Some(run) = &deployment.run else { return };
    context.outcome.effects.push(Effect::RunStage(Box::new(StageOrder {
        deployment: deployment.id,
        session: owner.session,
        fencing_token: owner.fencing_token,
        commit: deployment.commit.clone(),
        stage: index,
        attempt: run.stages[index].attempt,
        blueprint: run.blueprint.clone(),
        configuration: context.configuration.clone().unwrap_or_default(),
    })));
}

/// The current stage has ended. Enters the next one, or returns how the deployment ended. A deployment that was told to
/// stop but finished the stage anyway has succeeded only if no stage is left.
pub(super) fn end_stage(
    deployment: &mut Deployment,
    owner: &Owner,
    context: &mut ChangeContext<'_>,
    index: usize,
    end: StageEnd,
) -> Option<DeploymentOutcome> {
    let id = deployment.id;
    let cancelling = deployment.status == DeploymentStatus::Cancelling;
    let run = Arc::make_mut(deployment.run.as_mut()?);
    let stage = &mut run.stages[index];
    let (status, event, outcome): (_, fn(StageData) -> EventData, _) = match end {
        StageEnd::Succeeded => (StageStatus::Succeeded, EventData::StageSucceeded, None),
        StageEnd::Failed(error) if !cancelling => {
            let error = format!("stage `{}`: {error}", stage.name);
            (StageStatus::Failed, EventData::StageFailed, Some(DeploymentOutcome::Failed(error.into())))
        }
        StageEnd::Interrupted if !cancelling => {
            let error =
                format!("interrupted: the server ended while stage `{}` ran; retry it or deploy again", stage.name);
            (StageStatus::Failed, EventData::StageFailed, Some(DeploymentOutcome::Failed(error.into())))
        }
        StageEnd::Failed(_) | StageEnd::Interrupted | StageEnd::Cancelled => {
            (StageStatus::Cancelled, EventData::StageCancelled, Some(DeploymentOutcome::Cancelled))
        }
    };
    stage.status = status;
    tell(context.outcome, event, owner, id, stage);
    let through = run.stages[index + 1..].is_empty();
    match outcome {
        Some(outcome) => Some(outcome),
        None if through => Some(DeploymentOutcome::Succeeded),
        None if cancelling => {
            // Cancels the next stage, so that a retry starts there.
            abandon(deployment, owner, context);
            Some(DeploymentOutcome::Cancelled)
        }
        None => enter_next(deployment, owner, context),
    }
}

/// Cancels a deployment: immediately if no stage is running, otherwise by telling it to stop.
pub(super) fn cancel(deployment: &mut Deployment, owner: &Owner, context: &mut ChangeContext<'_>) {
    match deployment.status {
        DeploymentStatus::Queued | DeploymentStatus::AwaitingApproval => {
            abandon(deployment, owner, context);
            conclude(deployment, owner, context, DeploymentOutcome::Cancelled);
        }
        DeploymentStatus::Running => {
            deployment.status = DeploymentStatus::Cancelling;
            if let Some(run) = deployment.run.as_mut().map(Arc::make_mut) {
                run.stages.iter_mut().filter(|s| s.status.is_active()).for_each(|s| s.status = StageStatus::Cancelling);
            }
            context.outcome.effects.push(Effect::Stop(deployment.id));
            context.outcome.events.push(deployment.event(EventData::DeploymentCancelling, owner.session));
            record(deployment, owner, context.outcome);
        }
        DeploymentStatus::Cancelling
        | DeploymentStatus::Succeeded
        | DeploymentStatus::Failed
        | DeploymentStatus::Cancelled => {}
    }
}

/// Cancels the next stage, or the one that awaits approval.
pub(super) fn abandon(deployment: &mut Deployment, owner: &Owner, context: &mut ChangeContext<'_>) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    let Some(index) = run.stages.iter().position(|stage| !stage.status.is_finished()) else { return };
    let stage = &mut run.stages[index];
    stage.status = StageStatus::Cancelled;
    tell(context.outcome, EventData::StageCancelled, owner, deployment.id, stage);
    if let Some(approval) = stage.approval.as_mut().filter(|approval| approval.status == ApprovalStatus::Pending) {
        approval.status = ApprovalStatus::Cancelled;
        approval.decided_at = Some(context.at);
        record_approval(deployment, owner, context.outcome, index);
    }
}

/// A deployment has ended. Stages that have not run are skipped.
pub(super) fn conclude(
    deployment: &mut Deployment,
    owner: &Owner,
    context: &mut ChangeContext<'_>,
    outcome: DeploymentOutcome,
) {
    deployment.finished_at = Some(context.at);
    let (status, event, error): (_, fn(DeploymentData) -> EventData, _) = match outcome {
        DeploymentOutcome::Succeeded => (DeploymentStatus::Succeeded, EventData::DeploymentSucceeded, None),
        DeploymentOutcome::Failed(error) => (DeploymentStatus::Failed, EventData::DeploymentFailed, Some(error)),
        DeploymentOutcome::Cancelled => (DeploymentStatus::Cancelled, EventData::DeploymentCancelled, None),
    };
    deployment.status = status;
    deployment.error = error.map(shortened);
    if let Some(run) = deployment.run.as_mut().map(Arc::make_mut) {
        for stage in run.stages.iter_mut().filter(|stage| stage.status == StageStatus::Pending) {
            stage.status = StageStatus::Skipped;
        }
        for stage in &mut run.stages {
            for step in stage.steps.iter_mut().filter(|step| step.status == StepStatus::Pending) {
                step.status = StepStatus::Skipped;
            }
        }
    }
    // A deployment that was cancelled in the queue never ran, so it is not the environment's last one.
    if deployment.started_at.is_some() {
        *context.last = Some(LastDeployment {
            id: deployment.id,
            commit: deployment.commit.clone(),
            status,
            finished_at: context.at,
        });
    }
    context.outcome.events.push(deployment.event(event, owner.session));
    record(deployment, owner, context.outcome);
    deployment.run = None;
}

fn shortened(error: Arc<str>) -> Arc<str> {
    if error.len() <= ERROR_BYTES_MAX {
        return error;
    }
    const ELLIPSIS: &str = "…";
    let end = error.floor_char_boundary(ERROR_BYTES_MAX - ELLIPSIS.len());
    Arc::from(format!("{}{ELLIPSIS}", &error[..end]))
}

/// Updates the record of a deployment.
pub(super) fn record(deployment: &mut Deployment, owner: &Owner, outcome: &mut Outcome) {
    deployment.revision += 1;
    let record = shown(deployment, owner);
    match outcome.deployments.iter_mut().find(|known| known.deployment.id == deployment.id) {
        Some(known) => *known = record,
        None => outcome.deployments.push(record),
    }
}

/// The stored state of an unfinished deployment.
pub(super) fn shown(deployment: &Deployment, owner: &Owner) -> DeploymentRecord {
    let (stages, retried) = match deployment.run.as_deref() {
        Some(run) => (run.stages.clone(), run.retried.clone()),
        None => (Vec::new(), None),
    };
    DeploymentRecord {
        deployment: Deployment { run: None, ..deployment.clone() },
        session: owner.session,
        fencing_token: owner.fencing_token,
        user: owner.user.clone(),
        stages,
        retried,
    }
}

impl Environment {
    /// The record of a deployment of this session, or of the environment's reset.
    pub fn deployment_record(&self, deployment: &Deployment, session: Option<&Session>) -> DeploymentRecord {
        shown(deployment, &Owner::of_deployment(session, self))
    }
}

pub(super) fn record_approval(deployment: &Deployment, owner: &Owner, outcome: &mut Outcome, index: usize) {
    let stage = deployment.run.as_ref().map(|run| &run.stages[index]);
    let Some((stage, approval)) = stage.and_then(|stage| Some((stage, stage.approval.clone()?))) else { return };
    outcome.approvals.push(ApprovalRecord {
        approval,
        deployment: deployment.id,
        session: owner.session,
        commit: deployment.commit.clone(),
        stage: stage.name.clone(),
        attempt: stage.attempt,
        requested_by: owner.user.clone(),
    });
}

/// Adds the event of a stage.
pub(super) fn tell(
    outcome: &mut Outcome,
    event: fn(StageData) -> EventData,
    owner: &Owner,
    deployment: DeploymentId,
    stage: &StageRun,
) {
    let data = event(StageData { stage: stage.name.clone(), attempt: stage.attempt });
    outcome.events.push(Event::deployment(owner.session, deployment, data));
}

/// Adds the event of the approval of a stage.
pub(super) fn tell_approval(
    outcome: &mut Outcome,
    event: fn(ApprovalData) -> EventData,
    owner: &Owner,
    deployment: DeploymentId,
    stage: &StageRun,
) {
    let Some(approval) = &stage.approval else { return };
    let data = event(ApprovalData {
        approval_id: approval.id,
        stage: stage.name.clone(),
        attempt: stage.attempt,
        comment: approval.comment.clone(),
    });
    outcome.events.push(Event::deployment(owner.session, deployment, data));
}

impl Outcome {
    /// The record of a changed deployment.
    pub(super) fn deployment(&self, id: DeploymentId) -> Result<DeploymentRecord, Rejection> {
        let changed = self.deployments.iter().find(|record| record.deployment.id == id);
        changed.cloned().ok_or(Rejection::DeploymentNotFound)
    }
}

impl Run {
    fn new(blueprint: Arc<Blueprint>) -> Self {
        let stages = blueprint.stages.iter().map(StageRun::new).collect();
        Self { blueprint, stages, retried: None }
    }

    /// The current stage; none while the deployment waits.
    pub fn active(&self) -> Option<(usize, &StageRun)> {
        self.stages.iter().enumerate().find(|(_, stage)| stage.status.is_active())
    }

    /// The index of the stage with this name.
    pub(super) fn stage_named(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.name.as_str() == name)
    }
}

impl StageRun {
    fn new(stage: &Stage) -> Self {
        let mut run = Self {
            name: stage.name.clone(),
            status: StageStatus::Pending,
            attempt: 0,
            approval: None,
            steps: Vec::new(),
        };
        run.begin_anew(stage);
        run
    }

    /// Resets the stage to its initial state, except for the number of attempts.
    pub(super) fn begin_anew(&mut self, stage: &Stage) {
        self.status = StageStatus::Pending;
        self.approval = None;
        self.steps = stage.steps.iter().map(StepRun::pending).collect();
    }
}

impl StepRun {
    /// A step in its initial state.
    pub fn pending(step: &Step) -> Self {
        Self {
            name: step.name.clone(),
            source: step.source.clone(),
            status: StepStatus::Pending,
            exit_code: None,
            started_at: None,
            finished_at: None,
        }
    }
}
