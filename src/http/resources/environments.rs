//! Environments: view, history, make or change, delete.

use std::fmt;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use crate::auth::Permission;
use crate::domain::{
    CommitId, Configuration, Configure, Delete, Description, Environment, EnvironmentKey, Identifier, LABELS_MAX,
    LabelValue, PipelineKey, QUEUE_LENGTH_MAX, Role, SECONDS_MAX, VARIABLES_MAX, VariableName, VariableValue,
};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::body::{Fields, read_fields};
use crate::http::call::Call;
use crate::http::clients::{self, Read, WAIT_SECONDS_MAX};
use crate::http::dto::{EnvironmentView, SessionView, WaiterView};
use crate::http::paging::{Page, Query, Slice};
use crate::http::problem::Problem;
use crate::http::{answer, paging, refusals};

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let mut query = Query::of(&call.request);
    let wait = query.number("waitSeconds", 0, WAIT_SECONDS_MAX).unwrap_or(0);
    query.finish()?;
    let environments = &access.realm.environments;
    let read = || {
        let environment = environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
        Ok(Read { etag: etag(&environment), state: environment })
    };
    let watch = || environments.watch_environment(&key);
    let Read { state, etag } =
        clients::read_when_changed(&call.request, environments, Duration::from_secs(wait), watch, read).await?;
    answer::tagged(call.request.headers(), &etag, || render(StatusCode::OK, &key, &state))
}

pub async fn queue(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let environment = access.realm.environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    let (skipped, limit) = (usize::try_from(slice.offset).unwrap_or(usize::MAX), slice.limit as usize);
    let queue = access.realm.environments.queue(&key, &environment);
    let shown = queue.iter().enumerate().skip(skipped).take(limit);
    let views = shown.map(|(place, queued)| WaiterView::new(place + 1, queued)).collect();
    Ok(paging::slice(&call.request, slice, queue.len() as u64, views))
}

pub async fn history(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let mut query = Query::of(&call.request);
    let page = Page::take(&mut query);
    query.finish()?;
    let environments = access.realm.environments.clone();
    let environment = environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    let name = key.name.clone();
    let history =
        access.node.scans.read(move || environments.history(&key, &environment, page.offset(), page.limit)).await?;
    let sessions =
        history.sessions.iter().map(|session| SessionView::new(Some(name.as_str()), session, None)).collect();
    Ok(paging::page(&call.request, page, history.total, sessions))
}

pub async fn put(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let mut fields = read_fields(&mut call).await?.unwrap_only("configuration");
    let name = Identifier::parse(call.segment("envName"));
    if let Err(malformed) = &name {
        fields.wrong("envName", malformed.to_string());
    }
    let configuration = read_configuration(&mut fields);
    fields.finish()?;

    let name = name.map_err(|_| Problem::invalid_request(Vec::new()))?;
    let key = EnvironmentKey { pipeline, name };
    let expected = answer::expected(call.request.headers());
    let _entering = access.realm.pipelines.entering(&key.pipeline).await.ok_or_else(refusals::pipeline_not_found)?;
    let configured = access.environments().configure(&key, Configure { configuration, expected }).await?;
    let status = if configured.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = render(status, &key, &configured.environment)?;
    if let Ok(etag) = etag(&configured.environment).parse() {
        response.headers_mut().insert(actix_web::http::header::ETAG, etag);
    }
    if configured.created
        && let Ok(location) = format!("{}/{}", base(&key.pipeline), key.name).parse()
    {
        response.headers_mut().insert(actix_web::http::header::LOCATION, location);
    }
    Ok(response)
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let expected = answer::expected(call.request.headers());
    access.environments().delete(&key, Delete { expected }).await.map_err(refusals::not_deleted)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Where a pipeline's environments are.
pub fn base(key: &PipelineKey) -> impl fmt::Display + '_ {
    let PipelineKey { organization, pipeline } = key;
    fmt::from_fn(move |f| write!(f, "/api/v1/organizations/{organization}/pipelines/{pipeline}/ephemeral-environments"))
}

fn render(status: StatusCode, key: &EnvironmentKey, environment: &Environment) -> Answered {
    let configuration = environment.configuration.as_ref().ok_or_else(refusals::environment_not_found)?;
    Ok(answer::one(status, EnvironmentView::new(key, environment, configuration)))
}

fn etag(environment: &Environment) -> String {
    let Environment { configuration_revision, revision, queue, .. } = environment;
    format!("\"{configuration_revision}.{revision}.{}\"", queue.len())
}

/// The whole configuration: what is left out has its default.
fn read_configuration(fields: &mut Fields) -> Configuration {
    let default = Configuration::default();
    let seconds = 1..=i64::from(SECONDS_MAX);
    let whole = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    let configuration = Configuration {
        description: fields.text("description", Description::parse).unwrap_or(default.description),
        labels: fields.texts("labels", LABELS_MAX, Identifier::parse, LabelValue::parse).unwrap_or_default(),
        deploy_on_claim: fields.boolean("deployOnClaim").unwrap_or(default.deploy_on_claim),
        default_ttl_seconds: whole(fields.nullable_integer("defaultTtlSeconds", seconds.clone())),
        max_ttl_seconds: whole(fields.integer("maxTtlSeconds", seconds.clone())).unwrap_or(default.max_ttl_seconds),
        max_hold_seconds: whole(fields.nullable_integer("maxHoldSeconds", seconds)),
        max_queue_length: whole(fields.integer("maxQueueLength", 0..=i64::from(QUEUE_LENGTH_MAX)))
            .unwrap_or(default.max_queue_length),
        on_release: fields
            .nullable_object("onRelease", |reset| reset.required_text("commitId", CommitId::parse))
            .flatten(),
        force_claim_role: fields.text("forceClaimRole", Role::parse).unwrap_or(default.force_claim_role),
        disabled: fields.boolean("disabled").unwrap_or(default.disabled),
        variables: fields
            .texts("variables", VARIABLES_MAX, VariableName::parse, VariableValue::parse)
            .unwrap_or_default(),
    };
    if configuration.default_ttl_seconds.is_some_and(|ttl| ttl > configuration.max_ttl_seconds) {
        fields.wrong("defaultTtlSeconds", "is at most maxTtlSeconds");
    }
    configuration
}
