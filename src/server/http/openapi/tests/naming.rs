//! Names that generators turn into code.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = document();
    let text = document.to_string();
    let found = text.match_indices("\"#/components/").map(|(at, _)| text[at + 3..].split('"').next().unwrap());
    let used: BTreeSet<_> = found.map(str::to_owned).collect();
    let mut there = BTreeSet::new();
    for kind in ["schemas", "headers", "examples"] {
        let names = document["components"][kind].as_object().unwrap().keys();
        there.extend(names.map(|name| format!("components/{kind}/{name}")));
    }
    fail_with(&there.symmetric_difference(&used).cloned().collect::<Vec<_>>());
}

#[test]
fn every_object_and_every_closed_set_has_a_name() {
    let document = document();
    let mut broken = Vec::new();
    for (place, schema) in schemas(&document) {
        let is_component = document["components"]["schemas"].get(&place).is_some();
        for (index, (place, part)) in every_part(&place, schema).into_iter().enumerate() {
            let named = is_component && index == 0;
            if !named && (part.get("properties").is_some() || part.get("enum").is_some()) {
                broken.push(format!("{place} is anonymous"));
            }
            let choices = ["oneOf", "anyOf"].iter().flat_map(|member| part[member].as_array().into_iter().flatten());
            for choice in choices.filter(|choice| choice.get("$ref").is_none() && choice["type"] != "null") {
                broken.push(format!("{place} has a choice without a name: {choice}"));
            }
            if part.get("allOf").is_some() {
                broken.push(format!("{place} is put together of others"));
            }
        }
    }
    for (place, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap().values();
        for content in answers.chain([&operation["requestBody"]]).filter_map(|part| part["content"].as_object()) {
            for (kind, content) in content.iter().filter(|(kind, _)| kind.contains("json")) {
                if content["schema"].get("$ref").is_none() {
                    broken.push(format!("{place} has {kind} without a name"));
                }
            }
        }
    }
    fail_with(&broken);
}

/// Fields with these names are enums everywhere.
#[test]
fn closed_sets_are_enums() {
    let closed = [
        "approval",
        "approvalStatus",
        "category",
        "code",
        "deploymentStatus",
        "endReason",
        "engine",
        "forceClaimRole",
        "kind",
        "lockStatus",
        "previousRole",
        "provider",
        "requiredRole",
        "role",
        "stageStatus",
        "status",
    ];
    let document = document();
    let mut broken = Vec::new();
    for (place, schema) in schemas(&document) {
        for (place, part) in every_part(&place, schema) {
            let name = place.rsplit('.').next().unwrap_or_default();
            let of_events = place.ends_with("Event.type") || place.ends_with("Delivery.type");
            let choices = part["oneOf"].as_array().and_then(|choices| choices.iter().find(|c| c.get("$ref").is_some()));
            let part = resolved(&document, choices.unwrap_or(part));
            let is_text = part["type"] == "string" || part["type"][0] == "string";
            let is_closed = part.get("enum").is_some() || part.get("const").is_some();
            if (closed.contains(&name) || of_events) && is_text && !is_closed {
                broken.push(place);
            }
        }
    }
    fail_with(&broken);
}

#[test]
fn every_event_has_data_of_its_own() {
    let document = document();
    let components = &document["components"]["schemas"];
    let mapping = components["Event"]["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(mapping.len(), components["EventType"]["enum"].as_array().unwrap().len());
    for (event_type, event) in mapping {
        let event = document.pointer(event.as_str().unwrap().trim_start_matches('#')).unwrap();
        let own = resolved(&document, &event["properties"]["type"]);
        let names = own["enum"].as_array().map_or_else(|| vec![&own["const"]], |names| names.iter().collect());
        assert!(names.iter().any(|name| **name == **event_type), "{event_type}");
        assert!(event["properties"]["data"].get("$ref").is_some(), "{event_type}");
    }
}

/// Searches the sources, so that members of rare refusals are described, too.
#[test]
fn a_problem_has_every_member_that_any_refusal_sends() {
    fn members(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                members(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap();
                found.extend(text.split(".with(\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
            }
        }
    }
    let mut sent = BTreeSet::new();
    members(&Path::new(env!("CARGO_MANIFEST_DIR")).join("http"), &mut sent);
    assert!(sent.len() > 15, "{sent:?}");
    let document = document();
    let known = &document["components"]["schemas"]["Problem"]["properties"];
    fail_with(&sent.into_iter().filter(|member| known.get(member).is_none()).collect::<Vec<_>>());
}

/// By the linters' rule: no request may match two paths of which neither is more specific.
#[test]
fn no_two_paths_are_ambiguous() {
    let document = document();
    let paths: Vec<Vec<_>> =
        document["paths"].as_object().unwrap().keys().map(|path| path.split('/').collect()).collect();
    let is_variable = |segment: &&str| segment.starts_with('{');
    let mut broken = Vec::new();
    for (index, one) in paths.iter().enumerate() {
        for other in paths[..index].iter().filter(|other| other.len() == one.len()) {
            let fits = one.iter().zip(other).all(|(a, b)| is_variable(a) || is_variable(b) || a == b);
            let variables = |path: &[&str]| path.iter().filter(|segment| is_variable(segment)).count();
            if fits && variables(one) == variables(other) {
                broken.push(format!("{} and {}", one.join("/"), other.join("/")));
            }
        }
    }
    fail_with(&broken);
}

/// Generators treat a field with a default as required.
#[test]
fn no_field_has_a_default() {
    let document = document();
    let every = schemas(&document).into_iter().flat_map(|(place, schema)| every_part(&place, schema));
    fail_with(&every.filter(|(_, part)| part.get("default").is_some()).map(|(place, _)| place).collect::<Vec<_>>());
}

/// Some languages turn `listTokens` into `list_tokens`: ids consist of lowercase words, begin with a verb and are
/// unique.
#[test]
fn operation_ids_read_well_in_code() {
    let document = document();
    let reads_well = regex::Regex::new("^[a-z]+([A-Z][a-z]+)+[A-Z]?$").unwrap();
    let ids: Vec<_> = operations(&document)
        .into_iter()
        .map(|(_, operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    fail_with(&ids.into_iter().filter(|id| !reads_well.is_match(id)).collect::<Vec<_>>());
}

#[test]
fn every_post_takes_an_idempotency_key_and_nothing_else_does() {
    let document = document();
    for (place, operation) in operations(&document) {
        let is_post = place.starts_with("post ");
        let mut parameters = operation["parameters"].as_array().unwrap().iter();
        assert_eq!(parameters.any(|parameter| parameter["name"] == "Idempotency-Key"), is_post, "{place}");
        let answers = operation["responses"].as_object().unwrap().iter();
        for (status, answer) in answers.filter(|(status, _)| status.starts_with('2')) {
            let replays = answer["headers"]["Idempotency-Replayed"].is_object();
            assert_eq!(replays, is_post, "{place} {status}");
        }
    }
}

/// Users have generated code from these ids: new operations are added to the list, and none is removed.
#[test]
fn operations_keep_their_ids() {
    let document = document();
    let line = |(place, operation): (String, &Value)| {
        let place = place.replace("/api/v1/organizations/{orgId}", "");
        format!("{place} {}", operation["operationId"].as_str().unwrap())
    };
    let found: BTreeSet<_> = operations(&document).into_iter().map(line).collect();
    let known: BTreeSet<_> = include_str!("operation_ids.txt").lines().map(str::to_owned).collect();
    fail_with(&known.symmetric_difference(&found).cloned().collect::<Vec<_>>());
}
