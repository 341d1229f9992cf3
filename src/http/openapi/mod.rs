//! The OpenAPI 3.1 document, made from the route table, the catalogue of codes and the wire types.

mod analyses;
mod answer_schema;
mod delivery;
mod deployments;
mod events;
mod members;
mod operation;
mod operations;
mod problem_schema;
mod registries;
mod secrets;
mod webhooks;

pub use analyses::*;
pub use delivery::*;
pub use deployments::*;
pub use events::*;
pub use members::*;
pub use operation::Operation;
pub use operations::*;
pub use registries::*;
pub use secrets::*;
pub use webhooks::*;

use actix_web::http::Method;
use serde_json::{Map, Value, json};

use crate::domain::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, Identifier, RegistryId, SessionId, TokenId, UserId, VariableName,
    WebhookId,
};
use crate::events::EventId;
use crate::forms::{Text, id_schema};

/// The document of these paths, each with its operations.
pub fn document(paths: impl IntoIterator<Item = (String, Vec<(Method, Operation)>)>) -> Value {
    let mut schemas = Map::from_iter(problem_schema::all());
    let paths: Map<_, _> = paths
        .into_iter()
        .map(|(path, operations)| {
            let item = path_item(&path, operations, &mut schemas);
            (path, item)
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lockkeeper",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Ephemeral environments for CI fleets: durable locks over HTTP",
            "description": "A 2xx to a write means that its effect survives a crash and a power cut. The paths of \
                            ephemeral environments are also answered without `/api/v1`. Every answer carries \
                            `X-Request-Id`; every `POST` takes an `Idempotency-Key`; every error is `application/problem+json` with a stable `code`, except for input that is not HTTP.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": [
            { "name": "Ephemeral environments" },
            { "name": "Pipelines" },
            { "name": "Deployments" },
            { "name": "Analysis" },
            { "name": "Approvals" },
            { "name": "Events" },
            { "name": "Secrets" },
            { "name": "Step registries" },
            { "name": "Webhooks" },
            { "name": "Tokens" },
            { "name": "Members" },
            { "name": "Operating" },
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "bearerFormat": "lk_…" } },
        },
    })
}

fn path_item(path: &str, operations: Vec<(Method, Operation)>, schemas: &mut Map<String, Value>) -> Value {
    let mut item = Map::new();
    item.insert("parameters".to_owned(), path_parameters(path));
    for (method, operation) in operations {
        let operation = if method == Method::POST { operation.idempotent() } else { operation };
        item.insert(method.as_str().to_ascii_lowercase(), operation.describe(schemas));
    }
    Value::Object(item)
}

/// The parameters of a path, with examples that exist in the sample organization.
fn path_parameters(path: &str) -> Value {
    let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let (description, schema, example) = path_parameter(name);
            json!({
                "name": name, "in": "path", "required": true, "description": description, "schema": schema,
                "example": example,
            })
        })
        .collect()
}

fn path_parameter(name: &str) -> (&'static str, Value, &'static str) {
    match name {
        "orgId" => ("The organization", Identifier::text_schema(), "acme"),
        "pipelineId" => ("The pipeline", Identifier::text_schema(), "web"),
        "envName" => ("The environment", Identifier::text_schema(), "review-1"),
        "sessionId" => ("The session", SessionId::text_schema(), "ses_0199f3c2a4b07f3e9d2c5a1b2a"),
        "deploymentId" => ("The deployment", DeploymentId::text_schema(), "dep_0199f3c2a4b07f3e9d2c5a1b"),
        "stage" => ("The stage, by its name", Identifier::text_schema(), "build"),
        "approvalId" => ("The approval", ApprovalId::text_schema(), "apr_0199f3c2a4b07f3e9d2c5a1b"),
        "analysisId" => ("The analysis", AnalysisId::text_schema(), "anl_0199f3c2a4b07f3e9d2c5a1b"),
        "eventId" => ("The event", id_schema(EventId::PATTERN), "evt_000000000000002a9d2c5a1b"),
        "name" => ("The secret, by its name", VariableName::text_schema(), "DATABASE_PASSWORD"),
        "registryId" => ("The step registry's id", RegistryId::text_schema(), "reg_0199f3c2a4b07f3e9d2c5a1b"),
        "tokenId" => ("The token's id", TokenId::text_schema(), "tok_0199f3c2a4b07f3e9d2c5a1b"),
        "userId" => ("The member's id", id_schema(UserId::PATTERN), "usr_0199f3c2a4b07f3e9d2c5a1b"),
        "webhookId" => ("The webhook", WebhookId::text_schema(), "whk_0199f3c2a4b07f3e9d2c5a1b"),
        "deliveryId" => ("The delivery", DeliveryId::text_schema(), "dlv_0199f3c2a4b07f3e9d2c5a1b"),
        _ => ("A code", id_schema("^[a-z_]{1,64}$"), "environment_locked"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn document() -> Value {
        crate::http::routes::openapi_document().parse().unwrap_or_default()
    }

    /// Every `(method, path)` of the document.
    fn documented_operations(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().into_iter().flatten();
        let methods = paths.flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "parameters");
            methods.map(|method| (method.clone(), path.clone())).collect::<Vec<_>>()
        });
        methods.collect()
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "only {} references", found.len());
        for reference in found {
            let target = document.pointer(reference.trim_start_matches('#'));
            assert!(target.is_some_and(|schema| schema.is_object()), "{reference} leads nowhere");
        }
    }

    #[test]
    fn every_post_takes_an_idempotency_key_and_nothing_else_does() {
        let document = document();
        for (method, path) in documented_operations(&document) {
            let operation = &document["paths"][&path][&method];
            let headers = operation["parameters"].as_array().into_iter().flatten();
            let takes_a_key = headers.into_iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            assert_eq!(takes_a_key, method == "post", "{method} {path}");
            let answers = operation["responses"].as_object().into_iter().flatten();
            for (status, answer) in answers.filter(|(status, _)| status.starts_with('2')) {
                let replays = answer["headers"]["Idempotency-Replayed"].is_object();
                assert_eq!(replays, method == "post", "{method} {path} {status}");
            }
        }
    }

    #[test]
    fn every_operation_has_an_id_of_its_own() {
        let document = document();
        let mut ids: Vec<_> = document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(_, item)| item.as_object().into_iter().flatten())
            .filter_map(|(_, operation)| operation.get("operationId"))
            .map(Value::to_string)
            .collect();
        assert_eq!(ids.len(), documented_operations(&document).len());
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
