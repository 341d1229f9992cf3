//! Commands on a deployment's stages: cancel, retry, approve, reject.

use std::sync::Arc;

use super::decision::Owner;
use super::{
    ApprovalId, ApprovalRecord, ApprovalStatus, Command, Decision, DeploymentId, DeploymentOutcome, DeploymentRecord,
    DeploymentRef, DeploymentStatus, EndedDeployment, EventData, Identifier, Person, Rejection, Retried, Run, Session,
    SessionRef, StageRun, StageStatus, deploy, stages,
};

/// Stops the current stage of a deployment, and with it the deployment.
#[derive(Debug, Clone)]
pub struct CancelStage {
    pub target: DeploymentRef,
    pub stage: Identifier,
    pub by: Person,
    /// Whether the caller may cancel deployments of others.
    pub any: bool,
}

impl Command for CancelStage {
    type Reply = DeploymentRecord;
    const ENDS: bool = true;

    fn deployment(&mut self) -> Option<&mut DeploymentRef> {
        Some(&mut self.target)
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<DeploymentRecord, Rejection> {
        let id = self.target.id;
        let Some((present, session)) = decision.next.unfinished_deployment(id) else {
            let ended = self.target.ended.ok_or(Rejection::DeploymentNotFound)?.record;
            check_owner(ended.user.as_ref(), &self.by, self.any)?;
            return match status_of(&ended, &self.stage)? {
                StageStatus::Cancelled => Ok(ended),
                status => Err(Rejection::StageNotRunning { status }),
            };
        };
        check_owner(session.map(|session| &session.user), &self.by, self.any)?;
        let owner = Owner::of_deployment(session, decision.next);
        let waiting = present.status == DeploymentStatus::Queued;
        let status = match &present.run {
            Some(run) => run.stages[run.stage_named(self.stage.as_str()).ok_or(Rejection::StageNotFound)?].status,
            None => StageStatus::Pending,
        };
        match status {
            StageStatus::Cancelling | StageStatus::Cancelled => return Ok(stages::shown(present, &owner)),
            StageStatus::Queued | StageStatus::Running | StageStatus::AwaitingApproval => {}
            StageStatus::Pending if waiting => return cancel_waiting(decision, id, &self.stage),
            StageStatus::Pending | StageStatus::Succeeded | StageStatus::Failed | StageStatus::Skipped => {
                return Err(Rejection::StageNotRunning { status });
            }
        }
        decision.touch();
        let (deployment, owner, mut context) = decision.deployment(id)?;
        if deployment.status == DeploymentStatus::AwaitingApproval {
            stages::abandon(deployment, &owner, &mut context);
            deploy::finish(decision, id, DeploymentOutcome::Cancelled);
        } else {
            stages::cancel(deployment, &owner, &mut context);
        }
        decision.outcome.deployment(id)
    }
}

/// Cancels a deployment that has not started, through its first stage.
fn cancel_waiting(
    decision: &mut Decision<'_>,
    id: DeploymentId,
    stage: &Identifier,
) -> Result<DeploymentRecord, Rejection> {
    let blueprint = decision.ports.pipeline().blueprint;
    let (present, _) = decision.next.unfinished_deployment(id).ok_or(Rejection::DeploymentNotFound)?;
    let first = match &present.run {
        Some(run) => run.stages.iter().find(|stage| stage.status == StageStatus::Pending).map(|stage| &stage.name),
        None => {
            let known = blueprint.stages.iter().any(|known| known.name == *stage);
            known.then_some(()).ok_or(Rejection::StageNotFound)?;
            blueprint.stages.first().map(|stage| &stage.name)
        }
    };
    if first != Some(stage) {
        return Err(Rejection::StageNotRunning { status: StageStatus::Pending });
    }
    decision.touch();
    let (deployment, owner, mut context) = decision.deployment(id)?;
    if deployment.run.is_none() {
        stages::give_run(deployment, context.outcome, blueprint);
    }
    stages::abandon(deployment, &owner, &mut context);
    deploy::finish(decision, id, DeploymentOutcome::Cancelled);
    decision.outcome.deployment(id)
}

/// Runs a failed or cancelled stage again from its first step, and then the following stages.
#[derive(Debug, Clone)]
pub struct RetryStage {
    pub target: DeploymentRef,
    /// The deployment's own session.
    pub session: SessionRef,
    pub stage: Identifier,
    pub by: Person,
    pub any: bool,
}

impl Command for RetryStage {
    type Reply = DeploymentRecord;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn deployment(&mut self) -> Option<&mut DeploymentRef> {
        Some(&mut self.target)
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<DeploymentRecord, Rejection> {
        let session = decision.next.find(&self.session)?;
        session.check_user(&self.by, self.any)?;
        if session.ended.is_some() {
            return Err(Rejection::SessionEnded { session: Arc::new(session.clone()) });
        }
        let id = self.target.id;
        if let Some((present, _)) = decision.next.unfinished_deployment(id) {
            let run = present.run.as_ref().ok_or(Rejection::StageNotRetryable { status: StageStatus::Pending })?;
            let index = run.stage_named(self.stage.as_str()).ok_or(Rejection::StageNotFound)?;
            // A repeated request has no further effect.
            return match &run.retried {
                Some(retried) if retried.stage == index && !run.stages[index].status.is_finished() => {
                    Ok(stages::shown(present, &Owner::of(session)))
                }
                Some(_) | None => Err(Rejection::StageNotRetryable { status: run.stages[index].status }),
            };
        }
        let EndedDeployment { record, blueprint } = *self.target.ended.ok_or(Rejection::DeploymentNotFound)?;
        let status = status_of(&record, &self.stage)?;
        if !matches!(status, StageStatus::Failed | StageStatus::Cancelled) {
            return Err(Rejection::StageNotRetryable { status });
        }
        deploy::check_retries(session)?;
        let own = session.user.id == self.by.id;
        let blueprint = blueprint.ok_or(Rejection::StageNotFound)?;
        let mut run = Run { blueprint, stages: record.stages, retried: None };
        let index = run.stage_named(self.stage.as_str()).ok_or(Rejection::StageNotFound)?;
        for (stage, plan) in run.stages.iter_mut().zip(&run.blueprint.stages).skip(index) {
            stage.begin_anew(plan);
        }
        run.retried = Some(Retried { by: self.by, stage: index });

        decision.touch();
        let now = decision.now;
        let holder = decision.next.lock.as_mut().map(Arc::make_mut).ok_or(Rejection::SessionNotFound)?;
        if own {
            holder.renew(now);
        }
        let mut deployment = record.deployment;
        deployment.status = DeploymentStatus::Queued;
        deployment.finished_at = None;
        deployment.error = None;
        let again = StageRun { attempt: run.stages[index].attempt + 1, ..run.stages[index].clone() };
        stages::tell(decision.outcome, EventData::StageRetried, &Owner::of(holder), id, &again);
        deployment.run = Some(Arc::new(run));
        deploy::push(holder, deployment, decision.outcome);
        deploy::advance(decision);
        decision.outcome.deployment(id)
    }
}

/// Approves or rejects the start of a stage.
#[derive(Debug, Clone)]
pub struct DecideApproval {
    pub approval: ApprovalId,
    pub deployment: DeploymentId,
    pub verdict: Verdict,
    pub by: Person,
    pub comment: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Approve,
    Reject,
}

impl Command for DecideApproval {
    type Reply = ApprovalRecord;

    fn ends(&self) -> bool {
        self.verdict == Verdict::Reject
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<ApprovalRecord, Rejection> {
        let id = self.deployment;
        let current = decision.next.unfinished_deployment(id);
        let (present, session) = current.ok_or(Rejection::ApprovalNotPending { status: ApprovalStatus::Cancelled })?;
        let run = present.run.as_ref().ok_or(Rejection::ApprovalNotFound)?;
        let asked = |approval: &super::Approval| approval.id == self.approval;
        let index = run.stages.iter().position(|stage| stage.approval.as_ref().is_some_and(asked));
        let index = index.ok_or(Rejection::ApprovalNotPending { status: ApprovalStatus::Cancelled })?;
        let status = run.stages[index].approval.as_ref().map_or(ApprovalStatus::Cancelled, |approval| approval.status);
        if status != ApprovalStatus::Pending {
            return Err(Rejection::ApprovalNotPending { status });
        }
        let triggered = triggered_by(session, run).any(|person| person.id == self.by.id);
        if self.verdict == Verdict::Approve && triggered && !run.blueprint.self_approval {
            return Err(Rejection::SelfApproval);
        }
        decision.touch();
        let (deployment, owner, mut context) = decision.deployment(id)?;
        let run = deployment.run.as_mut().map(Arc::make_mut).ok_or(Rejection::ApprovalNotFound)?;
        let stage = &mut run.stages[index];
        let reason = self.comment.as_ref().map(|comment| format!(": {comment}")).unwrap_or_default();
        let error = format!("stage `{}` was rejected by {}{reason}", stage.name, self.by.name);
        if let Some(approval) = &mut stage.approval {
            approval.status = match self.verdict {
                Verdict::Approve => ApprovalStatus::Approved,
                Verdict::Reject => ApprovalStatus::Rejected,
            };
            approval.decided_at = Some(context.at);
            approval.decided_by = Some(self.by);
            approval.comment = self.comment;
        }
        match self.verdict {
            Verdict::Approve => {
                stages::tell_approval(context.outcome, EventData::ApprovalApproved, &owner, id, stage);
                stages::record_approval(deployment, &owner, context.outcome, index);
                stages::hand_to_runner(deployment, &owner, &mut context, index);
            }
            Verdict::Reject => {
                stage.status = StageStatus::Failed;
                stages::tell_approval(context.outcome, EventData::ApprovalRejected, &owner, id, stage);
                stages::tell(context.outcome, EventData::StageFailed, &owner, id, stage);
                stages::record_approval(deployment, &owner, context.outcome, index);
                deploy::finish(decision, id, DeploymentOutcome::Failed(error.into()));
            }
        }
        let decided = decision.outcome.approvals.iter().find(|record| record.approval.id == self.approval);
        decided.cloned().ok_or(Rejection::ApprovalNotFound)
    }
}

/// The people who triggered the deployment: the session's user, and the member who retried it.
fn triggered_by<'a>(session: Option<&'a Session>, run: &'a Run) -> impl Iterator<Item = &'a Person> {
    session.map(|session| &session.user).into_iter().chain(run.retried.as_ref().map(|retried| &retried.by))
}

fn status_of(record: &DeploymentRecord, stage: &Identifier) -> Result<StageStatus, Rejection> {
    let stage = record.stages.iter().find(|known| known.name == *stage);
    stage.map(|stage| stage.status).ok_or(Rejection::StageNotFound)
}

/// Checks that the caller is the session's user, or may act for others.
fn check_owner(owner: Option<&Person>, by: &Person, any: bool) -> Result<(), Rejection> {
    match owner {
        _ if any => Ok(()),
        Some(owner) if owner.id == by.id => Ok(()),
        Some(owner) => Err(Rejection::NotSessionHolder { holder: owner.clone() }),
        None => Err(Rejection::DeploymentOfNoSession),
    }
}
