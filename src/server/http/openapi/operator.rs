//! The operations for operators, and those on the server as a whole that require a token.

use serde_json::{Value, json};

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::operator::ClusterView;

pub fn healthz() -> Operation {
    Operation::public("getHealth", "Alive", "The process answers.").answers_named(
        200,
        "Alive",
        "Health",
        status("alive"),
        &[],
    )
}

pub fn readyz() -> Operation {
    Operation::public("getReadiness", "Ready", "The server accepts writes and is not shutting down.")
        .answers_named(200, "Ready", "Readiness", status("ready"), &[])
        .fails(&[Code::ShuttingDown, Code::StorageFull, Code::Overloaded])
}

fn status(name: &str) -> Value {
    let status = json!({ "type": "string", "const": name, "description": "There is no other." });
    json!({
        "type": "object", "description": format!("That the server is {name}."),
        "required": ["status"], "properties": { "status": status },
    })
}

pub fn metrics() -> Operation {
    Operation::public("getMetrics", "Metrics", "In Prometheus' text format.").answers_text("The metrics")
}

pub fn description() -> Operation {
    let document = json!({
        "type": "object", "description": "An OpenAPI document.", "additionalProperties": true,
        "examples": [{ "openapi": "3.1.0" }],
    });
    Operation::public("getOpenapiDocument", "This document", "OpenAPI 3.1.").answers_named(
        200,
        "The document",
        "OpenapiDocument",
        document,
        &[],
    )
}

pub fn problem() -> Operation {
    Operation::public("explainProblem", "Meaning of a code", "The page that `type` of a problem points to.")
        .answers_text("When it occurs, and what to do")
}

pub fn backup() -> Operation {
    let content = json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } });
    Operation::api("Operating", "takeBackup")
        .titled("Back up")
        .about(
            "Everything that the server has, as it was at one moment, for `lockkeeper restore`; while it is taken, the server \
             works as usual. The master key is not part of it. Only for an admin, and only if the server has no other \
             organization: otherwise its operator takes it. An answer that ends too early is not a backup: \
             `lockkeeper backup` checks that.",
        )
        .answers_content(200, "The backup", content, &[])
        .fails(&[Code::SeveralOrganizations, Code::BackupInProgress])
}

pub fn get_cluster() -> Operation {
    Operation::api("Operating", "getCluster")
        .titled("Nodes and Shards")
        .about(
            "The machines that share the work: their nodes, the shards that each owns, and the shard of this organization. A server \
             on one machine has neither.",
        )
        .answers::<ClusterView>(200, "The cluster, as the owner of the organization's shard sees it", &[])
}
