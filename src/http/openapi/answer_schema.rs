//! What the schemas of answers have in common, so that no view has to say it.

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::dto::Time;

/// Describes times in place, and requires each field that may be null: an answer does not leave it out.
pub fn complete(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(complete),
        Value::Object(members) => complete_object(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn complete_object(members: &mut Map<String, Value>) {
    let time = &reference(&Time::name())["$ref"];
    let mut kind = json!("string");
    // A time that may be null: its reference, with its description, or null.
    if members.get("oneOf").is_some_and(|choices| choices[0]["$ref"] == *time) {
        if let Some(Value::Object(reference)) = members.remove("oneOf").map(|mut choices| choices[0].take()) {
            members.extend(reference);
        }
        kind = json!(["string", "null"]);
    }
    if members.get("$ref") == Some(time) {
        members.remove("$ref");
        members.extend([("type".to_owned(), kind), ("format".to_owned(), json!("date-time"))]);
    }
    members.values_mut().for_each(complete);
    let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let nullable: Vec<_> =
        properties.filter(|(_, property)| may_be_null(property)).map(|(name, _)| json!(name)).collect();
    if nullable.is_empty() {
        return;
    }
    if let Value::Array(required) = members.entry("required").or_insert_with(|| json!([])) {
        required.extend(nullable);
    }
}

pub fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn may_be_null(property: &Value) -> bool {
    let kinds = [&property["type"], &property["oneOf"]].into_iter().filter_map(Value::as_array).flatten();
    kinds.into_iter().any(|kind| kind == "null" || kind["type"] == "null")
}
