//! The batch that makes a decision durable.

use std::collections::VecDeque;

use super::committing::Loaded;
use super::environments::Parts;
use super::stored::{self, Keeping};
use super::{keys, reading};
use crate::domain::{Environment, EnvironmentKey, Now, Origin, Outcome, Session, Ticket};
use crate::store::{Batch, Sequence, StoreError};

/// How many old sessions one commit drops from the history, so that a lowered retention or a deletion never makes a
/// batch that the store refuses.
const TRIM_AT_ONCE: u64 = 500;

/// The batch of one decision.
pub struct Change<'a> {
    pub parts: &'a Parts,
    pub key: &'a EnvironmentKey,
    pub batch: &'a mut Batch,
}

impl Change<'_> {
    /// The environment's own record and its history. Says what the store has of the history then, and whether there is
    /// more of it to drop.
    pub fn environment(
        &mut self,
        loaded: &Loaded,
        next: &Environment,
        outcome: &Outcome,
        now: Now,
    ) -> Result<(Keeping, bool), StoreError> {
        if next.revision == loaded.environment.revision {
            return Ok((loaded.keeping, false));
        }
        let remembered = next.remembered_sessions(self.parts.retention());
        for session in &outcome.ended {
            if let Some(number) = session.fencing_token().filter(|number| remembered.contains(number)) {
                self.batch.put(keys::session(self.key, number), stored::encode_session(session));
            }
        }
        let mut keeping = loaded.keeping;
        if let Some((ticket, token)) = outcome.granted.as_ref().and_then(|granted| pointed(&granted.session)) {
            self.batch.put(keys::pointer(ticket), stored::encode_pointer(self.key, token));
            keeping.pointers += 1;
        }
        let (keeping, trim_on) = self.trim(next, keeping, &loaded.just_ended)?;
        let expiry = next.lock.as_ref().and_then(Session::expiry);
        match expiry {
            Some((until, _)) if !loaded.marked => {
                let within = until.due.0.saturating_sub(now.tick.0);
                self.batch.put(keys::wake(self.key), stored::encode_wake(until.at, within));
            }
            None if loaded.marked => self.batch.delete(keys::wake(self.key)),
            Some(_) | None => {}
        }
        let record = stored::encode_environment(next, keeping, self.parts.run);
        self.batch.put(keys::environment(self.key), record);
        Ok((keeping, trim_on))
    }

    /// Who came to wait, and who does no longer.
    pub fn queue(&mut self, outcome: &Outcome) {
        if let Some(waiter) = outcome.enqueued.as_ref().filter(|waiter| waiter.is_durable()) {
            self.batch.put(keys::waiter(self.key, waiter.ticket), stored::encode_waiter(waiter, None));
        }
        for waiter in outcome.dequeued.iter().filter(|waiter| waiter.is_durable()) {
            self.batch.delete(keys::waiter(self.key, waiter.ticket));
        }
        if let Some(granted) =
            outcome.granted.as_ref().filter(|granted| granted.outsider && granted.waiter.is_durable())
        {
            self.batch.delete(keys::outsider(&self.key.pipeline, granted.waiter.ticket));
        }
        for session in &outcome.left {
            if let Origin::Queued(ticket) = session.id.origin {
                let record = stored::encode_left(&self.key.pipeline, Some(&self.key.name), session);
                self.batch.put(keys::left(ticket), record);
            }
        }
    }

    /// Deletes what the history no longer keeps, a bounded number at once.
    pub fn trim(
        &mut self,
        next: &Environment,
        keeping: Keeping,
        just_ended: &VecDeque<(Sequence, Session)>,
    ) -> Result<(Keeping, bool), StoreError> {
        let wanted = *next.remembered_sessions(self.parts.retention()).start();
        let until = wanted.min(keeping.from + TRIM_AT_ONCE).max(keeping.from);
        let mut pointers = keeping.pointers;
        for number in keeping.from..until {
            if pointers > 0 {
                let known = just_ended.iter().find(|(_, session)| session.fencing_token() == Some(number));
                let session = match known {
                    Some((_, session)) => Some(session.clone()),
                    None => reading::session_numbered(&*self.parts.store, self.key, number)?,
                };
                if let Some((ticket, _)) = session.as_ref().and_then(pointed) {
                    self.batch.delete(keys::pointer(ticket));
                    pointers -= 1;
                }
            }
            self.batch.delete(keys::session(self.key, number));
        }
        Ok((Keeping { from: until, pointers }, until < wanted))
    }
}

/// The ticket and the token of a session that has an id from the queue.
fn pointed(session: &Session) -> Option<(Ticket, u64)> {
    match session.id.origin {
        Origin::Queued(ticket) => Some((ticket, session.fencing_token()?)),
        Origin::Granted(_) => None,
    }
}
