//! Sends due deliveries, stores each attempt, and decides the consequence: the delivery arrived, is retried or given
//! up, or the webhook is disabled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use super::client::{Message, Outcome, Sent};
use super::delivery::{Attempt, Delivery, DeliveryStatus, longest_wait, wait_after};
use super::requests::{described, record};
use super::service::{Hook, Hooks, Inner, Options, Webhooks, put_delivery, put_progress, put_webhook};
use super::signature::WebhookSecret;
use super::stored;
use super::webhook::{Disabled, DisabledWhy, LastDelivery, Progress, Webhook, WebhookError};
use domain::{DeliveryId, EventData, Identifier, Timestamp, WebhookData, WebhookDisabledData};
use events::Cause;
use store::{Batch, Committer, Sequence, StoreError};

/// The longest sleep. Limited, since the wall clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A delivery to be sent now.
pub(super) struct Job {
    pub webhook: Webhook,
    pub delivery: DeliveryId,
    /// The store has the delivery once it is durable up to here.
    pub after: Sequence,
    _sender: Sender,
}

/// One of the organization's senders, returned on drop.
pub(super) struct Sender {
    inner: Arc<Inner>,
    organization: Identifier,
}

impl Drop for Sender {
    fn drop(&mut self) {
        let own = self.inner.hooks.with_newest(|hooks| {
            hooks.senders.done(&self.organization);
            hooks.senders.used_by(&self.organization)
        });
        self.inner.sender_meter.used(&self.organization, own);
    }
}

impl Webhooks {
    /// Captures and delivers events until [`Webhooks::stop`], then waits for the running deliveries.
    pub async fn run(&self) {
        let capturing = async {
            self.keep_capturing().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = capturing => {}
            () = self.keep_sending() => {}
        }
    }

    /// Starts no more deliveries.
    pub fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.to_send.notify_one();
    }

    async fn keep_sending(&self) {
        let mut going = JoinSet::new();
        while !self.inner.stopping.load(Ordering::Acquire) {
            let (jobs, wait) = self.inner.take_due(usize::MAX);
            for job in jobs {
                going.spawn(self.clone().deliver(job));
            }
            tokio::select! {
                () = self.inner.to_send.notified() => {}
                Some(ended) = going.join_next() => report(ended),
                () = tokio::time::sleep(wait) => {}
            }
        }
        while let Some(ended) = going.join_next().await {
            report(ended);
        }
    }

    async fn deliver(self, job: Job) {
        let inner = &self.inner;
        inner.hooks.durable(job.after).await;
        let delivery = match inner.delivery(&job.webhook.organization, job.webhook.id, job.delivery) {
            Ok(Some(delivery)) => delivery,
            // The webhook has been deleted.
            Ok(None) => return,
            Err(error) => return inner.postpone(&job.webhook, job.delivery, &error),
        };
        let sent = inner.send(&job.webhook, &delivery.event.to_string(), delivery.body.to_vec()).await;
        inner.settle(&job.webhook, delivery, sent);
    }
}

/// Logs a task that panicked, the only way to end early. Its delivery is sent again after the next start.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a webhook delivery task panicked; the delivery is repeated after the next start");
    }
}

impl Hooks {
    /// Takes at most `most` due deliveries while senders are free: organizations with the fewest senders first, and
    /// each one's webhooks in turn. Also returns when the next retry is due.
    fn take_due(
        &mut self,
        most: usize,
        now: Timestamp,
        latest: Timestamp,
    ) -> (Vec<(Webhook, DeliveryId)>, Option<Timestamp>) {
        self.turn = self.turn.wrapping_add(1);
        let Self { organizations, turn, senders } = self;
        let mut enabled: Vec<(&Identifier, Vec<&mut Hook>)> = Vec::new();
        for (organization, hooks) in organizations {
            let mut hooks: Vec<&mut Hook> = hooks.values_mut().filter(|hook| hook.webhook.is_enabled()).collect();
            if !hooks.is_empty() {
                let first = *turn % hooks.len();
                hooks.rotate_left(first);
                hooks.iter_mut().for_each(|hook| hook.queue.bring_forward(now, latest));
                enabled.push((organization, hooks));
            }
        }
        if !enabled.is_empty() {
            let first = *turn % enabled.len();
            enabled.rotate_left(first);
        }
        let mut taken = Vec::new();
        // For each organization: its number of senders, the time of its last turn, and its index.
        let order =
            enabled.iter().enumerate().map(|(index, (organization, _))| (senders.used_by(organization), 0, index));
        let mut order: BTreeSet<(usize, usize, usize)> = order.collect();
        while taken.len() < most
            && let Some((_, _, index)) = order.pop_first()
        {
            let (organization, hooks) = &mut enabled[index];
            // The organizations that follow have at least as many senders.
            if senders.take(organization).is_err() {
                break;
            }
            match take_next(hooks, now) {
                Some(due) => {
                    taken.push(due);
                    order.insert((senders.used_by(organization), taken.len(), index));
                }
                None => senders.done(organization),
            }
        }
        // Other due deliveries wait until one ends, which wakes the sender.
        let hooks = enabled.iter().flat_map(|(_, hooks)| hooks);
        let next = hooks.filter_map(|hook| hook.queue.next_due()).filter(|due| *due > now).min();
        (taken, next)
    }
}

/// Takes a due delivery of the first webhook that has one, and moves that webhook to the end.
fn take_next(hooks: &mut [&mut Hook], now: Timestamp) -> Option<(Webhook, DeliveryId)> {
    for index in 0..hooks.len() {
        let hook = &mut hooks[index];
        let failing = hook.progress.failing_since.is_some();
        if let Some(delivery) = hook.queue.take_due(now, failing) {
            let webhook = hook.webhook.clone();
            hooks[index..].rotate_left(1);
            return Some((webhook, delivery));
        }
    }
    None
}

impl Inner {
    /// At most `most` due deliveries while senders are free, and the time until more may be due.
    pub fn take_due(self: &Arc<Self>, most: usize) -> (Vec<Job>, Duration) {
        // No attempt could be stored, so the receiver would get the same delivery repeatedly.
        if self.store().refusing_writes().is_some() {
            return (Vec::new(), self.refusing.lock().failed());
        }
        self.refusing.lock().worked();
        let now = self.now();
        let latest = now.after(longest_wait(&self.options.retries));
        let ((taken, next), after) = self.hooks.decide(|hooks, _| {
            let (taken, next) = hooks.take_due(most, now, latest);
            for (webhook, _) in &taken {
                self.sender_meter.used(&webhook.organization, hooks.senders.used_by(&webhook.organization));
            }
            (taken, next)
        });
        let jobs = taken.into_iter().map(|(webhook, delivery)| {
            let _sender = Sender { inner: self.clone(), organization: webhook.organization.clone() };
            Job { webhook, delivery, after, _sender }
        });
        (jobs.collect(), next.map_or(LOOK_AGAIN, |due| due.since(now).min(LOOK_AGAIN)))
    }

    pub async fn send(&self, webhook: &Webhook, id: &str, body: Vec<u8>) -> Sent {
        let now = self.now();
        match self.secrets_of(webhook, now) {
            Ok(secrets) => {
                let message = Message { target: &webhook.target, id, body, secrets: &secrets, now };
                self.client.send(message).await
            }
            Err(error) => {
                tracing::error!(webhook = %webhook.id, %error, "cannot read the secret of a webhook");
                let error = Some("the webhook's secret cannot be read; rotate it".to_owned());
                let attempt = Attempt { at: now, millis: 0, code: None, error, excerpt: String::new() };
                Sent { attempt, outcome: Outcome::Failed { retry_after: None }, reason: None }
            }
        }
    }

    fn secrets_of(&self, webhook: &Webhook, now: Timestamp) -> Result<Vec<WebhookSecret>, WebhookError> {
        let mut secrets = Vec::new();
        for number in webhook.signing(now) {
            // A secret that has been replaced meanwhile no longer signs.
            let Some(value) = self.vault.kept(&webhook.organization, &webhook.secret_name(number))? else { continue };
            let secret = WebhookSecret::parse(value.reveal());
            secrets.push(secret.map_err(|malformed| StoreError::Read(format!("a webhook's secret {malformed}")))?);
        }
        // Happens after a start that had to discard a lost master key.
        if secrets.is_empty() {
            return Err(StoreError::Read("the secrets of the webhook are gone".to_owned()).into());
        }
        Ok(secrets)
    }

    /// Stores an attempt and its consequences.
    pub fn settle(&self, sent_to: &Webhook, delivery: Delivery, sent: Sent) {
        self.hooks.decide(|hooks, committer| {
            if let Some(hook) = hooks.hook(&sent_to.organization, sent_to.id) {
                self.store_attempt(hook, committer, sent_to, delivery, sent);
            }
        });
    }

    fn store_attempt(
        &self,
        hook: &mut Hook,
        committer: &mut Committer<'_>,
        sent_to: &Webhook,
        mut delivery: Delivery,
        mut sent: Sent,
    ) {
        let now = self.now();
        // The webhook has been changed meanwhile, so the next attempt decides whether the new receiver is gone too.
        if sent.outcome == Outcome::Gone && *sent_to != hook.webhook {
            sent.outcome = Outcome::Failed { retry_after: None };
        }
        let after = AfterAttempt::of(&self.options, hook, &mut delivery, sent, now);
        let mut batch = Batch::default();
        put_delivery(&mut batch, &hook.webhook, &delivery);
        put_progress(&mut batch, &hook.webhook, &after.progress);
        for surplus in &after.surplus {
            batch.delete(stored::delivery_key(&sent_to.organization, sent_to.id, *surplus));
        }
        if let Some(webhook) = &after.disabled {
            put_webhook(&mut batch, webhook);
            let why = webhook.disabled.map_or("", |disabled| disabled.why.reason());
            let WebhookData { webhook_id, host } = described(webhook);
            let data = WebhookDisabledData { webhook_id, host, reason: why };
            record(&mut batch, &EventData::WebhookDisabled(data), webhook, Cause::system(now));
        }
        if let Err(error) = committer.commit(batch) {
            hook.queue.postpone(delivery.id, now.after(self.own_failure(&sent_to.organization)));
            let webhook = sent_to.id;
            tracing::warn!(%webhook, delivery = %delivery.id, %error, "an attempt could not be stored; it will be repeated");
            return;
        }
        self.own_failures.lock().remove(&sent_to.organization);
        after.report(hook, &delivery);
        hook.queue.give_back(&delivery);
        hook.queue.forget(&after.surplus);
        hook.stored_cursor = after.progress.cursor;
        hook.progress = after.progress;
        if let Some(webhook) = after.disabled {
            hook.webhook = webhook;
        }
        if delivery.status != DeliveryStatus::Pending {
            self.to_capture.notify_one();
        }
    }

    fn postpone(&self, webhook: &Webhook, delivery: DeliveryId, error: &StoreError) {
        tracing::warn!(webhook = %webhook.id, %delivery, %error, "cannot read a delivery; will retry");
        let until = self.now().after(self.own_failure(&webhook.organization));
        self.hooks.with_newest(|hooks| {
            if let Some(hook) = hooks.hook(&webhook.organization, webhook.id) {
                hook.queue.postpone(delivery, until);
            }
        });
    }
}

/// The consequences of an attempt, before they are stored.
struct AfterAttempt {
    progress: Progress,
    /// The webhook, if this attempt disables it.
    disabled: Option<Webhook>,
    /// Old deliveries to drop.
    surplus: Vec<DeliveryId>,
    /// Why there was no answer, for the log.
    reason: Option<String>,
}

impl AfterAttempt {
    fn of(options: &Options, hook: &Hook, delivery: &mut Delivery, sent: Sent, now: Timestamp) -> Self {
        let Sent { attempt, outcome, reason } = sent;
        let mut progress = hook.progress.clone();
        let (at, code) = (attempt.at, attempt.code);
        delivery.add(attempt);
        let mut why = None;
        (delivery.status, delivery.next_attempt_at) = match outcome {
            Outcome::Delivered => {
                progress.failing_since = None;
                (DeliveryStatus::Delivered, None)
            }
            Outcome::Gone => {
                why = Some(DisabledWhy::Gone);
                (DeliveryStatus::Failed, None)
            }
            Outcome::Failed { retry_after } => {
                let since = *progress.failing_since.get_or_insert(now);
                let wait = wait_after(delivery.tries, &options.retries, retry_after, rand::random());
                match wait {
                    Some(wait) => (DeliveryStatus::Pending, Some(now.after(wait))),
                    None => {
                        let too_long = now.since(since) >= options.disable_after;
                        why = too_long.then_some(DisabledWhy::Failing);
                        (DeliveryStatus::Failed, None)
                    }
                }
            }
        };
        let ended = delivery.status != DeliveryStatus::Pending;
        progress.pending = progress.pending.saturating_sub(u32::from(ended));
        progress.last = Some(LastDelivery {
            delivery: delivery.id,
            event_type: delivery.event_type,
            at,
            status: delivery.status,
            code,
        });
        let disabled = why.filter(|_| hook.webhook.is_enabled()).map(|why| Webhook {
            disabled: Some(Disabled { at: now, why }),
            updated_at: now,
            ..hook.webhook.clone()
        });
        let surplus = if ended { hook.queue.surplus() } else { Vec::new() };
        Self { progress, disabled, surplus, reason }
    }

    /// Logs an attempt with the host only, since the rest of the URL may contain a secret of the receiver.
    fn report(&self, before: &Hook, delivery: &Delivery) {
        let (webhook, host) = (before.webhook.id, before.webhook.target.host());
        let organization = &before.webhook.organization;
        let outcome = match delivery.status {
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Pending => "failed",
            DeliveryStatus::Failed => "given_up",
        };
        metrics::counter!("lockkeeper_webhook_attempts_total", "outcome" => outcome).increment(1);
        let told = delivery.attempts.last().and_then(|attempt| attempt.error.as_deref());
        let error = self.reason.as_deref().or(told).unwrap_or_default();
        if let Some(disabled) = self.disabled.as_ref().and_then(|webhook| webhook.disabled) {
            let reason = disabled.why.reason();
            tracing::warn!(%organization, %webhook, host, reason, "a webhook was disabled");
        } else if delivery.status == DeliveryStatus::Failed {
            tracing::warn!(%organization, %webhook, host, delivery = %delivery.id, error, "a delivery was given up");
        } else if before.progress.failing_since.is_none() && self.progress.failing_since.is_some() {
            tracing::info!(%organization, %webhook, host, error, "deliveries to a webhook are failing; retrying");
        } else if before.progress.failing_since.is_some() && self.progress.failing_since.is_none() {
            tracing::info!(%organization, %webhook, host, "deliveries to a webhook succeed again");
        }
    }
}
