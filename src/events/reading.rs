//! Reading an organization's events by their numbers.

use std::sync::Arc;

use tokio::sync::watch;

use super::event::{EventId, Occurred};
use super::form;
use crate::domain::Identifier;
use crate::store::journal::{self, Head, PAGE_ENTRIES, Page};
use crate::store::{Sequence, Store, StoreError, end_of_prefix};

/// Every organization's events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    pub(super) store: Arc<dyn Store>,
}

/// The numbers of an organization's events: those from `first` are kept, and the next that happens is `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub first: u64,
    pub next: u64,
}

impl Events {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Moves on whenever something has become durable, which may be an event.
    pub fn durable(&self) -> watch::Receiver<Sequence> {
        self.store.durable()
    }

    /// The number that the next event gets.
    pub fn next(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let head = self.store.get(&journal::head_key(organization.as_str()))?;
        head.map_or(Ok(0), |bytes| Head::decode(&bytes).map(|head| head.next).ok_or_else(|| unreadable("the head")))
    }

    pub fn span(&self, organization: &Identifier) -> Result<Span, StoreError> {
        let first = self.store.get(&first_key(organization))?;
        let first = first.map_or(Ok(0), |bytes| {
            bytes.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| unreadable("the beginning"))
        })?;
        Ok(Span { first, next: self.next(organization)? })
    }

    /// The events from number `from` on that one page has, ascending: none only if there is none yet, or no more.
    pub fn read(&self, organization: &Identifier, from: u64) -> Result<Vec<Occurred>, StoreError> {
        let number = from / PAGE_ENTRIES;
        let Some(page) = self.page(organization, number)? else { return Ok(Vec::new()) };
        let numbered = (page.first..).zip(page.entries).filter(|(number, _)| *number >= from);
        numbered.map(|(number, entry)| decoded(number, &entry)).collect()
    }

    /// Whether this is the id of an event that is kept.
    pub fn knows(&self, organization: &Identifier, id: EventId) -> Result<bool, StoreError> {
        let page = self.page(organization, id.number / PAGE_ENTRIES)?;
        let entry = page.and_then(|page| page.entries.into_iter().nth((id.number % PAGE_ENTRIES) as usize));
        Ok(entry.is_some_and(|entry| EventId::new(id.number, &entry.hash) == id))
    }

    fn page(&self, organization: &Identifier, number: u64) -> Result<Option<Page>, StoreError> {
        let found = self.store.get(&journal::page_key(organization.as_str(), number))?;
        found.map(|bytes| Page::decode(&bytes).ok_or_else(|| unreadable("a page"))).transpose()
    }

    /// Which organizations have had any.
    pub fn organizations(&self) -> Result<Vec<Identifier>, StoreError> {
        let prefix = journal::head_key("");
        let end = end_of_prefix(&prefix);
        let mut found = Vec::new();
        crate::store::walk(&*self.store, &prefix, &end, |key, _| {
            let name = std::str::from_utf8(&key[prefix.len()..]).unwrap_or_default();
            found.push(Identifier::parse(name).map_err(|_| unreadable("the name"))?);
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(found)
    }
}

pub(super) fn decoded(number: u64, entry: &journal::Entry) -> Result<Occurred, StoreError> {
    form::decode(number, entry.hash, &entry.body).map_err(|error| StoreError::Read(error.to_string()))
}

/// `EF/{organization}`: the number of the first event that is kept.
pub(super) fn first_key(organization: &Identifier) -> Vec<u8> {
    [b"EF/", organization.as_str().as_bytes()].concat()
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Read(format!("{what} of a journal does not have its form; `lockkeeper audit verify` says more"))
}
