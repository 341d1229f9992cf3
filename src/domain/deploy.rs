//! Deploy: a session's deployments, one at a time in an environment, in order of arrival.

use super::session::DEPLOYMENTS_LISTED;
use super::{
    Command, CommitId, Deployment, DeploymentId, DeploymentOutcome, DeploymentStatus, Environment, Event, IdSeed,
    LastDeployment, Notice, Person, Plan, Rejection, Session, SessionId, SessionRef, Timestamp, Transition, release,
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

    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<Deployed>, Rejection> {
        let session = release::find(environment, &self.session)?;
        if session.user.id != self.by.id {
            return Err(Rejection::NotSessionHolder { holder: session.user.clone() });
        }
        if session.ended.is_some() {
            return Err(Rejection::SessionEnded { session: Box::new(session.clone()) });
        }
        if session.deployments.iter().filter(|d| d.status == DeploymentStatus::Queued).count() >= QUEUED_MAX {
            return Err(Rejection::DeploymentQueueFull { limit: QUEUED_MAX });
        }

        let mut next = environment.clone();
        next.revision += 1;
        let mut events = Vec::with_capacity(3);
        let holder = next.lock.as_mut().ok_or(Rejection::SessionNotFound)?;
        let id =
            enqueue(holder, NewDeployment { seed: self.seed, commit: self.commit, plan: self.plan }, now, &mut events);
        advance(&mut next, now, &mut events);
        let holder = next.lock.as_ref().ok_or(Rejection::SessionNotFound)?;
        let deployment = holder.deployments.iter().find(|d| d.id == id).cloned().ok_or(Rejection::SessionNotFound)?;
        let reply = Deployed { session: holder.id, fencing_token: holder.fencing_token, deployment };
        Ok(Transition { next, ended: Vec::new(), events, reply })
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

    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<()>, Rejection> {
        let mut next = environment.clone();
        next.revision += 1;
        let mut events = Vec::with_capacity(2);
        let mut ended = Vec::new();

        let session = [&mut next.leaving, &mut next.lock]
            .into_iter()
            .flatten()
            .find(|session| session.unfinished_deployment().is_some_and(|d| d.id == self.deployment))
            .ok_or(Rejection::DeploymentNotRunning)?;
        finish(session, self.deployment, self.outcome, now, &mut next.last_deployment, &mut events);
        if let Some(left) = next.leaving.take_if(|session| session.unfinished_deployment().is_none()) {
            ended.push(left);
        }
        advance(&mut next, now, &mut events);
        Ok(Transition { next, ended, events, reply: () })
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
    events.push(Event::deployment(Notice::DeploymentQueued, session.id, id));
    id
}

/// Starts what is next, as long as nothing runs. With nothing to do, a deployment ends as it starts.
pub(super) fn advance(next: &mut Environment, now: Timestamp, events: &mut Vec<Event>) {
    while next.current_deployment().is_none() {
        let Some(session) = next.lock.as_mut() else { return };
        let Some(deployment) = session.deployments.iter_mut().find(|d| d.status == DeploymentStatus::Queued) else {
            return;
        };
        let (id, plan) = (deployment.id, deployment.plan);
        deployment.status = DeploymentStatus::Running;
        deployment.started_at = Some(now);
        session.revision += 1;
        events.push(Event::deployment(Notice::DeploymentStarted, session.id, id));
        match plan {
            Plan::Stages => return,
            Plan::Nothing => {
                finish(session, id, DeploymentOutcome::Succeeded, now, &mut next.last_deployment, events);
            }
        }
    }
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
    let notice = match outcome {
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
    };
    deployment.finished_at = Some(now);
    remember_last(last, deployment);
    session.revision += 1;
    events.push(Event::deployment(notice, session.id, id));
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
