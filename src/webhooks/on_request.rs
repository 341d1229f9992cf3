//! What members request: to redeliver, and to test a webhook.

use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::service::{Hook, Hooks, Webhooks, put_delivery, put_progress};
use super::webhook::WebhookError;
use ambient::entropy::id_seed;
use domain::{DeliveryId, Identifier, WebhookId};
use store::{Batch, Committer};

impl Webhooks {
    /// Makes a delivery due now, with all its retries, even if it had arrived. One that is being sent stays as it is. The
    /// caller must not drop this future. What `beside` adds goes into the same batch; what it returns is held until that is
    /// durable or refused.
    pub async fn redeliver<Held>(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
        beside: impl FnOnce(&Delivery, &mut Batch) -> Held,
    ) -> Result<Delivery, WebhookError> {
        let inner = &self.inner;
        let (taken, before) = inner.hooks.decide(|hooks, _| take(hooks, organization, id, delivery));
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

    /// Sends `body` to the webhook, signed like any delivery, even if it is disabled. Not retried and not recorded.
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

/// Takes a delivery out of turn; false if it is being sent.
fn take(
    hooks: &mut Hooks,
    organization: &Identifier,
    id: WebhookId,
    delivery: DeliveryId,
) -> Result<bool, WebhookError> {
    let hook = hooks.hook(organization, id).ok_or(WebhookError::NotFound)?;
    if !hook.webhook.is_enabled() {
        return Err(WebhookError::Disabled);
    }
    Ok(hook.queue.take(delivery))
}
