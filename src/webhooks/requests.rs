//! Requests of members: create, change and delete webhooks, rotate their secrets, redeliver, and test a webhook.

use std::sync::Arc;
use std::time::Duration;

use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::service::{Hook, Webhooks, put_delivery, put_progress, put_webhook};
use super::signature::WebhookSecret;
use super::stored;
use super::webhook::{
    Disabled, DisabledWhy, NewWebhook, PreviousSecret, Progress, WEBHOOKS_MAX, Webhook, WebhookChange, WebhookError,
    WebhookState,
};
use accounts::secrets;
use ambient::entropy::id_seed;
use domain::{DeliveryId, EventData, Identifier, Initiator, Timestamp, WebhookData, WebhookId, WebhookUpdatedData};
use events::{Cause, NewEvent};
use store::{Batch, Committer};

const FIRST_SECRET: u32 = 1;

impl Webhooks {
    /// Creates a webhook, whose first event is the next one recorded. `beside` adds to the same batch; its result is
    /// held until the batch is durable or refused.
    pub async fn create<Held>(
        &self,
        organization: &Identifier,
        new: NewWebhook,
        by: &Initiator,
        beside: impl FnOnce(&WebhookState, &mut Batch) -> Held,
    ) -> Result<WebhookState, WebhookError> {
        let inner = &self.inner;
        inner.options.policy.check(new.target.url())?;
        inner.vault.prepare(organization).await?;
        let created = inner.hooks.change(|hooks, committer| {
            if hooks.of(organization).len() >= WEBHOOKS_MAX {
                return Err(WebhookError::TooMany);
            }
            let now = inner.now();
            let NewWebhook { target, filters, description, enabled, secret } = new;
            let webhook = Webhook {
                organization: organization.clone(),
                id: WebhookId(id_seed()),
                target,
                filters,
                description,
                disabled: (!enabled).then_some(Disabled { at: now, why: DisabledWhy::Asked }),
                secret: FIRST_SECRET,
                previous: None,
                created_at: now,
                updated_at: now,
            };
            // Read before the batch is handed in, so that no later event is skipped.
            let progress = Progress::from(inner.events.next(organization)?);
            let mut batch = Batch::default();
            inner.vault.keep(&mut batch, organization, &webhook.secret_name(webhook.secret), secret.text())?;
            put_webhook(&mut batch, &webhook);
            put_progress(&mut batch, &webhook, &progress);
            record(&mut batch, &EventData::WebhookCreated(described(&webhook)), &webhook, Cause::by(by, now));
            let created = WebhookState { webhook, progress };
            let held = beside(&created, &mut batch);
            committer.commit(batch)?;
            hooks.of(organization).insert(created.webhook.id, Hook::new(created.clone()));
            Ok((created, held))
        });
        let (created, _held) = created.await?;
        inner.to_capture.notify_one();
        Ok(created)
    }

    pub async fn update(
        &self,
        organization: &Identifier,
        id: WebhookId,
        change: WebhookChange,
        by: &Initiator,
    ) -> Result<WebhookState, WebhookError> {
        let inner = &self.inner;
        if let Some(target) = &change.target {
            inner.options.policy.check(target.url())?;
        }
        let updated = inner.hooks.change(|hooks, committer| {
            let hook = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
            let now = inner.now();
            let mut next = change.applied_to(hook, now);
            if next.webhook == hook.webhook {
                return Ok(next);
            }
            next.webhook.updated_at = now;
            let changed = changed_fields(&hook.webhook, &next.webhook);
            let mut batch = Batch::default();
            put_webhook(&mut batch, &next.webhook);
            put_progress(&mut batch, &next.webhook, &next.progress);
            record(&mut batch, &updated(&next.webhook, &changed), &next.webhook, Cause::by(by, now));
            committer.commit(batch)?;
            hook.webhook = next.webhook.clone();
            hook.progress = next.progress.clone();
            hook.stored_cursor = next.progress.cursor;
            // Notified before the wait, during which the caller may disconnect.
            inner.to_capture.notify_one();
            inner.to_send.notify_one();
            Ok(next)
        });
        updated.await
    }

    /// Deletes the webhook with its deliveries. A delivery that is being sent may still arrive.
    pub async fn delete(&self, organization: &Identifier, id: WebhookId, by: &Initiator) -> Result<(), WebhookError> {
        let deleted = self.inner.hooks.change(|hooks, committer| {
            let Hook { webhook, queue, .. } = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
            let mut batch = Batch::default();
            batch.delete(stored::webhook_key(organization, id));
            batch.delete(stored::progress_key(organization, id));
            for delivery in queue.all() {
                batch.delete(stored::delivery_key(organization, id, delivery));
            }
            for number in webhook.previous.iter().map(|previous| previous.number).chain([webhook.secret]) {
                secrets::forget(&mut batch, organization, &webhook.secret_name(number));
            }
            let data = EventData::WebhookDeleted(described(webhook));
            record(&mut batch, &data, webhook, Cause::by(by, self.inner.now()));
            committer.commit(batch)?;
            hooks.of(organization).remove(&id);
            Ok(())
        });
        deleted.await
    }

    /// Makes a new secret sign from now on, together with the old one during `grace`.
    pub async fn rotate_secret<Held>(
        &self,
        organization: &Identifier,
        id: WebhookId,
        secret: &WebhookSecret,
        grace: Duration,
        by: &Initiator,
        beside: impl FnOnce(&WebhookState, &mut Batch) -> Held,
    ) -> Result<WebhookState, WebhookError> {
        let inner = &self.inner;
        let rotated = inner.hooks.change(|hooks, committer| {
            let hook = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
            let now = inner.now();
            let mut webhook = hook.webhook.clone();
            let mut batch = Batch::default();
            if let Some(older) = webhook.previous {
                secrets::forget(&mut batch, organization, &webhook.secret_name(older.number));
            }
            let until = now.after(grace);
            webhook.previous = Some(PreviousSecret { number: webhook.secret, until });
            webhook.secret = webhook.secret.wrapping_add(1);
            webhook.updated_at = now;
            inner.vault.keep(&mut batch, organization, &webhook.secret_name(webhook.secret), secret.text())?;
            put_webhook(&mut batch, &webhook);
            record(&mut batch, &updated(&webhook, "secret"), &webhook, Cause::by(by, now));
            let rotated = WebhookState { webhook, progress: hook.progress.clone() };
            let held = beside(&rotated, &mut batch);
            committer.commit(batch)?;
            hook.webhook = rotated.webhook.clone();
            Ok((rotated, held))
        });
        rotated.await.map(|(rotated, _held)| rotated)
    }
}

impl WebhookChange {
    fn applied_to(self, hook: &Hook, now: Timestamp) -> WebhookState {
        let mut next = WebhookState { webhook: hook.webhook.clone(), progress: hook.progress.clone() };
        if let Some(target) = self.target.filter(|target| *target != hook.webhook.target) {
            next.webhook.target = target;
            // Earlier failures were those of another receiver.
            next.progress.failing_since = None;
        }
        if let Some(filters) = self.filters {
            next.webhook.filters = filters;
        }
        if let Some(description) = self.description {
            next.webhook.description = description;
        }
        match (self.enabled, hook.webhook.is_enabled()) {
            (Some(false), true) => next.webhook.disabled = Some(Disabled { at: now, why: DisabledWhy::Asked }),
            (Some(true), false) => {
                next.webhook.disabled = None;
                next.progress.failing_since = None;
            }
            (Some(_), _) | (None, _) => {}
        }
        next
    }
}

/// The event data of a webhook. Omits the URL, whose path or query may contain a secret of the receiver.
pub(super) fn described(webhook: &Webhook) -> WebhookData {
    WebhookData { webhook_id: webhook.id, host: Arc::from(webhook.target.host()) }
}

fn updated(webhook: &Webhook, changed: &str) -> EventData {
    let WebhookData { webhook_id, host } = described(webhook);
    let (changed, enabled) = (Arc::from(changed), webhook.is_enabled());
    EventData::WebhookUpdated(WebhookUpdatedData { webhook_id, host, changed, enabled })
}

pub(super) fn record(batch: &mut Batch, data: &EventData, webhook: &Webhook, cause: Cause<'_>) {
    events::record(batch, &webhook.organization, &NewEvent::new(data, cause));
}

fn changed_fields(before: &Webhook, after: &Webhook) -> String {
    let fields = [
        ("url", before.target != after.target),
        ("events", before.filters != after.filters),
        ("description", before.description != after.description),
        ("enabled", before.is_enabled() != after.is_enabled()),
    ];
    let changed: Vec<_> = fields.into_iter().filter(|(_, changed)| *changed).map(|(field, _)| field).collect();
    changed.join(" ")
}

impl Webhooks {
    /// Makes a delivery due now, with all its retries, even if it has arrived. A delivery being sent is left unchanged.
    /// The caller must not drop this future. `beside` adds to the same batch; its result is held until the batch is
    /// durable or refused.
    pub async fn redeliver<Held>(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
        beside: impl FnOnce(&Delivery, &mut Batch) -> Held,
    ) -> Result<Delivery, WebhookError> {
        let inner = &self.inner;
        // Taken out of turn; false if the delivery is being sent.
        let (taken, before) = inner.hooks.decide(|hooks, _| {
            let hook = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
            if hook.webhook.is_enabled() { Ok(hook.queue.take(delivery)) } else { Err(WebhookError::Disabled) }
        });
        let taken = taken?;
        inner.hooks.durable(before).await;
        let found = inner.delivery(organization, id, delivery);
        let redelivered = inner.hooks.change(|hooks, committer| {
            let hook = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
            let outcome = match found {
                Ok(Some(found)) => self.hand_in_redelivery(hook, committer, found, taken, beside),
                Ok(None) => Err(WebhookError::DeliveryNotFound),
                Err(error) => Err(error.into()),
            };
            if taken && outcome.is_err() {
                let exists = !matches!(outcome, Err(WebhookError::DeliveryNotFound));
                hook.queue.release(delivery, exists.then(|| inner.now()));
            }
            outcome
        });
        let (delivery, _held) = redelivered.await?;
        inner.to_send.notify_one();
        Ok(delivery)
    }

    /// Sends `body` to the webhook, signed like any delivery, even if the webhook is disabled. Not retried and not
    /// recorded.
    pub async fn test(&self, organization: &Identifier, id: WebhookId, body: Vec<u8>) -> Result<Attempt, WebhookError> {
        let _place = self.inner.tests.try_acquire(organization).map_err(|_| WebhookError::Busy)?;
        let webhook = self.get(organization, id)?.webhook;
        let message = DeliveryId(id_seed()).to_string();
        let sent = self.inner.send(&webhook, &message, body).await;
        if let Some(reason) = sent.reason {
            tracing::info!(%organization, webhook = %webhook.id, host = webhook.target.host(), reason, "a test of a webhook got no answer");
        }
        Ok(sent.attempt)
    }

    fn hand_in_redelivery<Held>(
        &self,
        hook: &mut Hook,
        committer: &mut Committer<'_>,
        mut delivery: Delivery,
        taken: bool,
        beside: impl FnOnce(&Delivery, &mut Batch) -> Held,
    ) -> Result<(Delivery, Held), WebhookError> {
        let mut batch = Batch::default();
        let mut progress = hook.progress.clone();
        if taken {
            progress.pending += u32::from(delivery.status != DeliveryStatus::Pending);
            delivery.status = DeliveryStatus::Pending;
            delivery.tries = 0;
            delivery.next_attempt_at = Some(self.inner.now());
            put_delivery(&mut batch, &hook.webhook, &delivery);
            put_progress(&mut batch, &hook.webhook, &progress);
        }
        let held = beside(&delivery, &mut batch);
        if !batch.is_empty() {
            committer.commit(batch)?;
        }
        if taken {
            hook.stored_cursor = progress.cursor;
            hook.progress = progress;
            hook.queue.give_back(&delivery);
        }
        Ok((delivery, held))
    }
}
