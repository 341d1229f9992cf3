//! Environments: view, history, create or change, delete.

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};

use crate::forms::{ConfigurationForm, EnvironmentName};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::body::{finish, read_body, read_named};
use crate::http::call::Call;
use crate::http::clients::{self, Read};
use crate::http::dto::{EnvironmentView, SessionView, WaiterView};
use crate::http::paging::{Page, Query, Slice, moment};
use crate::http::problem::Problem;
use crate::http::response::Response;
use crate::http::{answer, paging, refusals};
use accounts::auth::Permission;
use domain::{Configure, Delete, Environment, EnvironmentKey, Period, PipelineKey, Session, Timestamp};
use locks::Listed;

/// How often a history is read that is trimmed or deleted meanwhile. Each time, all sessions of a page of the store must
/// have ended between two reads.
const HISTORY_READS_MAX: usize = 16;

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let wait = clients::wait_of(&call.request)?;
    let environments = &access.realm.environments;
    let read = || {
        let environment = environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
        Ok(Read { etag: etag(&environment), state: environment })
    };
    let watch = || environments.watch_environment(&key);
    let Read { state, etag } = clients::read_when_changed(&call.request, &access, wait, watch, read).await?;
    answer::tagged(call.request.headers(), &etag, || render(StatusCode::OK, &key, &state))
}

pub async fn queue(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let slice = Slice::of(&call.request)?;
    let environment = access.realm.environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    let queue = access.realm.environments.queue(&key, &environment);
    let shown = slice.part(queue.iter().enumerate());
    let views = shown.map(|(place, queued)| WaiterView::new(place + 1, queued)).collect();
    Ok(paging::slice(&call.request, slice, queue.len() as u64, views))
}

pub async fn history(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let mut query = Query::of(&call.request);
    let page = Page::take(&mut query);
    let period = take_period(&mut query);
    query.finish()?;
    let history = read_history(&access, &key, page, period).await?;
    let name = Some(key.name.as_str());
    let sessions = history.items.iter().map(|session| SessionView::new(name, session, None)).collect();
    Ok(paging::page(&call.request, page, history.total, sessions))
}

/// None if all of the history is wanted.
fn take_period(query: &mut Query) -> Option<Period> {
    let (from, to) = (query.text("from", moment), query.text("to", moment));
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        query.wrong("from", "must be before `to`");
    }
    let (first, last) = (Timestamp::from_millis(i64::MIN), Timestamp::from_millis(i64::MAX));
    from.or(to).map(|_| Period { from: from.unwrap_or(first), to: to.unwrap_or(last) })
}

/// The page and its total at one moment: what was deleted or trimmed while it was read is read again.
async fn read_history(
    access: &Access,
    key: &EnvironmentKey,
    page: Page,
    period: Option<Period>,
) -> Result<Listed<Session>, Problem> {
    let environments = &access.realm.environments;
    for _ in 0..HISTORY_READS_MAX {
        let environment = environments.environment(key)?.ok_or_else(refusals::environment_not_found)?;
        let (reader, key_read) = (environments.clone(), key.clone());
        let read = move || match period {
            None => reader.history(&key_read, &environment, page.offset(), page.limit),
            Some(period) => reader.history_within(&key_read, &environment, period, page.offset(), page.limit),
        };
        if let Some(history) = access.read_list(read).await? {
            return Ok(history);
        }
        environments.caught_up(key).await?;
    }
    Err(Problem::overloaded("the history changed each time it was read"))
}

pub async fn put(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageEnvironments)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let body = read_body(&mut call, &mut access).await?;
    let element = body.element()?.unwrap_only("configuration");
    let (read, reader) = read_named::<EnvironmentName, ConfigurationForm>("envName", call.segment("envName"), &element);
    let (EnvironmentName(name), form) = finish(read, reader)?;
    let key = EnvironmentKey { pipeline, name };
    let configuration = form.configuration();
    let expected = answer::expected(call.request.headers());
    let _entering = access.realm.pipelines.entering(&key.pipeline).await.ok_or_else(refusals::pipeline_not_found)?;
    access.check_again()?;
    let configured = access.environments().configure(&key, Configure { configuration, expected }).await?;
    let status = if configured.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = render(status, &key, &configured.environment)?;
    let response = response.with(ETAG, etag(&configured.environment));
    Ok(if configured.created { response.with(LOCATION, url(&key, ["", ""])) } else { response })
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let expected = answer::expected(call.request.headers());
    access.environments().ask(&key, Delete { expected }).await.map_err(refusals::not_deleted)?;
    Ok(Response::no_content())
}

/// Deletes an environment that has a reserved name, from a version of the server that allowed it.
pub async fn delete_reserved(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let key = access.environment(&call)?;
    match access.realm.environments.environment(&key)? {
        Some(_) => delete(call).await,
        None => Err(Problem::method_not_allowed("DELETE", "POST").into()),
    }
}

/// The path of an environment, or of something `below` it.
pub fn url(key: &EnvironmentKey, below: [&str; 2]) -> String {
    let PipelineKey { organization, pipeline } = &key.pipeline;
    let (organization, pipeline, name) = (organization.as_str(), pipeline.as_str(), key.name.as_str());
    let [place, id] = below;
    ["/api/v1/organizations/", organization, "/pipelines/", pipeline, "/ephemeral-environments/", name, place, id]
        .concat()
}

fn render(status: StatusCode, key: &EnvironmentKey, environment: &Environment) -> Answered {
    let configuration = environment.configuration.as_ref().ok_or_else(refusals::environment_not_found)?;
    Ok(answer::one(status, EnvironmentView::new(key, environment, configuration)))
}

fn etag(environment: &Environment) -> String {
    let Environment { configuration_revision, revision, queue, .. } = environment;
    format!("\"{configuration_revision}.{revision}.{}\"", queue.len())
}
