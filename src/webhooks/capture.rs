//! From events to deliveries: an event that matches becomes a delivery in the batch that moves the webhook's cursor
//! past it.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::delivery::{Delivery, DeliveryStatus};
use super::service::{Hook, Inner, Webhooks, put_delivery, put_progress};
use super::webhook::wants;
use ambient::backoff::{Backoff, Retries};
use ambient::entropy::id_seed;
use domain::{DeliveryId, Identifier};
use events::RecordedEvent;
use store::{Batch, StoreError};

/// Pending deliveries per webhook. Above this limit, events wait in the journal.
pub const PENDING_MAX: u32 = 2_000;
/// Bytes of deliveries per batch: far below the store's limit, enough for a page of events.
const CAPTURED_BYTES: usize = 512 * 1024;
/// A cursor is stored after skipping this many events; so a start rereads at most this many.
const SKIPPED_UNSTORED: u64 = 1_024;
/// Pages read for one organization before the next one's turn.
const PAGES_AT_ONCE: usize = 32;
/// Events come in bursts; those within this time are captured together.
const BURST: Duration = Duration::from_millis(10);
/// The pauses after the store refused a batch, for example on a full disk.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));

impl Webhooks {
    /// Captures events; never returns while the store is open.
    pub(super) async fn keep_capturing(&self) {
        let mut durable = self.inner.events.durable();
        // Organizations whose deliveries the store refused, and when to try again.
        let mut refused: HashMap<Identifier, (Instant, Retries)> = HashMap::new();
        loop {
            let organizations = self.capturing();
            let idle = organizations.is_empty();
            refused.retain(|organization, _| organizations.contains(organization));
            // Events that become durable from here on belong to the next round.
            durable.mark_unchanged();
            for organization in organizations {
                // A waiting organization does not delay others.
                if refused.get(&organization).is_some_and(|(again, _)| Instant::now() < *again) {
                    continue;
                }
                match self.capture_off_thread(organization.clone()).await {
                    Some(round) => {
                        refused.remove(&organization);
                        if round == CaptureRound::Partial {
                            self.inner.to_capture.notify_one();
                        }
                    }
                    None => {
                        let new = || (Instant::now(), Retries::new(BACKOFF));
                        let (again, retries) = refused.entry(organization).or_insert_with(new);
                        *again = Instant::now() + retries.failed();
                    }
                }
            }
            self.inner.to_send.notify_one();
            // While the disk is full, nothing becomes durable, so only the timer wakes this task.
            let again = refused.values().map(|(again, _)| *again).min();
            tokio::select! {
                () = self.inner.to_capture.notified() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
                moved = durable.changed(), if !idle => {
                    if moved.is_err() {
                        return;
                    }
                    tokio::time::sleep(BURST).await;
                }
            }
        }
    }

    fn capturing(&self) -> Vec<Identifier> {
        self.inner.hooks.with_newest(|hooks| {
            let all = hooks.organizations.iter();
            let capturing = all.filter(|(_, hooks)| hooks.values().any(|hook| hook.webhook.is_enabled()));
            capturing.map(|(organization, _)| organization.clone()).collect()
        })
    }

    /// Captures on a thread that may block on the disk. `None` if it failed.
    async fn capture_off_thread(&self, organization: Identifier) -> Option<CaptureRound> {
        let inner = self.inner.clone();
        let captured = tokio::task::spawn_blocking(move || inner.capture(&organization).map_err(|e| (organization, e)));
        match captured.await {
            Ok(Ok(captured)) => Some(captured),
            Ok(Err((organization, error))) => {
                tracing::warn!(%organization, %error, "capturing events for webhooks failed; will retry");
                None
            }
            Err(panicked) => {
                tracing::error!(error = %panicked, "capturing events for webhooks panicked; will retry");
                None
            }
        }
    }
}

impl Inner {
    /// Captures the events of an organization while its webhooks have room, up to [`PAGES_AT_ONCE`].
    pub fn capture(&self, organization: &Identifier) -> Result<CaptureRound, StoreError> {
        let span = self.events.span(organization)?;
        for _ in 0..PAGES_AT_ONCE {
            let Some(from) = self.lowest_cursor(organization, span.next) else { return Ok(CaptureRound::Complete) };
            if from < span.first {
                self.skip_missing(organization, span.first)?;
                continue;
            }
            let page = self.events.read(organization, from)?;
            let Some(last) = page.last() else { return Ok(CaptureRound::Complete) };
            self.capture_page(organization, from..last.id.number + 1, &page)?;
        }
        Ok(CaptureRound::Partial)
    }

    fn lowest_cursor(&self, organization: &Identifier, next: u64) -> Option<u64> {
        self.hooks.with_newest(|hooks| {
            let with_room = hooks.organizations.get(organization)?.values().filter(|hook| hook.has_room());
            with_room.map(|hook| hook.progress.cursor).filter(|cursor| *cursor < next).min()
        })
    }

    /// Moves cursors past events that are no longer kept.
    fn skip_missing(&self, organization: &Identifier, first: u64) -> Result<(), StoreError> {
        let (outcome, _) = self.hooks.decide(|hooks, committer| {
            for hook in hooks.of(organization).values_mut() {
                let missed = first.saturating_sub(hook.progress.cursor);
                if missed == 0 || !hook.webhook.is_enabled() {
                    continue;
                }
                let mut progress = hook.progress.clone();
                (progress.cursor, progress.missed) = (first, progress.missed + missed);
                let mut batch = Batch::default();
                put_progress(&mut batch, &hook.webhook, &progress);
                committer.commit(batch)?;
                (hook.stored_cursor, hook.progress) = (first, progress);
                let webhook = hook.webhook.id;
                tracing::warn!(%organization, %webhook, missed, "a webhook missed events that are no longer kept");
            }
            Ok(())
        });
        outcome
    }

    /// Captures consecutive events with these numbers.
    fn capture_page(
        &self,
        organization: &Identifier,
        numbers: Range<u64>,
        page: &[RecordedEvent],
    ) -> Result<(), StoreError> {
        let (outcome, _) = self.hooks.decide(|hooks, committer| {
            for hook in hooks.of(organization).values_mut() {
                if !hook.has_room() || !numbers.contains(&hook.progress.cursor) {
                    continue;
                }
                let (cursor, deliveries) = self.deliveries_of(hook, page);
                let mut progress = hook.progress.clone();
                progress.cursor = cursor;
                progress.pending += deliveries.len() as u32;
                let unstored = progress.cursor - hook.stored_cursor;
                if !deliveries.is_empty() || unstored >= SKIPPED_UNSTORED {
                    let mut batch = Batch::default();
                    for delivery in &deliveries {
                        put_delivery(&mut batch, &hook.webhook, delivery);
                    }
                    put_progress(&mut batch, &hook.webhook, &progress);
                    committer.commit(batch)?;
                    hook.stored_cursor = progress.cursor;
                }
                hook.progress = progress;
                deliveries.iter().for_each(|delivery| hook.queue.put(delivery));
            }
            Ok(())
        });
        outcome
    }

    /// The new deliveries of a webhook, and its cursor after their events.
    fn deliveries_of(&self, hook: &Hook, page: &[RecordedEvent]) -> (u64, Vec<Delivery>) {
        let room = PENDING_MAX.saturating_sub(hook.progress.pending) as usize;
        let (mut cursor, mut deliveries, mut bytes) = (hook.progress.cursor, Vec::new(), 0);
        for event in page.iter().filter(|event| event.id.number >= hook.progress.cursor) {
            if deliveries.len() >= room || bytes >= CAPTURED_BYTES {
                break;
            }
            cursor = event.id.number + 1;
            if !wants(&hook.webhook.filters, event.event_type) {
                continue;
            }
            let body = (self.render)(event);
            bytes += body.len();
            deliveries.push(Delivery {
                id: DeliveryId(id_seed()),
                event: event.id,
                event_type: event.event_type,
                body: body.into(),
                created_at: self.now(),
                status: DeliveryStatus::Pending,
                tries: 0,
                attempts: Vec::new(),
                next_attempt_at: None,
            });
        }
        (cursor, deliveries)
    }
}

/// Whether there may be more events to capture immediately.
#[derive(Debug, PartialEq, Eq)]
pub enum CaptureRound {
    Complete,
    Partial,
}

impl Hook {
    fn has_room(&self) -> bool {
        self.webhook.is_enabled() && self.progress.pending < PENDING_MAX
    }
}
