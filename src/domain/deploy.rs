//! Deploy: a session's deployments, one at a time in an environment, in order of arrival.

use super::session::DEPLOYMENTS_LISTED;
use super::stages::{self, Maker};
use super::{
    Command, CommitId, Deployment, DeploymentId, DeploymentOutcome, DeploymentRecord, DeploymentStatus, Draft, IdSeed,
    Notice, Outcome, Person, Rejection, Session, SessionRef, release, reset,
};

/// How many deployments of one session may wait; below what a session lists, so that none that waits drops out.
pub(super) const QUEUED_MAX: usize = 50;
/// How many of those may be ones that are run again: the end of the session writes down how all stages of each of them
/// stand, and still is one batch of the store.
pub(super) const RETRIED_QUEUED_MAX: usize = 4;

#[derive(Debug, Clone)]
pub struct Deploy {
    pub session: SessionRef,
    pub by: Person,
    pub seed: IdSeed,
    pub commit: CommitId,
    /// Which the caller believes to have; an old one is refused.
    pub fencing_token: Option<u64>,
}

impl Command for Deploy {
    type Reply = DeploymentRecord;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, draft: &mut Draft<'_>) -> Result<DeploymentRecord, Rejection> {
        let session = release::find_holder(&draft.next, &self.session, &self.by, self.fencing_token)?;
        check_queue(session)?;
        draft.touch();
        let now = draft.now;
        let holder = draft.next.lock.as_mut().ok_or(Rejection::SessionNotFound)?;
        holder.renew(now);
        let id = DeploymentId(self.seed);
        enqueue(holder, Deployment::new(id, self.commit, now.at), &mut draft.outcome);
        advance(draft);
        draft.outcome.deployment(id).cloned().ok_or(Rejection::DeploymentNotFound)
    }
}

/// Whether one more may wait.
pub(super) fn check_queue(session: &Session) -> Result<(), Rejection> {
    let waiting = session.deployments.iter().filter(|d| d.status == DeploymentStatus::Queued).count();
    if waiting >= QUEUED_MAX { Err(Rejection::DeploymentQueueFull { limit: QUEUED_MAX }) } else { Ok(()) }
}

/// The same for one that is run again.
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
    outcome.events.push(deployment.event(Notice::DeploymentQueued, Some(session.id)));
    push(session, deployment, outcome);
}

/// The same for one that has been in the session before, and is run again.
pub(super) fn push(session: &mut Session, mut deployment: Deployment, outcome: &mut Outcome) {
    session.deployments.retain(|listed| listed.id != deployment.id);
    if session.deployments.len() >= DEPLOYMENTS_LISTED
        && let Some(oldest) = session.deployments.iter().position(|d| d.status.is_finished())
    {
        outcome.forgotten.push(session.deployments.remove(oldest).id);
    }
    stages::record(&mut deployment, &Maker::of(session), outcome);
    session.deployments.push(deployment);
    session.revision += 1;
}

/// The pipeline starts deployments again.
#[derive(Debug, Clone)]
pub struct Resume;

impl Command for Resume {
    type Reply = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Rejection> {
        advance(draft);
        Ok(())
    }
}

/// Starts what is next, as long as nothing runs and the pipeline is not stopped. Without stages, a deployment ends as it
/// starts.
pub(super) fn advance(draft: &mut Draft<'_>) {
    draft.next.held_back = false;
    while draft.next.current_deployment().is_none() {
        let Some(id) = next_in_line(draft) else { return };
        let pipeline = draft.crowd.pipeline();
        if pipeline.stopped {
            draft.next.held_back = true;
            return;
        }
        draft.touch();
        let Some((deployment, maker, mut scene)) = draft.deployment(id) else { return };
        if let Some(outcome) = stages::start(deployment, &maker, &mut scene, pipeline) {
            end(draft, id, outcome);
        }
    }
}

fn next_in_line(draft: &Draft<'_>) -> Option<DeploymentId> {
    let waits = |deployment: &&Deployment| deployment.status == DeploymentStatus::Queued;
    let reset = draft.next.reset.as_ref().filter(waits);
    let of_session = || draft.next.lock.as_ref().and_then(|session| session.deployments.iter().find(waits));
    reset.or_else(of_session).map(|deployment| deployment.id)
}

/// A deployment has really ended, and how. What waits may start.
pub(super) fn finish(draft: &mut Draft<'_>, id: DeploymentId, outcome: DeploymentOutcome) {
    end(draft, id, outcome);
    if let Some(left) = draft.next.leaving.take_if(|session| session.unfinished_deployment().is_none()) {
        draft.outcome.ended.push(left);
    }
    advance(draft);
}

fn end(draft: &mut Draft<'_>, id: DeploymentId, outcome: DeploymentOutcome) {
    if draft.next.reset.as_ref().is_some_and(|reset| reset.id == id) {
        return reset::finish(draft, outcome);
    }
    if let Some((deployment, maker, mut scene)) = draft.deployment(id) {
        stages::conclude(deployment, &maker, &mut scene, outcome);
    }
}
