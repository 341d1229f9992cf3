//! For operators: health, readiness, metrics, the OpenAPI document, and the meaning of error codes.

use std::sync::atomic::Ordering;

use actix_web::body::MessageBody;
use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;

use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::front::{Front, Realms};
use crate::http::problem::Problem;
use crate::http::response::Response;

/// The process answers.
pub async fn healthz(_: Call<Front>) -> Answered {
    Ok(text("application/json", r#"{"status":"alive"}"#))
}

/// Writes are accepted, and the server is not stopping; in a cluster, every shard has an owner.
pub async fn readyz(call: Call<Front>) -> Answered {
    if call.app.node.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(Code::ShuttingDown, "the server is stopping; use another one").retry_after(1).into());
    }
    let unready: Option<Problem> = match &call.app.realms {
        Realms::Only(realm) => realm.store.refusing_writes().map(Problem::from),
        Realms::Shards(cluster) => cluster.shards.unready().map(Problem::engine_unavailable),
    };
    if let Some(problem) = unready {
        return Err(problem.into());
    }
    Ok(text("application/json", r#"{"status":"ready"}"#))
}

pub async fn metrics(call: Call<Front>) -> Answered {
    Ok(text("text/plain; version=0.0.4; charset=utf-8", (call.app.node.metrics)()))
}

pub async fn description(call: Call<Front>) -> Answered {
    Ok(text("application/json", call.app.node.openapi.clone()))
}

/// The target of a problem's `type`.
pub async fn problem(call: Call<Front>) -> Answered {
    let name = call.segment("code");
    let code = Code::ALL.iter().find(|code| code.as_str() == name);
    let code = code.ok_or_else(|| Problem::new(Code::ProblemNotFound, Code::ProblemNotFound.meaning()))?;
    let meaning = format!("{} ({}, {})\n\n{}\n", code.title(), code.as_str(), code.status(), code.meaning());
    Ok(text("text/plain; charset=utf-8", meaning))
}

/// The explorer's page, with the slash that its files are below.
pub async fn explorer(_: Call<Front>) -> Answered {
    Ok(Response::new(StatusCode::TEMPORARY_REDIRECT).with(LOCATION, "/docs/"))
}

fn text(kind: &'static str, body: impl MessageBody + 'static) -> Response {
    Response::ok(kind).body(body)
}
