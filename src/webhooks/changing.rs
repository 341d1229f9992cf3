//! Making, changing and deleting webhooks, and giving them new secrets.

use std::time::Duration;

use super::line::Line;
use super::registry::{Hook, Newest, Webhooks, put_progress, put_webhook};
use super::signature::WebhookSecret;
use super::stored;
use super::webhook::{
    Disabled, DisabledWhy, NewWebhook, PreviousSecret, Progress, Shown, WEBHOOKS_MAX, Webhook, WebhookChange,
    WebhookError,
};
use crate::domain::{Agent, Data, Identifier, Notice, WebhookId};
use crate::entropy::id_seed;
use crate::events::{self, Cause, Happening};
use crate::secrets;
use crate::store::{Batch, Sequence};

const FIRST_SECRET: u32 = 1;

impl Webhooks {
    /// It begins with what happens from now on. What `keep` adds goes into the same batch; what it returns is held until that
    /// is durable or refused.
    pub async fn create<Held>(
        &self,
        organization: &Identifier,
        new: NewWebhook,
        by: &Agent,
        keep: impl FnOnce(&Shown, &mut Batch) -> Held,
    ) -> Result<Shown, WebhookError> {
        let shared = &self.shared;
        if !shared.options.allow_private {
            new.target.check_address()?;
        }
        shared.vault.prepare(organization).await?;
        let (outcome, sequence) = {
            let newest = &mut *shared.newest.lock();
            let outcome = self.hand_in_new(newest, organization, new, by, keep);
            (outcome, newest.last_change)
        };
        let (shown, _held) = shared.once_durable(outcome, sequence).await?;
        shared.to_capture.notify_one();
        Ok(shown)
    }

    pub async fn update(
        &self,
        organization: &Identifier,
        id: WebhookId,
        change: WebhookChange,
        by: &Agent,
    ) -> Result<Shown, WebhookError> {
        let shared = &self.shared;
        if let Some(target) = change.target.as_ref().filter(|_| !shared.options.allow_private) {
            target.check_address()?;
        }
        let (outcome, sequence) = {
            let newest = &mut *shared.newest.lock();
            let outcome = self.hand_in_change(newest, organization, id, change, by);
            (outcome, newest.last_change)
        };
        // Before the wait, in which a request may be given up.
        shared.to_capture.notify_one();
        shared.to_send.notify_one();
        shared.once_durable(outcome, sequence).await
    }

    /// All there is of it goes; what is being sent may still arrive.
    pub async fn delete(&self, organization: &Identifier, id: WebhookId, by: &Agent) -> Result<(), WebhookError> {
        let (outcome, sequence) = {
            let newest = &mut *self.shared.newest.lock();
            let outcome = self.hand_in_delete(newest, organization, id, by);
            (outcome, newest.last_change)
        };
        self.shared.once_durable(outcome, sequence).await
    }

    /// From now on the new secret signs, and the old one beside it for as long as `grace`.
    pub async fn rotate_secret<Held>(
        &self,
        organization: &Identifier,
        id: WebhookId,
        secret: &WebhookSecret,
        grace: Duration,
        by: &Agent,
        keep: impl FnOnce(&Shown, &mut Batch) -> Held,
    ) -> Result<Shown, WebhookError> {
        let (outcome, sequence) = {
            let newest = &mut *self.shared.newest.lock();
            let outcome = self.hand_in_secret(newest, organization, id, secret, grace, by, keep);
            (outcome, newest.last_change)
        };
        let (shown, _held) = self.shared.once_durable(outcome, sequence).await?;
        Ok(shown)
    }

    fn hand_in_new<Held>(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        new: NewWebhook,
        by: &Agent,
        keep: impl FnOnce(&Shown, &mut Batch) -> Held,
    ) -> Result<(Shown, Held), WebhookError> {
        if newest.of(organization).len() >= WEBHOOKS_MAX {
            return Err(WebhookError::TooMany);
        }
        let now = self.shared.now();
        let webhook = Webhook {
            organization: organization.clone(),
            id: WebhookId(id_seed()),
            target: new.target,
            filters: new.filters,
            description: new.description,
            disabled: (!new.enabled).then_some(Disabled { at: now, why: DisabledWhy::Asked }),
            secret: FIRST_SECRET,
            previous: None,
            created_at: now,
            updated_at: now,
        };
        // Read before the batch is handed in, so that nothing which happens after it is passed over.
        let progress = Progress::from(self.shared.events.next(organization)?);
        let mut batch = Batch::default();
        self.shared.vault.keep(&mut batch, organization, &webhook.secret_name(FIRST_SECRET), new.secret.text())?;
        put_webhook(&mut batch, &webhook);
        put_progress(&mut batch, &webhook, &progress);
        record(&mut batch, Notice::WebhookCreated, &webhook, Cause::by(by, now), Data::default());
        let shown = Shown { webhook, progress };
        let held = keep(&shown, &mut batch);
        newest.last_change = self.commit(batch)?;
        let hook = Hook {
            webhook: shown.webhook.clone(),
            kept_cursor: shown.progress.cursor,
            progress: shown.progress.clone(),
            line: Line::default(),
        };
        newest.of(organization).insert(shown.webhook.id, hook);
        Ok((shown, held))
    }

    fn hand_in_change(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        id: WebhookId,
        change: WebhookChange,
        by: &Agent,
    ) -> Result<Shown, WebhookError> {
        let hook = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
        let now = self.shared.now();
        let mut next = Shown { webhook: hook.webhook.clone(), progress: hook.progress.clone() };
        if let Some(target) = change.target.filter(|target| *target != hook.webhook.target) {
            next.webhook.target = target;
            // It was another receiver that failed.
            next.progress.failing_since = None;
        }
        if let Some(filters) = change.filters {
            next.webhook.filters = filters;
        }
        if let Some(description) = change.description {
            next.webhook.description = description;
        }
        match (change.enabled, hook.webhook.is_enabled()) {
            (Some(false), true) => next.webhook.disabled = Some(Disabled { at: now, why: DisabledWhy::Asked }),
            (Some(true), false) => {
                next.webhook.disabled = None;
                next.progress.failing_since = None;
            }
            (Some(_), _) | (None, _) => {}
        }
        if next.webhook == hook.webhook {
            return Ok(next);
        }
        next.webhook.updated_at = now;
        let changed = changed_fields(&hook.webhook, &next.webhook);
        let mut batch = Batch::default();
        put_webhook(&mut batch, &next.webhook);
        put_progress(&mut batch, &next.webhook, &next.progress);
        let data = Data::default().with("changed", changed).with("enabled", next.webhook.is_enabled());
        record(&mut batch, Notice::WebhookUpdated, &next.webhook, Cause::by(by, now), data);
        let sequence = self.commit(batch)?;
        hook.webhook = next.webhook.clone();
        hook.progress = next.progress.clone();
        hook.kept_cursor = next.progress.cursor;
        newest.last_change = sequence;
        Ok(next)
    }

    fn hand_in_delete(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        id: WebhookId,
        by: &Agent,
    ) -> Result<(), WebhookError> {
        let Hook { webhook, line, .. } = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
        let mut batch = Batch::default();
        batch.delete(stored::webhook_key(organization, id));
        batch.delete(stored::progress_key(organization, id));
        for delivery in line.all() {
            batch.delete(stored::delivery_key(organization, id, delivery));
        }
        for number in webhook.previous.iter().map(|previous| previous.number).chain([webhook.secret]) {
            secrets::forget(&mut batch, organization, &webhook.secret_name(number));
        }
        record(&mut batch, Notice::WebhookDeleted, webhook, Cause::by(by, self.shared.now()), Data::default());
        newest.last_change = self.commit(batch)?;
        newest.of(organization).remove(&id);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what `rotate_secret` takes, and what it holds")]
    fn hand_in_secret<Held>(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        id: WebhookId,
        secret: &WebhookSecret,
        grace: Duration,
        by: &Agent,
        keep: impl FnOnce(&Shown, &mut Batch) -> Held,
    ) -> Result<(Shown, Held), WebhookError> {
        let hook = newest.hook(organization, id).ok_or(WebhookError::NotFound)?;
        let now = self.shared.now();
        let mut webhook = hook.webhook.clone();
        let mut batch = Batch::default();
        if let Some(older) = webhook.previous {
            secrets::forget(&mut batch, organization, &webhook.secret_name(older.number));
        }
        let until = now.plus(i64::try_from(grace.as_millis()).unwrap_or(i64::MAX));
        webhook.previous = Some(PreviousSecret { number: webhook.secret, until });
        webhook.secret = webhook.secret.wrapping_add(1);
        webhook.updated_at = now;
        self.shared.vault.keep(&mut batch, organization, &webhook.secret_name(webhook.secret), secret.text())?;
        put_webhook(&mut batch, &webhook);
        let data = Data::default().with("changed", "secret").with("enabled", webhook.is_enabled());
        record(&mut batch, Notice::WebhookUpdated, &webhook, Cause::by(by, now), data);
        let shown = Shown { webhook, progress: hook.progress.clone() };
        let held = keep(&shown, &mut batch);
        let sequence = self.commit(batch)?;
        hook.webhook = shown.webhook.clone();
        newest.last_change = sequence;
        Ok((shown, held))
    }

    pub(super) fn commit(&self, batch: Batch) -> Result<Sequence, WebhookError> {
        Ok(self.shared.store.commit(batch)?)
    }
}

/// Without the URL: its path or query may be what its receiver trusts.
pub(super) fn record(batch: &mut Batch, notice: Notice, webhook: &Webhook, cause: Cause<'_>, data: Data) {
    let data = data.with("webhookId", webhook.id.to_string()).with("host", webhook.target.host());
    events::record(batch, &webhook.organization, &Happening::new(notice, cause.at, cause.by, &data));
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
