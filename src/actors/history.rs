//! The history of an environment as its actor writes it: sessions that have ended go into pages, and pages that are no
//! longer remembered go.

use std::borrow::Cow;
use std::collections::BTreeMap;

use actix::prelude::*;

use super::batching::Change;
use super::committing::Loaded;
use super::environment::{EnvironmentActor, Trim};
use super::environments::Parts;
use super::reading::{self, readable};
use super::stored::Page;
use super::{batching, keys};
use crate::domain::{Environment, EnvironmentKey, Origin, Outcome, Session, SessionId};
use crate::store::{Sequence, StoreError};

/// How many old sessions one commit drops from the history, so that a lowered retention or a deletion never makes a
/// batch that the store refuses.
const TRIM_AT_ONCE: u64 = 500;

/// The pages that an actor keeps in memory: those whose last change may not be durable, since the store does not show it
/// yet, and the newest, since the next session to end goes into it. Any other the store has as it is.
#[derive(Default)]
pub struct RecentPages {
    pages: BTreeMap<u64, Recent>,
}

struct Recent {
    page: Page,
    written: Sequence,
}

impl RecentPages {
    /// Takes in what was handed in, and lets go of what the store has.
    pub fn advance(&mut self, written: BTreeMap<u64, Page>, sequence: Sequence, settled: impl Fn(Sequence) -> bool) {
        for (number, page) in written {
            self.pages.insert(number, Recent { page, written: sequence });
        }
        let newest = self.pages.last_key_value().map(|(number, _)| *number);
        self.pages.retain(|number, recent| Some(*number) == newest || !settled(recent.written));
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let numbers = match id.origin {
            Origin::Granted(number) => number..=number,
            Origin::Queued(_) => 0..=u64::MAX,
        };
        for recent in self.pages.range(Page::of(*numbers.start())..=Page::of(*numbers.end())).map(|(_, recent)| recent)
        {
            let sessions = readable(recent.page.sessions(numbers.clone()))?;
            if let Some(session) = sessions.into_iter().find(|session| session.id == id) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }
}

impl Change<'_> {
    /// Puts sessions that have ended into their pages.
    pub(super) fn remember(&mut self, next: &Environment, outcome: &Outcome) -> Result<(), StoreError> {
        let oldest = Page::of(*next.remembered_sessions(self.parts.retention()).start());
        for session in &outcome.ended {
            // A page that stays is true, also of what is no longer shown: retention may be raised.
            let stays = |number: &u64| *number >= next.first_session && Page::of(*number) >= oldest;
            if let Some(number) = session.fencing_token().filter(stays) {
                let page = if Page::begins_with(number) && number == next.newest_ended() {
                    // Nothing but an older state of itself can be in it, so there is no need to look.
                    Cow::Owned(Page::default())
                } else {
                    self.page(Page::of(number))?
                };
                self.pages.insert(Page::of(number), readable(page.with(number, session))?);
            }
        }
        Ok(())
    }

    /// Drops the pages of which no session is remembered, a bounded number at once.
    pub fn trim(&mut self, next: &Environment) -> Result<(), StoreError> {
        let remembered = next.remembered_sessions(self.parts.retention());
        let (from, wanted) = (self.keeping.from, *remembered.start());
        let until = wanted.min(from + TRIM_AT_ONCE).max(from);
        self.trim_on = until < wanted;
        if until == from {
            return Ok(());
        }
        for number in Page::of(from)..Page::of(until) {
            self.drop_page(number)?;
        }
        // Nothing at all is remembered, so that the page which the next session will be in is of no use either.
        if until > *remembered.end() {
            self.drop_page(Page::of(until))?;
        }
        self.keeping.from = until;
        Ok(())
    }

    /// Pointers to its sessions go with it.
    fn drop_page(&mut self, number: u64) -> Result<(), StoreError> {
        if self.keeping.pointers > 0 {
            let sessions = readable(self.page(number)?.sessions(0..=u64::MAX))?;
            for (ticket, _) in sessions.iter().filter_map(batching::pointed) {
                self.batch.delete(keys::pointer(ticket));
                self.keeping.pointers = self.keeping.pointers.saturating_sub(1);
            }
        }
        self.pages.insert(number, Page::default());
        Ok(())
    }

    /// A page as it is after everything handed in, and after what this change has done to it.
    fn page(&self, number: u64) -> Result<Cow<'_, Page>, StoreError> {
        let recent = || self.loaded.recent.pages.get(&number).map(|recent| &recent.page);
        match self.pages.get(&number).or_else(recent) {
            Some(page) => Ok(Cow::Borrowed(page)),
            None => reading::page(&*self.parts.store, self.key, number).map(Cow::Owned),
        }
    }
}

impl Loaded {
    /// What the history says of a session that the environment no longer has.
    pub(super) fn recall(
        &self,
        parts: &Parts,
        key: &EnvironmentKey,
        id: SessionId,
    ) -> Result<Option<Session>, StoreError> {
        match self.recent.session(id)? {
            Some(session) => {
                let remembered = self.environment.remembered_sessions(parts.retention());
                Ok(Some(session).filter(|session| session.fencing_token().is_some_and(|n| remembered.contains(&n))))
            }
            None => reading::ended_session(parts, key, &self.environment, id),
        }
    }
}

impl Handler<Trim> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Trim, context: &mut Self::Context) {
        let Ok(loaded) = &self.loaded else { return };
        let parts = self.home.environments.parts.clone();
        let next = loaded.environment.clone();
        let mut change = Change::new(&parts, &self.home.key, loaded);
        // If the store refuses, the next commit of this environment trims on.
        let Ok(()) = change.trim(&next) else { return };
        change.put_environment(&next);
        let Ok(committed) = change.commit() else { return };
        let settlement = self.accept(next, Outcome::default(), committed, (parts.clock)());
        self.settle(settlement, context, || {});
    }
}

/// A long history is dropped piece by piece, the next when the last is durable, so that it does not crowd out others. A
/// mailbox that is full has more urgent things in it; the next commit trims on.
pub(super) fn send_trim(to: Option<Addr<EnvironmentActor>>) {
    if let Some(actor) = to {
        actor.try_send(Trim).ok();
    }
}
