//! Repairs heads that do not match the pages of their journal: it was cut or rewritten, or damaged records of the redo log
//! were discarded. The server continues from the pages, and keeps the old head as evidence.

use super::audit::Expectation;
use super::reading::{Events, unreadable};
use domain::Identifier;
use store::journal::{self, Head, PageView};
use store::{Batch, StoreError, commit_durably, end_of_prefix};

/// `EL/{organization}/{number of its next event}`: an earlier end of a journal.
const LOST_HEADS: &[u8] = b"EL/";
/// More than honest causes explain; later ones add nothing to the evidence.
const LOST_HEADS_MAX: usize = 100;

impl Events {
    /// Sets every head to the end of its pages, and logs those that did not match. Once, at the start.
    pub async fn repair_heads(&self) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for organization in self.audited()? {
            let key = journal::head_key(organization.as_str());
            let noted = self.store.get(&key)?.and_then(|bytes| Head::decode(&bytes));
            let found = self.head_of_pages(&organization)?;
            if noted == found {
                continue;
            }
            tracing::error!(
                %organization,
                noted = noted.map(|head| head.next),
                found = found.map(|head| head.next),
                "the events of an organization do not end where they should; run `lockkeeper audit verify` to see what is missing"
            );
            let lost = noted.filter(|head| head.next > 0);
            if let Some(lost) = lost.filter(|_| self.lost_heads(&organization).is_ok_and(|l| l.len() < LOST_HEADS_MAX))
            {
                let place = [&*lost_heads_of(&organization), &lost.next.to_be_bytes()].concat();
                batch.put(place, lost.encode());
            }
            match found {
                Some(head) => batch.put(key, head.encode()),
                None => batch.delete(key),
            }
        }
        commit_durably(&*self.store, batch).await
    }

    /// The end of the newest page.
    fn head_of_pages(&self, organization: &Identifier) -> Result<Option<Head>, StoreError> {
        let pages = journal::pages_of(organization.as_str());
        let Some((_, bytes)) = self.store.scan(&pages, &end_of_prefix(&pages), 1)?.pop() else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let next = page.first.saturating_add(page.entries.len() as u64);
        Ok(Some(Head { next, hash: page.entries.last().map_or(*page.before, |last| *last.hash) }))
    }

    /// The last events of heads that did not match.
    pub(super) fn lost_heads(&self, organization: &Identifier) -> Result<Vec<Expectation>, StoreError> {
        let prefix = lost_heads_of(organization);
        let found = self.store.scan(&prefix, &end_of_prefix(&prefix), LOST_HEADS_MAX)?;
        let heads = found.iter().map(|(_, bytes)| Head::decode(bytes).ok_or_else(|| unreadable("a lost end")));
        heads
            .map(|head| head.map(|head| Expectation { number: head.next.saturating_sub(1), hash: head.hash }))
            .collect()
    }
}

fn lost_heads_of(organization: &Identifier) -> Vec<u8> {
    [LOST_HEADS, organization.as_str().as_bytes(), b"/"].concat()
}
