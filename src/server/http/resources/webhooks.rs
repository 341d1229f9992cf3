//! Webhooks: list, view, create, change, delete, rotate the secret, test; their deliveries: list, view, redeliver; and
//! the bodies sent to receivers. A secret appears only in the response that created it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::forms::{Element, Form, Integer, List, Reader, Schemas, choices, form, id_schema, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered, written};
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::dto::{EventView, Named, Text, Time, Written, view, written};
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use accounts::auth::Permission;
use domain::nearest::did_you_mean;
use domain::{DeliveryId, Description, Timestamp, WebhookId};
use events::RecordedEvent;
use http1::Response;
use store::{Batch, durable_up_to};
use webhooks::{
    Attempt, Delivery, DeliveryStatus, FILTERS_MAX, Filter, LastDelivery, NewWebhook, Target, URL_MAX, WebhookChange,
    WebhookSecret, WebhookState,
};

choices! {
    DeliveryStatus as "DeliveryStatus": "The status of a delivery. `failed`: given up.";
}

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the webhook";
/// The default: a day to distribute the new secret to all receivers.
const GRACE_DEFAULT_SECONDS: u64 = 24 * 60 * 60;
/// The maximum: a longer grace period would keep the old secret in use.
const GRACE_MAX_SECONDS: i64 = 7 * 24 * 60 * 60;

type GraceSeconds = Integer<0, GRACE_MAX_SECONDS>;
type Filters = List<Filter, 0, FILTERS_MAX>;

form! {
    /// A new webhook.
    #[schema("examples": [{ "url": "https://ci.example.com/hooks/lockkeeper", "events": ["session.*", "deployment.failed"],
                            "description": "For trying the API", "enabled": false }])]
    pub struct WebhookForm as "WebhookRequest" {
        /// The receiver's URL: http or https, without credentials and fragment. Use https: deliveries are signed, but
        /// not encrypted. The host must have a public address, or one that the operator allows (`outbound.allow`,
        /// `webhooks.allow_private`).
        required url: Target,
        /// The events to send; all if left out or empty.
        optional events: Filters,
        /// A description for people.
        nullable description: Description,
        /// Whether events are sent; true if left out.
        nullable enabled: bool,
        /// The secret: `whsec_` and the base64 of 24 to 64 bytes; generated if left out.
        #[schema("writeOnly": true)]
        nullable secret: WebhookSecret,
    }
}

form! {
    /// A change of a webhook; fields that are left out stay unchanged.
    #[schema("examples": [{ "events": ["session.*"], "enabled": false }])]
    pub struct WebhookChangeForm as "WebhookChangeRequest" {
        /// The receiver's URL. The host must have a public address, or one that the operator allows (`outbound.allow`,
        /// `webhooks.allow_private`).
        optional url: Target,
        /// The events to send; all if empty.
        optional events: Filters,
        /// A description for people.
        optional description: Description,
        /// Whether events are sent. When a webhook is enabled again, the events it missed are sent, as far as they are
        /// kept.
        optional enabled: bool,
    }
    any_of [url, events, description, enabled];
}

form! {
    /// A new secret for a webhook. May be empty.
    #[schema("examples": [{ "graceSeconds": 3600 }])]
    pub struct WebhookSecretForm as "WebhookSecretRequest" {
        /// How long the old secret still signs, too; a day if left out.
        #[schema("examples": [3600])]
        nullable grace_seconds: GraceSeconds,
        /// The secret: `whsec_` and the base64 of 24 to 64 bytes; generated if left out.
        #[schema("writeOnly": true)]
        nullable secret: WebhookSecret,
    }
}

form! {
    /// A request without fields: the path names the webhook or delivery.
    #[schema("examples": [{}])]
    pub struct WebhookActionForm as "WebhookActionRequest" {}
}

texts! {
    Target: Self::parse, json!({
        "type": "string", "format": "uri", "maxLength": URL_MAX, "pattern": Self::PATTERN,
        "examples": ["https://ci.example.com/hooks/lockkeeper"],
    });
    WebhookSecret: Self::parse, id_schema(Self::PATTERN, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
}

impl Form for Filter {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let text = reader.text(element)?;
        let fault = |malformed| format!("{malformed}{}", did_you_mean(text, event_filter_names()));
        Filter::parse(text).map_err(|malformed| reader.fault(element.at, fault(malformed))).ok()
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.named("EventFilter", serde_json::to_value(EventFilter::schema()).unwrap_or_default())
    }
}

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let slice = Slice::of(&call.request)?;
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let found = access.read_list(move || webhooks.list(&organization)).await?;
    Ok(paging::part(&call.request, slice, &found, WebhookView::new))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let shown = access.realm.webhooks.get(&access.caller.organization, webhook_id(&call)?)?;
    Ok(answer::ok(WebhookView::new(&shown)))
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let (WebhookForm { url: target, events, description, enabled, secret }, pending) =
        idempotent::begin_secret(&mut call, &mut access).await?;
    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let new = NewWebhook {
        target,
        filters: events.unwrap_or_default().0,
        description: description.unwrap_or_default(),
        enabled: enabled.unwrap_or(true),
        secret: secret.clone(),
    };
    let own = access.clone();
    // A retry gets no secret: the secret is stored only in sealed form.
    let making = async move {
        let keep = idempotent::keep(pending, &*own.realm.clock, |shown: &WebhookState| {
            idempotent::answer(StatusCode::CREATED, Some(url(&own, shown)), OpenWebhookView::new(shown, None))
        });
        own.realm.webhooks.create(&own.caller.organization, new, &own.initiator(), keep).await
    };
    let shown = done_in_task(access.node.answer_timeout, LOOK, making).await?;
    log_change(&access, &shown, "webhook created");
    let made = OpenWebhookView::new(&shown, Some(&secret));
    Ok(idempotent::response(idempotent::answer(StatusCode::CREATED, Some(url(&access, &shown)), made)))
}

pub async fn update(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let id = webhook_id(&call)?;
    let WebhookChangeForm { url: target, events, description, enabled } = read_form(&mut call, &mut access).await?;
    let change = WebhookChange { target, filters: events.map(|events| events.0), description, enabled };
    let initiator = access.initiator();
    let updating = access.realm.webhooks.update(&access.caller.organization, id, change, &initiator);
    let shown = done_within(access.node.answer_timeout, LOOK, updating).await?;
    log_change(&access, &shown, "webhook changed");
    Ok(answer::ok(WebhookView::new(&shown)))
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let id = webhook_id(&call)?;
    let initiator = access.initiator();
    let deleting = access.realm.webhooks.delete(&access.caller.organization, id, &initiator);
    done_within(access.node.answer_timeout, LOOK, deleting).await?;
    tracing::info!(webhook = %id, by = %access.caller.person.name, "webhook deleted");
    Ok(Response::no_content())
}

pub async fn rotate_secret(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let (WebhookSecretForm { grace_seconds, secret }, pending) =
        idempotent::begin_secret(&mut call, &mut access).await?;
    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let grace = grace_seconds.map_or(GRACE_DEFAULT_SECONDS, GraceSeconds::u64);
    let (grace, given, own) = (Duration::from_secs(grace), secret.clone(), access.clone());
    let rotating = async move {
        let keep = idempotent::keep(pending, &*own.realm.clock, |shown: &WebhookState| {
            idempotent::answer(StatusCode::OK, None, OpenWebhookView::new(shown, None))
        });
        let organization = &own.caller.organization;
        own.realm.webhooks.rotate_secret(organization, id, &given, grace, &own.initiator(), keep).await
    };
    let shown = done_in_task(access.node.answer_timeout, LOOK, rotating).await?;
    log_change(&access, &shown, "webhook secret rotated");
    Ok(idempotent::response(idempotent::answer(StatusCode::OK, None, OpenWebhookView::new(&shown, Some(&secret)))))
}

/// Sends a test event now and responds with the attempt.
pub async fn test(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let (WebhookActionForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let testing = actix_web::rt::spawn(async move {
        let now = (access.realm.clock)();
        let attempt = access.realm.webhooks.test(&access.caller.organization, id, webhook_test_body(id, now)).await?;
        let answer = idempotent::answer(StatusCode::OK, None, AttemptView::new(&attempt));
        if let Some(pending) = pending {
            let mut batch = Batch::default();
            let _held = pending.keep(&mut batch, &answer, (access.realm.clock)());
            let sequence = access.realm.store.commit(batch)?;
            durable_up_to(&*access.realm.store, sequence).await;
        }
        Ok::<_, Problem>(answer)
    });
    Ok(idempotent::response(testing.await.map_err(Problem::internal)??))
}

pub async fn deliveries(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let mut query = Query::of(&call.request);
    let status = query.text("status", DeliveryStatus::parse);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let found = access.read_list(move || webhooks.deliveries(&organization, id, status)).await?;
    Ok(paging::part(&call.request, slice, &found, DeliveryView::new))
}

pub async fn delivery(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let (id, delivery) = (webhook_id(&call)?, delivery_id(&call)?);
    let found = access.realm.webhooks.delivery(&access.caller.organization, id, delivery)?;
    Ok(answer::ok(DeliveryView::new(&found)))
}

pub async fn redeliver(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let (id, delivery) = (webhook_id(&call)?, delivery_id(&call)?);
    let (WebhookActionForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let now = (access.realm.clock)();
    let rendered = |delivery: &Delivery| idempotent::answer(StatusCode::ACCEPTED, None, DeliveryView::new(delivery));
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let keep = idempotent::keep(pending, move || now, rendered);
    let redelivering = async move { webhooks.redeliver(&organization, id, delivery, keep).await };
    let delivery = done_in_task(access.node.answer_timeout, "look at the delivery", redelivering).await?;
    tracing::info!(webhook = %id, delivery = %delivery.id, by = %access.caller.person.name, "delivery sent again");
    Ok(idempotent::response(rendered(&delivery)))
}

fn webhook_id(call: &Call) -> Result<WebhookId, Problem> {
    call.id("webhookId", Code::WebhookNotFound)
}

fn delivery_id(call: &Call) -> Result<DeliveryId, Problem> {
    call.id("deliveryId", Code::DeliveryNotFound)
}

fn url(access: &Access, shown: &WebhookState) -> String {
    format!("/api/v1/organizations/{}/webhooks/{}", access.caller.organization, shown.webhook.id)
}

fn log_change(access: &Access, shown: &WebhookState, what: &str) {
    let (host, by) = (shown.webhook.target.host(), &access.caller.person.name);
    tracing::info!(webhook = %shown.webhook.id, host, %by, "{what}");
}

view! {
    /// A webhook: a receiver of events.
    pub struct WebhookView<'a> as Webhook of (shown: &'a WebhookState)
    let WebhookState { webhook, progress } = shown;
    {
        webhook_id: written::WebhookId = Written(webhook.id),
        /// The receiver's URL: http or https.
        #[schema(example = "https://ci.example.com/hooks/lockkeeper")]
        url: &'a str = webhook.target.as_str(),
        /// The events to send. Empty: all.
        #[schema(value_type = Vec<EventFilter>)]
        events: Vec<Text<Filter>> = webhook.filters.iter().copied().map(Text).collect(),
        /// A description for people.
        #[schema(example = "The build server")]
        description: &'a str = webhook.description.as_str(),
        /// Whether events are sent.
        #[schema(example = true)]
        enabled: bool = webhook.is_enabled(),
        /// Why the webhook is disabled: by a member, because its receiver answered 410, or because it kept failing.
        #[schema(example = "its receiver answered 410 Gone")]
        disabled_reason: Option<&'static str> = webhook.disabled.map(|disabled| disabled.why.reason()),
        /// When the webhook was disabled, or null.
        disabled_at: Option<Time> = webhook.disabled.map(|disabled| Time(disabled.at)),
        /// When attempts began to fail; null if the last one succeeded.
        failing_since: Option<Time> = progress.failing_since.map(Time),
        /// Deliveries that have neither succeeded nor been given up.
        #[schema(example = 0)]
        pending_deliveries: u32 = progress.pending,
        /// Events that were no longer kept when they should have been sent.
        #[schema(example = 0)]
        missed_events: u64 = progress.missed,
        /// When the previous secret stops signing; null without one.
        previous_secret_expires_at: Option<Time> = webhook.previous.map(|previous| Time(previous.until)),
        /// When the webhook was created.
        created_at: Time = Time(webhook.created_at),
        /// When the webhook last changed.
        updated_at: Time = Time(webhook.updated_at),
        /// The last attempt of a delivery.
        last_delivery: Option<LastDeliveryView> = progress.last.as_ref().map(LastDeliveryView::new),
    }
}

view! {
    /// The last attempt of a delivery by a webhook.
    pub struct LastDeliveryView as LastDelivery of (last: &LastDelivery) {
        delivery_id: written::DeliveryId = Written(last.delivery),
        r#type: written::EventType = Named(last.event_type),
        status: written::DeliveryStatus = Named(last.status),
        /// The status of the response; null if there was none.
        #[schema(example = 200)]
        status_code: Option<u16> = last.code,
        /// When the attempt was made.
        at: Time = Time(last.at),
    }
}

view! {
    /// A webhook with its new secret.
    pub struct OpenWebhookView<'a> as NewWebhook of (shown: &'a WebhookState, secret: Option<&'a WebhookSecret>) {
        #[serde(flatten)]
        view: WebhookView<'a> = WebhookView::new(shown),
        /// The secret that signs the deliveries. Shown only once: a retry with the same `Idempotency-Key` gets null; if
        /// the first answer was lost, rotate the secret.
        #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
        secret: Option<&'a str> = secret.map(|secret| secret.text().reveal()),
    }
}

view! {
    /// The delivery of one event by one webhook.
    pub struct DeliveryView<'a> as Delivery of (delivery: &'a Delivery)
    let pending = delivery.status == DeliveryStatus::Pending;
    // A delivery that has not been attempted is sent after earlier deliveries.
    let due = delivery.next_attempt_at.unwrap_or(delivery.created_at);
    {
        delivery_id: written::DeliveryId = Written(delivery.id),
        /// The event's id, sent as `webhook-id`, the same in every attempt.
        event_id: written::EventId = Written(delivery.event),
        r#type: written::EventType = Named(delivery.event_type),
        status: written::DeliveryStatus = Named(delivery.status),
        /// The newest 20 attempts, oldest first.
        attempts: Vec<AttemptView<'a>> = delivery.attempts.iter().map(AttemptView::new).collect(),
        /// When the next attempt is due; null once the delivery has succeeded or has been given up.
        next_attempt_at: Option<Time> = pending.then_some(Time(due)),
        /// When the delivery was created.
        created_at: Time = Time(delivery.created_at),
    }
}

view! {
    /// One attempt of a delivery.
    pub struct AttemptView<'a> as DeliveryAttempt of (attempt: &'a Attempt) {
        /// When the attempt began.
        at: Time = Time(attempt.at),
        /// How long the attempt took.
        #[schema(example = 12)]
        duration_ms: u32 = attempt.millis,
        /// The status of the response; null if there was none.
        #[schema(example = 200)]
        status_code: Option<u16> = attempt.code,
        /// Why the attempt failed; null if it did not.
        #[schema(example = "the receiver answered 503")]
        error: Option<&'a str> = attempt.error.as_deref(),
        /// The start of the response body, at most 1 KiB.
        #[schema(example = "ok")]
        response_excerpt: &'a str = &attempt.excerpt,
    }
}

/// The types of events, and a pattern for each group.
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

/// The body of a delivery, in the format of the Standard Webhooks specification.
#[derive(Serialize)]
struct Payload<T> {
    r#type: &'static str,
    timestamp: Time,
    data: T,
}

/// The body for an event.
pub fn webhook_body(event: &RecordedEvent) -> Vec<u8> {
    written(&Payload { r#type: event.event_type.as_str(), timestamp: Time(event.at), data: EventView::new(event) })
}

/// The body for a test.
pub fn webhook_test_body(webhook: WebhookId, now: Timestamp) -> Vec<u8> {
    let data = json!({ "webhookId": Written(webhook) });
    written(&Payload { r#type: "webhook.test", timestamp: Time(now), data })
}
