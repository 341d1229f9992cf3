//! Webhooks: list, view, create, change, delete, rotate the secret, test; their deliveries: list, view, redeliver. A
//! secret is only in the answer that created it.

use std::time::Duration;

use actix_web::http::StatusCode;
use serde_json::{Value, json};

use crate::forms::{Element, Form, Integer, List, Reader, Schemas, choices, form, id_schema, texts};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::dto::{
    AttemptView, DeliveryView, KeptWebhookView, OpenWebhookView, WebhookView, event_filter_names, event_filter_schema,
    webhook_test_body,
};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::response::Response;
use crate::http::{answer, refusals};
use accounts::auth::Permission;
use domain::nearest::did_you_mean;
use domain::{DeliveryId, Description, WebhookId};
use store::{Batch, durable_up_to};
use webhooks::{
    Delivery, DeliveryStatus, FILTERS_MAX, Filter, NewWebhook, Target, URL_MAX, WebhookChange, WebhookSecret,
    WebhookState,
};

choices! {
    DeliveryStatus as "DeliveryStatus": "The status of a delivery. `failed`: given up.";
}

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the webhook";
/// A day to give the new secret to all receivers.
const GRACE_DEFAULT_SECONDS: u64 = 24 * 60 * 60;
/// A longer grace period would keep the old secret in use.
const GRACE_MAX_SECONDS: i64 = 7 * 24 * 60 * 60;

type GraceSeconds = Integer<0, GRACE_MAX_SECONDS>;
type Filters = List<Filter, 0, FILTERS_MAX>;

form! {
    /// A new webhook.
    #[schema("examples": [{ "url": "https://ci.example.com/hooks/lockkeeper", "events": ["session.*", "deployment.failed"],
                            "description": "For trying the API", "enabled": false }])]
    pub struct WebhookForm as "WebhookRequest" {
        /// http or https, without credentials and fragment. Use https: what is sent is signed, but not hidden. Must lead to a
        /// public address, or to one that the operator allows (`outbound.allow`, `webhooks.allow_private`).
        required url: Target,
        /// Which events it gets; all if left out or empty.
        optional events: Filters,
        /// For people.
        nullable description: Description,
        /// True if left out.
        nullable enabled: bool,
        /// `whsec_` and the base64 of 24 to 64 bytes; generated if left out.
        #[schema("writeOnly": true)]
        nullable secret: WebhookSecret,
    }
}

form! {
    /// What is to change of a webhook; what is left out stays as it is.
    #[schema("examples": [{ "events": ["session.*"], "enabled": false }])]
    pub struct WebhookChangeForm as "WebhookChangeRequest" {
        /// Must lead to a public address, or to one that the operator allows (`outbound.allow`, `webhooks.allow_private`).
        optional url: Target,
        /// Which events it gets; all if empty.
        optional events: Filters,
        /// For people.
        optional description: Description,
        /// A webhook that is enabled again gets the events it was not sent meanwhile, as far as they are kept.
        optional enabled: bool,
    }
    any_of [url, events, description, enabled];
}

form! {
    /// The new secret. May be empty.
    #[schema("examples": [{ "graceSeconds": 3600 }])]
    pub struct WebhookSecretForm as "WebhookSecretRequest" {
        /// How long the old secret signs too; a day if left out.
        #[schema("examples": [3600])]
        nullable grace_seconds: GraceSeconds,
        /// `whsec_` and the base64 of 24 to 64 bytes; generated if left out.
        #[schema("writeOnly": true)]
        nullable secret: WebhookSecret,
    }
}

form! {
    /// Empty: the path names the webhook or delivery.
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
        schemas.named("EventFilter", event_filter_schema())
    }
}

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let slice = Slice::of(&call.request)?;
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let found = access.read_list(move || webhooks.list(&organization)).await?;
    let shown = slice.part(found.iter()).map(WebhookView::from).collect();
    Ok(paging::slice(&call.request, slice, found.len() as u64, shown))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let shown = access.realm.webhooks.get(&access.caller.organization, webhook_id(&call)?)?;
    Ok(answer::one(StatusCode::OK, WebhookView::from(&shown)))
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let Begun { body, pending } = idempotent::begin_secret(&mut call, &mut access).await?;
    let WebhookForm { url: target, events, description, enabled, secret } = body.form()?;
    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let new = NewWebhook {
        target,
        filters: events.unwrap_or_default().0,
        description: description.unwrap_or_default(),
        enabled: enabled.unwrap_or(true),
        secret: secret.clone(),
    };
    let own = access.clone();
    // A retry is answered without the secret, which is only stored sealed.
    let making = async move {
        let keep = idempotent::keep(pending, &*own.realm.clock, |shown: &WebhookState| {
            idempotent::answer(StatusCode::CREATED, Some(url(&own, shown)), KeptWebhookView::from(shown))
        });
        own.realm.webhooks.create(&own.caller.organization, new, &own.initiator(), keep).await
    };
    let shown = done_in_task(access.node.answer_timeout, LOOK, making).await?;
    log_change(&access, &shown, "webhook created");
    let made = OpenWebhookView::new(&shown, &secret);
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
    Ok(answer::one(StatusCode::OK, WebhookView::from(&shown)))
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
    let Begun { body, pending } = idempotent::begin_secret(&mut call, &mut access).await?;
    let WebhookSecretForm { grace_seconds, secret } = body.form()?;
    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let grace = grace_seconds.map_or(GRACE_DEFAULT_SECONDS, GraceSeconds::u64);
    let (grace, given, own) = (Duration::from_secs(grace), secret.clone(), access.clone());
    let rotating = async move {
        let keep = idempotent::keep(pending, &*own.realm.clock, |shown: &WebhookState| {
            idempotent::answer(StatusCode::OK, None, KeptWebhookView::from(shown))
        });
        let organization = &own.caller.organization;
        own.realm.webhooks.rotate_secret(organization, id, &given, grace, &own.initiator(), keep).await
    };
    let shown = done_in_task(access.node.answer_timeout, LOOK, rotating).await?;
    log_change(&access, &shown, "webhook secret rotated");
    Ok(idempotent::response(idempotent::answer(StatusCode::OK, None, OpenWebhookView::new(&shown, &secret))))
}

/// Sends a test now and answers with the attempt.
pub async fn test(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let WebhookActionForm {} = body.form()?;
    let testing = actix_web::rt::spawn(async move {
        let now = (access.realm.clock)();
        let attempt = access.realm.webhooks.test(&access.caller.organization, id, webhook_test_body(id, now)).await?;
        let answer = idempotent::answer(StatusCode::OK, None, AttemptView::from(&attempt));
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
    let shown = slice.part(found.iter()).map(DeliveryView::from).collect();
    Ok(paging::slice(&call.request, slice, found.len() as u64, shown))
}

pub async fn delivery(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let (id, delivery) = (webhook_id(&call)?, delivery_id(&call)?);
    let found = access.realm.webhooks.delivery(&access.caller.organization, id, delivery)?;
    Ok(answer::one(StatusCode::OK, DeliveryView::from(&found)))
}

pub async fn redeliver(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageWebhooks)?;
    let (id, delivery) = (webhook_id(&call)?, delivery_id(&call)?);
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let WebhookActionForm {} = body.form()?;
    let now = (access.realm.clock)();
    let rendered = |delivery: &Delivery| idempotent::answer(StatusCode::ACCEPTED, None, DeliveryView::from(delivery));
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let keep = idempotent::keep(pending, move || now, rendered);
    let redelivering = async move { webhooks.redeliver(&organization, id, delivery, keep).await };
    let delivery = done_in_task(access.node.answer_timeout, "look at the delivery", redelivering).await?;
    tracing::info!(webhook = %id, delivery = %delivery.id, by = %access.caller.person.name, "delivery sent again");
    Ok(idempotent::response(rendered(&delivery)))
}

fn webhook_id(call: &Call) -> Result<WebhookId, Problem> {
    call.segment("webhookId").parse().map_err(|_| refusals::webhook_not_found())
}

fn delivery_id(call: &Call) -> Result<DeliveryId, Problem> {
    call.segment("deliveryId").parse().map_err(|_| refusals::delivery_not_found())
}

fn url(access: &Access, shown: &WebhookState) -> String {
    format!("/api/v1/organizations/{}/webhooks/{}", access.caller.organization, shown.webhook.id)
}

fn log_change(access: &Access, shown: &WebhookState, what: &str) {
    let (host, by) = (shown.webhook.target.host(), &access.caller.person.name);
    tracing::info!(webhook = %shown.webhook.id, host, %by, "{what}");
}
