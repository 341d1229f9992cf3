//! Looking through an organization's events: newest first in parts, or onwards from a number.

use std::ops::ControlFlow;

use super::event::{EventId, Occurred};
use super::filter::Filter;
use super::form;
use super::reading::{Events, Span, decoded, unreadable};
use crate::domain::Identifier;
use crate::store::journal::{self, EntryView, PAGE_ENTRIES, PageView};
use crate::store::{StoreError, end_of_prefix, walk};

/// Some events, newest first, and how many there are in all.
#[derive(Debug, Default)]
pub struct Listed {
    pub events: Vec<Occurred>,
    pub total: u64,
}

/// What was found by looking onwards, in order, and from which number on nothing has been looked at.
#[derive(Debug)]
pub struct Stretch {
    pub events: Vec<Occurred>,
    pub next: u64,
}

/// Where somebody stands who has seen everything up to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The number of the next to see.
    Next(u64),
    /// The event is too old to be kept, and so may be what came after it.
    Expired,
    /// There never was such an event here.
    Unknown,
}

impl Events {
    pub fn get(&self, organization: &Identifier, id: EventId) -> Result<Option<Occurred>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, id.number / PAGE_ENTRIES)? else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let entry = page.entries.get((id.number % PAGE_ENTRIES) as usize);
        let entry = entry.filter(|entry| EventId::new(id.number, entry.hash) == id);
        entry.map(|entry| decoded(id.number, entry)).transpose()
    }

    /// The id of the event with this number, if it is kept.
    pub fn id_of(&self, organization: &Identifier, number: u64) -> Result<Option<EventId>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, number / PAGE_ENTRIES)? else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let entry = page.entries.get((number % PAGE_ENTRIES) as usize);
        Ok(entry.map(|entry| EventId::new(number, entry.hash)))
    }

    pub fn after(&self, organization: &Identifier, id: EventId) -> Result<Place, StoreError> {
        if self.id_of(organization, id.number)? == Some(id) {
            return Ok(Place::Next(id.number + 1));
        }
        let Span { first, .. } = self.span(organization)?;
        Ok(if id.number < first { Place::Expired } else { Place::Unknown })
    }

    /// `limit` of those that are wanted, after the `offset` newest. Looks at all of them, unless all are wanted.
    pub fn list(
        &self,
        organization: &Identifier,
        filter: &Filter,
        offset: u64,
        limit: u64,
    ) -> Result<Listed, StoreError> {
        if filter.is_open() {
            return self.newest(organization, offset, limit);
        }
        let mut listed = Listed::default();
        let prefix = journal::pages_of(organization.as_str());
        walk(&*self.store, &prefix, &end_of_prefix(&prefix), |_, bytes| {
            let page = PageView::decode(bytes).ok_or_else(|| unreadable("a page"))?;
            for (number, entry) in page.numbered().rev() {
                if !is_wanted(entry, filter)? {
                    continue;
                }
                if listed.total >= offset && (listed.events.len() as u64) < limit {
                    listed.events.push(decoded(number, entry)?);
                }
                listed.total += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(listed)
    }

    /// Numbers tell where these lie, so nothing else is read.
    fn newest(&self, organization: &Identifier, offset: u64, limit: u64) -> Result<Listed, StoreError> {
        let Span { first, next } = self.span(organization)?;
        let total = next.saturating_sub(first);
        let mut listed = Listed { events: Vec::new(), total };
        let mut end = next.saturating_sub(offset).max(first);
        let start = end.saturating_sub(limit).max(first);
        while end > start {
            let page = (end - 1) / PAGE_ENTRIES;
            // One that has just been dropped is no longer listed.
            let Some(bytes) = self.page_bytes(organization, page)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            let wanted = page.numbered().filter(|(number, _)| (start..end).contains(number));
            for (number, entry) in wanted.rev() {
                listed.events.push(decoded(number, entry)?);
            }
            end = page.first.min(end - 1);
        }
        Ok(listed)
    }

    /// Looks at one piece of what comes from number `from` on: some pages, or fewer if many are wanted.
    pub fn onwards(&self, organization: &Identifier, from: u64, filter: &Filter) -> Result<Stretch, StoreError> {
        /// What is read in one go: a quarter of a megabyte of ordinary events.
        const PAGES_AT_ONCE: u64 = 32;
        /// What is decoded in one go.
        const WANTED_AT_ONCE: usize = 128;
        let mut stretch = Stretch { events: Vec::new(), next: from };
        for _ in 0..PAGES_AT_ONCE {
            let Some(bytes) = self.page_bytes(organization, stretch.next / PAGE_ENTRIES)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            for (number, entry) in page.numbered().filter(|(number, _)| *number >= from) {
                if is_wanted(entry, filter)? {
                    stretch.events.push(decoded(number, entry)?);
                }
                stretch.next = number + 1;
            }
            let is_full = page.entries.len() as u64 >= PAGE_ENTRIES;
            if !is_full || stretch.events.len() >= WANTED_AT_ONCE {
                break;
            }
        }
        Ok(stretch)
    }
}

fn is_wanted(entry: &EntryView<'_>, filter: &Filter) -> Result<bool, StoreError> {
    Ok(filter.wants(&form::glance(entry.body)?))
}
