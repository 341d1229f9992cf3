//! Webhooks, their deliveries, and the bodies sent to receivers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::event::EventView;
use super::ids::{DeliveryId, EventId, WebhookId, Written};
use super::statuses::{DeliveryStatus, EventType, Named};
use super::values::{Text, Time};
use crate::http::answer::written;
use domain::Timestamp;
use events::RecordedEvent;
use webhooks::{Attempt, Delivery, Filter, LastDelivery, WebhookSecret, WebhookState};

/// Where events are sent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
pub struct WebhookView<'a> {
    webhook_id: WebhookId,
    /// http or https.
    #[schema(example = "https://ci.example.com/hooks/lockkeeper")]
    url: &'a str,
    /// Which events it gets. Empty: all.
    #[schema(value_type = Vec<EventFilter>)]
    events: Vec<Text<Filter>>,
    /// For people.
    #[schema(example = "The build server")]
    description: &'a str,
    /// Whether events are sent.
    #[schema(example = true)]
    enabled: bool,
    /// Why it is disabled: by a member, because its receiver answered 410, or because it kept failing.
    #[schema(example = "its receiver answered 410 Gone")]
    disabled_reason: Option<&'static str>,
    /// Since when it is disabled, or null.
    disabled_at: Option<Time>,
    /// When attempts began to fail; null if the last one arrived.
    failing_since: Option<Time>,
    /// Deliveries that have neither arrived nor been given up.
    #[schema(example = 0)]
    pending_deliveries: u32,
    /// Events that had expired before they were sent.
    #[schema(example = 0)]
    missed_events: u64,
    /// When the previous secret stops signing too.
    previous_secret_expires_at: Option<Time>,
    /// When it was created.
    created_at: Time,
    /// When it last changed.
    updated_at: Time,
    /// The last attempt to deliver something.
    last_delivery: Option<LastDeliveryView>,
}

/// The last attempt of a webhook to deliver something.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastDelivery)]
pub struct LastDeliveryView {
    delivery_id: DeliveryId,
    r#type: EventType,
    status: DeliveryStatus,
    /// The status of the response; null if there was none.
    #[schema(example = 200)]
    status_code: Option<u16>,
    /// When.
    at: Time,
}

/// A webhook with its new secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewWebhook)]
pub struct OpenWebhookView<'a> {
    #[serde(flatten)]
    view: WebhookView<'a>,
    /// Signs the deliveries. It is not shown again: a retry with the same `Idempotency-Key` gets null; if the first answer
    /// was lost, rotate it.
    #[schema(value_type = Option<String>, example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: &'a str,
}

/// The same as it is kept for retries.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptWebhookView<'a> {
    #[serde(flatten)]
    view: WebhookView<'a>,
    /// Always null: the secret was in the first answer.
    secret: Option<String>,
}

/// One event for one webhook.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub struct DeliveryView<'a> {
    delivery_id: DeliveryId,
    /// Sent as `webhook-id`, the same on every attempt.
    event_id: EventId,
    r#type: EventType,
    status: DeliveryStatus,
    /// The newest 20, oldest first.
    attempts: Vec<AttemptView<'a>>,
    /// Null once it has arrived or has been given up.
    next_attempt_at: Option<Time>,
    /// When the event was recorded for it.
    created_at: Time,
}

/// One attempt to deliver something.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryAttempt)]
pub struct AttemptView<'a> {
    /// When it began.
    at: Time,
    /// How long it took.
    #[schema(example = 12)]
    duration_ms: u32,
    /// The status of the response; null if there was none.
    #[schema(example = 200)]
    status_code: Option<u16>,
    /// Why the attempt failed; null if it did not.
    #[schema(example = "the receiver answered 503")]
    error: Option<&'a str>,
    /// The start of the response body, at most 1 KiB.
    #[schema(example = "ok")]
    response_excerpt: &'a str,
}

impl<'a> From<&'a WebhookState> for WebhookView<'a> {
    fn from(WebhookState { webhook, progress }: &'a WebhookState) -> Self {
        Self {
            webhook_id: Written(webhook.id),
            url: webhook.target.as_str(),
            events: webhook.filters.iter().copied().map(Text).collect(),
            description: webhook.description.as_str(),
            enabled: webhook.is_enabled(),
            disabled_reason: webhook.disabled.map(|disabled| disabled.why.reason()),
            disabled_at: webhook.disabled.map(|disabled| Time(disabled.at)),
            failing_since: progress.failing_since.map(Time),
            pending_deliveries: progress.pending,
            missed_events: progress.missed,
            previous_secret_expires_at: webhook.previous.map(|previous| Time(previous.until)),
            created_at: Time(webhook.created_at),
            updated_at: Time(webhook.updated_at),
            last_delivery: progress.last.as_ref().map(LastDeliveryView::from),
        }
    }
}

impl From<&LastDelivery> for LastDeliveryView {
    fn from(last: &LastDelivery) -> Self {
        Self {
            delivery_id: Written(last.delivery),
            r#type: Named(last.event_type),
            status: Named(last.status),
            status_code: last.code,
            at: Time(last.at),
        }
    }
}

impl<'a> OpenWebhookView<'a> {
    pub fn new(shown: &'a WebhookState, secret: &'a WebhookSecret) -> Self {
        Self { view: WebhookView::from(shown), secret: secret.text().reveal() }
    }
}

impl<'a> From<&'a WebhookState> for KeptWebhookView<'a> {
    fn from(shown: &'a WebhookState) -> Self {
        Self { view: WebhookView::from(shown), secret: None }
    }
}

impl<'a> From<&'a Delivery> for DeliveryView<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        let pending = delivery.status == webhooks::DeliveryStatus::Pending;
        // One that has not been tried is sent after those before it.
        let due = delivery.next_attempt_at.unwrap_or(delivery.created_at);
        Self {
            delivery_id: Written(delivery.id),
            event_id: Written(delivery.event),
            r#type: Named(delivery.event_type),
            status: Named(delivery.status),
            attempts: delivery.attempts.iter().map(AttemptView::from).collect(),
            next_attempt_at: pending.then_some(Time(due)),
            created_at: Time(delivery.created_at),
        }
    }
}

impl<'a> From<&'a Attempt> for AttemptView<'a> {
    fn from(attempt: &'a Attempt) -> Self {
        Self {
            at: Time(attempt.at),
            duration_ms: attempt.millis,
            status_code: attempt.code,
            error: attempt.error.as_deref(),
            response_excerpt: &attempt.excerpt,
        }
    }
}

/// The types of events, and all of each group.
pub fn event_filter_names() -> BTreeSet<String> {
    let names = domain::EventType::ALL.iter().map(|event_type| event_type.as_str());
    let groups = names.clone().filter_map(|name| name.split('.').next()).map(|group| format!("{group}.*"));
    groups.chain(names.map(str::to_owned)).collect()
}

/// The schema of a filter.
pub struct EventFilter;

impl PartialSchema for EventFilter {
    fn schema() -> RefOr<Schema> {
        let names = event_filter_names();
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).examples(["session.*"]);
        let description = "A type of events, such as `session.claimed`, or all of a group, such as `session.*`.";
        schema.description(Some(description)).into()
    }
}

impl ToSchema for EventFilter {
    fn name() -> Cow<'static, str> {
        "EventFilter".into()
    }
}

/// The same for requests.
pub fn event_filter_schema() -> Value {
    serde_json::to_value(EventFilter::schema()).unwrap_or_default()
}

/// The body of a delivery, by the Standard Webhooks specification.
#[derive(Serialize)]
struct Payload<T> {
    r#type: &'static str,
    timestamp: Time,
    data: T,
}

/// The body for an event.
pub fn webhook_body(event: &RecordedEvent) -> Vec<u8> {
    written(&Payload { r#type: event.event_type.as_str(), timestamp: Time(event.at), data: EventView::from(event) })
}

/// The body for a test.
pub fn webhook_test_body(webhook: domain::WebhookId, now: Timestamp) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ping {
        webhook_id: WebhookId,
    }
    written(&Payload { r#type: "webhook.test", timestamp: Time(now), data: Ping { webhook_id: Written(webhook) } })
}
