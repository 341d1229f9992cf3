//! The operations on events, and on webhooks and their deliveries.

use serde_json::json;

use super::operation::Operation;
use super::parameters::time;
use crate::http::codes::Code;
use crate::http::dto::EventView;
use crate::http::resources::audit::{AuditView, EXPECTED_MAX};
use crate::http::resources::events::{LAST_EVENT_ID, START};
use crate::http::resources::webhooks::{
    AttemptView, DeliveryView, OpenWebhookView, WebhookActionForm, WebhookChangeForm, WebhookForm, WebhookSecretForm,
    WebhookView,
};
use domain::{DeploymentId, EventType, Identifier, SessionId, UserId};
use events::EventId;
use webhooks::DeliveryStatus;

const EVENTS: &str = "Events";

pub fn list_events() -> Operation {
    let operation = Operation::api(EVENTS, "listEvents").about(
        "Every change in the organization, newest first, with its actor, token and request. The operator sets how \
         long and how many are kept.",
    );
    filtered(operation).lists::<EventView<'_>>("The events")
}

pub fn get_event() -> Operation {
    Operation::api(EVENTS, "getEvent").about("One change in the organization.").answers::<EventView<'_>>(
        200,
        "The event",
        &[],
    )
}

pub fn verify_events() -> Operation {
    let expected = json!({
        "type": "array", "maxItems": EXPECTED_MAX,
        "items": { "type": "string", "pattern": expected_pattern(), "examples": [format!("1233:{}", "0".repeat(64))] },
    });
    Operation::api(EVENTS, "verifyEvents")
        .about(
            "Verifies the recorded events, those that are kept up to now: each is chained to the one before it by a hash, and the \
             server seals the chain every second. It reads all of them, so it may take seconds, and there is one at a time. The \
             seals do not show that all data was put back to an earlier state: so store the `head` of the answer in a safe \
             place now and then, and pass it as `expect` later. An answer of 200 does not mean that all is well: see `intact`.",
        )
        .query_by(
            "expect",
            "A head of an earlier answer, `number:hash`, or the `eventId` and `hash` of an event, which must be part of the \
             chain; may be repeated",
            expected,
        )
        .answers::<AuditView<'_>>(200, "The result", &[])
}

fn expected_pattern() -> String {
    format!("^([0-9]{{1,19}}|{}):[0-9a-f]{{64}}$", EventId::PATTERN.trim_start_matches('^').trim_end_matches('$'))
}

pub fn stream_events() -> Operation {
    let content = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    let operation = Operation::api(EVENTS, "streamEvents").about(
        "Server-sent events: each has its `id`, its type as `event`, and as `data` what Get Event answers, in one \
         line. It begins with what comes from now on, or after the event that `Last-Event-ID` names: without a gap \
         and nothing twice, also when the server has started again meanwhile. If that event is no longer kept \
         (`expired`), or never was one of this organization (`unknown`), the first is a `reset`, with `{reason, \
         firstEventId}` as its data, the oldest that is kept, and the stream goes on with what comes from now on. \
         In silence it sends comments. It ends with the server, with the token, and when its client falls behind: \
         come again. `retry` comes with the first event, and there is no block without data. The answer's \
         `Last-Event-ID` is where the stream begins: send it to come again before the first event.",
    );
    let id = json!({ "type": "string", "maxLength": 256 });
    filtered(operation)
        .query_by("lastEventId", "The same as the header, which wins", id)
        .header(LAST_EVENT_ID, &format!("The id of the last event seen, or `{START}`: all that are kept"))
        .answers_content(200, "The events", content, &[LAST_EVENT_ID])
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query_by("type", "Only of these types (see `EventFilter`): with commas, given several times, or a whole group like `session.*`", json!({ "type": "string", "pattern": types_pattern() }))
        .query_by(
            "actor",
            "Only by this user, or by the `system`",
            json!({ "type": "string", "pattern": format!("{}|^system$", UserId::PATTERN) }),
        )
        .query::<Identifier>("pipelineId", "Only in this pipeline")
        .query::<Identifier>("envName", "Only in environments of this name")
        .query::<SessionId>("sessionId", "Only of this session")
        .query::<DeploymentId>("deploymentId", "Only of this deployment")
        .query_by("since", "Only from this time on", time())
        .query_by("until", "Only before this time", time())
}

/// Matches names and groups, separated by commas.
fn types_pattern() -> String {
    let names = EventType::ALL.iter().map(|event_type| event_type.as_str().replace('.', r"\."));
    let mut groups: Vec<_> =
        EventType::ALL.iter().filter_map(|event_type| event_type.as_str().split('.').next()).collect();
    groups.dedup();
    let groups = groups.into_iter().map(|group| format!(r"{group}\.\*"));
    let one = names.chain(groups).collect::<Vec<_>>().join("|");
    format!("^({one})(,({one}))*$")
}

const WEBHOOKS: &str = "Webhooks";

pub fn list_webhooks() -> Operation {
    Operation::api(WEBHOOKS, "listWebhooks")
        .about("Oldest first, without their secrets.")
        .lists::<WebhookView<'_>>("The webhooks")
}

pub fn create_webhook() -> Operation {
    let operation = Operation::api(WEBHOOKS, "createWebhook").about(
        "Its URL is sent every matching event from now on, as a `POST` signed by the Standard Webhooks scheme \
         (`webhook-id`, `webhook-timestamp`, `webhook-signature`): `{type, timestamp, data}`, with the event as \
         `data`. Any 2xx within the operator's time limit counts as arrived; 410 disables the webhook; anything \
         else is retried for more than a day, with growing delays. First attempts follow the order of the events; \
         an event may arrive more than once, with the same `webhook-id`. The secret is shown once: a retry with \
         the same `Idempotency-Key` gets the first answer with `secret` null.",
    );
    with_secret(operation.body::<WebhookForm>(), 201, &["Location"]).fails(&[Code::WebhookLimitReached])
}

pub fn get_webhook() -> Operation {
    Operation::api(WEBHOOKS, "getWebhook")
        .about("Its configuration and the state of its deliveries.")
        .answers::<WebhookView<'_>>(200, "The webhook", &[])
}

pub fn update_webhook() -> Operation {
    Operation::api(WEBHOOKS, "updateWebhook")
        .about(
            "Changes its URL, events or description, or disables or enables it. Pending deliveries go to the new URL.",
        )
        .body::<WebhookChangeForm>()
        .answers::<WebhookView<'_>>(200, "The webhook", &[])
}

pub fn delete_webhook() -> Operation {
    Operation::api(WEBHOOKS, "deleteWebhook")
        .about("With its deliveries. A delivery under way may still arrive.")
        .deletes("Deleted")
}

pub fn rotate_webhook_secret() -> Operation {
    let operation = Operation::api(WEBHOOKS, "rotateWebhookSecret").about(
        "Replaces the secret. For `graceSeconds` deliveries carry the signatures of both secrets, so that \
         receivers can change over without losing any.",
    );
    with_secret(operation.body::<WebhookSecretForm>(), 200, &[])
}

pub fn test_webhook() -> Operation {
    Operation::api(WEBHOOKS, "testWebhook")
        .about(
            "Sends a `webhook.test` now, signed like any delivery, and answers with the attempt. It is not retried, \
             and works while the webhook is disabled.",
        )
        .body::<WebhookActionForm>()
        .answers::<AttemptView<'_>>(200, "The attempt, also if it failed", &[])
}

pub fn list_deliveries() -> Operation {
    Operation::api(WEBHOOKS, "listWebhookDeliveries")
        .titled("List Deliveries")
        .about("Newest first: all pending ones, and the newest 1,000 others.")
        .query::<DeliveryStatus>("status", "Only those with this status")
        .lists::<DeliveryView<'_>>("The deliveries")
}

pub fn get_delivery() -> Operation {
    Operation::api(WEBHOOKS, "getWebhookDelivery")
        .titled("Get Delivery")
        .about("With its attempts and their responses.")
        .answers::<DeliveryView<'_>>(200, "The delivery", &[])
}

pub fn redeliver() -> Operation {
    Operation::api(WEBHOOKS, "redeliverEvent")
        .titled("Redeliver")
        .about(
            "Sends it again now, with the same `webhook-id`, even if it had arrived; if that fails it is retried like \
             a new one.",
        )
        .body::<WebhookActionForm>()
        .answers::<DeliveryView<'_>>(202, "The delivery, pending", &[])
        .fails(&[Code::WebhookDisabled])
}

fn with_secret(operation: Operation, status: u16, headers: &[&str]) -> Operation {
    let description = "The webhook, with its secret unless this is a retry";
    operation.answers::<OpenWebhookView<'_>>(status, description, headers)
}
