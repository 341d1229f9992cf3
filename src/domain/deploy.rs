//! Deploy: a session's deployments, one at a time per environment, in order of arrival.

use std::sync::Arc;

use super::decision::Owner;
use super::session::DEPLOYMENTS_LISTED;
use super::{
    Command, CommitId, Decision, Deployment, DeploymentId, DeploymentOutcome, DeploymentRecord, DeploymentStatus,
    EventData, IdSeed, Outcome, Person, Rejection, Session, SessionRef, reset, stages,
};

/// Waiting deployments per session. Fewer than a session lists, so that waiting ones are never dropped from the list.
pub(super) const QUEUED_MAX: usize = 50;
/// Retried deployments among the waiting ones: when the session ends, the stages of each are written in one batch.
pub(super) const RETRIED_QUEUED_MAX: usize = 4;

#[derive(Debug, Clone)]
pub struct Deploy {
    pub session: SessionRef,
    pub by: Person,
    pub seed: IdSeed,
    pub commit: CommitId,
    /// The token that the caller believes to hold; an outdated one is refused.
    pub fencing_token: Option<u64>,
}

impl Command for Deploy {
    type Reply = DeploymentRecord;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<DeploymentRecord, Rejection> {
        let session = decision.next.find_holder(&self.session, &self.by, self.fencing_token)?;
        check_queue(session)?;
        decision.touch();
        let now = decision.now;
        let holder = decision.next.lock.as_mut().map(Arc::make_mut).ok_or(Rejection::SessionNotFound)?;
        holder.renew(now);
        let id = DeploymentId(self.seed);
        enqueue(holder, Deployment::new(id, self.commit, now.at), decision.outcome);
        advance(decision);
        decision.outcome.deployment(id)
    }
}

/// Whether one more deployment may wait.
pub(super) fn check_queue(session: &Session) -> Result<(), Rejection> {
    let waiting = session.deployments.iter().filter(|d| d.status == DeploymentStatus::Queued).count();
    if waiting >= QUEUED_MAX { Err(Rejection::DeploymentQueueFull { limit: QUEUED_MAX }) } else { Ok(()) }
}

/// Whether one more retried deployment may wait.
pub(super) fn check_retries(session: &Session) -> Result<(), Rejection> {
    let waits = |d: &&Deployment| d.status == DeploymentStatus::Queued && d.run.is_some();
    if session.deployments.iter().filter(waits).count() >= RETRIED_QUEUED_MAX {
        return Err(Rejection::DeploymentQueueFull { limit: RETRIED_QUEUED_MAX });
    }
    check_queue(session)
}

/// Puts a deployment at the end of the session's queue. [`advance`] starts it when its turn comes.
pub(super) fn enqueue(session: &mut Session, deployment: Deployment, outcome: &mut Outcome) {
    session.deployment_count += 1;
    outcome.events.push(deployment.event(EventData::DeploymentQueued, Some(session.id)));
    push(session, deployment, outcome);
}

/// Like [`enqueue`], for a retried deployment, which may still be in the session's list.
pub(super) fn push(session: &mut Session, mut deployment: Deployment, outcome: &mut Outcome) {
    session.deployments.retain(|listed| listed.id != deployment.id);
    if session.deployments.len() >= DEPLOYMENTS_LISTED
        && let Some(oldest) = session.deployments.iter().position(|d| d.status.is_finished())
    {
        outcome.forgotten.push(session.deployments.remove(oldest).id);
    }
    stages::record(&mut deployment, &Owner::of(session), outcome);
    session.deployments.push(deployment);
    session.revision += 1;
}

/// The pipeline is no longer stopped.
#[derive(Debug, Clone)]
pub struct Resume;

impl Command for Resume {
    type Reply = ();

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        advance(decision);
        Ok(())
    }
}

/// Starts the next deployments while none runs and the pipeline is not stopped. A deployment without stages ends
/// immediately.
pub(super) fn advance(decision: &mut Decision<'_>) {
    decision.next.held_back = false;
    while decision.next.current_deployment().is_none() {
        let Some(id) = decision.next.waiting_deployment() else { return };
        let pipeline = decision.ports.pipeline();
        if pipeline.stopped {
            decision.next.held_back = true;
            return;
        }
        decision.touch();
        let Ok((deployment, owner, mut context)) = decision.deployment(id) else { return };
        if let Some(outcome) = stages::start(deployment, &owner, &mut context, pipeline) {
            end(decision, id, outcome);
        }
    }
}

/// A deployment has ended, with all its processes. The next one may start.
pub(super) fn finish(decision: &mut Decision<'_>, id: DeploymentId, outcome: DeploymentOutcome) {
    end(decision, id, outcome);
    if let Some(left) = decision.next.leaving.take_if(|session| session.unfinished_deployment().is_none()) {
        decision.outcome.ended.push(left);
    }
    advance(decision);
}

fn end(decision: &mut Decision<'_>, id: DeploymentId, outcome: DeploymentOutcome) {
    if decision.next.reset.as_ref().is_some_and(|reset| reset.id == id) {
        return reset::finish(decision, outcome);
    }
    if let Ok((deployment, owner, mut context)) = decision.deployment(id) {
        stages::conclude(deployment, &owner, &mut context, outcome);
    }
}
