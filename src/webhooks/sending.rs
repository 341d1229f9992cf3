//! Whose turn it is, and what comes of it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use super::changing::record;
use super::client::{Message, Outcome, Sent};
use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::registry::{Hook, Shared, Webhooks, put_delivery, put_progress, put_webhook};
use super::schedule::{longest_wait, wait_after};
use super::signature::WebhookSecret;
use super::stored;
use super::webhook::{Disabled, DisabledWhy, LastDelivery, Progress, Webhook, WebhookError};
use crate::domain::{Data, DeliveryId, Notice, Timestamp};
use crate::events::Cause;
use crate::store::{Batch, Sequence, StoreError, durable_up_to};

/// The wall clock may be set, so nobody sleeps by it for long.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When something is tried again that failed for a reason of the server's own, such as a full disk.
const OWN_FAILURE_MILLIS: i64 = 10_000;

/// A delivery whose turn has come.
pub(super) struct Job {
    pub webhook: Webhook,
    pub delivery: DeliveryId,
    /// From here on the store has it as it is.
    pub after: Sequence,
}

impl Webhooks {
    /// Captures events and delivers them, until it is told to stop; then waits for what is under way.
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

    /// Nothing new is begun from now on.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.to_send.notify_one();
    }

    async fn keep_sending(&self) {
        let mut going = JoinSet::new();
        while !self.shared.stopping.load(Ordering::Acquire) {
            let free = self.shared.options.max_sending.saturating_sub(going.len());
            let (jobs, wait) = self.shared.take_due(free);
            for job in jobs {
                going.spawn(self.clone().deliver(job));
            }
            tokio::select! {
                () = self.shared.to_send.notified() => {}
                Some(ended) = going.join_next() => report(ended),
                () = tokio::time::sleep(wait) => {}
            }
        }
        while let Some(ended) = going.join_next().await {
            report(ended);
        }
    }

    async fn deliver(self, job: Job) {
        let shared = &self.shared;
        durable_up_to(&*shared.store, job.after).await;
        let delivery = match shared.delivery(&job.webhook.organization, job.webhook.id, job.delivery) {
            Ok(Some(delivery)) => delivery,
            // Its webhook has been deleted.
            Ok(None) => return,
            Err(error) => return shared.postpone(&job.webhook, job.delivery, &error),
        };
        let sent = shared.send(&job.webhook, &delivery.event.to_string(), delivery.body.clone()).await;
        shared.settle(&job.webhook, delivery, sent);
    }
}

/// What a task does cannot fail; that it panicked is told once, and its delivery waits for the next start.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a delivery of a webhook was not seen through; it is made again after the next start");
    }
}

impl Shared {
    /// Those whose turn it is, at most so many, each webhook one after the other; and how long until there may be more.
    pub fn take_due(&self, free: usize) -> (Vec<Job>, Duration) {
        // What comes of an attempt could not be written down, and its receiver would get the same again and again.
        if self.store.refusing_writes().is_some() {
            return (Vec::new(), Duration::from_millis(OWN_FAILURE_MILLIS.unsigned_abs()));
        }
        let now = self.now();
        let newest = &mut *self.newest.lock();
        newest.turn = newest.turn.wrapping_add(1);
        let after = newest.last_change;
        let hooks = newest.organizations.values_mut().flat_map(BTreeMap::values_mut);
        let mut hooks: Vec<&mut Hook> = hooks.filter(|hook| hook.webhook.is_enabled()).collect();
        let mut jobs = Vec::new();
        if !hooks.is_empty() {
            let first = newest.turn % hooks.len();
            hooks.rotate_left(first);
        }
        let latest = now.plus(millis(longest_wait(&self.options.retries)));
        hooks.iter_mut().for_each(|hook| hook.line.call_up(now, latest));
        let mut found = true;
        while found && jobs.len() < free {
            found = false;
            for hook in &mut hooks {
                let failing = hook.progress.failing_since.is_some();
                if jobs.len() < free
                    && let Some(delivery) = hook.line.take_due(now, failing)
                {
                    jobs.push(Job { webhook: hook.webhook.clone(), delivery, after });
                    found = true;
                }
            }
        }
        // One that is due by now waits for another to end, and that wakes whoever asks.
        let next = hooks.iter().filter_map(|hook| hook.line.next_due()).filter(|due| *due > now).min();
        (jobs, next.map_or(LOOK_AGAIN, |due| between(now, due).min(LOOK_AGAIN)))
    }

    pub async fn send(&self, webhook: &Webhook, id: &str, body: Vec<u8>) -> Sent {
        let now = self.now();
        match self.secrets_of(webhook, now) {
            Ok(secrets) => {
                let message = Message { target: &webhook.target, id, body, secrets: &secrets, now };
                self.client.send(message).await
            }
            Err(error) => {
                tracing::error!(webhook = %webhook.id, %error, "the secret of a webhook cannot be read");
                let error = Some("the webhook's secret cannot be read; rotate it".to_owned());
                let attempt = Attempt { at: now, millis: 0, code: None, error, excerpt: String::new() };
                Sent { attempt, outcome: Outcome::Failed { retry_after: None } }
            }
        }
    }

    fn secrets_of(&self, webhook: &Webhook, now: Timestamp) -> Result<Vec<WebhookSecret>, WebhookError> {
        let mut secrets = Vec::new();
        for number in webhook.signing(now) {
            // One that has been replaced meanwhile signs no more.
            let Some(value) = self.vault.kept(&webhook.organization, &webhook.secret_name(number))? else { continue };
            let secret = WebhookSecret::parse(value.reveal());
            secrets.push(secret.map_err(|malformed| StoreError::Read(format!("a webhook's secret {malformed}")))?);
        }
        Ok(secrets)
    }

    /// Writes down what came of an attempt, and what follows from it.
    pub fn settle(&self, sent_to: &Webhook, mut delivery: Delivery, mut sent: Sent) {
        let now = self.now();
        let newest = &mut *self.newest.lock();
        let Some(hook) = newest.hook(&sent_to.organization, sent_to.id) else { return };
        // Somebody has seen to it meanwhile, with another URL or by enabling it again: whether that is gone too shows the
        // next time.
        if sent.outcome == Outcome::Gone && *sent_to != hook.webhook {
            sent.outcome = Outcome::Failed { retry_after: None };
        }
        let settled = Settled::of(self, hook, &mut delivery, sent, now);
        let mut batch = Batch::default();
        put_delivery(&mut batch, &hook.webhook, &delivery);
        put_progress(&mut batch, &hook.webhook, &settled.progress);
        for surplus in &settled.surplus {
            batch.delete(stored::delivery_key(&sent_to.organization, sent_to.id, *surplus));
        }
        if let Some(webhook) = &settled.disabled {
            put_webhook(&mut batch, webhook);
            let why = webhook.disabled.map_or("", |disabled| disabled.why.reason());
            record(
                &mut batch,
                Notice::WebhookDisabled,
                webhook,
                Cause::system(now),
                Data::default().with("reason", why),
            );
        }
        let sequence = match self.store.commit(batch) {
            Ok(sequence) => sequence,
            Err(error) => {
                hook.line.postpone(delivery.id, now.plus(OWN_FAILURE_MILLIS));
                let webhook = sent_to.id;
                tracing::warn!(%webhook, delivery = %delivery.id, %error, "what came of a delivery could not be written down; it is made again");
                return;
            }
        };
        settled.tell(hook, &delivery);
        hook.line.give_back(&delivery);
        hook.line.forget(&settled.surplus);
        hook.kept_cursor = settled.progress.cursor;
        hook.progress = settled.progress;
        if let Some(webhook) = settled.disabled {
            hook.webhook = webhook;
        }
        newest.last_change = sequence;
        if delivery.status != DeliveryStatus::Pending {
            self.to_capture.notify_one();
        }
    }

    fn postpone(&self, webhook: &Webhook, delivery: DeliveryId, error: &StoreError) {
        tracing::warn!(webhook = %webhook.id, %delivery, %error, "a delivery could not be read; trying again");
        let until = self.now().plus(OWN_FAILURE_MILLIS);
        if let Some(hook) = self.newest.lock().hook(&webhook.organization, webhook.id) {
            hook.line.postpone(delivery, until);
        }
    }
}

/// What follows from an attempt, before it is written down.
struct Settled {
    progress: Progress,
    /// The webhook, if this was too much.
    disabled: Option<Webhook>,
    /// Deliveries that there is no more room for.
    surplus: Vec<DeliveryId>,
}

impl Settled {
    fn of(shared: &Shared, hook: &Hook, delivery: &mut Delivery, sent: Sent, now: Timestamp) -> Self {
        let Sent { attempt, outcome } = sent;
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
                let wait = wait_after(delivery.tries, &shared.options.retries, retry_after, rand::random());
                match wait {
                    Some(wait) => (DeliveryStatus::Pending, Some(now.plus(millis(wait)))),
                    None => {
                        let too_long = between(since, now) >= shared.options.disable_after;
                        why = too_long.then_some(DisabledWhy::Failing);
                        (DeliveryStatus::Failed, None)
                    }
                }
            }
        };
        let ended = delivery.status != DeliveryStatus::Pending;
        progress.pending = progress.pending.saturating_sub(u32::from(ended));
        progress.last =
            Some(LastDelivery { delivery: delivery.id, notice: delivery.notice, at, status: delivery.status, code });
        let disabled = why.filter(|_| hook.webhook.is_enabled()).map(|why| Webhook {
            disabled: Some(Disabled { at: now, why }),
            updated_at: now,
            ..hook.webhook.clone()
        });
        let surplus = if ended { hook.line.surplus() } else { Vec::new() };
        Self { progress, disabled, surplus }
    }

    /// To operators; by its host alone, since the rest of its URL may be what the receiver trusts.
    fn tell(&self, before: &Hook, delivery: &Delivery) {
        let (webhook, host) = (before.webhook.id, before.webhook.target.host());
        let organization = &before.webhook.organization;
        let outcome = match delivery.status {
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Pending => "failed",
            DeliveryStatus::Failed => "given_up",
        };
        metrics::counter!("lockkeeper_webhook_attempts_total", "outcome" => outcome).increment(1);
        let error = delivery.attempts.last().and_then(|attempt| attempt.error.as_deref()).unwrap_or_default();
        if let Some(disabled) = self.disabled.as_ref().and_then(|webhook| webhook.disabled) {
            let reason = disabled.why.reason();
            tracing::warn!(%organization, %webhook, host, reason, "a webhook was disabled");
        } else if delivery.status == DeliveryStatus::Failed {
            tracing::warn!(%organization, %webhook, host, delivery = %delivery.id, error, "a delivery was given up");
        } else if before.progress.failing_since.is_none() && self.progress.failing_since.is_some() {
            tracing::info!(%organization, %webhook, host, error, "deliveries to a webhook fail; they are retried");
        } else if before.progress.failing_since.is_some() && self.progress.failing_since.is_none() {
            tracing::info!(%organization, %webhook, host, "deliveries to a webhook arrive again");
        }
    }
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(later.as_millis().saturating_sub(earlier.as_millis())).unwrap_or(0))
}

fn millis(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
}
