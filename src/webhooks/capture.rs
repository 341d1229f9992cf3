//! From events to deliveries: what a webhook wants becomes a delivery in the batch that moves its cursor past it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::delivery::{Delivery, DeliveryStatus};
use super::filter::wants;
use super::registry::{Hook, Newest, Shared, Webhooks, put_delivery, put_progress};
use crate::domain::{DeliveryId, Identifier};
use crate::entropy::id_seed;
use crate::events::Occurred;
use crate::store::{Batch, StoreError};

/// Deliveries that one webhook has to make. Beyond it the events wait where they are.
pub const PENDING_MAX: u32 = 2_000;
/// What one batch takes, far below the store's limit and enough for a page of events.
const CAPTURED_BYTES: usize = 512 * 1024;
/// A cursor that passes what nobody wants is written down this often: so many events may be looked at again after a start.
const SKIPPED_UNWRITTEN: u64 = 1_024;
/// Events come in bursts; what comes within this time is looked at together.
const GATHERED: Duration = Duration::from_millis(10);
/// The disk may be full; somebody has to do something about it.
const REFUSED: Duration = Duration::from_secs(5);

impl Webhooks {
    /// Captures for ever.
    pub(super) async fn keep_capturing(&self) {
        let mut durable = self.shared.events.durable();
        // Those whose events could not be handed out, each with when that is tried again.
        let mut refused: HashMap<Identifier, Instant> = HashMap::new();
        loop {
            let organizations = self.capturing();
            let idle = organizations.is_empty();
            // What becomes durable from here on is looked at next time.
            durable.mark_unchanged();
            for organization in organizations {
                // One that has to wait holds up nobody else.
                if refused.get(&organization).is_some_and(|again| Instant::now() < *again) {
                    continue;
                }
                match self.capture_off_thread(organization.clone()).await {
                    true => _ = refused.remove(&organization),
                    false => _ = refused.insert(organization, Instant::now() + REFUSED),
                }
            }
            self.shared.to_send.notify_one();
            // A full disk makes nothing durable that would wake us when it has room again.
            let again = refused.values().min().copied();
            tokio::select! {
                () = self.shared.to_capture.notified() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {
                    refused.retain(|_, again| Instant::now() < *again);
                }
                moved = durable.changed(), if !idle => {
                    if moved.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHERED).await;
                }
            }
        }
    }

    fn capturing(&self) -> Vec<Identifier> {
        let newest = self.shared.newest.lock();
        let capturing = newest.organizations.iter().filter(|(_, hooks)| hooks.values().any(|h| h.webhook.is_enabled()));
        capturing.map(|(organization, _)| organization.clone()).collect()
    }

    /// Reading events may have to wait for the disk.
    async fn capture_off_thread(&self, organization: Identifier) -> bool {
        let shared = self.shared.clone();
        let captured =
            tokio::task::spawn_blocking(move || shared.capture(&organization).map_err(|e| (organization, e)));
        match captured.await {
            Ok(Ok(())) => true,
            Ok(Err((organization, error))) => {
                tracing::warn!(%organization, %error, "events could not be handed to webhooks yet; trying again");
                false
            }
            Err(panicked) => {
                tracing::error!(error = %panicked, "events could not be handed to webhooks; trying again");
                false
            }
        }
    }
}

impl Shared {
    /// Hands all events of an organization to the webhooks that want them, as far as those have room.
    pub fn capture(&self, organization: &Identifier) -> Result<(), StoreError> {
        let span = self.events.span(organization)?;
        while let Some(from) = self.lowest_cursor(organization, span.next) {
            if from < span.first {
                self.pass_over(organization, span.first)?;
                continue;
            }
            let page = self.events.read(organization, from)?;
            let Some(last) = page.last() else { return Ok(()) };
            let page = Page { next: last.id.number + 1, first: from, events: page };
            self.hand_out(organization, &page)?;
        }
        Ok(())
    }

    fn lowest_cursor(&self, organization: &Identifier, next: u64) -> Option<u64> {
        let newest = self.newest.lock();
        let hooks = newest.organizations.get(organization)?.values();
        hooks.filter(|hook| hook.has_room()).map(|hook| hook.progress.cursor).filter(|cursor| *cursor < next).min()
    }

    /// The events before this one are gone.
    fn pass_over(&self, organization: &Identifier, first: u64) -> Result<(), StoreError> {
        let Newest { organizations, last_change, .. } = &mut *self.newest.lock();
        for hook in organizations.get_mut(organization).into_iter().flat_map(BTreeMap::values_mut) {
            let missed = first.saturating_sub(hook.progress.cursor);
            if missed == 0 || !hook.webhook.is_enabled() {
                continue;
            }
            let mut progress = hook.progress.clone();
            (progress.cursor, progress.missed) = (first, progress.missed + missed);
            let mut batch = Batch::default();
            put_progress(&mut batch, &hook.webhook, &progress);
            *last_change = self.store.commit(batch)?;
            (hook.kept_cursor, hook.progress) = (first, progress);
            let webhook = hook.webhook.id;
            tracing::warn!(%organization, %webhook, missed, "a webhook missed events that are no longer kept");
        }
        Ok(())
    }

    fn hand_out(&self, organization: &Identifier, page: &Page) -> Result<(), StoreError> {
        let Newest { organizations, last_change, .. } = &mut *self.newest.lock();
        for hook in organizations.get_mut(organization).into_iter().flat_map(BTreeMap::values_mut) {
            if !hook.has_room() || !(page.first..page.next).contains(&hook.progress.cursor) {
                continue;
            }
            let captured = self.deliveries_of(hook, page);
            let mut progress = hook.progress.clone();
            progress.cursor = captured.cursor;
            progress.pending += captured.deliveries.len() as u32;
            let unwritten = progress.cursor - hook.kept_cursor;
            if !captured.deliveries.is_empty() || unwritten >= SKIPPED_UNWRITTEN {
                let mut batch = Batch::default();
                for delivery in &captured.deliveries {
                    put_delivery(&mut batch, &hook.webhook, delivery);
                }
                put_progress(&mut batch, &hook.webhook, &progress);
                *last_change = self.store.commit(batch)?;
                hook.kept_cursor = progress.cursor;
            }
            hook.progress = progress;
            captured.deliveries.iter().for_each(|delivery| hook.line.put(delivery));
        }
        Ok(())
    }

    fn deliveries_of(&self, hook: &Hook, page: &Page) -> Captured {
        let room = PENDING_MAX.saturating_sub(hook.progress.pending) as usize;
        let mut captured = Captured { cursor: hook.progress.cursor, deliveries: Vec::new() };
        let mut bytes = 0;
        for event in page.events.iter().filter(|event| event.id.number >= hook.progress.cursor) {
            if captured.deliveries.len() >= room || bytes >= CAPTURED_BYTES {
                break;
            }
            captured.cursor = event.id.number + 1;
            if !wants(&hook.webhook.filters, event.notice) {
                continue;
            }
            let body = (self.render)(event);
            bytes += body.len();
            captured.deliveries.push(Delivery {
                id: DeliveryId(id_seed()),
                event: event.id,
                notice: event.notice,
                body,
                created_at: self.now(),
                status: DeliveryStatus::Pending,
                tries: 0,
                attempts: Vec::new(),
                next_attempt_at: None,
            });
        }
        captured
    }
}

/// Events in a row.
struct Page {
    first: u64,
    next: u64,
    events: Vec<Occurred>,
}

struct Captured {
    cursor: u64,
    deliveries: Vec<Delivery>,
}

impl Hook {
    fn has_room(&self) -> bool {
        self.webhook.is_enabled() && self.progress.pending < PENDING_MAX
    }
}
