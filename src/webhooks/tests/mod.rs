//! Webhooks over stores that are held back, refuse, crash and are reopened. Nothing is sent; the tests set the outcome
//! of each delivery.
#![allow(clippy::unwrap_used)]

mod capturing;
mod on_request;
mod settling;
mod storing;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::capture::CaptureRound;
use super::client::{Outcome, Sent};
use super::sender::Job;
use super::*;
use accounts::secrets::{MasterKey, Vault};
use domain::samples::AnyEvent;
use domain::{DeliveryId, Description, EventType, IdSeed, Identifier, Initiator, Person, Timestamp, UserId, WebhookId};
use events::{Cause, Events, NewEvent};
use outbound::Policy;
use store::{Batch, MemoryStore, Store, end_of_prefix};

const HOUR_MILLIS: i64 = 3_600_000;

/// Webhooks of the organization `acme`, and a clock that does not advance.
struct Bench {
    store: Arc<MemoryStore>,
    webhooks: Webhooks,
    clock: Arc<AtomicI64>,
}

impl Bench {
    fn new() -> Self {
        Self::over(MemoryStore::new(), Arc::new(AtomicI64::new(1_000)))
    }

    fn over(store: MemoryStore, clock: Arc<AtomicI64>) -> Self {
        let store = Arc::new(store);
        let vault = Vault::open(store.clone(), MasterKey::parse(&"1".repeat(64)).unwrap()).unwrap();
        let options = Options {
            policy: Policy::default(),
            timeout: Duration::from_secs(1),
            retries: vec![Duration::from_secs(60), Duration::from_secs(600)],
            disable_after: Duration::from_hours(5),
            max_sending: 16,
            organizations: 2,
        };
        let now = clock.clone();
        let clock_of = Arc::new(move || Timestamp::from_millis(now.load(Ordering::Relaxed)));
        let render: Render = Arc::new(|event| event.id.to_string().into_bytes());
        let events = Events::new(store.clone());
        let webhooks = Webhooks::open(store.clone(), events, Arc::new(vault), clock_of, render, options).unwrap();
        Self { store, webhooks, clock }
    }

    /// The webhooks after a power cut and a restart.
    fn crashed(&self) -> Self {
        Self::over(self.store.crash(), self.clock.clone())
    }

    fn pass(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::Relaxed);
    }

    async fn make(&self, filters: &[&str]) -> WebhookId {
        self.make_in(&acme(), filters).await
    }

    async fn make_in(&self, organization: &Identifier, filters: &[&str]) -> WebhookId {
        let new = NewWebhook {
            target: Target::parse("https://receiver.invalid/hook").unwrap(),
            filters: filters.iter().map(|text| Filter::parse(text).unwrap()).collect(),
            description: Description::parse("").unwrap(),
            enabled: true,
            secret: WebhookSecret::generate(),
        };
        self.webhooks.create(organization, new, &ana(), |_, _| ()).await.unwrap().webhook.id
    }

    async fn set_enabled(&self, id: WebhookId, enabled: bool) {
        let change = WebhookChange { enabled: Some(enabled), ..WebhookChange::default() };
        self.webhooks.update(&acme(), id, change, &ana()).await.unwrap();
    }

    fn happen(&self, event_type: EventType, times: usize) {
        self.happen_in(&acme(), event_type, times);
    }

    fn happen_in(&self, organization: &Identifier, event_type: EventType, times: usize) {
        for _ in 0..times {
            let mut batch = Batch::default();
            let data = AnyEvent(event_type, Vec::new());
            let happening = NewEvent::new(&data, Cause::system(Timestamp::from_millis(7)));
            events::record(&mut batch, organization, &happening);
            self.store.commit(batch).unwrap();
        }
    }

    fn capture(&self) {
        while self.webhooks.inner.capture(&acme()).unwrap() == CaptureRound::Partial {}
    }

    fn due(&self, most: usize) -> Vec<Job> {
        self.webhooks.inner.take_due(most).0
    }

    /// Sets the outcome of sending the delivery.
    fn settle(&self, job: &Job, outcome: Outcome) -> DeliveryStatus {
        let inner = &self.webhooks.inner;
        let delivery = inner.delivery(&acme(), job.webhook.id, job.delivery).unwrap().unwrap();
        let error = (outcome != Outcome::Delivered).then(|| "it failed".to_owned());
        let attempt = Attempt { at: inner.now(), millis: 1, code: Some(200), error, excerpt: String::new() };
        inner.settle(&job.webhook, delivery, Sent { attempt, outcome, reason: None });
        inner.delivery(&acme(), job.webhook.id, job.delivery).unwrap().unwrap().status
    }

    /// The numbers of the events of a webhook's deliveries, oldest first.
    fn captured(&self, id: WebhookId) -> Vec<u64> {
        let mut found = self.webhooks.deliveries(&acme(), id, None).unwrap();
        found.reverse();
        found.iter().map(|delivery| delivery.event.number).collect()
    }

    fn shown(&self, id: WebhookId) -> WebhookState {
        self.webhooks.get(&acme(), id).unwrap()
    }

    /// The types of all recorded events.
    fn event_types(&self) -> Vec<EventType> {
        let events = Events::new(self.store.clone());
        let mut found = Vec::new();
        while let Some(last) = events.read(&acme(), found.len() as u64).ok().filter(|page| !page.is_empty()) {
            found.extend(last.iter().map(|event| event.event_type));
        }
        found
    }
}

const FAILED: Outcome = Outcome::Failed { retry_after: None };

fn acme() -> Identifier {
    Identifier::parse("acme").unwrap()
}

fn ana() -> Initiator {
    Initiator { person: Person { id: UserId(IdSeed([1; 12])), name: "ana".into() }, via: None }
}
