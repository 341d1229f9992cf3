//! What people ask of deliveries: that one is made again, and that a webhook is tried out.

use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::registry::{Newest, Webhooks, put_delivery, put_progress};
use super::webhook::WebhookError;
use crate::domain::{DeliveryId, Identifier, WebhookId};
use crate::entropy::id_seed;
use crate::store::{Batch, Sequence, durable_up_to};

impl Webhooks {
    /// Has it sent now, and again after that like a new one, also if it had arrived. One that is being sent is left alone.
    /// Whoever calls sees it through: it must not be dropped on the way. What `keep` adds goes into the same batch; what it
    /// returns is held until that is durable or refused.
    pub async fn redeliver<Held>(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
        keep: impl FnOnce(&Delivery, &mut Batch) -> Held,
    ) -> Result<Delivery, WebhookError> {
        let (taken, before) = self.take(organization, id, delivery)?;
        durable_up_to(&*self.shared.store, before).await;
        let found = self.shared.delivery(organization, id, delivery);
        let (outcome, sequence) = {
            let newest = &mut *self.shared.newest.lock();
            let outcome = match found {
                Ok(Some(found)) => self.hand_in_redelivery(newest, organization, id, found, taken, keep),
                Ok(None) => Err(WebhookError::DeliveryNotFound),
                Err(error) => Err(error.into()),
            };
            if let Some(hook) = newest.hook(organization, id).filter(|_| taken && outcome.is_err()) {
                let exists = !matches!(outcome, Err(WebhookError::DeliveryNotFound));
                hook.line.release(delivery, exists.then(|| self.shared.now()));
            }
            (outcome, newest.last_change)
        };
        let (delivery, _held) = self.shared.once_durable(outcome, sequence).await?;
        self.shared.to_send.notify_one();
        Ok(delivery)
    }

    /// Sends this to the webhook, signed like any delivery, also while it is disabled. It is not retried and not logged.
    pub async fn test(&self, organization: &Identifier, id: WebhookId, body: Vec<u8>) -> Result<Attempt, WebhookError> {
        let _place = self.shared.tests.try_acquire().map_err(|_| WebhookError::Busy)?;
        let webhook = self.get(organization, id)?.webhook;
        let message = DeliveryId(id_seed()).to_string();
        Ok(self.shared.send(&webhook, &message, body).await.attempt)
    }

    /// Keeps others from it; not if it is being sent.
    fn take(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
    ) -> Result<(bool, Sequence), WebhookError> {
        let newest = &mut *self.shared.newest.lock();
        let before = newest.last_change;
        let hook = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
        if !hook.webhook.is_enabled() {
            return Err(WebhookError::Disabled);
        }
        Ok((hook.line.take(delivery), before))
    }

    fn hand_in_redelivery<Held>(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        id: WebhookId,
        mut delivery: Delivery,
        taken: bool,
        keep: impl FnOnce(&Delivery, &mut Batch) -> Held,
    ) -> Result<(Delivery, Held), WebhookError> {
        let hook = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
        let mut batch = Batch::default();
        let mut progress = hook.progress.clone();
        if taken {
            progress.pending += u32::from(delivery.status != DeliveryStatus::Pending);
            delivery.status = DeliveryStatus::Pending;
            delivery.tries = 0;
            delivery.next_attempt_at = Some(self.shared.now());
            put_delivery(&mut batch, &hook.webhook, &delivery);
            put_progress(&mut batch, &hook.webhook, &progress);
        }
        let held = keep(&delivery, &mut batch);
        if !batch.is_empty() {
            let sequence = self.commit(batch)?;
            let hook = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
            if taken {
                hook.kept_cursor = progress.cursor;
                hook.progress = progress;
                hook.line.give_back(&delivery);
            }
            newest.last_change = sequence;
        }
        Ok((delivery, held))
    }
}
