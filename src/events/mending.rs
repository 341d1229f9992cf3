//! A journal whose note of its end does not fit its pages: somebody has cut or rewritten it, or records of the redo log were
//! discarded as damaged. The server goes on from what is there, and keeps what the note said as evidence.

use super::audit::Expectation;
use super::reading::{Events, unreadable};
use crate::domain::Identifier;
use crate::store::journal::{self, Head, PageView};
use crate::store::{Batch, StoreError, durable_up_to, end_of_prefix};

/// `EL/{organization}/{number of the next event then}`: where a journal had ended.
const LOST_HEADS: &[u8] = b"EL/";
/// More than there are honest reasons for; what comes after them is told by the first ones too.
const LOST_HEADS_MAX: usize = 100;

impl Events {
    /// Makes every note of an end fit, and says in the log which did not. Once, at the start.
    pub async fn mend(&self) -> Result<(), StoreError> {
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
                "the events of an organization do not end where they should; `lockkeeper audit verify` says what is missing"
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
        if !batch.is_empty() {
            let sequence = self.store.commit(batch)?;
            durable_up_to(&*self.store, sequence).await;
        }
        Ok(())
    }

    /// Where the newest page ends.
    fn head_of_pages(&self, organization: &Identifier) -> Result<Option<Head>, StoreError> {
        let pages = journal::pages_of(organization.as_str());
        let Some((_, bytes)) = self.store.scan(&pages, &end_of_prefix(&pages), 1)?.pop() else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let next = page.first.saturating_add(page.entries.len() as u64);
        Ok(Some(Head { next, hash: page.entries.last().map_or(*page.before, |last| *last.hash) }))
    }

    /// The last events of ends that were found not to fit.
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
