//! Release: the holder, or whoever may release for others, gives the lock back.

use super::{
    Command, Deployment, DeploymentStatus, Ended, EndedHow, Environment, Event, Notice, Person, Rejection, Session,
    SessionRef, Timestamp, Transition, deploy,
};

#[derive(Debug, Clone)]
pub struct Release {
    pub session: SessionRef,
    pub by: Person,
    /// Whether the caller may release sessions that are not their own.
    pub any: bool,
}

impl Command for Release {
    type Reply = Session;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<Session>, Rejection> {
        let session = find(environment, &self.session)?;
        if session.user.id != self.by.id && !self.any {
            return Err(Rejection::NotSessionHolder { holder: session.user.clone() });
        }
        if session.ended.is_some() {
            // Releasing twice, or after somebody took the lock, is no fault: the answer says how it ended.
            let reply = session.clone();
            return Ok(Transition { next: environment.clone(), ended: Vec::new(), events: Vec::new(), reply });
        }

        let mut next = environment.clone();
        next.revision += 1;
        let mut events = Vec::with_capacity(1);
        let ended = Ended { at: now, by: self.by, how: EndedHow::Released };
        let session = end_session(&mut next, ended, now, &mut events).ok_or(Rejection::SessionNotFound)?;
        events.push(Event::session(Notice::SessionReleased, session.id));
        Ok(Transition { next, ended: vec![session.clone()], events, reply: session })
    }
}

/// The session a command speaks of: the holder, one that is leaving, or what the history has of it.
pub(super) fn find<'a>(environment: &'a Environment, session: &'a SessionRef) -> Result<&'a Session, Rejection> {
    if !environment.exists() {
        return Err(Rejection::EnvironmentNotFound);
    }
    environment.session(session.id).or(session.ended.as_deref()).ok_or(Rejection::SessionNotFound)
}

/// Takes the lock from its holder, if there is one, and answers with the session as it ended. What it still had to
/// deploy is cancelled; what runs is told to stop, and keeps the environment to itself until it has.
pub(super) fn end_session(
    next: &mut Environment,
    ended: Ended,
    now: Timestamp,
    events: &mut Vec<Event>,
) -> Option<Session> {
    let mut session = next.lock.take()?;
    let id = session.id;
    session.end(ended);
    for deployment in &mut session.deployments {
        if let Some(notice) = cancel(deployment, now) {
            events.push(Event::deployment(notice, id, deployment.id));
            deploy::remember_last(&mut next.last_deployment, deployment);
        }
    }
    if session.unfinished_deployment().is_some() {
        next.leaving = Some(session.clone());
    }
    Some(session)
}

fn cancel(deployment: &mut Deployment, now: Timestamp) -> Option<Notice> {
    match deployment.status {
        DeploymentStatus::Queued => {
            deployment.status = DeploymentStatus::Cancelled;
            deployment.finished_at = Some(now);
            Some(Notice::DeploymentCancelled)
        }
        DeploymentStatus::Running => {
            deployment.status = DeploymentStatus::Cancelling;
            Some(Notice::DeploymentCancelling)
        }
        DeploymentStatus::Cancelling
        | DeploymentStatus::Succeeded
        | DeploymentStatus::Failed
        | DeploymentStatus::Cancelled => None,
    }
}
