//! Webhooks: list, view, make, change, delete, give a new secret, try out; their deliveries: list, view, make again. A
//! secret is in the one answer that made it and nowhere else.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use crate::auth::Permission;
use crate::domain::{DeliveryId, Description, WebhookId};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::body::{Fields, read_fields};
use crate::http::call::Call;
use crate::http::dto::{AttemptView, DeliveryView, KeptWebhookView, OpenWebhookView, WebhookView, webhook_test_body};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::done_within;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::{answer, refusals};
use crate::idempotency::Pending;
use crate::store::{Batch, durable_up_to};
use crate::webhooks::{
    Delivery, DeliveryStatus, FILTERS_MAX, Filter, NewWebhook, Shown, Target, WebhookChange, WebhookError,
    WebhookSecret,
};

/// What to do where the outcome of a change is not known.
const LOOK: &str = "look at the webhook";
/// A day to bring the new secret to all receivers.
const GRACE_DEFAULT_SECONDS: i64 = 24 * 60 * 60;
/// Longer, and the old one is no longer being replaced.
pub const GRACE_MAX_SECONDS: i64 = 7 * 24 * 60 * 60;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let found = access.node.scans.read(move || webhooks.list(&organization)).await?;
    let shown = part(&found, slice).map(WebhookView::from).collect();
    Ok(paging::slice(&call.request, slice, found.len() as u64, shown))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let shown = access.realm.webhooks.get(&access.caller.organization, webhook_id(&call)?)?;
    Ok(answer::one(StatusCode::OK, WebhookView::from(&shown)))
}

pub async fn create(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let Begun { body, pending } = idempotent::begin_secret(&mut call, &access).await?;
    let mut fields = body.fields()?;
    let target = fields.required_text("url", Target::parse);
    let filters = events(&mut fields).unwrap_or_default();
    let description = fields.nullable_text("description", Description::parse);
    let enabled = fields.nullable_boolean("enabled").unwrap_or(true);
    let secret = fields.nullable_text("secret", WebhookSecret::parse);
    fields.finish()?;
    let target = target.ok_or_else(|| Problem::invalid_request(Vec::new()))?;

    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let description = description.unwrap_or_else(|| Description::parse("").expect("no text is within the bounds"));
    let new = NewWebhook { target, filters, description, enabled, secret: secret.clone() };
    let making = on_its_own(access.clone(), |access| async move {
        let keep = |shown: &Shown, batch: &mut Batch| keep_answer(&access, pending, StatusCode::CREATED, shown, batch);
        access.realm.webhooks.create(&access.caller.organization, new, &access.agent(), keep).await
    });
    let shown = done_within(access.node.answer_timeout, LOOK, making).await?;
    told(&access, &shown, "a webhook was made");
    let made = OpenWebhookView::new(&shown, &secret);
    Ok(idempotent::response(idempotent::answer(StatusCode::CREATED, Some(url(&access, &shown)), made)))
}

pub async fn update(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let id = webhook_id(&call)?;
    let mut fields = read_fields(&mut call).await?;
    if !["url", "events", "description", "enabled"].iter().any(|field| fields.has(field)) {
        fields.wrong("url", "is required, or `events`, `description` or `enabled`");
    }
    let change = WebhookChange {
        target: fields.text("url", Target::parse),
        filters: events(&mut fields),
        description: fields.text("description", Description::parse),
        enabled: fields.boolean("enabled"),
    };
    fields.finish()?;
    let agent = access.agent();
    let updating = access.realm.webhooks.update(&access.caller.organization, id, change, &agent);
    let shown = done_within(access.node.answer_timeout, LOOK, updating).await?;
    told(&access, &shown, "a webhook was changed");
    Ok(answer::one(StatusCode::OK, WebhookView::from(&shown)))
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    Query::of(&call.request).finish()?;
    let id = webhook_id(&call)?;
    let agent = access.agent();
    let deleting = access.realm.webhooks.delete(&access.caller.organization, id, &agent);
    done_within(access.node.answer_timeout, LOOK, deleting).await?;
    tracing::info!(webhook = %id, by = %access.caller.person.name, "a webhook was deleted");
    Ok(HttpResponse::NoContent().finish())
}

pub async fn rotate_secret(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let Begun { body, pending } = idempotent::begin_secret(&mut call, &access).await?;
    let mut fields = body.fields()?;
    let grace = fields.nullable_integer("graceSeconds", 0..=GRACE_MAX_SECONDS).unwrap_or(GRACE_DEFAULT_SECONDS);
    let secret = fields.nullable_text("secret", WebhookSecret::parse);
    fields.finish()?;
    let secret = secret.unwrap_or_else(WebhookSecret::generate);
    let (grace, given) = (Duration::from_secs(grace.unsigned_abs()), secret.clone());
    let rotating = on_its_own(access.clone(), move |access| async move {
        let keep = |shown: &Shown, batch: &mut Batch| keep_answer(&access, pending, StatusCode::OK, shown, batch);
        let organization = &access.caller.organization;
        access.realm.webhooks.rotate_secret(organization, id, &given, grace, &access.agent(), keep).await
    });
    let shown = done_within(access.node.answer_timeout, LOOK, rotating).await?;
    told(&access, &shown, "a webhook was given a new secret");
    Ok(idempotent::response(idempotent::answer(StatusCode::OK, None, OpenWebhookView::new(&shown, &secret))))
}

/// Sends something now and answers with what came of it.
pub async fn test(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let id = webhook_id(&call)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &access).await?;
    body.fields()?.finish()?;
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
    let status = query.choice("status", &DeliveryStatus::ALL, DeliveryStatus::as_str);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (webhooks, organization) = (access.realm.webhooks.clone(), access.caller.organization.clone());
    let found = access.node.scans.read(move || webhooks.deliveries(&organization, id, status)).await?;
    let shown = part(&found, slice).map(DeliveryView::from).collect();
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
    let access = Access::to(&call, Permission::ManageWebhooks)?;
    let (id, delivery) = (webhook_id(&call)?, delivery_id(&call)?);
    let Begun { body, pending } = idempotent::begin(&mut call, &access).await?;
    body.fields()?.finish()?;
    let now = (access.realm.clock)();
    let rendered = |delivery: &Delivery| idempotent::answer(StatusCode::ACCEPTED, None, DeliveryView::from(delivery));
    let redelivering = on_its_own(access.clone(), move |access| async move {
        let keep = |delivery: &Delivery, batch: &mut Batch| {
            pending.map(|pending| pending.keep(batch, &rendered(delivery), now))
        };
        access.realm.webhooks.redeliver(&access.caller.organization, id, delivery, keep).await
    });
    let delivery = done_within(access.node.answer_timeout, "look at the delivery", redelivering).await?;
    tracing::info!(webhook = %id, delivery = %delivery.id, by = %access.caller.person.name, "a delivery is made again");
    Ok(idempotent::response(rendered(&delivery)))
}

/// In a task of its own: what was begun is seen through, and its key stays in flight until then, also where the caller has
/// gone or has waited long enough.
async fn on_its_own<T: 'static, F: Future<Output = Result<T, WebhookError>> + 'static>(
    access: Access,
    change: impl FnOnce(Access) -> F + 'static,
) -> Result<T, Problem> {
    let changing = actix_web::rt::spawn(async move { change(access).await });
    Ok(changing.await.map_err(Problem::internal)??)
}

/// What a retry is answered: the secret is kept nowhere but sealed.
fn keep_answer(
    access: &Access,
    pending: Option<Pending>,
    status: StatusCode,
    shown: &Shown,
    batch: &mut Batch,
) -> Option<Pending> {
    let location = (status == StatusCode::CREATED).then(|| url(access, shown));
    let now = (access.realm.clock)();
    pending.map(|pending| pending.keep(batch, &idempotent::answer(status, location, KeptWebhookView::from(shown)), now))
}

fn events(fields: &mut Fields) -> Option<Vec<Filter>> {
    fields.list("events", 0..=FILTERS_MAX, |_, text| Filter::parse(text))
}

fn part<T>(found: &[T], slice: Slice) -> impl Iterator<Item = &T> {
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    found.iter().skip(offset).take(slice.limit as usize)
}

fn webhook_id(call: &Call) -> Result<WebhookId, Problem> {
    call.segment("webhookId").parse().map_err(|_| refusals::webhook_not_found())
}

fn delivery_id(call: &Call) -> Result<DeliveryId, Problem> {
    call.segment("deliveryId").parse().map_err(|_| refusals::delivery_not_found())
}

fn url(access: &Access, shown: &Shown) -> String {
    format!("/api/v1/organizations/{}/webhooks/{}", access.caller.organization, shown.webhook.id)
}

fn told(access: &Access, shown: &Shown, what: &str) {
    let (host, by) = (shown.webhook.target.host(), &access.caller.person.name);
    tracing::info!(webhook = %shown.webhook.id, host, %by, "{what}");
}
