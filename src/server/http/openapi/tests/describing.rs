//! Descriptions for readers, and examples that match their schemas.

use serde_json::{Value, json};

use super::*;

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Whether the schema has a description, its own or that of the schema it references.
fn is_described(document: &Value, schema: &Value) -> bool {
    let choice = schema["oneOf"].as_array().and_then(|choices| choices.iter().find(|c| c.get("$ref").is_some()));
    [Some(schema), Some(resolved(document, schema)), choice.map(|choice| resolved(document, choice))]
        .into_iter()
        .flatten()
        .any(|schema| is_text(&schema["description"]))
}

#[test]
fn everything_has_a_description() {
    let document = document();
    let mut broken = Vec::new();
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for (place, operation) in operations(&document) {
        let tag = &operation["tags"][0];
        let texts = [&operation["summary"], &operation["description"]];
        if !texts.iter().all(|text| is_text(text)) || !tags.contains(&tag) {
            broken.push(place.clone());
        }
        let body = operation.get("requestBody").into_iter();
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let answers = operation["responses"].as_object().unwrap().values();
        let headers =
            answers.clone().flat_map(|answer| answer["headers"].as_object().into_iter().flatten()).map(|(_, h)| h);
        for part in body.chain(parameters).chain(answers).chain(headers) {
            if !is_text(&resolved(&document, part)["description"]) {
                broken.push(format!("{place}: {part:.200}"));
            }
        }
    }
    for (name, component) in document["components"]["schemas"].as_object().unwrap() {
        if !is_described(&document, component) {
            broken.push(name.clone());
        }
        let properties = parts(name, component).into_iter().filter(|(place, _)| place.contains('.'));
        broken.extend(properties.filter(|(_, part)| !is_described(&document, part)).map(|(place, _)| place));
    }
    fail_with(&broken);
}

/// A value that the schema allows: its own example, or one composed of the examples of its parts.
fn example(document: &Value, schema: &Value) -> Option<Value> {
    if let Some(own) = schema["examples"].as_array().and_then(|examples| examples.first()) {
        return Some(own.clone()).filter(|own| !own.is_null());
    }
    if schema.get("$ref").is_some() {
        return example(document, resolved(document, schema));
    }
    if let Some(one) = schema["enum"].as_array().and_then(|names| names.first()).or(schema.get("const")) {
        return Some(one.clone());
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return choices.iter().find_map(|choice| example(document, choice));
    }
    if let Some(items) = schema.get("items") {
        return Some(json!([example(document, items)?]));
    }
    if schema["type"] == "object" && schema.get("properties").is_none() && schema.get("additionalProperties").is_none()
    {
        return Some(json!({}));
    }
    let properties = schema["properties"].as_object()?.iter();
    properties
        .map(|(name, property)| Some((name.clone(), example(document, property)?)))
        .collect::<Option<_>>()
        .map(Value::Object)
}

#[test]
fn everything_has_an_example() {
    let document = document();
    let mut broken = Vec::new();
    for (place, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            let own = parameter.get("example").filter(|own| !own.is_null()).cloned();
            if own.or_else(|| example(&document, &parameter["schema"])).is_none() {
                broken.push(format!("{place}: {}", parameter["name"]));
            }
        }
        let bodies = operation["requestBody"]["content"].as_object();
        if bodies.is_some_and(|bodies| bodies.values().any(|body| body["example"].is_null())) {
            broken.push(format!("{place}: its body"));
        }
    }
    for (name, component) in document["components"]["schemas"].as_object().unwrap() {
        for (place, part) in every_part(name, component) {
            // Entries of a list or map that has an example need none themselves.
            let is_property = place == *name || (place.contains('.') && !place.ends_with("[]"));
            if is_property && !place.contains('/') && example(&document, part).is_none() {
                broken.push(place);
            }
        }
    }
    fail_with(&broken);
}

/// Covers the values that the explorer fills in and those in the texts.
#[test]
fn every_example_is_what_its_schema_allows() {
    let document = document();
    let mut broken = Vec::new();
    let mut checked = 0;
    let mut check = |place: &str, schema: &Value, value: &Value| {
        checked += 1;
        broken.extend(faults(&document, schema, value).into_iter().map(|fault| format!("{place}: {value}: {fault}")));
    };
    for (place, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            if let Some(example) = parameter.get("example") {
                check(&place, &parameter["schema"], example);
            }
        }
        let contents = operation["responses"].as_object().unwrap().values().chain(operation.get("requestBody"));
        for content in contents.flat_map(|part| part["content"].as_object().into_iter().flatten()).map(|(_, c)| c) {
            if let Some(example) = content.get("example") {
                check(&place, &content["schema"], example);
            }
        }
    }
    for (code, example) in document["components"]["examples"].as_object().unwrap() {
        check(code, &document["components"]["schemas"]["Problem"], &example["value"]);
    }
    for (place, schema) in schemas(&document) {
        for (place, part) in every_part(&place, schema) {
            for example in part["examples"].as_array().into_iter().flatten() {
                check(&place, part, example);
            }
        }
    }
    assert!(checked > 500, "{checked}");
    fail_with(&broken);
}

/// The faults of a value, by the keywords that our schemas use.
fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let target = resolved(document, schema);
    if let Some(choices) = target["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| faults(document, choice, value).is_empty()).count();
        return if fitting == 1 { Vec::new() } else { vec![format!("{fitting} choices fit")] };
    }
    let mut found = Vec::new();
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds: Vec<_> = target["type"].as_array().map_or_else(|| vec![&target["type"]], |kinds| kinds.iter().collect());
    if !kinds.iter().any(|allowed| **allowed == kind || (**allowed == "number" && kind == "integer")) {
        found.push(format!("a {kind}"));
    }
    if target["enum"].as_array().is_some_and(|names| !names.contains(value)) {
        found.push("none of the names".to_owned());
    }
    // This crate does not support look-ahead.
    let pattern = target["pattern"].as_str().and_then(|pattern| regex::Regex::new(pattern).ok());
    if let (Some(text), Some(pattern)) = (value.as_str(), pattern)
        && !pattern.is_match(text)
    {
        found.push(format!("does not match {pattern}"));
    }
    if let Some(number) = value.as_f64() {
        let fits = target["minimum"].as_f64().is_none_or(|least| least <= number)
            && target["maximum"].as_f64().is_none_or(|most| number <= most);
        found.extend((!fits).then(|| "out of bounds".to_owned()));
    }
    for item in value.as_array().into_iter().flatten() {
        found.extend(target.get("items").into_iter().flat_map(|items| faults(document, items, item)));
    }
    let Some(members) = value.as_object() else { return found };
    for required in target["required"].as_array().into_iter().flatten() {
        found.extend((!members.contains_key(required.as_str().unwrap())).then(|| format!("{required} is missing")));
    }
    for (name, member) in members {
        match (target["properties"].get(name), target.get("additionalProperties")) {
            (Some(property), _) => found.extend(faults(document, property, member)),
            (None, Some(Value::Bool(false))) => found.push(format!("{name} is not known")),
            (None, Some(others)) if others.is_object() => found.extend(faults(document, others, member)),
            (None, _) => {}
        }
    }
    found
}
