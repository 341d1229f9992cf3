//! One operation of the document: its parameters, body, answers and error codes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::answer_schema::{self, reference};
use crate::forms::{Element, Form, Integer, Reader, Schemas, Spelling, WaitSeconds, rule_schema};
use crate::http::codes::Code;
use crate::http::dto::Time;
use crate::http::paging::{LIMIT_MAX, PLACE_MAX, SlicePagination};
use crate::http::{idempotent, problem};
use crate::idempotency::IdempotencyKey;

pub struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: String,
    description: &'static str,
    public: bool,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(u16, Value)>,
    codes: Vec<Code>,
    /// Those that its body and its answers refer to.
    schemas: Schemas,
}

/// Errors that any API request may get before it reaches its handler.
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
/// Errors of every write.
const WRITE_CODES: [Code; 2] = [Code::StorageFull, Code::OutcomeUnknown];
const BODY_CODES: [Code; 6] = [
    Code::BadRequest,
    Code::MalformedJson,
    Code::RequestTimeout,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
];

/// Errors of a request with a key.
const KEY_CODES: [Code; 3] = [Code::IdempotencyKeyInFlight, Code::IdempotencyKeyReused, Code::InvalidRequest];

pub type Limit = Integer<1, { LIMIT_MAX as i64 }>;
pub type Offset = Integer<0, { PLACE_MAX as i64 }>;

impl Operation {
    /// An operation of the API, with a token. Its summary is its id in words.
    pub fn api(tag: &'static str, id: &'static str) -> Self {
        Self {
            id,
            tag,
            summary: in_words(id),
            description: "",
            public: false,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            codes: API_CODES.to_vec(),
            schemas: Schemas::default(),
        }
    }

    /// An operation for operators, without a token.
    pub fn public(id: &'static str, summary: &str, description: &'static str) -> Self {
        Self { public: true, codes: Vec::new(), ..Self::api("Operating", id).titled(summary).about(description) }
    }

    /// With a summary of its own.
    pub fn titled(self, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..self }
    }

    pub fn about(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    pub fn writes(self) -> Self {
        self.fails(&WRITE_CODES)
    }

    /// Takes a key, and answers a retry like the first request.
    pub fn idempotent(mut self) -> Self {
        self.parameters.push(json!({
            "name": idempotent::HEADER,
            "in": "header",
            "description": "Chosen by the client, a UUID for example, and new for each request. A retry with the same key within 24 \
                            hours gets the first answer again and has no second effect; a refused request frees its key. Only if \
                            the organization uses more keys than its share of the server's may its oldest answers be dropped \
                            earlier, after 5 minutes at the soonest.",
            "schema": rule_schema(&IdempotencyKey::RULE),
        }));
        for (_, response) in self.answers.iter_mut().filter(|(status, _)| *status < 300) {
            response["headers"]["Idempotency-Replayed"] =
                json!({ "description": "Set if this is a stored answer", "schema": { "const": "true" } });
        }
        self.fails(&KEY_CODES)
    }

    /// A request with a body writes.
    pub fn body<T: Form>(mut self) -> Self {
        let mut reader = Reader::new(Spelling::Camel);
        T::read(&Element::empty_object(), &mut reader);
        let content = json!({ "application/json": { "schema": T::schema(&mut self.schemas) } });
        self.body = Some(json!({ "required": reader.has_faults(), "content": content }));
        self.fails(&BODY_CODES).writes()
    }

    pub fn query<T: Form>(mut self, name: &str, description: &str) -> Self {
        let schema = T::schema(&mut self.schemas);
        self.query_by(name, description, schema)
    }

    pub fn query_by(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(json!({ "name": name, "in": "query", "description": description, "schema": schema }));
        self
    }

    pub fn header(mut self, name: &str, description: &str) -> Self {
        let schema = json!({ "type": "string" });
        self.parameters.push(json!({ "name": name, "in": "header", "description": description, "schema": schema }));
        self
    }

    /// A part of a list.
    pub fn lists<T: ToSchema>(self, description: &str) -> Self {
        self.query::<Limit>("limit", "How many, 50 if left out")
            .query::<Offset>("offset", "After how many, 0 if left out")
            .answers_list::<T, SlicePagination>(description)
    }

    pub fn deletes(self, description: &str) -> Self {
        self.writes().answers_nothing(204, description, &[])
    }

    /// One record with its `ETag`, unless the client has it already.
    pub fn answers_unless_known<T: ToSchema>(self, description: &str) -> Self {
        self.header("If-None-Match", "An earlier `ETag`: 304 if nothing has changed since")
            .answers::<T>(200, description, &["ETag"])
            .answers_nothing(304, "It has not changed", &["ETag"])
    }

    /// The same for a read that can wait for a change.
    pub fn answers_when_changed<T: ToSchema>(self, description: &str) -> Self {
        self.answers_unless_known::<T>(description).query::<WaitSeconds>(
            "waitSeconds",
            "How long to wait for a change. With `If-None-Match` 304 if there was none; without, it waits for the next \
                 change from now on, and answers 200, changed or not",
        )
    }

    /// One record.
    pub fn answers<T: ToSchema>(mut self, status: u16, description: &str, headers: &[&str]) -> Self {
        let data = self.include::<T>();
        self.answers_data(status, description, data, headers)
    }

    /// One record with a secret in it; a retry is answered without the secret.
    pub fn answers_secret<T: ToSchema, R: ToSchema>(
        mut self,
        status: u16,
        description: &str,
        headers: &[&str],
    ) -> Self {
        let data = json!({ "anyOf": [self.include::<T>(), self.include::<R>()] });
        self.answers_data(status, description, data, headers)
    }

    fn answers_data(self, status: u16, description: &str, data: Value, headers: &[&str]) -> Self {
        let schema = json!({ "type": "object", "required": ["data"], "properties": { "data": data } });
        self.answers_json(status, description, schema, headers)
    }

    /// A list of records.
    pub fn answers_list<T: ToSchema, P: ToSchema>(mut self, description: &str) -> Self {
        let schema = json!({
            "type": "object",
            "required": ["data", "pagination"],
            "properties": {
                "data": { "type": "array", "items": self.include::<T>() },
                "pagination": self.include::<P>(),
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

    /// Text, or an object per line, as the request asks for.
    pub fn answers_lines<T: ToSchema>(mut self, description: &str, headers: &[&str]) -> Self {
        let content = json!({
            "text/plain": { "schema": { "type": "string" } },
            "application/x-ndjson": { "schema": self.include::<T>() },
        });
        self.answers_with(200, description, Some(content), headers)
    }

    /// Content of another kind.
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

    /// A reference to a type's schema, which is entered with those it refers to.
    fn include<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found.into_iter().filter(|(name, _)| *name != Time::name()) {
            // utoipa's schemas are plain data; one that had no form in JSON would be missed by the tests.
            let mut schema = serde_json::to_value(schema).unwrap_or_default();
            answer_schema::complete(&mut schema);
            self.schemas.0.insert(name, schema);
        }
        reference(&T::name())
    }

    /// The operation; its schemas are entered into `schemas`.
    pub fn describe(self, schemas: &mut Map<String, Value>) -> Value {
        schemas.extend(self.schemas.0);
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
            operation["requestBody"] = body;
        }
        operation
    }
}

/// `List Tokens` for `listTokens`.
fn in_words(id: &str) -> String {
    let mut words = String::new();
    for letter in id.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(if words.is_empty() { letter.to_ascii_uppercase() } else { letter });
    }
    words
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
