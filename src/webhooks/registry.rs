//! All webhooks: how everything stands, durable or not, in memory for those who change it; in the store, which has only what
//! is durable, for those who read.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::client::Client;
use super::delivery::{Delivery, DeliveryStatus};
use super::line::Line;
use super::stored;
use super::webhook::{Progress, Shown, Webhook, WebhookError};
use crate::domain::{DeliveryId, Identifier, Timestamp, WebhookId};
use crate::events::{Events, Occurred};
use crate::secrets::Vault;
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to, end_of_prefix, walk};

/// Test calls at once: a person makes them, one at a time.
const TESTS_MAX: usize = 8;

/// What is sent of an event.
pub type Render = Arc<dyn Fn(&Occurred) -> Vec<u8> + Send + Sync>;
/// Reads the wall clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Debug, Clone)]
pub struct Options {
    /// Whether deliveries may go to addresses that are not public.
    pub allow_private: bool,
    /// How long a receiver has to answer.
    pub timeout: Duration,
    /// How long to wait after each attempt that failed; as many again and it is given up.
    pub retries: Vec<Duration>,
    /// A webhook to which nothing has arrived for that long is disabled.
    pub disable_after: Duration,
    /// Deliveries under way at once, to all receivers.
    pub max_sending: usize,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub store: Arc<dyn Store>,
    pub events: Events,
    pub vault: Arc<Vault>,
    pub clock: Clock,
    pub render: Render,
    pub options: Options,
    pub client: Client,
    /// Whoever changes something holds it while both the store and this take the change, so that they agree on the order,
    /// and never while waiting for the disk.
    pub newest: Mutex<Newest>,
    /// There may be something to send.
    pub to_send: Notify,
    /// There may be something to capture that was not before, other than a new event.
    pub to_capture: Notify,
    pub stopping: AtomicBool,
    pub tests: Semaphore,
}

#[derive(Default)]
pub(super) struct Newest {
    pub organizations: HashMap<Identifier, BTreeMap<WebhookId, Hook>>,
    /// Counts the times that somebody was looked for who is to be sent to, so that each time another is asked first.
    pub turn: usize,
    pub last_change: Sequence,
}

pub(super) struct Hook {
    pub webhook: Webhook,
    pub progress: Progress,
    /// The cursor as it was last handed to the store.
    pub kept_cursor: u64,
    pub line: Line,
}

impl Webhooks {
    pub fn open(
        store: Arc<dyn Store>,
        events: Events,
        vault: Arc<Vault>,
        clock: Clock,
        render: Render,
        options: Options,
    ) -> Result<Self, StoreError> {
        let mut newest = Newest::default();
        walk(&*store, stored::WEBHOOKS, &end_of_prefix(stored::WEBHOOKS), |key, bytes| {
            let hook = Hook::load(&*store, stored::decode_webhook(key, bytes)?)?;
            newest.of(&hook.webhook.organization).insert(hook.webhook.id, hook);
            Ok(ControlFlow::Continue(()))
        })?;
        let client = Client::new(options.allow_private, options.timeout);
        let shared = Shared {
            store,
            events,
            vault,
            clock,
            render,
            options,
            client,
            newest: Mutex::new(newest),
            to_send: Notify::new(),
            to_capture: Notify::new(),
            stopping: AtomicBool::new(false),
            tests: Semaphore::new(TESTS_MAX),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Oldest first.
    pub fn list(&self, organization: &Identifier) -> Result<Vec<Shown>, StoreError> {
        let prefix = stored::webhooks_of(organization);
        let mut found = Vec::new();
        walk(&*self.shared.store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            found.push(self.shown(stored::decode_webhook(key, bytes)?)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    pub fn get(&self, organization: &Identifier, id: WebhookId) -> Result<Shown, WebhookError> {
        let key = stored::webhook_key(organization, id);
        let bytes = self.shared.store.get(&key)?.ok_or(WebhookError::NotFound)?;
        Ok(self.shown(stored::decode_webhook(&key, &bytes)?)?)
    }

    /// Newest first.
    pub fn deliveries(
        &self,
        organization: &Identifier,
        id: WebhookId,
        status: Option<DeliveryStatus>,
    ) -> Result<Vec<Delivery>, WebhookError> {
        self.get(organization, id)?;
        let prefix = stored::deliveries_of(organization, id);
        let mut found = Vec::new();
        walk(&*self.shared.store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            let delivery = stored::decode_delivery(key, bytes)?;
            if status.is_none_or(|wanted| wanted == delivery.status) {
                found.push(delivery);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    pub fn delivery(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Delivery, WebhookError> {
        self.get(organization, id)?;
        self.shared.delivery(organization, id, delivery)?.ok_or(WebhookError::DeliveryNotFound)
    }

    /// The number of the first event that a webhook has not captured yet, if there is any that captures: the retention of
    /// events had better stop there.
    pub fn floor(&self, organization: &Identifier) -> Option<u64> {
        let newest = self.shared.newest.lock();
        let hooks = newest.organizations.get(organization)?.values();
        hooks.filter(|hook| hook.webhook.is_enabled()).map(|hook| hook.kept_cursor).min()
    }

    /// Deliveries that have neither arrived nor been given up, of all webhooks.
    pub fn pending(&self) -> u64 {
        let newest = self.shared.newest.lock();
        newest.organizations.values().flat_map(BTreeMap::values).map(|hook| u64::from(hook.progress.pending)).sum()
    }

    fn shown(&self, webhook: Webhook) -> Result<Shown, StoreError> {
        let progress = progress_of(&*self.shared.store, &webhook)?;
        Ok(Shown { webhook, progress })
    }
}

impl Shared {
    pub fn delivery(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Option<Delivery>, StoreError> {
        let key = stored::delivery_key(organization, id, delivery);
        self.store.get(&key)?.map(|bytes| stored::decode_delivery(&key, &bytes)).transpose()
    }

    /// A refusal waits like a success, since what it speaks of may not be durable yet; only what the store has refused is
    /// told at once.
    pub async fn once_durable<T>(
        &self,
        outcome: Result<T, WebhookError>,
        sequence: Sequence,
    ) -> Result<T, WebhookError> {
        if !matches!(outcome, Err(WebhookError::Store(_))) {
            durable_up_to(&*self.store, sequence).await;
        }
        outcome
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl Newest {
    pub fn of(&mut self, organization: &Identifier) -> &mut BTreeMap<WebhookId, Hook> {
        self.organizations.entry(organization.clone()).or_default()
    }

    pub fn hook(&mut self, organization: &Identifier, id: WebhookId) -> Option<&mut Hook> {
        self.organizations.get_mut(organization)?.get_mut(&id)
    }
}

impl Hook {
    fn load(store: &dyn Store, webhook: Webhook) -> Result<Self, StoreError> {
        let progress = progress_of(store, &webhook)?;
        let prefix = stored::deliveries_of(&webhook.organization, webhook.id);
        let mut deliveries = Vec::new();
        walk(store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            let mut delivery = stored::decode_delivery(key, bytes)?;
            // It stays in the store until it is sent.
            delivery.body = Vec::new();
            deliveries.push(delivery);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Self { kept_cursor: progress.cursor, progress, webhook, line: Line::load(deliveries) })
    }
}

fn progress_of(store: &dyn Store, webhook: &Webhook) -> Result<Progress, StoreError> {
    let found = store.get(&stored::progress_key(&webhook.organization, webhook.id))?;
    found.map_or(Ok(Progress::from(0)), |bytes| stored::decode_progress(&bytes))
}

pub(super) fn put_webhook(batch: &mut Batch, webhook: &Webhook) {
    batch.put(stored::webhook_key(&webhook.organization, webhook.id), stored::encode_webhook(webhook));
}

pub(super) fn put_progress(batch: &mut Batch, webhook: &Webhook, progress: &Progress) {
    batch.put(stored::progress_key(&webhook.organization, webhook.id), stored::encode_progress(progress));
}

pub(super) fn put_delivery(batch: &mut Batch, webhook: &Webhook, delivery: &Delivery) {
    let key = stored::delivery_key(&webhook.organization, webhook.id, delivery.id);
    batch.put(key, stored::encode_delivery(delivery));
}
