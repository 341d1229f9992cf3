//! The schemas of request bodies and of problems. Bounds are those of the domain's types, and a test holds them to it.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use crate::domain::{LABELS_MAX, Priority, QUEUE_LENGTH_MAX, Role, SECONDS_MAX, VARIABLES_MAX};
use crate::http::clients::WAIT_SECONDS_MAX;
use crate::http::codes::Code;

const COMMIT_PATTERN: &str = "^[!-,.-~][!-~]{0,127}$";
/// No control characters but tab and newline.
pub const CONTEXT_PATTERN: &str = r"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$";
const LABEL_PATTERN: &str = "^[!-~]{1,63}$";
pub const VARIABLE_PATTERN: &str = "^(?!LOCKKEEPER_)[A-Za-z_][A-Za-z0-9_]{0,62}$";

pub fn all() -> [(&'static str, Value); 9] {
    [
        ("ClaimRequest", object(claim())),
        ("ClaimAnyRequest", object(claim_any())),
        ("ForceClaimRequest", object(request())),
        ("HeartbeatRequest", object(json!({ "fencingToken": fencing_token() }))),
        ("DeployRequest", deploy()),
        ("ConfigurationRequest", configuration()),
        ("TokenRequest", token()),
        ("Problem", problem()),
        ("Status", status()),
    ]
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// What every claim asks for, by force or not.
fn request() -> Value {
    json!({
        "commitId": { "type": ["string", "null"], "pattern": COMMIT_PATTERN, "examples": ["c0ffee1"],
                      "description": "Deployed at once, if the environment deploys on claim." },
        "context": { "type": ["string", "null"], "maxLength": 1024, "pattern": CONTEXT_PATTERN,
                     "examples": ["PR 412"], "description": "Why, for those who find it taken." },
        "ttlSeconds": { "type": ["integer", "null"], "minimum": 1, "maximum": SECONDS_MAX,
                        "description": "The session expires that long after its last activity: claim, heartbeat, deploy. \
                                        At most the environment's `maxTtlSeconds`; left out: its `defaultTtlSeconds`." },
    })
}

fn claim() -> Value {
    let mut properties = request();
    properties["waitSeconds"] = json!({
        "type": ["integer", "null"], "minimum": 0, "maximum": WAIT_SECONDS_MAX,
        "description": "How long to wait for the lock if somebody has it." });
    properties["queue"] = json!({
        "type": ["boolean", "null"], "default": false,
        "description": "To be answered 202 with a queued session, after `waitSeconds` if those are given too." });
    properties["priority"] = json!({
        "type": ["integer", "null"], "minimum": Priority::RANGE.start(), "maximum": Priority::RANGE.end(),
        "default": 0, "description": "Higher ones go first. Above 0 takes a maintainer." });
    properties
}

fn claim_any() -> Value {
    let mut properties = claim();
    properties["labels"] = json!({
        "type": "object", "maxProperties": LABELS_MAX, "propertyNames": { "pattern": IDENTIFIER_PATTERN },
        "additionalProperties": { "type": "string", "pattern": LABEL_PATTERN },
        "examples": [{ "size": "large" }], "description": "All of them must be there; none: any environment will do." });
    properties
}

fn fencing_token() -> Value {
    json!({ "type": ["integer", "null"], "minimum": 0, "maximum": i64::MAX,
            "description": "The one the caller believes to have; another than the session's is refused." })
}

fn deploy() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["commitId"],
        "properties": {
            "commitId": { "type": "string", "pattern": COMMIT_PATTERN, "examples": ["c0ffee1"] },
            "waitSeconds": { "type": ["integer", "null"], "minimum": 0, "maximum": WAIT_SECONDS_MAX,
                             "description": "To be answered 200 if it finishes in time." },
            "fencingToken": fencing_token(),
        },
    })
}

fn configuration() -> Value {
    let roles: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let seconds = json!({ "type": ["integer", "null"], "minimum": 1, "maximum": SECONDS_MAX, "default": null });
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
            "defaultTtlSeconds": seconds,
            "maxTtlSeconds": { "type": "integer", "minimum": 1, "maximum": SECONDS_MAX, "default": 86_400 },
            "maxHoldSeconds": seconds,
            "maxQueueLength": { "type": "integer", "minimum": 0, "maximum": QUEUE_LENGTH_MAX, "default": 10_000 },
            "forceClaimRole": { "enum": roles, "default": "developer" },
            "onRelease": {
                "type": ["object", "null"], "additionalProperties": false, "required": ["commitId"],
                "properties": { "commitId": { "type": "string", "pattern": COMMIT_PATTERN } },
                "description": "Deployed after a release or an expiry, before anybody else gets the environment; if that \
                                fails, the environment is disabled.",
            },
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
        assert_eq!(claim()["context"]["maxLength"], 1024);
    }
}
