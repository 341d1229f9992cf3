//! How a deployment goes through its stages: what starts, what is waited for, what follows from each end.

use std::sync::Arc;

use super::session::ERROR_BYTES_MAX;
use super::{
    Approval, ApprovalId, ApprovalRecord, ApprovalRule, ApprovalStatus, Blueprint, Configuration, Crowd, Deployment,
    DeploymentId, DeploymentOutcome, DeploymentRecord, DeploymentStatus, Effect, Event, LastDeployment, LastReset,
    Notice, Outcome, Person, PipelineNow, Run, Session, SessionId, Stage, StageEnd, StageOrder, StageRun, StageStatus,
    Step, StepRun, StepStatus, Timestamp,
};

/// In whose name a deployment is made.
#[derive(Debug, Clone)]
pub(super) struct Maker {
    pub session: Option<SessionId>,
    pub user: Option<Person>,
    pub fencing_token: u64,
}

impl Maker {
    pub fn of(session: &Session) -> Self {
        let fencing_token = session.fencing_token().unwrap_or_default();
        Self { session: Some(session.id), user: Some(session.user.clone()), fencing_token }
    }

    /// What puts an environment back in order is nobody's.
    pub fn system(reset: Option<LastReset>) -> Self {
        Self { session: None, user: None, fencing_token: reset.map_or(0, |reset| reset.fencing_token) }
    }
}

/// What changing a deployment takes beside itself.
pub(super) struct Scene<'a> {
    pub at: Timestamp,
    pub outcome: &'a mut Outcome,
    pub crowd: &'a mut dyn Crowd,
    pub configuration: &'a Option<Arc<Configuration>>,
    pub last: &'a mut Option<LastDeployment>,
}

/// A deployment's turn has come, for the first time or again. Says how it ended, if there is nothing to do.
pub(super) fn start(
    deployment: &mut Deployment,
    maker: &Maker,
    scene: &mut Scene<'_>,
    pipeline: PipelineNow,
) -> Option<DeploymentOutcome> {
    deployment.started_at.get_or_insert(scene.at);
    scene.outcome.events.push(deployment.event(Notice::DeploymentStarted, maker.session));
    match &deployment.run {
        Some(run) if run.blueprint.uses().next().is_some() => {
            let why = "it was cancelled before the steps it uses of registries could be had; deploy anew";
            return Some(DeploymentOutcome::Failed(Arc::from(why)));
        }
        Some(_) => {}
        None if pipeline.unresolved.is_some() => return pipeline.unresolved.map(DeploymentOutcome::Failed),
        None if pipeline.blueprint.stages.is_empty() => return Some(DeploymentOutcome::Succeeded),
        None => give_run(deployment, scene.outcome, pipeline.blueprint),
    }
    enter_next(deployment, maker, scene)
}

/// From now on it goes by these stages, whatever becomes of the pipeline.
pub(super) fn give_run(deployment: &mut Deployment, outcome: &mut Outcome, blueprint: Arc<Blueprint>) {
    outcome.blueprints.push((deployment.id, blueprint.clone()));
    deployment.staged = true;
    deployment.run = Some(Arc::new(Run::new(blueprint)));
}

/// Enters the first stage that is still to be done. Says so if there is none: it has succeeded.
fn enter_next(deployment: &mut Deployment, maker: &Maker, scene: &mut Scene<'_>) -> Option<DeploymentOutcome> {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return Some(DeploymentOutcome::Succeeded) };
    let pending = run.stages.iter().position(|stage| stage.status == StageStatus::Pending);
    let Some(index) = pending else { return Some(DeploymentOutcome::Succeeded) };
    let stage = &mut run.stages[index];
    stage.attempt += 1;
    match run.blueprint.stages[index].approval {
        ApprovalRule::Never => hand_to_runner(deployment, maker, scene, index),
        ApprovalRule::Always => {
            stage.status = StageStatus::AwaitingApproval;
            stage.approval = Some(Approval {
                id: ApprovalId(scene.crowd.seed()),
                status: ApprovalStatus::Pending,
                requested_at: scene.at,
                decided_at: None,
                decided_by: None,
                comment: None,
            });
            tell(scene.outcome, Notice::ApprovalRequested, maker, deployment.id, stage);
            deployment.status = DeploymentStatus::AwaitingApproval;
            record_approval(deployment, maker, scene.outcome, index);
            record(deployment, maker, scene.outcome);
        }
    }
    None
}

/// The stage is to be run from its first step. It has not begun before the runner says so.
pub(super) fn hand_to_runner(deployment: &mut Deployment, maker: &Maker, scene: &mut Scene<'_>, index: usize) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    run.stages[index].status = StageStatus::Queued;
    deployment.status = DeploymentStatus::Running;
    order(deployment, maker, scene, index);
    record(deployment, maker, scene.outcome);
}

/// Has the runner run a stage, now that it is known to run nowhere.
pub(super) fn order(deployment: &Deployment, maker: &Maker, scene: &mut Scene<'_>, index: usize) {
    let Some(run) = &deployment.run else { return };
    scene.outcome.effects.push(Effect::RunStage(Box::new(StageOrder {
        deployment: deployment.id,
        session: maker.session,
        fencing_token: maker.fencing_token,
        commit: deployment.commit.clone(),
        stage: index,
        attempt: run.stages[index].attempt,
        blueprint: run.blueprint.clone(),
        configuration: scene.configuration.clone().unwrap_or_default(),
    })));
}

/// The stage it is at has ended. Enters the next one, or says how the deployment has ended with it. What was told to stop
/// and got through all the same has only succeeded if nothing was left to do.
pub(super) fn end_stage(
    deployment: &mut Deployment,
    maker: &Maker,
    scene: &mut Scene<'_>,
    index: usize,
    end: StageEnd,
) -> Option<DeploymentOutcome> {
    let id = deployment.id;
    let cancelling = deployment.status == DeploymentStatus::Cancelling;
    let run = Arc::make_mut(deployment.run.as_mut()?);
    let stage = &mut run.stages[index];
    let (status, notice, outcome) = match end {
        StageEnd::Succeeded => (StageStatus::Succeeded, Notice::StageSucceeded, None),
        StageEnd::Failed(error) if !cancelling => {
            let error = format!("stage `{}`: {error}", stage.name);
            (StageStatus::Failed, Notice::StageFailed, Some(DeploymentOutcome::Failed(error.into())))
        }
        StageEnd::Interrupted if !cancelling => {
            let error =
                format!("interrupted: the server ended while stage `{}` ran; retry it or deploy anew", stage.name);
            (StageStatus::Failed, Notice::StageFailed, Some(DeploymentOutcome::Failed(error.into())))
        }
        StageEnd::Failed(_) | StageEnd::Interrupted | StageEnd::Cancelled => {
            (StageStatus::Cancelled, Notice::StageCancelled, Some(DeploymentOutcome::Cancelled))
        }
    };
    stage.status = status;
    tell(scene.outcome, notice, maker, id, stage);
    let through = run.stages[index + 1..].is_empty();
    match outcome {
        Some(outcome) => Some(outcome),
        None if through => Some(DeploymentOutcome::Succeeded),
        None if cancelling => {
            // What was to come next does not come: from there it can be run again.
            abandon(deployment, maker, scene);
            Some(DeploymentOutcome::Cancelled)
        }
        None => enter_next(deployment, maker, scene),
    }
}

/// Cancels a deployment wherever it is: at once if nothing of it runs, else it is told to stop.
pub(super) fn cancel(deployment: &mut Deployment, maker: &Maker, scene: &mut Scene<'_>) {
    match deployment.status {
        DeploymentStatus::Queued | DeploymentStatus::AwaitingApproval => {
            abandon(deployment, maker, scene);
            conclude(deployment, maker, scene, DeploymentOutcome::Cancelled);
        }
        DeploymentStatus::Running => {
            deployment.status = DeploymentStatus::Cancelling;
            if let Some(run) = deployment.run.as_mut().map(Arc::make_mut) {
                run.stages.iter_mut().filter(|s| s.status.is_active()).for_each(|s| s.status = StageStatus::Cancelling);
            }
            scene.outcome.effects.push(Effect::Stop(deployment.id));
            scene.outcome.events.push(deployment.event(Notice::DeploymentCancelling, maker.session));
            record(deployment, maker, scene.outcome);
        }
        DeploymentStatus::Cancelling
        | DeploymentStatus::Succeeded
        | DeploymentStatus::Failed
        | DeploymentStatus::Cancelled => {}
    }
}

/// The stage that would come next, or that somebody should have approved, does not come any more.
pub(super) fn abandon(deployment: &mut Deployment, maker: &Maker, scene: &mut Scene<'_>) {
    let Some(run) = deployment.run.as_mut().map(Arc::make_mut) else { return };
    let Some(index) = run.stages.iter().position(|stage| !stage.status.is_finished()) else { return };
    let stage = &mut run.stages[index];
    stage.status = StageStatus::Cancelled;
    tell(scene.outcome, Notice::StageCancelled, maker, deployment.id, stage);
    if let Some(approval) = stage.approval.as_mut().filter(|approval| approval.status == ApprovalStatus::Pending) {
        approval.status = ApprovalStatus::Cancelled;
        approval.decided_at = Some(scene.at);
        record_approval(deployment, maker, scene.outcome, index);
    }
}

/// A deployment has really ended, and how: what has not been done by then is skipped.
pub(super) fn conclude(deployment: &mut Deployment, maker: &Maker, scene: &mut Scene<'_>, outcome: DeploymentOutcome) {
    deployment.finished_at = Some(scene.at);
    let (status, notice, error) = match outcome {
        DeploymentOutcome::Succeeded => (DeploymentStatus::Succeeded, Notice::DeploymentSucceeded, None),
        DeploymentOutcome::Failed(error) => (DeploymentStatus::Failed, Notice::DeploymentFailed, Some(error)),
        DeploymentOutcome::Cancelled => (DeploymentStatus::Cancelled, Notice::DeploymentCancelled, None),
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
    // The environment's last deployment is the last that really ran, so one cancelled in the queue does not count.
    if deployment.started_at.is_some() {
        *scene.last = Some(LastDeployment {
            id: deployment.id,
            commit: deployment.commit.clone(),
            status,
            finished_at: scene.at,
        });
    }
    scene.outcome.events.push(deployment.event(notice, maker.session));
    record(deployment, maker, scene.outcome);
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

/// Notes how a deployment stands, for its record.
pub(super) fn record(deployment: &mut Deployment, maker: &Maker, outcome: &mut Outcome) {
    deployment.revision += 1;
    let record = shown(deployment, maker);
    match outcome.deployments.iter_mut().find(|known| known.deployment.id == deployment.id) {
        Some(known) => *known = record,
        None => outcome.deployments.push(record),
    }
}

/// A deployment that has not ended, with all that is kept of it.
pub(super) fn shown(deployment: &Deployment, maker: &Maker) -> DeploymentRecord {
    let (stages, retried) = match deployment.run.as_deref() {
        Some(run) => (run.stages.clone(), run.retried.clone()),
        None => (Vec::new(), None),
    };
    DeploymentRecord {
        deployment: Deployment { run: None, ..deployment.clone() },
        session: maker.session,
        fencing_token: maker.fencing_token,
        user: maker.user.clone(),
        stages,
        retried,
    }
}

pub(super) fn record_approval(deployment: &Deployment, maker: &Maker, outcome: &mut Outcome, index: usize) {
    let stage = deployment.run.as_ref().map(|run| &run.stages[index]);
    let Some((stage, approval)) = stage.and_then(|stage| Some((stage, stage.approval.clone()?))) else { return };
    outcome.approvals.push(ApprovalRecord {
        approval,
        deployment: deployment.id,
        session: maker.session,
        commit: deployment.commit.clone(),
        stage: stage.name.clone(),
        attempt: stage.attempt,
        requested_by: maker.user.clone(),
    });
}

/// That something has happened to a stage, or to the approval that it needs.
pub(super) fn tell(outcome: &mut Outcome, notice: Notice, maker: &Maker, deployment: DeploymentId, stage: &StageRun) {
    let event = Event::deployment(notice, maker.session, deployment);
    let event = event.with("stage", &stage.name).with("attempt", stage.attempt);
    let approval = stage
        .approval
        .as_ref()
        .filter(|_| matches!(notice, Notice::ApprovalRequested | Notice::ApprovalApproved | Notice::ApprovalRejected));
    outcome.events.push(match approval {
        Some(approval) => {
            event.with("approvalId", approval.id.to_string()).with_some("comment", approval.comment.clone())
        }
        None => event,
    });
}

impl Outcome {
    /// How a deployment stands that has changed.
    pub(super) fn deployment(&self, id: DeploymentId) -> Option<&DeploymentRecord> {
        self.deployments.iter().find(|record| record.deployment.id == id)
    }
}

impl Run {
    fn new(blueprint: Arc<Blueprint>) -> Self {
        let stages = blueprint.stages.iter().map(StageRun::new).collect();
        Self { blueprint, stages, retried: None }
    }

    /// The stage it is at, unless it waits for its turn.
    pub fn active(&self) -> Option<(usize, &StageRun)> {
        self.stages.iter().enumerate().find(|(_, stage)| stage.status.is_active())
    }

    /// Where a stage of this name is.
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

    /// As if it had not been run, but for the number of attempts.
    pub(super) fn begin_anew(&mut self, stage: &Stage) {
        self.status = StageStatus::Pending;
        self.approval = None;
        self.steps = stage.steps.iter().map(StepRun::pending).collect();
    }
}

impl StepRun {
    /// As it is before it is run.
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
