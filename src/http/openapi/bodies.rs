//! The schemas of request bodies and of problems. Bounds are those of the domain's types, and a test holds them to it.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use crate::domain::{LABELS_MAX, Role, VARIABLES_MAX};
use crate::http::codes::Code;
use crate::http::dto::{MAX_QUEUE_LENGTH, MAX_TTL_SECONDS};

const COMMIT_PATTERN: &str = "^[!-,.-~][!-~]{0,127}$";
/// No control characters but tab and newline.
const CONTEXT_PATTERN: &str = r"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$";
const LABEL_PATTERN: &str = "^[!-~]{1,63}$";
const VARIABLE_PATTERN: &str = "^(?!LOCKKEEPER_)[A-Za-z_][A-Za-z0-9_]{0,62}$";

pub fn all() -> [(&'static str, Value); 6] {
    [
        ("ClaimRequest", claim()),
        ("DeployRequest", deploy()),
        ("ConfigurationRequest", configuration()),
        ("TokenRequest", token()),
        ("Problem", problem()),
        ("Status", status()),
    ]
}

fn claim() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "commitId": { "type": ["string", "null"], "pattern": COMMIT_PATTERN, "examples": ["c0ffee1"],
                          "description": "Deployed at once, if the environment deploys on claim." },
            "context": { "type": ["string", "null"], "maxLength": 1024, "pattern": CONTEXT_PATTERN,
                         "examples": ["PR 412"], "description": "Why, for those who find it taken." },
        },
    })
}

fn deploy() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["commitId"],
        "properties": { "commitId": { "type": "string", "pattern": COMMIT_PATTERN, "examples": ["c0ffee1"] } },
    })
}

fn configuration() -> Value {
    let roles: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let not_yet = "Not supported by this version: only this value is taken.";
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": "The whole configuration: what is left out has its default. May also be sent as the only field \
                        `configuration` of an object, as it stands in the environment.",
        "properties": {
            "description": { "type": "string", "maxLength": 1024, "pattern": CONTEXT_PATTERN },
            "labels": {
                "type": "object", "maxProperties": LABELS_MAX, "propertyNames": { "pattern": IDENTIFIER_PATTERN },
                "additionalProperties": { "type": "string", "pattern": LABEL_PATTERN },
            },
            "deployOnClaim": { "type": "boolean", "default": true },
            "defaultTtlSeconds": { "type": "null", "description": not_yet },
            "maxTtlSeconds": { "const": MAX_TTL_SECONDS, "description": not_yet },
            "maxHoldSeconds": { "type": "null", "description": not_yet },
            "maxQueueLength": { "const": MAX_QUEUE_LENGTH, "description": not_yet },
            "forceClaimRole": { "enum": roles, "default": "developer" },
            "onRelease": { "type": "null", "description": not_yet },
            "disabled": { "type": "boolean", "default": false },
            "variables": {
                "type": "object", "maxProperties": VARIABLES_MAX, "propertyNames": { "pattern": VARIABLE_PATTERN },
                "additionalProperties": { "type": "string", "maxLength": 4096, "pattern": r"^[^\u0000]*$" },
            },
        },
    })
}

fn token() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$" },
            "user": { "type": "string", "description": "The name of the member it stands for; left out: the caller." },
            "userId": { "type": "string", "description": "The same, by id." },
            "expiresAt": { "type": ["string", "null"], "format": "date-time", "description": "In the future." },
        },
    })
}

fn problem() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "description": "RFC 9457. Further members help to act on it: `holder`, `errors`, `retryAfterSeconds`, …",
        "required": ["type", "title", "status", "detail", "code", "requestId"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What to do next." },
            "code": { "enum": codes },
            "requestId": { "type": "string" },
            "retryAfterSeconds": { "type": "integer" },
            "requiredRole": { "type": "string" },
            "queueLength": { "type": "integer" },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object", "required": ["field", "message"],
                    "properties": { "field": { "type": "string" }, "message": { "type": "string" } },
                },
            },
        },
    })
}

fn status() -> Value {
    json!({ "type": "object", "required": ["status"], "properties": { "status": { "enum": ["alive", "ready"] } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_bounds_are_the_real_ones() {
        // The words of the contract, against the types that enforce them.
        use crate::domain::{CommitId, Context, Identifier};
        assert!(Identifier::parse(&"x".repeat(63)).is_ok() && Identifier::parse(&"x".repeat(64)).is_err());
        assert!(CommitId::parse(&"x".repeat(128)).is_ok() && CommitId::parse(&"x".repeat(129)).is_err());
        assert!(Context::parse(&"x".repeat(1024)).is_ok() && Context::parse(&"x".repeat(1025)).is_err());
        assert!(COMMIT_PATTERN.contains("{0,127}") && IDENTIFIER_PATTERN.contains("{0,62}"));
        assert_eq!(claim()["properties"]["context"]["maxLength"], 1024);
    }
}
