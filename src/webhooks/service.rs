//! All webhooks, for readers, and their newest state in memory, for writers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::client::Client;
use super::delivery::{Delivery, DeliveryQueue, DeliveryStatus};
use super::stored;
use super::webhook::{Progress, Webhook, WebhookError, WebhookState};
use accounts::secrets::Vault;
use ambient::backoff::{Backoff, Retries};
use domain::{DeliveryId, Identifier, Timestamp, WebhookId};
use events::{Events, RecordedEvent};
use outbound::Policy;
use shares::{Capacity, Permits, ShareMeter, Turns};
use store::{Batch, Ordered, Store, StoreError, for_each};

/// Concurrent test calls. People send them one after another.
const TESTS_MAX: usize = 8;

/// Renders the body for an event.
pub type Render = Arc<dyn Fn(&RecordedEvent) -> Vec<u8> + Send + Sync>;
/// Reads the wall clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Debug, Clone)]
pub struct Options {
    /// The policy for destinations.
    pub policy: Policy,
    /// The time limit for a receiver's answer.
    pub timeout: Duration,
    /// The waits after failed attempts, in order. After the last one the delivery is given up.
    pub retries: Vec<Duration>,
    /// A webhook whose deliveries have all failed for this long is disabled.
    pub disable_after: Duration,
    /// Concurrent deliveries, to all receivers together.
    pub max_sending: usize,
    /// The number of organizations that share the concurrent deliveries.
    pub organizations: usize,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    pub(super) inner: Arc<Inner>,
}

/// The pauses after failures of the server itself, such as a full disk.
const OWN_FAILURES: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(120));

pub(super) struct Inner {
    pub events: Events,
    pub vault: Arc<Vault>,
    pub clock: Clock,
    pub render: Render,
    pub options: Options,
    pub client: Client,
    /// The newest state, durable or not, for writers and the sender.
    pub hooks: Ordered<Hooks>,
    /// Wakes the sender when something may be due.
    pub to_send: Notify,
    /// Wakes the capture for a reason other than a new event.
    pub to_capture: Notify,
    pub stopping: AtomicBool,
    /// Consecutive failures of the server itself, such as attempts that a full disk did not store. Counted per
    /// organization, so that many failing deliveries of one do not delay others.
    pub own_failures: Mutex<HashMap<Identifier, Retries>>,
    /// Consecutive times that the store refused writes.
    pub refusing: Mutex<Retries>,
    pub sender_meter: ShareMeter,
    pub tests: Permits,
}

pub(super) struct Hooks {
    pub organizations: HashMap<Identifier, BTreeMap<WebhookId, Hook>>,
    /// Rises with each search for due deliveries, so that each search begins with another webhook.
    pub turn: usize,
    /// The senders in use. Deliveries wait in the queues of their webhooks, not here.
    pub senders: Turns<()>,
}

pub(super) struct Hook {
    pub webhook: Webhook,
    pub progress: Progress,
    /// The last committed cursor.
    pub stored_cursor: u64,
    pub queue: DeliveryQueue,
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
        let senders = Capacity::turns(options.max_sending).among(options.organizations);
        let tests = Capacity::turns(TESTS_MAX).among(options.organizations);
        let mut hooks =
            Hooks { organizations: HashMap::new(), turn: 0, senders: Turns::new(senders, Capacity::turns(0)) };
        for_each(&*store, store::keys::WEBHOOKS, |key, bytes| {
            let hook = Hook::load(&*store, stored::decode_webhook(key, bytes)?)?;
            hooks.of(&hook.webhook.organization).insert(hook.webhook.id, hook);
            Ok(())
        })?;
        let client = Client::new(options.policy.clone(), options.timeout);
        let inner = Inner {
            hooks: Ordered::new(store, hooks),
            events,
            vault,
            clock,
            render,
            options,
            client,
            to_send: Notify::new(),
            to_capture: Notify::new(),
            stopping: AtomicBool::new(false),
            own_failures: Mutex::default(),
            refusing: Mutex::new(Retries::new(OWN_FAILURES)),
            sender_meter: ShareMeter::new("webhook_senders", senders),
            tests: Permits::without_queue("webhook_tests", tests),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The webhooks of an organization, oldest first.
    pub fn list(&self, organization: &Identifier) -> Result<Vec<WebhookState>, StoreError> {
        let mut found = Vec::new();
        for_each(self.inner.store(), &stored::webhooks_of(organization), |key, bytes| {
            found.push(self.with_progress(stored::decode_webhook(key, bytes)?)?);
            Ok(())
        })?;
        Ok(found)
    }

    pub fn get(&self, organization: &Identifier, id: WebhookId) -> Result<WebhookState, WebhookError> {
        let key = stored::webhook_key(organization, id);
        let bytes = self.inner.store().get(&key)?.ok_or(WebhookError::NotFound)?;
        Ok(self.with_progress(stored::decode_webhook(&key, &bytes)?)?)
    }

    /// The deliveries of a webhook, newest first.
    pub fn deliveries(
        &self,
        organization: &Identifier,
        id: WebhookId,
        status: Option<DeliveryStatus>,
    ) -> Result<Vec<Delivery>, WebhookError> {
        self.get(organization, id)?;
        let mut found = Vec::new();
        for_each(self.inner.store(), &stored::deliveries_of(organization, id), |key, bytes| {
            let delivery = stored::decode_delivery(key, bytes)?;
            if status.is_none_or(|wanted| wanted == delivery.status) {
                found.push(delivery);
            }
            Ok(())
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
        self.inner.delivery(organization, id, delivery)?.ok_or(WebhookError::DeliveryNotFound)
    }

    /// The number of the first event that an enabled webhook has not captured yet. Retention keeps events from this one
    /// on.
    pub fn floor(&self, organization: &Identifier) -> Option<u64> {
        self.inner.hooks.with_newest(|hooks| {
            let hooks = hooks.organizations.get(organization)?.values();
            hooks.filter(|hook| hook.webhook.is_enabled()).map(|hook| hook.stored_cursor).min()
        })
    }

    /// The number of deliveries of all webhooks that have neither arrived nor been given up.
    pub fn pending(&self) -> u64 {
        self.inner.hooks.with_newest(|hooks| {
            let all = hooks.organizations.values().flat_map(BTreeMap::values);
            all.map(|hook| u64::from(hook.progress.pending)).sum()
        })
    }

    fn with_progress(&self, webhook: Webhook) -> Result<WebhookState, StoreError> {
        let progress = progress_of(self.inner.store(), &webhook)?;
        Ok(WebhookState { webhook, progress })
    }
}

impl Inner {
    pub fn delivery(
        &self,
        organization: &Identifier,
        id: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Option<Delivery>, StoreError> {
        let key = stored::delivery_key(organization, id, delivery);
        self.store().get(&key)?.map(|bytes| stored::decode_delivery(&key, &bytes)).transpose()
    }

    pub fn store(&self) -> &dyn Store {
        self.hooks.store()
    }

    /// Records a failure of the server itself with a delivery of the organization. Returns the pause before the next
    /// attempt.
    pub fn own_failure(&self, organization: &Identifier) -> Duration {
        let mut failures = self.own_failures.lock();
        failures.entry(organization.clone()).or_insert_with(|| Retries::new(OWN_FAILURES)).failed()
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl Hooks {
    pub fn of(&mut self, organization: &Identifier) -> &mut BTreeMap<WebhookId, Hook> {
        self.organizations.entry(organization.clone()).or_default()
    }

    pub fn hook(&mut self, organization: &Identifier, id: WebhookId) -> Option<&mut Hook> {
        self.organizations.get_mut(organization)?.get_mut(&id)
    }
}

impl Hook {
    pub fn new(WebhookState { webhook, progress }: WebhookState) -> Self {
        Self { stored_cursor: progress.cursor, progress, webhook, queue: DeliveryQueue::default() }
    }

    fn load(store: &dyn Store, webhook: Webhook) -> Result<Self, StoreError> {
        let progress = progress_of(store, &webhook)?;
        let mut deliveries = Vec::new();
        for_each(store, &stored::deliveries_of(&webhook.organization, webhook.id), |key, bytes| {
            let mut delivery = stored::decode_delivery(key, bytes)?;
            // Bodies stay in the store until they are sent.
            delivery.body = Arc::default();
            deliveries.push(delivery);
            Ok(())
        })?;
        Ok(Self { queue: DeliveryQueue::load(deliveries), ..Self::new(WebhookState { webhook, progress }) })
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
