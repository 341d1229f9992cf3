//! Release: the holder, or a member who may release for others, releases the lock. A waiter leaves the queue.

use std::sync::Arc;

use super::decision::Owner;
use super::{Command, Decision, Ended, EndedHow, Person, Rejection, Session, SessionRef, deploy, reset, stages};

#[derive(Debug, Clone)]
pub struct Release {
    pub session: SessionRef,
    pub by: Person,
    /// Whether the caller may release sessions that are not their own.
    pub any: bool,
}

impl Command for Release {
    type Reply = Arc<Session>;
    const ENDS: bool = true;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<Arc<Session>, Rejection> {
        let session = decision.next.find(&self.session)?;
        session.check_user(&self.by, self.any)?;
        if session.ended.is_some() {
            // Idempotent: a second release, or one after a force-claim, returns how the session ended.
            return Ok(Arc::new(session.clone()));
        }
        let ended = Ended { at: decision.now.at, by: Some(self.by), how: EndedHow::Released };
        if let Some(waiter) = decision.next.queue.session(self.session.id) {
            let ticket = waiter.ticket;
            return decision.leave(ticket, ended).ok_or(Rejection::SessionNotFound);
        }
        vacate(decision, ended).ok_or(Rejection::SessionNotFound)
    }
}

/// Releases the lock without naming the session.
#[derive(Debug, Clone)]
pub struct ReleaseLock {
    pub by: Person,
    /// Whether the caller may release sessions that are not their own.
    pub any: bool,
}

impl Command for ReleaseLock {
    type Reply = Arc<Session>;
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<Arc<Session>, Rejection> {
        if !decision.next.exists() {
            return Err(Rejection::EnvironmentNotFound);
        }
        decision.next.lock.as_ref().ok_or(Rejection::LockNotFound)?.check_user(&self.by, self.any)?;
        let ended = Ended { at: decision.now.at, by: Some(self.by), how: EndedHow::Released };
        vacate(decision, ended).ok_or(Rejection::LockNotFound)
    }
}

/// Ends the holder's session, and begins the reset if the environment has one.
pub(super) fn vacate(decision: &mut Decision<'_>, ended: Ended) -> Option<Arc<Session>> {
    let session = end_session(decision, ended)?;
    if let Some(event) = session.end_event() {
        decision.outcome.events.push(event);
    }
    reset::begin(decision);
    deploy::advance(decision);
    Some(session)
}

/// Takes the lock from the holder, if there is one, and returns the ended session. The session's waiting deployments
/// are cancelled; a running one is stopped, and no other starts until it has ended.
pub(super) fn end_session(decision: &mut Decision<'_>, ended: Ended) -> Option<Arc<Session>> {
    let mut holder = decision.next.lock.take()?;
    decision.touch();
    let session = Arc::make_mut(&mut holder);
    session.end(ended);
    let owner = Owner::of(session);
    for deployment in &mut session.deployments {
        stages::cancel(deployment, &owner, &mut decision.context());
    }
    if session.unfinished_deployment().is_some() {
        decision.next.leaving = Some(holder.clone());
    }
    decision.next.last_used = Some(decision.now.at);
    decision.outcome.ended.push(holder.clone());
    Some(holder)
}
