//! What operators look at: health, readiness, metrics, the API's description, and what a code means.

use std::sync::atomic::Ordering;

use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{HttpRequest, HttpResponse};

use super::access::{app, segment};
use super::codes::Code;
use super::openapi;
use super::problem::Problem;

/// Alive: the process answers.
pub async fn healthz() -> HttpResponse {
    HttpResponse::Ok().insert_header((CONTENT_TYPE, "application/json")).body(r#"{"status":"alive"}"#)
}

/// Serving: writes are accepted, and the server is not on its way out.
pub async fn readyz(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let app = app(&request);
    if app.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(Code::ShuttingDown, "the server is stopping; use another one").retry_after(1));
    }
    if let Some(why) = app.store.refusing_writes() {
        return Err(why.into());
    }
    Ok(HttpResponse::Ok().insert_header((CONTENT_TYPE, "application/json")).body(r#"{"status":"ready"}"#))
}

pub async fn metrics(request: HttpRequest) -> HttpResponse {
    let text = (app(&request).metrics)();
    HttpResponse::Ok().insert_header((CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")).body(text)
}

pub async fn description() -> HttpResponse {
    HttpResponse::Ok().insert_header((CONTENT_TYPE, "application/json")).body(openapi::document_text())
}

/// What `type` of a problem points to.
pub async fn problem(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let name = segment(&request, "code");
    let code = Code::ALL.iter().find(|code| code.as_str() == name);
    let code = code.ok_or_else(|| Problem::new(Code::ProblemNotFound, Code::ProblemNotFound.meaning()))?;
    let text = format!("{} ({}, {})\n\n{}\n", code.title(), code.as_str(), code.status(), code.meaning());
    Ok(HttpResponse::Ok().insert_header((CONTENT_TYPE, "text/plain; charset=utf-8")).body(text))
}

pub async fn root() -> HttpResponse {
    HttpResponse::build(StatusCode::TEMPORARY_REDIRECT).insert_header(("location", "/docs/")).finish()
}
