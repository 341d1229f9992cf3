//! Parameters and headers by name, with examples; those in paths exist in the sample organization.

use serde_json::{Map, Value, json};

use crate::forms::{Text, example_of, id_schema};
use crate::http::codes::Code;
use crate::http::idempotent;
use crate::http::resources::events::LAST_EVENT_ID;
use crate::http::resources::logs::NEXT_OFFSET;
use domain::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, Identifier, RegistryId, SessionId, TokenId, UserId, VariableName,
    WebhookId,
};
use events::EventId;

/// The parameters of a path with the examples that the explorer fills in; the parameter `on_example` has its own
/// example.
pub fn of_path(path: &str, on_example: Option<&str>) -> Vec<Value> {
    let described = names_in(path).map(|name| {
        let (description, mut schema, _) = path_parameter(name);
        let own = schema.as_object_mut().and_then(|schema| schema.remove("examples")).unwrap_or_default();
        let example = if on_example == Some(name) { json!("example") } else { own[0].clone() };
        json!({
            "name": name, "in": "path", "required": true, "description": description, "schema": schema,
            "example": example,
        })
    });
    described.collect()
}

/// The codes for missing records of a path; the record of the parameter `created` need not exist.
pub fn missing<'p>(path: &'p str, created: Option<&'p str>) -> impl Iterator<Item = Code> + use<'p> {
    names_in(path).filter(move |name| created != Some(*name)).filter_map(|name| path_parameter(name).2)
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

/// A time in a query.
pub fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

/// A parameter's description, its schema, and the code for a missing record.
fn path_parameter(name: &str) -> (&'static str, Value, Option<Code>) {
    let identifier = |example| example_of(Identifier::text_schema(), example);
    let (description, schema, missing) = match name {
        // No code here: any request with a token may get it.
        "orgId" => return ("The organization", identifier("acme"), None),
        "pipelineId" => ("The pipeline", identifier("web"), Code::PipelineNotFound),
        "envName" => ("The environment", identifier("review-1"), Code::EnvironmentNotFound),
        "sessionId" => ("The session", SessionId::text_schema(), Code::SessionNotFound),
        "deploymentId" => ("The deployment", DeploymentId::text_schema(), Code::DeploymentNotFound),
        "stage" => ("The stage, by its name", identifier("build"), Code::StageNotFound),
        "approvalId" => ("The approval", ApprovalId::text_schema(), Code::ApprovalNotFound),
        "analysisId" => ("The analysis", AnalysisId::text_schema(), Code::AnalysisNotFound),
        "eventId" => ("The event", id_schema(EventId::PATTERN, EventId::EXAMPLE), Code::EventNotFound),
        "name" => {
            let schema = example_of(VariableName::text_schema(), "EXAMPLE_PASSWORD");
            ("The secret, by its name", schema, Code::SecretNotFound)
        }
        "registryId" => ("The step registry", RegistryId::text_schema(), Code::RegistryNotFound),
        "tokenId" => ("The token, by its id", TokenId::text_schema(), Code::TokenNotFound),
        "userId" => ("The member", id_schema(UserId::PATTERN, UserId::EXAMPLE), Code::MemberNotFound),
        "webhookId" => ("The webhook", WebhookId::text_schema(), Code::WebhookNotFound),
        "deliveryId" => ("The delivery", DeliveryId::text_schema(), Code::DeliveryNotFound),
        _ => ("The code of a problem", id_schema("^[a-z_]{1,64}$", "environment_locked"), Code::ProblemNotFound),
    };
    (description, schema, Some(missing))
}

/// An optional parameter. Its example is in the schema, where the explorer shows it without filling it in.
pub fn of_query(name: &str, description: &str, mut schema: Value) -> Value {
    if schema.get("$ref").is_none() && schema.get("examples").is_none() && schema.get("items").is_none() {
        schema["examples"] = json!([query_example(name)]);
    }
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

fn query_example(name: &str) -> Value {
    match name {
        "limit" => json!(20),
        "offset" => json!(0),
        "page" => json!(1),
        "waitSeconds" => json!(10),
        "pipelineId" => json!("web"),
        "envName" => json!("review-1"),
        "stage" => json!("build"),
        "step" => json!("compile"),
        "user" | "name" => json!("ana"),
        "type" => json!("session.*,deployment.failed"),
        "actor" => json!("system"),
        "since" | "from" => json!("2026-11-15T00:00:00Z"),
        "until" | "to" => json!("2026-11-16T00:00:00Z"),
        "lastEventId" => json!(EventId::EXAMPLE),
        // No example; the tests report that.
        _ => Value::Null,
    }
}

pub fn of_header(name: &str, description: &str, mut schema: Value) -> Value {
    schema["examples"] = json!([header_example(name)]);
    json!({ "name": name, "in": "header", "description": description, "schema": schema })
}

fn header_example(name: &str) -> &'static str {
    match name {
        idempotent::HEADER => "0199f3c2-a4b0-7f3e-9d2c-5a1b2c3d4e5f",
        LAST_EVENT_ID => EventId::EXAMPLE,
        // The example of an `ETag`.
        _ => "\"3\"",
    }
}

/// A response header, by name.
pub fn answer_header(name: &str) -> (String, Value) {
    (name.to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }))
}

/// Every header that responses reference.
pub fn answer_headers() -> Map<String, Value> {
    let headers = [
        ("X-Request-Id", "The id of the request, which is also in the server's log", "0199f3c2a4b07f3e"),
        ("Location", "The address of the record", "/api/v1/organizations/acme/pipelines/web"),
        ("ETag", "The version of the record, for `If-Match` and `If-None-Match`", "\"3\""),
        ("Link", "The other parts of the list (RFC 8288)", "<…?limit=50&offset=50>; rel=\"next\""),
        ("WWW-Authenticate", "How to authenticate", "Bearer realm=\"lockkeeper\""),
        ("Retry-After", "Seconds to wait before a retry", "5"),
        ("RateLimit", "What is left of the rate limit", "\"token\";r=0;t=1"),
        ("RateLimit-Policy", "The rate limit", "\"token\";q=1000;w=1"),
        ("Idempotency-Replayed", "`true` if this is a stored answer", "true"),
        (LAST_EVENT_ID, "The event after which the stream begins", EventId::EXAMPLE),
        (NEXT_OFFSET, "The `offset` that goes on where this answer ends", "120"),
    ];
    let described = headers.into_iter().map(|(name, description, example)| {
        let schema = json!({ "type": "string", "examples": [example] });
        (name.to_owned(), json!({ "description": description, "schema": schema }))
    });
    described.collect()
}

/// The examples of a response with one of these problems.
pub fn problem_examples(codes: &[Code]) -> Value {
    let refer = |code: &Code| {
        let code = code.as_str();
        (code.to_owned(), json!({ "$ref": format!("#/components/examples/{code}") }))
    };
    Value::Object(codes.iter().map(refer).collect())
}

/// Problems with these codes, in the form that clients receive.
pub fn problems(codes: &[Code]) -> Map<String, Value> {
    let shown = |code: &Code| {
        let problem = json!({
            "type": format!("/problems/{}", code.as_str()), "title": code.title(), "status": code.status().as_u16(),
            "detail": code.meaning(), "code": code.as_str(), "requestId": "0199f3c2a4b07f3e",
        });
        (code.as_str().to_owned(), json!({ "summary": code.title(), "value": problem }))
    };
    codes.iter().map(shown).collect()
}
