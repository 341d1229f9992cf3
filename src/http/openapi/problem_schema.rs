//! Schemas of answers that are put together by hand: problems, and the status that operators ask for.

use serde_json::{Value, json};

use crate::http::codes::Code;

pub fn all() -> [(String, Value); 2] {
    [("Problem".to_owned(), problem()), ("Status".to_owned(), status())]
}

fn problem() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "description": "RFC 9457. Further members give details: `holder`, `errors`, `retryAfterSeconds`, …",
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
            "holders": {
                "type": "array", "maxItems": 10,
                "description": "Of a claim of any environment: who holds what it could have had, longest first.",
                "items": { "type": "object", "required": ["envName", "sessionId", "user", "claimedAt", "expiresAt"] },
            },
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
