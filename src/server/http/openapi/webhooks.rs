//! The operations on webhooks and their deliveries.

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::webhooks::{AttemptView, DeliveryView, OpenWebhookView, WebhookView};
use crate::http::resources::webhooks::{WebhookActionForm, WebhookChangeForm, WebhookForm, WebhookSecretForm};
use webhooks::DeliveryStatus;

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
        .fails(&[Code::WebhookNotFound])
}

pub fn update_webhook() -> Operation {
    Operation::api(WEBHOOKS, "updateWebhook")
        .about(
            "Changes its URL, events or description, or disables or enables it. Pending deliveries go to the new URL.",
        )
        .body::<WebhookChangeForm>()
        .answers::<WebhookView<'_>>(200, "The webhook", &[])
        .fails(&[Code::WebhookNotFound])
}

pub fn delete_webhook() -> Operation {
    Operation::api(WEBHOOKS, "deleteWebhook")
        .about("With its deliveries. A delivery under way may still arrive.")
        .deletes("Deleted")
        .fails(&[Code::WebhookNotFound])
}

pub fn rotate_webhook_secret() -> Operation {
    let operation = Operation::api(WEBHOOKS, "rotateWebhookSecret").about(
        "Replaces the secret. For `graceSeconds` deliveries carry the signatures of both secrets, so that \
         receivers can change over without losing any.",
    );
    with_secret(operation.body::<WebhookSecretForm>(), 200, &[]).fails(&[Code::WebhookNotFound])
}

pub fn test_webhook() -> Operation {
    Operation::api(WEBHOOKS, "testWebhook")
        .about(
            "Sends a `webhook.test` now, signed like any delivery, and answers with the attempt. It is not retried, \
             and works while the webhook is disabled.",
        )
        .body::<WebhookActionForm>()
        .answers::<AttemptView<'_>>(200, "The attempt, also if it failed", &[])
        .fails(&[Code::WebhookNotFound])
}

pub fn list_deliveries() -> Operation {
    Operation::api(WEBHOOKS, "listWebhookDeliveries")
        .titled("List Deliveries")
        .about("Newest first: all pending ones, and the newest 1,000 others.")
        .query::<DeliveryStatus>("status", "Only those with this status")
        .lists::<DeliveryView<'_>>("The deliveries")
        .fails(&[Code::WebhookNotFound])
}

pub fn get_delivery() -> Operation {
    Operation::api(WEBHOOKS, "getWebhookDelivery")
        .titled("Get Delivery")
        .about("With its attempts and their responses.")
        .answers::<DeliveryView<'_>>(200, "The delivery", &[])
        .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound])
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
        .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound, Code::WebhookDisabled])
}

fn with_secret(operation: Operation, status: u16, headers: &[&str]) -> Operation {
    let description = "The webhook, with its secret unless this is a retry";
    operation.answers::<OpenWebhookView<'_>>(status, description, headers)
}
