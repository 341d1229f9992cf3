//! The operations on webhooks and their deliveries.

use serde_json::{Value, json};

use super::bodies::CONTEXT_PATTERN;
use super::operation::{Operation, reference};
use crate::domain::Notice;
use crate::http::codes::Code;
use crate::http::resources::webhooks::GRACE_MAX_SECONDS;
use crate::webhooks::{FILTERS_MAX, URL_MAX};

const WEBHOOKS: &str = "Webhooks";
const SECRET_PATTERN: &str = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$";

pub fn request_bodies() -> [(&'static str, Value); 4] {
    let description = |kind: Value| json!({ "type": kind, "maxLength": 1024, "pattern": CONTEXT_PATTERN });
    [
        (
            "WebhookRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["url"],
                "properties": {
                    "url": url(),
                    "events": events(),
                    "description": description(json!(["string", "null"])),
                    "enabled": { "type": ["boolean", "null"], "description": "True if left out." },
                    "secret": secret(),
                },
            }),
        ),
        (
            "WebhookChangeRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "minProperties": 1,
                "description": "What is left out stays as it is.",
                "properties": {
                    "url": url(),
                    "events": events(),
                    "description": description(json!("string")),
                    "enabled": { "type": "boolean", "description": "One that is enabled again gets what it was not sent \
                                                                    meanwhile, as far as the events are kept." },
                },
            }),
        ),
        ("WebhookActionRequest", json!({ "type": "object", "additionalProperties": false, "properties": {} })),
        (
            "WebhookSecretRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "graceSeconds": { "type": ["integer", "null"], "minimum": 0, "maximum": GRACE_MAX_SECONDS,
                                      "description": "How long the old secret signs too; a day if left out." },
                    "secret": secret(),
                },
            }),
        ),
    ]
}

fn url() -> Value {
    json!({ "type": "string", "format": "uri", "maxLength": URL_MAX, "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s#@]+$",
            "examples": ["https://ci.example.com/hooks/lockkeeper"],
            "description": "An http or https URL without credentials and fragment. Use https: what is sent is signed, but not \
                            hidden. Unless the operator allows it, no address that is not public." })
}

fn events() -> Value {
    let groups =
        Notice::ALL.iter().filter_map(|notice| notice.as_str().split('.').next()).map(|group| format!("{group}.*"));
    let mut names: Vec<String> = groups.chain(Notice::ALL.iter().map(|notice| notice.as_str().to_owned())).collect();
    names.sort_unstable();
    names.dedup();
    json!({ "type": "array", "maxItems": FILTERS_MAX, "items": { "type": "string", "enum": names },
            "description": "Which events it gets; all if left out or empty." })
}

fn secret() -> Value {
    json!({ "type": ["string", "null"], "pattern": SECRET_PATTERN, "writeOnly": true,
            "description": "`whsec_` and the base64 of 24 to 64 bytes; made for you if left out." })
}

pub fn list_webhooks() -> Operation {
    Operation::api(WEBHOOKS, "listWebhooks", "List Webhooks", "Oldest first, without their secrets.")
        .slice()
        .answers_list("The webhooks", "Webhook", "Pagination")
}

pub fn create_webhook() -> Operation {
    let operation = Operation::api(
        WEBHOOKS,
        "createWebhook",
        "Create Webhook",
        "From now on its URL is sent every event that it wants, as a `POST` signed by the Standard Webhooks scheme \
         (`webhook-id`, `webhook-timestamp`, `webhook-signature`): `{type, timestamp, data}`, with the event as `data`. Any \
         2xx within the operator's time limit counts as arrived; 410 disables the webhook; anything else is retried for more \
         than a day, with growing waits. First attempts are made in the order of the events, retries when they are due; an event \
         may arrive more than once, under the same `webhook-id`. The secret is shown once: a retry with the same \
         `Idempotency-Key` gets the first answer again with `secret` null.",
    );
    let operation = operation.body("WebhookRequest", true).writes();
    with_secret(operation, 201, &["Location"]).fails(&[Code::WebhookLimitReached])
}

pub fn get_webhook() -> Operation {
    let operation =
        Operation::api(WEBHOOKS, "getWebhook", "Get Webhook", "How it is set up and how its deliveries fare.");
    operation.answers(200, "The webhook", "Webhook", &[]).fails(&[Code::WebhookNotFound])
}

pub fn update_webhook() -> Operation {
    Operation::api(
        WEBHOOKS,
        "updateWebhook",
        "Update Webhook",
        "Changes where it leads or what it gets, or disables and enables it. What is pending goes to the new URL.",
    )
    .body("WebhookChangeRequest", true)
    .writes()
    .answers(200, "The webhook", "Webhook", &[])
    .fails(&[Code::WebhookNotFound])
}

pub fn delete_webhook() -> Operation {
    let description = "With its deliveries. What is being sent in this moment may still arrive.";
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
        "Gives it a new secret. For as long as `graceSeconds` its deliveries carry two signatures, one of each secret, so that \
         receivers can change over without missing any.",
    );
    with_secret(operation.body("WebhookSecretRequest", false).writes(), 200, &[]).fails(&[Code::WebhookNotFound])
}

pub fn test_webhook() -> Operation {
    Operation::api(
        WEBHOOKS,
        "testWebhook",
        "Test Webhook",
        "Sends it something of the type `webhook.test` now, signed like any delivery, and answers with what came of it. It is \
         not retried, and works while the webhook is disabled.",
    )
    .body("WebhookActionRequest", false)
    .writes()
    .answers(200, "What came of it, also if it failed", "DeliveryAttempt", &[])
    .fails(&[Code::WebhookNotFound])
}

pub fn list_deliveries() -> Operation {
    Operation::api(
        WEBHOOKS,
        "listDeliveries",
        "List Deliveries",
        "Newest first: all that are pending, and the newest 1,000 that arrived or were given up.",
    )
    .query("status", "Only those", json!({ "type": "string", "enum": ["pending", "delivered", "failed"] }))
    .slice()
    .answers_list("The deliveries", "Delivery", "Pagination")
    .fails(&[Code::WebhookNotFound])
}

pub fn get_delivery() -> Operation {
    Operation::api(WEBHOOKS, "getDelivery", "Get Delivery", "With its attempts and what they were answered.")
        .answers(200, "The delivery", "Delivery", &[])
        .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound])
}

pub fn redeliver() -> Operation {
    Operation::api(
        WEBHOOKS,
        "redeliver",
        "Redeliver",
        "Sends it again now, under the same `webhook-id`, also if it had arrived; if that fails it is retried like a new one.",
    )
    .body("WebhookActionRequest", false)
    .writes()
    .answers(202, "The delivery, pending", "Delivery", &[])
    .fails(&[Code::WebhookNotFound, Code::DeliveryNotFound, Code::WebhookDisabled])
}

fn with_secret(operation: Operation, status: u16, headers: &[&str]) -> Operation {
    let schema = json!({
        "type": "object",
        "required": ["data"],
        "properties": { "data": { "anyOf": [reference("NewWebhook"), reference("ReplayedWebhook")] } },
    });
    operation.answers_json(status, "The webhook, with its secret unless this is a retry", schema, headers)
}

pub fn path_parameter(name: &str) -> Option<(&'static str, Value, &'static str)> {
    let schema = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match name {
        "webhookId" => Some(("The webhook", schema("^whk_[0-9a-f]{24}$"), "whk_0199f3c2a4b07f3e9d2c5a1b")),
        "deliveryId" => Some(("The delivery", schema("^dlv_[0-9a-f]{24}$"), "dlv_0199f3c2a4b07f3e9d2c5a1b")),
        _ => None,
    }
}
