//! The operations on webhooks and their deliveries.

use serde_json::json;

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::dto::{AttemptView, DeliveryView, KeptWebhookView, OpenWebhookView, WebhookView};
use crate::http::paging::SlicePagination;
use crate::http::resources::webhooks::{WebhookActionForm, WebhookChangeForm, WebhookForm, WebhookSecretForm};
use crate::webhooks::DeliveryStatus;

const WEBHOOKS: &str = "Webhooks";

pub fn list_webhooks() -> Operation {
    Operation::api(WEBHOOKS, "listWebhooks", "List Webhooks", "Oldest first, without their secrets.")
        .slice()
        .answers_list::<WebhookView<'_>, SlicePagination>("The webhooks")
}

pub fn create_webhook() -> Operation {
    let operation = Operation::api(
        WEBHOOKS,
        "createWebhook",
        "Create Webhook",
        "Its URL is sent every matching event from now on, as a `POST` signed by the Standard Webhooks scheme \
         (`webhook-id`, `webhook-timestamp`, `webhook-signature`): `{type, timestamp, data}`, with the event as `data`. Any \
         2xx within the operator's time limit counts as arrived; 410 disables the webhook; anything else is retried for more \
         than a day, with growing delays. First attempts follow the order of the events; an event may arrive more than once, \
         with the same `webhook-id`. The secret is shown once: a retry with the same `Idempotency-Key` gets the first answer \
         with `secret` null.",
    );
    let operation = operation.body::<WebhookForm>().writes();
    with_secret(operation, 201, &["Location"]).fails(&[Code::WebhookLimitReached])
}

pub fn get_webhook() -> Operation {
    let operation =
        Operation::api(WEBHOOKS, "getWebhook", "Get Webhook", "Its configuration and the state of its deliveries.");
    operation.answers::<WebhookView<'_>>(200, "The webhook", &[]).fails(&[Code::WebhookNotFound])
}

pub fn update_webhook() -> Operation {
    Operation::api(
        WEBHOOKS,
        "updateWebhook",
        "Update Webhook",
        "Changes its URL, events or description, or disables or enables it. Pending deliveries go to the new URL.",
    )
    .body::<WebhookChangeForm>()
    .writes()
    .answers::<WebhookView<'_>>(200, "The webhook", &[])
    .fails(&[Code::WebhookNotFound])
}

pub fn delete_webhook() -> Operation {
    let description = "With its deliveries. A delivery under way may still arrive.";
    Operation::api(WEBHOOKS, "deleteWebhook", "Delete Webhook", description)
        .writes()
        .answers_nothing(204, "Deleted", &[])
        .fails(&[Code::WebhookNotFound])
}

pub fn rotate_webhook_secret() -> Operation {
    let operation = Operation::api(
        WEBHOOKS,
        "rotateWebhookSecret",
        "Rotate Webhook Secret",
        "Replaces the secret. For `graceSeconds` deliveries carry the signatures of both secrets, so that receivers can change \
         over without losing any.",
    );
    with_secret(operation.body::<WebhookSecretForm>().writes(), 200, &[]).fails(&[Code::WebhookNotFound])
}

pub fn test_webhook() -> Operation {
    Operation::api(
        WEBHOOKS,
        "testWebhook",
        "Test Webhook",
        "Sends a `webhook.test` now, signed like any delivery, and answers with the attempt. It is not retried, and works \
         while the webhook is disabled.",
    )
    .body::<WebhookActionForm>()
    .writes()
    .answers::<AttemptView<'_>>(200, "The attempt, also if it failed", &[])
    .fails(&[Code::WebhookNotFound])
}

pub fn list_deliveries() -> Operation {
    Operation::api(
        WEBHOOKS,
        "listDeliveries",
        "List Deliveries",
        "Newest first: all pending ones, and the newest 1,000 others.",
    )
    .query_by(
        "status",
        "Only those with this status",
        json!({ "type": "string", "enum": DeliveryStatus::ALL.map(DeliveryStatus::as_str) }),
    )
    .slice()
    .answers_list::<DeliveryView<'_>, SlicePagination>("The deliveries")
    .fails(&[Code::WebhookNotFound])
}

pub fn get_delivery() -> Operation {
    Operation::api(WEBHOOKS, "getDelivery", "Get Delivery", "With its attempts and their responses.")
        .answers::<DeliveryView<'_>>(200, "The delivery", &[])
        .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound])
}

pub fn redeliver() -> Operation {
    Operation::api(
        WEBHOOKS,
        "redeliver",
        "Redeliver",
        "Sends it again now, with the same `webhook-id`, even if it had arrived; if that fails it is retried like a new one.",
    )
    .body::<WebhookActionForm>()
    .writes()
    .answers::<DeliveryView<'_>>(202, "The delivery, pending", &[])
    .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound, Code::WebhookDisabled])
}

fn with_secret(operation: Operation, status: u16, headers: &[&str]) -> Operation {
    let description = "The webhook, with its secret unless this is a retry";
    operation.answers_secret::<OpenWebhookView<'_>, KeptWebhookView<'_>>(status, description, headers)
}
