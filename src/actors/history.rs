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
use crate::domain::{Deployment, Environment, EnvironmentKey, Origin, Outcome, Session, SessionId};
use crate::store::{Sequence, StoreError};

/// How many old sessions one commit drops from the history, so that a lowered retention or a deletion never makes a
/// batch that the store refuses.
const TRIM_AT_ONCE: u64 = 500;
/// How many changes a commit may have before it forgets no further deployment, for the same reason: a page of the history
/// may speak of eight hundred.
const FORGET_AT_ONCE: usize = 1_000;

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
            let Some(number) = session.fencing_token().filter(stays) else {
                if !is_leaving(next, session) {
                    self.forget_deployments(&session.deployments)?;
                }
                continue;
            };
            let page = if Page::begins_with(number) && number == next.newest_ended() {
                // Nothing but an older state of itself can be in it, so there is no need to look.
                Cow::Owned(Page::default())
            } else {
                self.page(Page::of(number))?
            };
            self.pages.insert(Page::of(number), readable(page.with(number, session))?);
            self.keeping.deployed |= !session.deployments.is_empty();
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
        // If nothing at all is remembered, the page which the next session will be in is of no use either.
        let nothing = until > *remembered.end();
        for number in Page::of(from)..Page::of(until) + u64::from(nothing) {
            let rest = self.drop_page(next, number)?;
            let done = rest.record().is_none();
            self.pages.insert(number, rest);
            if !done {
                self.trim_on = true;
                self.keeping.from = Page::first_of(number).max(from);
                return Ok(());
            }
        }
        self.keeping.from = until;
        Ok(())
    }

    /// Drops the sessions of a page, with their pointers and what is kept of their deployments. Answers with what is left
    /// for the next time.
    fn drop_page(&mut self, next: &Environment, number: u64) -> Result<Page, StoreError> {
        let mut rest = Page::default();
        if self.keeping.pointers == 0 && !self.keeping.deployed {
            return Ok(rest);
        }
        for mut session in readable(self.page(number)?.sessions(0..=u64::MAX))? {
            // What runs of one that is leaving is still needed; `remember` sees to it when that has ended.
            while !is_leaving(next, &session)
                && self.batch.changes().len() < FORGET_AT_ONCE
                && let Some(deployment) = session.deployments.pop()
            {
                self.forget(deployment.id, deployment.staged)?;
            }
            if !is_leaving(next, &session) && !session.deployments.is_empty() {
                rest = readable(rest.with(session.fencing_token().unwrap_or_default(), &session))?;
            } else if let Some((ticket, _)) = batching::pointed(&session) {
                self.batch.delete(keys::pointer(ticket));
                self.keeping.pointers = self.keeping.pointers.saturating_sub(1);
            }
        }
        Ok(rest)
    }

    fn forget_deployments(&mut self, deployments: &[Deployment]) -> Result<(), StoreError> {
        deployments.iter().try_for_each(|deployment| self.forget(deployment.id, deployment.staged))
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

/// Whether a deployment of this session, which has ended, has not.
fn is_leaving(next: &Environment, session: &Session) -> bool {
    next.leaving.as_ref().is_some_and(|leaving| leaving.id == session.id)
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
