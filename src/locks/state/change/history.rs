//! The history in a change: ended sessions go into pages, and pages beyond the retention are dropped.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Change, pointed};
use crate::keys;
use crate::state::records::readable;
use domain::{Deployment, Environment, Outcome, Session};
use records::Page;
use store::StoreError;

/// How many old sessions one commit drops, so that a lowered retention or a deletion never makes a batch that the store
/// refuses.
const TRIM_AT_ONCE: u64 = 500;
/// How many changes a commit may have before it drops no further deployment, for the same reason: a page of the history
/// may refer to eight hundred.
const FORGET_AT_ONCE: usize = 1_000;

impl Change<'_> {
    /// Puts ended sessions into their pages.
    pub(super) fn remember(&mut self, next: &Environment, outcome: &Outcome) -> Result<(), StoreError> {
        let oldest = Page::of(*next.remembered_sessions(self.records.history_retention).start());
        for session in &outcome.ended {
            // A page that is kept must be complete, beyond the retention too: the retention may be raised.
            let stays = |number: &u64| *number >= next.first_session && Page::of(*number) >= oldest;
            let Some(number) = session.fencing_token().filter(stays) else {
                if !is_leaving(next, session) {
                    self.forget_deployments(&session.deployments)?;
                }
                continue;
            };
            let page = if Page::begins_with(number) && number == next.newest_ended() {
                // It can only contain an older state of this session, so it need not be read.
                Cow::Owned(Page::default())
            } else {
                self.page(Page::of(number))?
            };
            self.pages.insert(Page::of(number), readable(page.with(number, session))?);
            self.keeping.deployed |= !session.deployments.is_empty();
        }
        Ok(())
    }

    /// Drops the pages whose sessions are all beyond the retention, a bounded number at once.
    pub fn trim(&mut self, next: &Environment) -> Result<(), StoreError> {
        let remembered = next.remembered_sessions(self.records.history_retention);
        let (from, wanted) = (self.keeping.from, *remembered.start());
        // Skipped tokens never had a session, and may be a billion.
        let skipped = &next.skipped_tokens;
        let step = skipped.token_at(skipped.count_up_to(from) + TRIM_AT_ONCE);
        let until = wanted.min(step).max(from);
        self.trim_on = until < wanted;
        if until == from {
            return Ok(());
        }
        // If no session is kept at all, the page of the next session is not needed either.
        let nothing = until > *remembered.end();
        let end = Page::of(until) + u64::from(nothing);
        let parts = skipped.given_between(from, until.saturating_add(1));
        let pages: BTreeSet<u64> =
            parts.iter().flat_map(|part| Page::of(part.start)..=Page::of(part.end - 1)).collect();
        for number in pages.into_iter().filter(|page| *page < end) {
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

    /// Drops the sessions of a page with their pointers and deployments. Returns the rest for the next time.
    fn drop_page(&mut self, next: &Environment, number: u64) -> Result<Page, StoreError> {
        let mut rest = Page::default();
        if self.keeping.pointers == 0 && !self.keeping.deployed {
            return Ok(rest);
        }
        for mut session in readable(self.page(number)?.sessions(0..=u64::MAX))? {
            // The running deployment of a leaving session is still needed; `remember` drops it when it has ended.
            while !is_leaving(next, &session)
                && self.batch.changes().len() < FORGET_AT_ONCE
                && let Some(deployment) = session.deployments.pop()
            {
                self.forget(deployment.id, deployment.staged)?;
            }
            if !is_leaving(next, &session) && !session.deployments.is_empty() {
                rest = readable(rest.with(session.fencing_token().unwrap_or_default(), &session))?;
            } else if let Some((ticket, _)) = pointed(&session) {
                self.batch.delete(keys::pointer(ticket));
                self.keeping.pointers = self.keeping.pointers.saturating_sub(1);
            }
        }
        Ok(rest)
    }

    fn forget_deployments(&mut self, deployments: &[Deployment]) -> Result<(), StoreError> {
        deployments.iter().try_for_each(|deployment| self.forget(deployment.id, deployment.staged))
    }

    /// A page after everything handed in and after this change.
    fn page(&self, number: u64) -> Result<Cow<'_, Page>, StoreError> {
        match self.pages.get(number).or_else(|| self.loaded.pages.get(number)) {
            Some(page) => Ok(Cow::Borrowed(page)),
            None => self.records.page(self.key, number).map(Cow::Owned),
        }
    }
}

/// Whether the session has ended but its deployment has not.
fn is_leaving(next: &Environment, session: &Session) -> bool {
    next.leaving.as_ref().is_some_and(|leaving| leaving.id == session.id)
}
