//! Deploy: a session's deployments, one at a time in an environment, in order of arrival.

use super::session::DEPLOYMENTS_LISTED;
use super::{
    Command, CommitId, Deployment, DeploymentId, DeploymentOutcome, DeploymentStatus, Draft, Event, IdSeed,
    LastDeployment, Notice, Person, Plan, Rejection, Session, SessionId, SessionRef, Timestamp, release, reset,
};

/// How many deployments of one session may wait; below what a session lists, so that none that waits drops out.
const QUEUED_MAX: usize = 50;

#[derive(Debug, Clone)]
pub struct Deploy {
    pub session: SessionRef,
    pub by: Person,
    pub seed: IdSeed,
    pub commit: CommitId,
    pub plan: Plan,
    /// Which the caller believes to have; an old one is refused.
    pub fencing_token: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    pub session: SessionId,
    pub fencing_token: u64,
    pub deployment: Deployment,
}

impl Command for Deploy {
    type Reply = Deployed;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, draft: &mut Draft<'_>) -> Result<Deployed, Rejection> {
        let session = release::find_holder(&draft.next, &self.session, &self.by, self.fencing_token)?;
        if session.deployments.iter().filter(|d| d.status == DeploymentStatus::Queued).count() >= QUEUED_MAX {
            return Err(Rejection::DeploymentQueueFull { limit: QUEUED_MAX });
        }
        draft.touch();
        let now = draft.now;
        let holder = draft.next.lock.as_mut().ok_or(Rejection::SessionNotFound)?;
        holder.renew(now);
        let new = NewDeployment { seed: self.seed, commit: self.commit, plan: self.plan };
        let id = enqueue(holder, new, now.at, &mut draft.outcome.events);
        advance(draft);
        let holder = draft.next.lock.as_ref().ok_or(Rejection::SessionNotFound)?;
        let deployment = holder.deployments.iter().find(|d| d.id == id).cloned().ok_or(Rejection::SessionNotFound)?;
        let fencing_token = holder.fencing_token().unwrap_or_default();
        Ok(Deployed { session: holder.id, fencing_token, deployment })
    }
}

/// The runner's report that a deployment has really ended.
#[derive(Debug, Clone)]
pub struct FinishDeployment {
    pub deployment: DeploymentId,
    pub outcome: DeploymentOutcome,
}

impl Command for FinishDeployment {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        if draft.next.current_deployment().map(|d| d.id) != Some(self.deployment) {
            return Err(Rejection::DeploymentNotRunning);
        }
        draft.touch();
        let Draft { next, outcome, now, .. } = draft;
        let session = [&mut next.leaving, &mut next.lock]
            .into_iter()
            .flatten()
            .find(|session| session.unfinished_deployment().is_some_and(|d| d.id == self.deployment));
        match session {
            Some(session) => {
                finish(session, self.deployment, self.outcome, now.at, &mut next.last_deployment, &mut outcome.events);
            }
            None => reset::finish(draft, self.outcome),
        }
        if let Some(left) = draft.next.leaving.take_if(|session| session.unfinished_deployment().is_none()) {
            draft.outcome.ended.push(left);
        }
        advance(draft);
        Ok(())
    }
}

pub(super) struct NewDeployment {
    pub seed: IdSeed,
    pub commit: CommitId,
    pub plan: Plan,
}

/// Puts a deployment at the end of the session's queue. [`advance`] starts it when its turn comes.
pub(super) fn enqueue(
    session: &mut Session,
    new: NewDeployment,
    now: Timestamp,
    events: &mut Vec<Event>,
) -> DeploymentId {
    let id = DeploymentId(new.seed);
    if session.deployments.len() >= DEPLOYMENTS_LISTED
        && let Some(oldest) = session.deployments.iter().position(|d| d.status.is_finished())
    {
        session.deployments.remove(oldest);
    }
    session.deployments.push(Deployment {
        id,
        commit: new.commit,
        plan: new.plan,
        status: DeploymentStatus::Queued,
        created_at: now,
        started_at: None,
        finished_at: None,
        error: None,
    });
    session.deployment_count += 1;
    session.revision += 1;
    events.push(Event::deployment(Notice::DeploymentQueued, Some(session.id), id));
    id
}

/// Starts what is next, as long as nothing runs. With nothing to do, a deployment ends as it starts.
pub(super) fn advance(draft: &mut Draft<'_>) {
    while draft.next.current_deployment().is_none() {
        let now = draft.now.at;
        if let Some(deployment) = &mut draft.next.reset {
            let notice = start(deployment, now);
            draft.outcome.events.push(Event::deployment(notice, None, deployment.id));
            match deployment.plan {
                Plan::Stages => return,
                Plan::Nothing => reset::finish(draft, DeploymentOutcome::Succeeded),
            }
            continue;
        }
        let Some(session) = draft.next.lock.as_mut() else { return };
        let Some(deployment) = session.deployments.iter_mut().find(|d| d.status == DeploymentStatus::Queued) else {
            return;
        };
        let (id, plan) = (deployment.id, deployment.plan);
        let notice = start(deployment, now);
        session.revision += 1;
        let events = &mut draft.outcome.events;
        events.push(Event::deployment(notice, Some(session.id), id));
        match plan {
            Plan::Stages => return,
            Plan::Nothing => {
                let last = &mut draft.next.last_deployment;
                finish(session, id, DeploymentOutcome::Succeeded, now, last, events);
            }
        }
    }
}

fn start(deployment: &mut Deployment, now: Timestamp) -> Notice {
    deployment.status = DeploymentStatus::Running;
    deployment.started_at = Some(now);
    Notice::DeploymentStarted
}

fn finish(
    session: &mut Session,
    id: DeploymentId,
    outcome: DeploymentOutcome,
    now: Timestamp,
    last: &mut Option<LastDeployment>,
    events: &mut Vec<Event>,
) {
    let Some(deployment) = session.deployments.iter_mut().find(|d| d.id == id) else {
        return;
    };
    let notice = conclude(deployment, outcome, now);
    remember_last(last, deployment);
    session.revision += 1;
    events.push(Event::deployment(notice, Some(session.id), id));
}

/// A deployment has really ended, and how.
pub(super) fn conclude(deployment: &mut Deployment, outcome: DeploymentOutcome, now: Timestamp) -> Notice {
    deployment.finished_at = Some(now);
    match outcome {
        DeploymentOutcome::Succeeded => {
            deployment.status = DeploymentStatus::Succeeded;
            Notice::DeploymentSucceeded
        }
        DeploymentOutcome::Failed(error) => {
            deployment.status = DeploymentStatus::Failed;
            deployment.error = Some(error);
            Notice::DeploymentFailed
        }
        DeploymentOutcome::Cancelled => {
            deployment.status = DeploymentStatus::Cancelled;
            Notice::DeploymentCancelled
        }
    }
}

/// The environment's last deployment is the last that really ran, so one cancelled in the queue does not count.
pub(super) fn remember_last(last: &mut Option<LastDeployment>, deployment: &Deployment) {
    if let (Some(_), Some(finished_at)) = (deployment.started_at, deployment.finished_at) {
        *last = Some(LastDeployment {
            id: deployment.id,
            commit: deployment.commit.clone(),
            status: deployment.status,
            finished_at,
        });
    }
}
