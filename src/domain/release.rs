//! Release: the holder, or whoever may release for others, gives the lock back. One who waits leaves the queue.

use super::stages::{self, Maker};
use super::{Command, Draft, Ended, EndedHow, Environment, Person, Rejection, Session, SessionRef, queue, reset};

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

    fn decide(self, draft: &mut Draft<'_>) -> Result<Session, Rejection> {
        let session = find(&draft.next, &self.session)?.clone();
        session.check_release(&self.by, self.any)?;
        if session.ended.is_some() {
            // Releasing twice, or after somebody took the lock, is no fault: the answer says how it ended.
            return Ok(session);
        }
        let ended = Ended { at: draft.now.at, by: Some(self.by), how: EndedHow::Released };
        if let Some(waiter) = draft.next.queue.session(session.id) {
            let ticket = waiter.ticket;
            return queue::leave(draft, ticket, ended).ok_or(Rejection::SessionNotFound);
        }
        vacate(draft, ended).ok_or(Rejection::SessionNotFound)
    }
}

impl Session {
    /// Whether this person may end it; `any` for those who may release for others.
    pub fn check_release(&self, by: &Person, any: bool) -> Result<(), Rejection> {
        if self.user.id == by.id || any {
            Ok(())
        } else {
            Err(Rejection::NotSessionHolder { holder: self.user.clone() })
        }
    }
}

/// The session a command speaks of: the holder, one that is leaving or waiting, or what the history has of it.
pub(super) fn find<'a>(environment: &'a Environment, session: &'a SessionRef) -> Result<&'a Session, Rejection> {
    if !environment.exists() {
        return Err(Rejection::EnvironmentNotFound);
    }
    environment.session(session.id).or(session.ended.as_deref()).ok_or(Rejection::SessionNotFound)
}

/// The same for what only the holder may do.
pub(super) fn find_holder<'a>(
    environment: &'a Environment,
    session: &'a SessionRef,
    by: &Person,
    fencing_token: Option<u64>,
) -> Result<&'a Session, Rejection> {
    let session = find(environment, session)?;
    if session.user.id != by.id {
        return Err(Rejection::NotSessionHolder { holder: session.user.clone() });
    }
    if session.ended.is_some() {
        return Err(Rejection::SessionEnded { session: Box::new(session.clone()) });
    }
    if let Some(waiter) = environment.queue.session(session.id) {
        return Err(Rejection::SessionQueued { position: environment.queue.position(waiter) });
    }
    let current = session.fencing_token().unwrap_or_default();
    if fencing_token.is_some_and(|token| token != current) {
        return Err(Rejection::StaleFencingToken { current });
    }
    Ok(session)
}

/// The holder gives up the lock, by itself or not, and the environment is put back in order if it is to be.
pub(super) fn vacate(draft: &mut Draft<'_>, ended: Ended) -> Option<Session> {
    let session = end_session(draft, ended)?;
    draft.outcome.events.extend(session.end_event());
    reset::begin(draft);
    Some(session)
}

/// Takes the lock from its holder, if there is one, and answers with the session as it ended. What it still had to
/// deploy is cancelled; what runs is told to stop, and keeps the environment to itself until it has.
pub(super) fn end_session(draft: &mut Draft<'_>, ended: Ended) -> Option<Session> {
    let mut session = draft.next.lock.take()?;
    draft.touch();
    session.end(ended);
    let maker = Maker::of(&session);
    for deployment in &mut session.deployments {
        stages::cancel(deployment, &maker, &mut draft.scene());
    }
    if session.unfinished_deployment().is_some() {
        draft.next.leaving = Some(session.clone());
    }
    draft.next.last_used = Some(draft.now.at);
    draft.outcome.ended.push(session.clone());
    Some(session)
}
