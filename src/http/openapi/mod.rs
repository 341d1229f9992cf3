//! The OpenAPI 3.1 document, made from the route table, the catalogue of codes and the wire types.

mod analyses;
mod bodies;
mod delivery;
mod deployments;
mod events;
mod members;
mod operation;
mod operations;
mod pipeline_bodies;
mod registries;
mod secrets;
mod webhooks;

pub use analyses::{create_analysis, create_fix_pull_request, get_analysis, list_analyses, list_deployment_analyses};
pub use delivery::*;
pub use deployments::{
    approve, cancel_stage, get_approval, get_deployment, get_logs, list_approvals, list_deployments, reject,
    retry_stage,
};
pub use events::{get_event, list_events, stream_events};
pub use members::{add_member, change_member, get_member, list_members, remove_member};
pub use operation::Operation;
pub use operations::*;
pub use registries::{
    create_registry, delete_registry, get_registry, list_registries, list_registry_steps, sync_registry,
    update_registry,
};
pub use secrets::{create_secret, delete_secret, get_secret, list_secrets, update_secret};
pub use webhooks::{
    create_webhook, delete_webhook, get_delivery, get_webhook, list_deliveries, list_webhooks, redeliver,
    rotate_webhook_secret, test_webhook, update_webhook,
};

use actix_web::http::Method;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::dto::{
    AnalysisView, ApprovalView, DeliveryView, DeploymentView, EnvironmentListItem, EnvironmentView, EventView, FixView,
    ForceClaimView, KeptWebhookView, MemberView, OpenTokenView, OpenWebhookView, PipelineView, RegistryStepView,
    RegistryView, SecretView, SessionView, SyncView, TokenView, WaiterView, WebhookView,
};
use super::paging::{PagePagination, SlicePagination};
use super::resources::logs::LineView;
use super::resources::tokens::KeptTokenView;

pub const IDENTIFIER_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";
const SESSION_PATTERN: &str = "^ses_[0-9a-f]{24}(q?[1-9a-f][0-9a-f]{0,15})$";
const DEPLOYMENT_PATTERN: &str = "^dep_[0-9a-f]{24}$";
const ANALYSIS_PATTERN: &str = "^anl_[0-9a-f]{24}$";
const APPROVAL_PATTERN: &str = "^apr_[0-9a-f]{24}$";

/// The document of these paths, each with its operations.
pub fn document(paths: impl IntoIterator<Item = (String, Vec<(Method, Operation)>)>) -> Value {
    let paths: Map<_, _> = paths
        .into_iter()
        .map(|(path, operations)| {
            let item = path_item(&path, operations);
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
                            `X-Request-Id`; every `POST` takes an `Idempotency-Key`; every fault is `application/problem+json` with a stable `code`, but for what is no HTTP at all.",
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
            "schemas": schemas(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "bearerFormat": "lk_…" } },
        },
    })
}

fn path_item(path: &str, operations: Vec<(Method, Operation)>) -> Value {
    let mut item = Map::new();
    item.insert("parameters".to_owned(), path_parameters(path));
    for (method, operation) in operations {
        let operation = if method == Method::POST { operation.idempotent() } else { operation };
        item.insert(method.as_str().to_ascii_lowercase(), operation.describe());
    }
    Value::Object(item)
}

/// The parameters a path names, with examples that the sample organization really has.
fn path_parameters(path: &str) -> Value {
    let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let (description, schema, example) = match name {
                "orgId" => ("The organization", json!({ "type": "string", "pattern": IDENTIFIER_PATTERN }), "acme"),
                "pipelineId" => ("The pipeline", json!({ "type": "string", "pattern": IDENTIFIER_PATTERN }), "web"),
                "envName" => {
                    ("The environment", json!({ "type": "string", "pattern": IDENTIFIER_PATTERN }), "review-1")
                }
                "sessionId" => (
                    "The session",
                    json!({ "type": "string", "pattern": SESSION_PATTERN }),
                    "ses_0199f3c2a4b07f3e9d2c5a1b2a",
                ),
                "tokenId" => (
                    "The token's id",
                    json!({ "type": "string", "pattern": "^tok_[0-9a-f]{24}$" }),
                    "tok_0199f3c2a4b07f3e9d2c5a1b",
                ),
                "analysisId" => (
                    "The analysis",
                    json!({ "type": "string", "pattern": ANALYSIS_PATTERN }),
                    "anl_0199f3c2a4b07f3e9d2c5a1b",
                ),
                "registryId" => registries::path_parameter(),
                _ => path_parameter(name).unwrap_or_else(|| {
                    ("A code", json!({ "type": "string", "pattern": "^[a-z_]{1,64}$" }), "environment_locked")
                }),
            };
            json!({
                "name": name, "in": "path", "required": true, "description": description, "schema": schema,
                "example": example,
            })
        })
        .collect()
}

fn path_parameter(name: &str) -> Option<(&'static str, Value, &'static str)> {
    let found = deployments::path_parameter(name).or_else(|| secrets::path_parameter(name));
    found
        .or_else(|| events::path_parameter(name))
        .or_else(|| members::path_parameter(name))
        .or_else(|| webhooks::path_parameter(name))
}

fn schemas() -> Value {
    let mut schemas = Map::new();
    include::<EnvironmentView<'_>>(&mut schemas);
    include::<EnvironmentListItem<'_>>(&mut schemas);
    include::<SessionView<'_>>(&mut schemas);
    include::<WaiterView<'_>>(&mut schemas);
    include::<ForceClaimView<'_>>(&mut schemas);
    include::<DeploymentView<'_>>(&mut schemas);
    include::<LineView<'_>>(&mut schemas);
    include::<AnalysisView<'_>>(&mut schemas);
    include::<FixView<'_>>(&mut schemas);
    include::<ApprovalView<'_>>(&mut schemas);
    include::<EventView<'_>>(&mut schemas);
    include::<PipelineView<'_>>(&mut schemas);
    include::<SecretView<'_>>(&mut schemas);
    include::<WebhookView<'_>>(&mut schemas);
    include::<OpenWebhookView<'_>>(&mut schemas);
    include::<KeptWebhookView<'_>>(&mut schemas);
    include::<DeliveryView<'_>>(&mut schemas);
    include::<RegistryView<'_>>(&mut schemas);
    include::<RegistryStepView<'_>>(&mut schemas);
    include::<SyncView<'_>>(&mut schemas);
    include::<TokenView<'_>>(&mut schemas);
    include::<OpenTokenView<'_>>(&mut schemas);
    include::<KeptTokenView<'_>>(&mut schemas);
    include::<MemberView<'_>>(&mut schemas);
    include::<SlicePagination>(&mut schemas);
    include::<PagePagination>(&mut schemas);
    let bodies = bodies::all().into_iter().chain(pipeline_bodies::all()).chain(registries::request_bodies());
    let bodies = bodies.chain(deployments::request_bodies()).chain(secrets::request_bodies());
    let bodies = bodies.chain(members::request_bodies()).chain(webhooks::request_bodies());
    for (name, schema) in bodies.chain(analyses::request_bodies()) {
        schemas.insert(name.to_owned(), schema);
    }
    Value::Object(schemas)
}

/// A type's schema and those it refers to.
fn include<T: ToSchema>(schemas: &mut Map<String, Value>) {
    let mut found = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut found);
    for (name, schema) in found {
        // utoipa's schemas are plain data; one that had no form in JSON would be missed by the tests.
        schemas.insert(name, serde_json::to_value(schema).unwrap_or_default());
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
