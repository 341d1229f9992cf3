//! One operation of the document: its parameters, body, responses and error codes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::parameters;
use super::schema::{self, Missing, ProblemView};
use crate::forms::{Element, Form, Integer, Reader, Schemas, Spelling, WaitSeconds, reference, rule_schema};
use crate::http::codes::Code;
use crate::http::idempotent;
use crate::http::paging::{LIMIT_MAX, PLACE_MAX, SlicePagination};
use crate::http::problem::CONTENT_TYPE_PROBLEM;
use locks::idempotency::IdempotencyKey;

pub struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: String,
    description: &'static str,
    public: bool,
    /// The path parameter with a special example: a record that can be created, changed and deleted safely.
    on_example: Option<&'static str>,
    /// Whether the record of `on_example` need not exist.
    creates: bool,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(u16, Value)>,
    /// Errors that the operation may return before its handler runs.
    early_codes: &'static [Code],
    codes: Vec<Code>,
    /// The schemas that the body and the responses reference.
    schemas: Schemas,
}

/// Everything that the operations of a document reference.
#[derive(Default)]
pub struct Components {
    pub schemas: Map<String, Value>,
    pub problems: Map<String, Value>,
}

/// Errors that any API request may return before its handler runs.
const API_CODES: [Code; 9] = [
    Code::InvalidParameter,
    Code::MissingToken,
    Code::InvalidToken,
    Code::CrossSiteRequest,
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

/// Errors of a request with an idempotency key.
const KEY_CODES: [Code; 3] = [Code::IdempotencyKeyInFlight, Code::IdempotencyKeyReused, Code::InvalidRequest];

pub type Limit = Integer<1, { LIMIT_MAX as i64 }>;
pub type Offset = Integer<0, { PLACE_MAX as i64 }>;

impl Operation {
    /// An operation of the API that requires a token. Its summary is derived from its id.
    pub fn api(tag: &'static str, id: &'static str) -> Self {
        Self {
            id,
            tag,
            summary: in_words(id),
            description: "",
            public: false,
            on_example: None,
            creates: false,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            early_codes: &API_CODES,
            codes: Vec::new(),
            schemas: Schemas::default(),
        }
    }

    /// An operation for operators, without a token.
    pub fn public(id: &'static str, summary: &str, description: &'static str) -> Self {
        Self { public: true, early_codes: &[], ..Self::api("Operating", id).titled(summary).about(description) }
    }

    /// An operation that needs no token: the body identifies the caller.
    pub fn without_token(self) -> Self {
        Self { public: true, early_codes: &[Code::InvalidParameter, Code::Overloaded, Code::ShuttingDown], ..self }
    }

    /// Sets another summary.
    pub fn titled(self, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..self }
    }

    pub fn about(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    pub fn writes(self) -> Self {
        self.fails(&WRITE_CODES)
    }

    /// Sets another example for a path parameter: a record that can be created, changed and deleted safely.
    pub fn on_example(self, parameter: &'static str) -> Self {
        Self { on_example: Some(parameter), ..self }
    }

    /// Like [`Operation::on_example`], for a record that the operation creates unless it exists.
    pub fn creates(self, parameter: &'static str) -> Self {
        Self { creates: true, ..self.on_example(parameter) }
    }

    /// Accepts an idempotency key; a retry gets the response to the first request.
    pub fn idempotent(mut self) -> Self {
        self.parameters.push(parameters::of_header(
            idempotent::HEADER,
            "Chosen by the client, a UUID for example, and new for each request. A retry with the same key within 24 \
             hours gets the first answer again and has no second effect; a refused request frees its key. Only if \
             the organization uses more keys than its share of the server's may its oldest answers be dropped \
             earlier, after 5 minutes at the soonest.",
            rule_schema(&IdempotencyKey::RULE),
        ));
        for (_, response) in self.answers.iter_mut().filter(|(status, _)| *status < 300) {
            let (name, header) = parameters::answer_header("Idempotency-Replayed");
            response["headers"][name] = header;
        }
        self.fails(&KEY_CODES)
    }

    /// Sets a body that is encoded like an HTML form. The operation is a write.
    pub fn body_form(mut self, name: &str, schema: Value) -> Self {
        let (description, example) = (schema["description"].clone(), schema["examples"][0].clone());
        let schema = self.schemas.named(name, schema);
        let content = json!({ "application/x-www-form-urlencoded": { "schema": schema, "example": example } });
        self.body = Some(json!({ "required": true, "description": description, "content": content }));
        let is_of_forms = |code: &Code| *code != Code::MalformedJson;
        let codes: Vec<_> = BODY_CODES.into_iter().filter(is_of_forms).collect();
        self.fails(&codes).writes()
    }

    /// Sets a JSON body; the operation is a write. The explorer fills in the form's example.
    pub fn body<T: Form>(mut self) -> Self {
        let mut reader = Reader::new(Spelling::Camel);
        T::read(&Element::empty_object(), &mut reader);
        let schema = T::schema(&mut self.schemas);
        self.body_of(schema, reader.has_faults())
    }

    fn body_of(mut self, schema: Value, is_required: bool) -> Self {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let form = self.schemas.0.get(name).cloned().unwrap_or_default();
        let content = json!({ "application/json": { "schema": schema, "example": form["examples"][0] } });
        self.body = Some(json!({ "required": is_required, "description": form["description"], "content": content }));
        self.fails(&BODY_CODES).writes()
    }

    pub fn query<T: Form>(mut self, name: &str, description: &str) -> Self {
        let schema = T::schema(&mut self.schemas);
        self.query_by(name, description, schema)
    }

    /// Adds a query parameter with a named schema.
    pub fn query_named(mut self, name: &str, description: &str, schema: &str, of: Value) -> Self {
        let schema = self.schemas.named(schema, of);
        self.query_by(name, description, schema)
    }

    pub fn query_by(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(parameters::of_query(name, description, schema));
        self
    }

    pub fn header(mut self, name: &str, description: &str) -> Self {
        self.parameters.push(parameters::of_header(name, description, json!({ "type": "string" })));
        self
    }

    /// Answers a list with `limit` and `offset`.
    pub fn lists<T: ToSchema>(self, description: &str) -> Self {
        self.query::<Limit>("limit", "How many, 50 if left out")
            .query::<Offset>("offset", "After how many, 0 if left out")
            .answers_list::<T, SlicePagination>(description)
    }

    pub fn deletes(self, description: &str) -> Self {
        self.writes().answers_nothing(204, description, &[])
    }

    /// Answers one record with its `ETag`; 304 if the client already has this version.
    pub fn answers_unless_known<T: ToSchema>(self, description: &str) -> Self {
        self.header("If-None-Match", "An earlier `ETag`: 304 if nothing has changed since")
            .answers::<T>(200, description, &["ETag"])
            .answers_nothing(304, "It has not changed", &["ETag"])
    }

    /// Like `answers_unless_known`, for a read that can wait for a change.
    pub fn answers_when_changed<T: ToSchema>(self, description: &str) -> Self {
        self.answers_unless_known::<T>(description).query::<WaitSeconds>(
            "waitSeconds",
            "How long to wait for a change. With `If-None-Match` 304 if there was none; without, it waits for the next \
                 change from now on, and answers 200, changed or not",
        )
    }

    pub fn answers<T: ToSchema>(mut self, status: u16, description: &str, headers: &[&str]) -> Self {
        let data = self.include::<T>();
        self.answers_one(status, description, &T::name(), data, headers)
    }

    fn answers_one(self, status: u16, description: &str, record: &str, data: Value, headers: &[&str]) -> Self {
        let schema = json!({
            "type": "object",
            "description": format!("An answer with one `{record}`."),
            "required": ["data"],
            "properties": { "data": data },
        });
        self.answers_named(status, description, &format!("{record}Answer"), schema, headers)
    }

    /// Answers one record without a `data` envelope, as a standard requires.
    pub fn answers_plain<T: ToSchema>(mut self, status: u16, description: &str, headers: &[&str]) -> Self {
        let content = json!({ "application/json": { "schema": self.include::<T>() } });
        self.answers_with(status, description, Some(content), headers)
    }

    pub fn answers_list<T: ToSchema, P: ToSchema>(mut self, description: &str) -> Self {
        let (record, pagination) = ((T::name(), self.include::<T>()), (P::name(), self.include::<P>()));
        self.answers_many(description, (&record.0, record.1), (&pagination.0, pagination.1))
    }

    /// `record` and `pagination` are names with their schemas.
    fn answers_many(self, description: &str, record: (&str, Value), pagination: (&str, Value)) -> Self {
        let ((record, item), (pagination, part)) = (record, pagination);
        let kind = pagination.strip_suffix("Pagination").filter(|kind| !kind.is_empty()).unwrap_or("List");
        let schema = json!({
            "type": "object",
            "description": format!("A part of a list, each entry a `{record}`."),
            "required": ["data", "pagination"],
            "properties": {
                "data": { "type": "array", "items": item, "description": "The entries of this part." },
                "pagination": part,
            },
        });
        // The name of the list avoids a repeated `List` for entries that are briefer than the record.
        let name = format!("{}{kind}", record.trim_end_matches("ListItem"));
        self.answers_named(200, description, &name, schema, &["Link"])
    }

    /// Answers JSON with a named schema.
    pub fn answers_named(
        mut self,
        status: u16,
        description: &str,
        name: &str,
        schema: Value,
        headers: &[&str],
    ) -> Self {
        let content = json!({ "application/json": { "schema": self.schemas.named(name, schema) } });
        self.answers_with(status, description, Some(content), headers)
    }

    pub fn answers_text(self, description: &str) -> Self {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        self.answers_with(200, description, Some(content), &[])
    }

    /// Answers text, or one JSON object per line, as the request chooses.
    pub fn answers_lines<T: ToSchema>(mut self, description: &str, headers: &[&str]) -> Self {
        let content = json!({
            "text/plain": { "schema": { "type": "string" } },
            "application/x-ndjson": { "schema": self.include::<T>() },
        });
        self.answers_with(200, description, Some(content), headers)
    }

    /// Answers content of another type.
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

    /// Adds the schemas of a type and of those it references; returns a reference to it.
    fn include<T: ToSchema>(&mut self) -> Value {
        self.schemas.0.append(&mut schema::of_type::<T>(Missing::Null));
        reference(&T::name())
    }

    /// The operation at this path; adds everything it references to `components`.
    pub fn describe(mut self, path: &str, components: &mut Components) -> Value {
        components.schemas.extend(self.schemas.0);
        let missing = parameters::missing(path, self.on_example.filter(|_| self.creates));
        let codes: Vec<_> = self.early_codes.iter().copied().chain(missing).chain(self.codes).collect();
        components.problems.extend(parameters::problems(&codes));
        let mut responses: BTreeMap<String, Value> = BTreeMap::new();
        for (status, codes) in by_status(&codes) {
            responses.insert(status.to_string(), problem_response(status, &codes));
        }
        if self.public {
            // The HTTP parser sends this, without a body.
            responses.insert("431".to_owned(), json!({ "description": "The head of the request is too large" }));
        }
        responses.extend(self.answers.into_iter().map(|(status, response)| (status.to_string(), response)));
        let mut parameters = parameters::of_path(path, self.on_example);
        parameters.append(&mut self.parameters);
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
            "parameters": parameters,
            "responses": responses,
            "security": if self.public { json!([]) } else { json!([{ "token": [] }]) },
        });
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// Turns `listTokens` into `List Tokens`.
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
        "content": { CONTENT_TYPE_PROBLEM: { "schema": reference(&ProblemView::name()), "examples": parameters::problem_examples(codes) } },
    })
}

fn headers_of(names: &[&str]) -> Value {
    let names = names.iter().chain(&["X-Request-Id"]);
    Value::Object(names.map(|name| parameters::answer_header(name)).collect::<Map<_, _>>())
}
