//! The operations on secrets. None of them answers a value.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use super::bodies::{CONTEXT_PATTERN, VARIABLE_PATTERN};
use super::operation::Operation;
use crate::http::codes::Code;
use crate::secrets::VALUE_BYTES_MAX;

const SECRETS: &str = "Secrets";

pub fn request_bodies() -> [(&'static str, Value); 2] {
    let description = |kind| json!({ "type": kind, "maxLength": 1024, "pattern": CONTEXT_PATTERN });
    [
        (
            "SecretRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["name", "value"],
                "properties": {
                    "name": { "type": "string", "pattern": VARIABLE_PATTERN, "examples": ["DATABASE_PASSWORD"],
                              "description": "The variable that steps find it in." },
                    "value": value(),
                    "description": description(json!(["string", "null"])),
                    "pipelineId": { "type": ["string", "null"], "pattern": IDENTIFIER_PATTERN, "examples": ["web"],
                                    "description": "For one pipeline alone, where it wins over the organization's of the same \
                                                    name; left out: for all." },
                },
            }),
        ),
        (
            "SecretChangeRequest",
            json!({
                "type": "object",
                "additionalProperties": false,
                "minProperties": 1,
                "description": "What is left out stays as it is.",
                "properties": { "value": value(), "description": description(json!("string")) },
            }),
        ),
    ]
}

fn value() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": VALUE_BYTES_MAX, "pattern": r"^[^\u0000]+$",
            "writeOnly": true, "description": "At most 16384 bytes in UTF-8. It is never shown again." })
}

pub fn list_secrets() -> Operation {
    Operation::api(
        SECRETS,
        "listSecrets",
        "List Secrets",
        "The organization's and those of its pipelines, by pipeline and name, without their values.",
    )
    .query("pipelineId", "Only this pipeline's own", identifier())
    .slice()
    .answers_list("The secrets", "Secret", "Pagination")
}

pub fn create_secret() -> Operation {
    Operation::api(
        SECRETS,
        "createSecret",
        "Create Secret",
        "Steps get it as a variable from the next stage that begins. A name is unique in its scope: the organization, or one \
         pipeline.",
    )
    .body("SecretRequest", true)
    .writes()
    .answers(201, "The secret, without its value", "Secret", &["Location", "ETag"])
    .fails(&[Code::SecretExists, Code::SecretLimitReached])
}

pub fn get_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "getSecret", "Get Secret", "All of it but its value."))
        .header("If-None-Match", "An `ETag` of before: 304 if nothing has changed since")
        .answers(200, "The secret", "Secret", &["ETag"])
        .answers_nothing(304, "It has not changed", &["ETag"])
}

pub fn update_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "updateSecret", "Update Secret", "Gives it another value or description."))
        .header("If-Match", "The `ETag` it was read with: only if it is still that")
        .body("SecretChangeRequest", true)
        .writes()
        .answers(200, "The secret, without its value", "Secret", &["ETag"])
        .fails(&[Code::PreconditionFailed])
}

pub fn delete_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "deleteSecret", "Delete Secret", "Steps that have begun keep it."))
        .header("If-Match", "The `ETag` it was read with: only if it is still that")
        .writes()
        .answers_nothing(204, "Deleted", &[])
        .fails(&[Code::PreconditionFailed])
}

fn in_scope(operation: Operation) -> Operation {
    operation
        .query("pipelineId", "Whose own it is; left out: the organization's", identifier())
        .fails(&[Code::SecretNotFound])
}

pub fn path_parameter(name: &str) -> Option<(&'static str, Value, &'static str)> {
    let schema = json!({ "type": "string", "pattern": VARIABLE_PATTERN });
    (name == "name").then_some(("The secret, by its name", schema, "DATABASE_PASSWORD"))
}

fn identifier() -> Value {
    json!({ "type": "string", "pattern": IDENTIFIER_PATTERN })
}
