//! Reads an organization's events by number.

use std::sync::Arc;

use tokio::sync::watch;

use super::event::{EventId, RecordedEvent};
use super::form;
use super::seal::AuditKey;
use domain::Identifier;
use store::journal::{self, EntryView, Head, PAGE_ENTRIES, PageView};
use store::{Sequence, Store, StoreError, for_each};

/// The events of all organizations. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: Option<AuditKey>,
}

/// The numbers of an organization's events: those from `first` on are kept, and the next one gets `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub first: u64,
    pub next: u64,
}

impl Events {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, key: None }
    }

    /// With the key that seals and checks.
    pub fn with_key(self, key: AuditKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Changes whenever a batch has become durable, which may hold an event.
    pub fn durable(&self) -> watch::Receiver<Sequence> {
        self.store.durable()
    }

    /// The number of the next event.
    pub fn next(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let head = self.store.get(&journal::head_key(organization.as_str()))?;
        head.map_or(Ok(0), |bytes| Head::decode(&bytes).map(|head| head.next).ok_or_else(|| unreadable("the head")))
    }

    pub fn span(&self, organization: &Identifier) -> Result<Span, StoreError> {
        Ok(Span { first: self.first(organization)?, next: self.next(organization)? })
    }

    pub(super) fn first(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let first = self.store.get(&first_key(organization))?;
        first.map_or(Ok(0), |bytes| {
            bytes.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| unreadable("the beginning"))
        })
    }

    /// The events from number `from` on of its page, ascending; empty only if there is none yet, or no longer.
    pub fn read(&self, organization: &Identifier, from: u64) -> Result<Vec<RecordedEvent>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, from / PAGE_ENTRIES)? else { return Ok(Vec::new()) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        page.numbered().filter(|(number, _)| *number >= from).map(|(number, entry)| decoded(number, entry)).collect()
    }

    /// Whether an event with this id is kept.
    pub fn knows(&self, organization: &Identifier, id: EventId) -> Result<bool, StoreError> {
        Ok(self.id_of(organization, id.number)? == Some(id))
    }

    pub(super) fn page_bytes(&self, organization: &Identifier, page: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(&journal::page_key(organization.as_str(), page))
    }

    /// The organizations that have events.
    pub fn organizations(&self) -> Result<Vec<Identifier>, StoreError> {
        Ok(self.heads()?.into_iter().map(|(organization, _)| organization).collect())
    }

    /// The end of every journal.
    pub(super) fn heads(&self) -> Result<Vec<(Identifier, Head)>, StoreError> {
        let prefix = journal::head_key("");
        let mut found = Vec::new();
        for_each(&*self.store, &prefix, |key, bytes| {
            let name = std::str::from_utf8(&key[prefix.len()..]).unwrap_or_default();
            let name = Identifier::parse(name).map_err(|_| unreadable("the name"))?;
            found.push((name, Head::decode(bytes).ok_or_else(|| unreadable("the head"))?));
            Ok(())
        })?;
        Ok(found)
    }
}

pub(super) fn decoded(number: u64, entry: &EntryView<'_>) -> Result<RecordedEvent, StoreError> {
    Ok(form::decode(number, *entry.hash, entry.body)?)
}

pub(super) const FIRSTS: &[u8] = b"EF/";

/// `EF/{organization}`: the number of the first event that is kept.
pub(super) fn first_key(organization: &Identifier) -> Vec<u8> {
    [FIRSTS, organization.as_str().as_bytes()].concat()
}

pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Read(format!("{what} of a journal is malformed; run `lockkeeper audit verify` for details"))
}
