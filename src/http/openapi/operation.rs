//! One operation of the document: what it takes, what it answers, and with which codes it can fail.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::http::clients::WAIT_SECONDS_MAX;
use crate::http::codes::Code;
use crate::http::paging::PLACE_MAX;
use crate::http::{idempotent, problem};

pub struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    public: bool,
    parameters: Vec<Value>,
    body: Option<Body>,
    answers: Vec<(u16, Value)>,
    codes: Vec<Code>,
}

struct Body {
    schema: &'static str,
    required: bool,
}

/// What every request of the API may meet before it reaches its handler.
const API_CODES: [Code; 8] = [
    Code::InvalidParameter,
    Code::MissingToken,
    Code::InvalidToken,
    Code::PermissionDenied,
    Code::OrganizationNotFound,
    Code::RateLimited,
    Code::Overloaded,
    Code::ShuttingDown,
];
/// What every write may meet.
const WRITE_CODES: [Code; 2] = [Code::StorageFull, Code::OutcomeUnknown];
const BODY_CODES: [Code; 6] = [
    Code::BadRequest,
    Code::MalformedJson,
    Code::RequestTimeout,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
];

/// What a request with a key may meet.
const KEY_CODES: [Code; 3] = [Code::IdempotencyKeyInFlight, Code::IdempotencyKeyReused, Code::InvalidRequest];
const KEY_PATTERN: &str = "^[!-~]{1,128}$";

impl Operation {
    /// An operation of the API: it takes a token.
    pub fn api(tag: &'static str, id: &'static str, summary: &'static str, description: &'static str) -> Self {
        Self {
            id,
            tag,
            summary,
            description,
            public: false,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            codes: API_CODES.to_vec(),
        }
    }

    /// Something for operators: it takes no token.
    pub fn public(id: &'static str, summary: &'static str, description: &'static str) -> Self {
        Self { public: true, codes: Vec::new(), ..Self::api("Operating", id, summary, description) }
    }

    pub fn writes(self) -> Self {
        self.fails(&WRITE_CODES)
    }

    /// It takes a key, and answers a retry as it answered the first time.
    pub fn idempotent(mut self) -> Self {
        self.parameters.push(json!({
            "name": idempotent::HEADER,
            "in": "header",
            "description": "Of your choice, a UUID for example, and new for each request. A retry under the same key within \
                            24 hours gets the first answer again instead of a second effect; a request that was refused \
                            frees its key.",
            "schema": { "type": "string", "pattern": KEY_PATTERN },
        }));
        for (_, response) in self.answers.iter_mut().filter(|(status, _)| *status < 300) {
            response["headers"]["Idempotency-Replayed"] =
                json!({ "description": "This is the first answer again", "schema": { "const": "true" } });
        }
        self.fails(&KEY_CODES)
    }

    pub fn body(mut self, schema: &'static str, required: bool) -> Self {
        self.body = Some(Body { schema, required });
        self.fails(&BODY_CODES)
    }

    pub fn query(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(json!({ "name": name, "in": "query", "description": description, "schema": schema }));
        self
    }

    pub fn header(mut self, name: &str, description: &str) -> Self {
        let schema = json!({ "type": "string" });
        self.parameters.push(json!({ "name": name, "in": "header", "description": description, "schema": schema }));
        self
    }

    pub fn slice(self) -> Self {
        self.query("limit", "How many, 50 if left out", json!({ "type": "integer", "minimum": 1, "maximum": 100 }))
            .query(
                "offset",
                "After how many, 0 if left out",
                json!({ "type": "integer", "minimum": 0, "maximum": PLACE_MAX }),
            )
    }

    /// A read that can be held open until there is something new.
    pub fn until_changed(self) -> Self {
        self.header("If-None-Match", "An `ETag` of before: 304 if nothing has changed since").query(
            "waitSeconds",
            "With `If-None-Match`: how long to wait for a change before 304",
            json!({ "type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX }),
        )
    }

    /// One record.
    pub fn answers(self, status: u16, description: &str, schema: &str, headers: &[&str]) -> Self {
        let schema = json!({
            "type": "object", "required": ["data"], "properties": { "data": reference(schema) },
        });
        self.answers_json(status, description, schema, headers)
    }

    /// A list of records.
    pub fn answers_list(self, description: &str, schema: &str, pagination: &str) -> Self {
        let schema = json!({
            "type": "object",
            "required": ["data", "pagination"],
            "properties": {
                "data": { "type": "array", "items": reference(schema) },
                "pagination": reference(pagination),
            },
        });
        self.answers_json(200, description, schema, &["Link"])
    }

    pub fn answers_json(self, status: u16, description: &str, schema: Value, headers: &[&str]) -> Self {
        let content = json!({ "application/json": { "schema": schema } });
        self.answers_with(status, description, Some(content), headers)
    }

    pub fn answers_text(self, description: &str) -> Self {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        self.answers_with(200, description, Some(content), &[])
    }

    /// One of several kinds of content, as the request asks for.
    pub fn answers_content(self, status: u16, description: &str, content: Value, headers: &[&str]) -> Self {
        self.answers_with(status, description, Some(content), headers)
    }

    pub fn answers_nothing(self, status: u16, description: &str, headers: &[&str]) -> Self {
        self.answers_with(status, description, None, headers)
    }

    fn answers_with(mut self, status: u16, description: &str, content: Option<Value>, headers: &[&str]) -> Self {
        let mut response = json!({ "description": description, "headers": headers_of(headers) });
        if let Some(content) = content {
            response["content"] = content;
        }
        self.answers.push((status, response));
        self
    }

    pub fn fails(mut self, codes: &[Code]) -> Self {
        self.codes.extend_from_slice(codes);
        self
    }

    pub fn describe(self) -> Value {
        let mut responses: BTreeMap<String, Value> = BTreeMap::new();
        for (status, codes) in by_status(&self.codes) {
            responses.insert(status.to_string(), problem_response(status, &codes));
        }
        responses.extend(self.answers.into_iter().map(|(status, response)| (status.to_string(), response)));
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
            "parameters": self.parameters,
            "responses": responses,
            "security": if self.public { json!([]) } else { json!([{ "token": [] }]) },
        });
        if let Some(body) = self.body {
            let content = json!({ "application/json": { "schema": reference(body.schema) } });
            operation["requestBody"] = json!({ "required": body.required, "content": content });
        }
        operation
    }
}

pub fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn by_status(codes: &[Code]) -> BTreeMap<u16, Vec<Code>> {
    let mut statuses: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for &code in codes {
        let listed = statuses.entry(code.status().as_u16()).or_default();
        if !listed.contains(&code) {
            listed.push(code);
        }
    }
    statuses
}

fn problem_response(status: u16, codes: &[Code]) -> Value {
    let listed: Vec<_> = codes.iter().map(|code| format!("- `{}`: {}", code.as_str(), code.meaning())).collect();
    let headers: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        409 | 503 => &["Retry-After"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        _ => &[],
    };
    json!({
        "description": listed.join("\n"),
        "headers": headers_of(headers),
        "content": { problem::CONTENT_TYPE_PROBLEM: { "schema": reference("Problem") } },
    })
}

fn headers_of(names: &[&str]) -> Value {
    let names = names.iter().chain(&["X-Request-Id"]);
    Value::Object(
        names.map(|name| ((*name).to_owned(), json!({ "schema": { "type": "string" } }))).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idempotency::IdempotencyKey;

    #[test]
    fn the_documented_key_is_the_real_one() {
        assert!(IdempotencyKey::parse(&"~".repeat(128)).is_ok() && IdempotencyKey::parse(&"!".repeat(129)).is_err());
        assert!(KEY_PATTERN.contains("{1,128}"));
    }
}
