//! Webhooks, their deliveries, and the bodies sent to receivers.

use serde::Serialize;
use utoipa::ToSchema;

use super::event::EventView;
use super::values::{Text, Time};
use crate::domain::{DeliveryId, Timestamp, WebhookId};
use crate::events::{EventId, RecordedEvent};
use crate::http::answer::written;
use crate::webhooks::{Attempt, Delivery, DeliveryStatus, Filter, LastDelivery, WebhookSecret, WebhookState};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
pub struct WebhookView<'a> {
    #[schema(value_type = String, example = "whk_0199f3c2a4b07f3e9d2c5a1b")]
    webhook_id: Text<WebhookId>,
    #[schema(example = "https://ci.example.com/hooks/lockkeeper")]
    url: &'a str,
    /// Types of events, such as `session.claimed`, or all of one kind, such as `session.*`. Empty: all.
    #[schema(value_type = Vec<String>)]
    events: Vec<Text<Filter>>,
    description: &'a str,
    enabled: bool,
    /// Why it is disabled: by a member, because its receiver answered 410, or because it kept failing.
    disabled_reason: Option<&'static str>,
    disabled_at: Option<Time>,
    /// When attempts began to fail; null if the last one arrived.
    failing_since: Option<Time>,
    /// Deliveries that have neither arrived nor been given up.
    pending_deliveries: u32,
    /// Events that had expired before they were sent.
    missed_events: u64,
    /// When the previous secret stops signing too.
    previous_secret_expires_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    /// The last attempt to deliver something.
    last_delivery: Option<LastDeliveryView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastDelivery)]
pub struct LastDeliveryView {
    #[schema(value_type = String, example = "dlv_0199f3c2a4b07f3e9d2c5a1b")]
    delivery_id: Text<DeliveryId>,
    #[schema(value_type = String, example = "session.claimed")]
    r#type: &'static str,
    #[schema(value_type = String, example = "delivered")]
    status: &'static str,
    /// Null if there was no answer.
    status_code: Option<u16>,
    at: Time,
}

/// A webhook with its new secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewWebhook)]
pub struct OpenWebhookView<'a> {
    #[serde(flatten)]
    view: WebhookView<'a>,
    /// Signs the deliveries. It is not shown again.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: &'a str,
}

/// The same as it is kept for retries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayedWebhook)]
pub struct KeptWebhookView<'a> {
    #[serde(flatten)]
    view: WebhookView<'a>,
    /// Always null: the secret was in the first answer. If that was lost, rotate it.
    secret: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub struct DeliveryView<'a> {
    #[schema(value_type = String, example = "dlv_0199f3c2a4b07f3e9d2c5a1b")]
    delivery_id: Text<DeliveryId>,
    /// Sent as `webhook-id`, the same on every attempt.
    #[schema(value_type = String, example = "evt_000000000000002a9d2c5a1b")]
    event_id: Text<EventId>,
    #[schema(value_type = String, example = "session.claimed")]
    r#type: &'static str,
    /// `pending`, `delivered` or `failed`.
    #[schema(value_type = String, example = "delivered")]
    status: &'static str,
    /// The newest 20, oldest first.
    attempts: Vec<AttemptView<'a>>,
    /// Null once it has arrived or has been given up.
    next_attempt_at: Option<Time>,
    created_at: Time,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryAttempt)]
pub struct AttemptView<'a> {
    at: Time,
    duration_ms: u32,
    /// Null if there was no answer.
    status_code: Option<u16>,
    /// Why the attempt failed; null if it did not.
    error: Option<&'a str>,
    /// The start of the response body, at most 1 KiB.
    response_excerpt: &'a str,
}

impl<'a> From<&'a WebhookState> for WebhookView<'a> {
    fn from(WebhookState { webhook, progress }: &'a WebhookState) -> Self {
        Self {
            webhook_id: Text(webhook.id),
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
            delivery_id: Text(last.delivery),
            r#type: last.event_type.as_str(),
            status: last.status.as_str(),
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
        let pending = delivery.status == DeliveryStatus::Pending;
        // One that has not been tried is sent after those before it.
        let due = delivery.next_attempt_at.unwrap_or(delivery.created_at);
        Self {
            delivery_id: Text(delivery.id),
            event_id: Text(delivery.event),
            r#type: delivery.event_type.as_str(),
            status: delivery.status.as_str(),
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
pub fn webhook_test_body(webhook: WebhookId, now: Timestamp) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ping {
        webhook_id: Text<WebhookId>,
    }
    written(&Payload { r#type: "webhook.test", timestamp: Time(now), data: Ping { webhook_id: Text(webhook) } })
}
