//! Environments: view, history, make or change, delete.

use actix_web::http::StatusCode;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};

use super::access::{Access, segment};
use super::body::{Fields, Json, read_fields};
use super::dto::{EnvironmentView, MAX_QUEUE_LENGTH, MAX_TTL_SECONDS, SessionView};
use super::paging::{Page, Query};
use super::problem::Problem;
use super::scans::scan;
use super::{answer, paging, refusals};
use crate::auth::Permission;
use crate::domain::{
    Configuration, Configure, Delete, Description, Environment, EnvironmentKey, Identifier, LABELS_MAX, LabelValue,
    Malformed, Role, VARIABLES_MAX, VariableName, VariableValue,
};

pub async fn view(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::Read)?;
    let key = access.environment(&request)?;
    Query::of(&request).finish()?;
    let environment = access.app.environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    Ok(answer::tagged(request.headers(), &etag(&environment), || render(StatusCode::OK, &key, &environment)))
}

pub async fn history(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::Read)?;
    let key = access.environment(&request)?;
    let mut query = Query::of(&request);
    let page = Page::take(&mut query);
    query.finish()?;
    let environments = access.app.environments.clone();
    let environment = environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    let name = key.name.clone();
    let history =
        scan(&access.app, move || environments.history(&key, &environment, page.offset(), page.limit)).await?;
    let sessions = history.sessions.iter().map(|session| SessionView::new(name.as_str(), session)).collect();
    Ok(paging::page(&request, page, history.total, sessions))
}

pub async fn put(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageEnvironments)?;
    let pipeline = access.pipeline(&request)?.key.clone();
    Query::of(&request).finish()?;
    let mut fields = read_fields(&request, &mut payload.into_inner(), &access.app).await?.unwrap_only("configuration");
    let name = Identifier::parse(segment(&request, "envName"));
    if let Err(malformed) = &name {
        fields.wrong("envName", malformed.to_string());
    }
    let configuration = read_configuration(&mut fields);
    fields.finish()?;

    let name = name.map_err(|_| Problem::invalid_request(Vec::new()))?;
    let key = EnvironmentKey { pipeline, name };
    let expected = answer::expected(request.headers());
    let configured = access.app.environments.configure(&key, Configure { configuration, expected }).await?;
    let status = if configured.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = render(status, &key, &configured.environment);
    if let Ok(etag) = etag(&configured.environment).parse() {
        response.headers_mut().insert(actix_web::http::header::ETAG, etag);
    }
    if configured.created
        && let Ok(location) = url(&key).parse()
    {
        response.headers_mut().insert(actix_web::http::header::LOCATION, location);
    }
    Ok(response)
}

pub async fn delete(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageEnvironments)?;
    let key = access.environment(&request)?;
    Query::of(&request).finish()?;
    let expected = answer::expected(request.headers());
    access.app.environments.delete(&key, Delete { expected }).await?;
    Ok(HttpResponse::NoContent().finish())
}

pub fn url(key: &EnvironmentKey) -> String {
    let (organization, pipeline) = (&key.pipeline.organization, &key.pipeline.pipeline);
    format!("/api/v1/organizations/{organization}/pipelines/{pipeline}/ephemeral-environments/{}", key.name)
}

fn render(status: StatusCode, key: &EnvironmentKey, environment: &Environment) -> HttpResponse {
    match &environment.configuration {
        Some(configuration) => answer::one(status, EnvironmentView::new(key, environment, configuration)),
        None => HttpResponse::from_error(refusals::environment_not_found()),
    }
}

fn etag(environment: &Environment) -> String {
    format!("\"{}.{}\"", environment.configuration_revision, environment.revision)
}

/// The whole configuration: what is left out has its default.
fn read_configuration(fields: &mut Fields) -> Configuration {
    let default = Configuration::default();
    let role = |text: &str| text.parse::<Role>().map_err(Malformed);
    let configuration = Configuration {
        description: fields.text("description", Description::parse).unwrap_or(default.description),
        labels: fields.texts("labels", LABELS_MAX, Identifier::parse, LabelValue::parse).unwrap_or_default(),
        deploy_on_claim: fields.boolean("deployOnClaim").unwrap_or(default.deploy_on_claim),
        force_claim_role: fields.text("forceClaimRole", role).unwrap_or(default.force_claim_role),
        disabled: fields.boolean("disabled").unwrap_or(default.disabled),
        variables: fields
            .texts("variables", VARIABLES_MAX, VariableName::parse, VariableValue::parse)
            .unwrap_or_default(),
    };
    for (name, harmless) in [
        ("defaultTtlSeconds", Json::Null),
        ("maxTtlSeconds", Json::Number(MAX_TTL_SECONDS.into())),
        ("maxHoldSeconds", Json::Null),
        ("maxQueueLength", Json::Number(MAX_QUEUE_LENGTH.into())),
        ("onRelease", Json::Null),
    ] {
        fields.not_yet(name, &harmless);
    }
    configuration
}
