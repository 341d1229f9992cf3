//! The rules for the document that generators, the explorer and readers rely on.

#![allow(clippy::unwrap_used)]

mod describing;
mod naming;

use serde_json::Value;

fn document() -> Value {
    crate::http::routes::openapi_document().parse().unwrap()
}

/// Every operation, as `get /path`.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect()
}

/// Every schema with its location: the components, and the schemas of parameters, headers and contents.
fn schemas(document: &Value) -> Vec<(String, &Value)> {
    let components = document["components"]["schemas"].as_object().unwrap();
    let mut found: Vec<_> = components.iter().map(|(name, schema)| (name.clone(), schema)).collect();
    for (place, operation) in operations(document) {
        collect(operation, &place, &mut found);
    }
    found
}

fn collect<'d>(value: &'d Value, place: &str, found: &mut Vec<(String, &'d Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| *name != "example") {
                let place = format!("{place} {name}");
                if name == "schema" { found.push((place, member)) } else { collect(member, &place, found) }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, place, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The schemas directly within a schema, each with its location.
fn parts<'d>(place: &str, schema: &'d Value) -> Vec<(String, &'d Value)> {
    let mut parts = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        parts.push((format!("{place}.{name}"), property));
    }
    for member in ["items", "additionalProperties"] {
        parts.extend(schema.get(member).filter(|part| part.is_object()).map(|part| (format!("{place}[]"), part)));
    }
    for member in ["oneOf", "anyOf", "allOf", "prefixItems"] {
        let choices = schema[member].as_array().into_iter().flatten().enumerate();
        parts.extend(choices.map(|(index, part)| (format!("{place}/{member}/{index}"), part)));
    }
    parts
}

/// The schema itself and all schemas within it.
fn every_part<'d>(place: &str, schema: &'d Value) -> Vec<(String, &'d Value)> {
    let within = parts(place, schema).into_iter().flat_map(|(place, part)| every_part(&place, part));
    std::iter::once((place.to_owned(), schema)).chain(within).collect()
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null),
        None => schema,
    }
}

fn fail_with(broken: &[String]) {
    assert!(broken.is_empty(), "{} of them:\n{}", broken.len(), broken.join("\n"));
}
