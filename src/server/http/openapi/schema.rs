//! The common parts of response schemas; the schemas of events, one per type, so that generators create a type with its
//! own `data` for each; and the schemas of problems. `http/problem.rs` writes problems; a test compares their members
//! with these.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::forms::reference;
use crate::http::codes::Code;
use crate::http::dto::written::{
    AnalysisStatus, ApprovalStatus, DeploymentId, DeploymentStatus, Expiry, RevocationReason, Role, SessionId,
    SignInMethod, StageStatus,
};
use crate::http::dto::{EndedByView, HolderView, Time, UserView};
use domain::{EventData, EventMember, EventShape, EventType, MemberKind};

/// How a response represents a field without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The field is null.
    Null,
    /// The field may be omitted.
    LeftOut,
}

/// The schema of a type and those it references.
pub fn of_type<T: ToSchema>(missing: Missing) -> Map<String, Value> {
    let mut others = Vec::new();
    T::schemas(&mut others);
    with_others(T::name().into_owned(), T::schema(), others, missing)
}

fn with_others(
    name: String,
    schema: RefOr<Schema>,
    mut others: Vec<(String, RefOr<Schema>)>,
    missing: Missing,
) -> Map<String, Value> {
    let mut schemas = completed(others.clone(), Missing::Null);
    others.push((name.clone(), schema));
    schemas.extend(completed(others, missing).remove_entry(&name));
    schemas
}

/// Completes schemas generated from types for the document: describes times inline and merges flattened fields.
pub fn completed(found: Vec<(String, RefOr<Schema>)>, missing: Missing) -> Map<String, Value> {
    let found = found.into_iter().filter(|(name, _)| *name != Time::name());
    // Cannot fail for utoipa's plain data; the tests would notice an empty schema.
    let found = found.map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default()));
    let mut schemas: Map<_, _> = found.collect();
    schemas.values_mut().for_each(|schema| complete(schema, missing));
    let originals = schemas.clone();
    schemas.values_mut().for_each(|schema| flatten(schema, &originals));
    schemas
}

fn complete(schema: &mut Value, missing: Missing) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, missing)),
        Value::Object(members) => complete_object(members, missing),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn complete_object(members: &mut Map<String, Value>, missing: Missing) {
    describe_time(members);
    lift_description(members);
    // JSON Schema calls it `examples`. The recursion below skips it, since an example may look like a schema.
    if let Some(example) = members.remove("example") {
        members.insert("examples".to_owned(), json!([example]));
    }
    if let Some(Value::String(description)) = members.get_mut("description") {
        // Joins the lines of a comment's paragraph.
        *description = description.replace("\n\n", "\u{0}").replace('\n', " ").replace('\u{0}', "\n\n");
    }
    members.iter_mut().filter(|(name, _)| *name != "examples").for_each(|(_, value)| complete(value, missing));
    let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let nullable: Vec<_> =
        properties.filter(|(_, property)| may_be_null(property)).map(|(name, _)| json!(name)).collect();
    if nullable.is_empty() || missing == Missing::LeftOut {
        return;
    }
    if let Value::Array(required) = members.entry("required").or_insert_with(|| json!([])) {
        required.extend(nullable);
    }
}

/// Describes a time inline, also one that may be null.
fn describe_time(members: &mut Map<String, Value>) {
    let time = &reference(&Time::name())["$ref"];
    let mut kind = json!("string");
    let choice = members.get("oneOf").and_then(|choices| referring(choices)).filter(|choice| choice["$ref"] == *time);
    if let Some(Value::Object(choice)) = choice.cloned() {
        members.remove("oneOf");
        members.extend(choice);
        kind = json!(["string", "null"]);
    }
    if members.get("$ref") == Some(time) {
        members.remove("$ref");
        let example = json!(["2026-11-15T09:30:00.123Z"]);
        members.extend([("type", kind), ("format", json!("date-time")), ("examples", example)].map(named));
    }
}

fn named((name, value): (&str, Value)) -> (String, Value) {
    (name.to_owned(), value)
}

/// Moves the description of a nullable field from its choice to the field.
fn lift_description(members: &mut Map<String, Value>) {
    let choices = members.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
    let described = choices.filter_map(Value::as_object_mut).find_map(|choice| choice.remove("description"));
    if let Some(description) = described {
        members.entry("description").or_insert(description);
    }
}

fn referring(choices: &Value) -> Option<&Value> {
    choices.as_array()?.iter().find(|choice| choice.get("$ref").is_some())
}

fn may_be_null(property: &Value) -> bool {
    let kinds = [&property["type"], &property["oneOf"]].into_iter().filter_map(Value::as_array).flatten();
    kinds.into_iter().any(|kind| kind == "null" || kind["type"] == "null")
}

/// Merges a type's flattened fields into one object, so that generators and readers find all members in one place.
fn flatten(schema: &mut Value, schemas: &Map<String, Value>) {
    let Some(Value::Array(parts)) = schema.get("allOf").cloned() else { return };
    let mut whole = json!({ "type": "object" });
    for mut part in parts {
        if let Some(name) = part["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            part = schemas.get(name).cloned().unwrap_or_default();
            // The part may have flattened fields, too.
            flatten(&mut part, schemas);
        }
        add_members(&mut whole, part);
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("allOf");
        if let Value::Object(whole) = whole {
            schema.extend(whole);
        }
    }
}

fn add_members(whole: &mut Value, mut part: Value) {
    if let Value::Object(properties) = part["properties"].take() {
        let all = whole.as_object_mut().map(|whole| whole.entry("properties").or_insert_with(|| json!({})));
        all.and_then(Value::as_object_mut).into_iter().for_each(|all| all.extend(properties.clone()));
    }
    if let Value::Array(required) = part["required"].take() {
        let all = whole.as_object_mut().map(|whole| whole.entry("required").or_insert_with(|| json!([])));
        all.and_then(Value::as_array_mut).into_iter().for_each(|all| all.extend(required.clone()));
    }
}

/// Replaces the general event schema with one schema per shape of `data`.
pub fn split_events(schemas: &mut Map<String, Value>) {
    let Some(general) = schemas.remove("Event") else { return };
    let mut mapping = Map::new();
    let mut events = Vec::new();
    // Only events use these schemas.
    schemas.append(&mut of_type::<RevocationReason>(Missing::Null));
    schemas.append(&mut of_type::<SignInMethod>(Missing::Null));
    for shape in EventData::SHAPES {
        let name = shape.name.trim_end_matches("Data");
        let types: Vec<_> = EventType::ALL.into_iter().filter(|known| known.shape().name == shape.name).collect();
        let event = reference(&format!("{name}Event"));
        mapping.extend(types.iter().map(|event_type| (event_type.as_str().to_owned(), event["$ref"].clone())));
        events.push(event);
        add(schemas, shape, &types, general.clone());
    }
    schemas.insert(
        "Event".to_owned(),
        json!({
            "description": general["description"], "oneOf": events,
            "discriminator": { "propertyName": "type", "mapping": mapping },
        }),
    );
}

fn add(schemas: &mut Map<String, Value>, shape: &EventShape, types: &[EventType], mut event: Value) {
    let event_name = format!("{}Event", shape.name.trim_end_matches("Data"));
    event["description"] = json!(shape.description.trim());
    let mut data = json!({ "type": "object", "description": format!("Details of `{event_name}`.") });
    let required: Vec<_> =
        shape.members.iter().filter(|member| !member.is_optional).map(|member| member.name).collect();
    if !shape.members.is_empty() {
        let properties = shape.members.iter().map(|member| (member.name.to_owned(), of_member(member)));
        data["properties"] = Value::Object(properties.collect());
    }
    if !required.is_empty() {
        data["required"] = json!(required);
    }
    let names: Vec<_> = types.iter().map(|event_type| event_type.as_str()).collect();
    let properties = &mut event["properties"];
    properties["type"] = if let [one] = &*names {
        json!({ "type": "string", "const": one, "description": "What happened." })
    } else {
        let of_these = json!({ "type": "string", "enum": names, "description": "What happened." });
        schemas.insert(format!("{event_name}Type"), of_these);
        reference(&format!("{event_name}Type"))
    };
    properties["data"] = reference(shape.name);
    schemas.insert(shape.name.to_owned(), data);
    schemas.insert(event_name, event);
}

fn of_member(member: &EventMember) -> Value {
    let mut schema = match member.kind {
        MemberKind::Text => json!({ "type": "string" }),
        MemberKind::Time => json!({ "type": "string", "format": "date-time" }),
        MemberKind::Flag => json!({ "type": "boolean" }),
        MemberKind::Integer(bits) => json!({ "type": "integer", "format": format!("int{bits}"), "minimum": 0 }),
        MemberKind::Named(name) => reference(name),
    };
    if !member.description.is_empty() {
        schema["description"] = json!(member.description.trim());
    }
    if let Ok(example) = serde_json::from_str::<Value>(member.example) {
        schema["examples"] = json!([example]);
    }
    schema
}

/// Why a request was refused or failed, in the format of RFC 9457. `code` determines which optional members are
/// present.
#[derive(ToSchema)]
#[schema(as = Problem, rename_all = "camelCase")]
#[expect(dead_code, reason = "only describes the members")]
pub struct ProblemView<'a> {
    /// The page that explains the code.
    #[schema(format = "uri-reference", example = "/problems/environment_locked")]
    r#type: String,
    /// The meaning of the code, in a few words.
    #[schema(example = "The environment is locked")]
    title: String,
    /// The status of the response.
    #[schema(example = 409)]
    status: u16,
    /// What is wrong this time, and what to do next.
    #[schema(example = "ana has held the environment since 2026-11-15T09:30:00.123Z; wait for it with `waitSeconds`")]
    detail: String,
    code: Code,
    /// The id of the request, which is also in the server's log.
    #[schema(example = "0199f3c2-a4b0-7f3e-9d2c-5a1b2c3d4e5f")]
    request_id: String,
    /// The number of seconds to wait before a retry.
    #[schema(example = 5)]
    retry_after_seconds: Option<u64>,
    /// All faults of the request.
    errors: Option<Vec<FieldErrorView>>,
    /// The code again, for an exchange of tokens: OAuth clients look for it here.
    #[schema(example = "invalid_grant")]
    error: Option<String>,
    /// The lowest role that may make the request.
    required_role: Option<Role>,
    /// Who holds the environment, or the session's owner; null if there is no single holder.
    holder: Option<ProblemHolderView<'a>>,
    /// For a claim of any environment: the holders of the environments it could have got, at most ten, longest first.
    holders: Option<Vec<HolderView<'a>>>,
    /// How many sessions wait, or the maximum.
    #[schema(example = 3)]
    queue_length: Option<u64>,
    /// The position of the session in the queue, from 1.
    #[schema(example = 1)]
    queue_position: Option<u64>,
    /// The session that has ended.
    session_id: Option<SessionId>,
    /// When the session ended.
    ended_at: Option<Time>,
    /// Who ended the session; null if nobody did.
    ended_by: Option<EndedByView<'a>>,
    /// Why the session expired; null if it did not.
    end_reason: Option<Expiry>,
    /// The session's current fencing token.
    #[schema(example = 42)]
    fencing_token: Option<u64>,
    /// The deployment that has not stopped yet.
    deployment_id: Option<DeploymentId>,
    deployment_status: Option<DeploymentStatus>,
    stage_status: Option<StageStatus>,
    approval_status: Option<ApprovalStatus>,
    /// When the approval was decided.
    decided_at: Option<Time>,
    /// Who decided the approval; null if nobody did.
    decided_by: Option<UserView<'a>>,
    analysis_status: Option<AnalysisStatus>,
    /// Why the environment is disabled, or the response of a remote server; null if unknown.
    #[schema(example = "the deployment of main after a release failed")]
    reason: Option<String>,
    /// The pipelines that use the steps, by id.
    #[schema(example = json!(["shop"]))]
    used_by: Option<Vec<String>>,
    /// How many environments the pipeline has.
    #[schema(example = 3)]
    environment_count: Option<u64>,
    /// The current version of the secret.
    #[schema(example = 2)]
    version: Option<u64>,
    /// The current revision of the environment's configuration.
    #[schema(example = 2)]
    configuration_revision: Option<u64>,
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names = Code::ALL.iter().map(|code| code.as_str());
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        schema.description(Some("The kind of a problem. `/problems/{code}` says what to do.")).into()
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        "ProblemCode".into()
    }
}

/// One fault of a request.
#[derive(ToSchema)]
#[schema(as = FieldError)]
#[expect(dead_code, reason = "only describes the members")]
pub struct FieldErrorView {
    /// The field, parameter or file.
    #[schema(example = "waitSeconds")]
    field: String,
    /// Continues a sentence that begins with the field.
    #[schema(example = "must be an integer from 0 to 300, got a string")]
    message: String,
}

/// The holder that blocks a request. If the problem is about a session and not about a lock, only `user` is present.
#[derive(ToSchema)]
#[schema(as = Holder, rename_all = "camelCase")]
#[expect(dead_code, reason = "only describes the members")]
pub struct ProblemHolderView<'a> {
    user: UserView<'a>,
    session_id: Option<SessionId>,
    /// The commit that was named in the claim, or null.
    #[schema(example = "c0ffee1")]
    commit_id: Option<String>,
    /// The reason given in the claim, or null.
    #[schema(example = "PR 412")]
    context: Option<String>,
    /// When the holder got the lock.
    claimed_at: Option<Time>,
    /// When the lock expires unless the holder is active before; null if it never expires on its own.
    expires_at: Option<Time>,
    /// Rises by one with each grant of the environment's lock, and never restarts.
    #[schema(example = 42)]
    fencing_token: Option<u64>,
}
