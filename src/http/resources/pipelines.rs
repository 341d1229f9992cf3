//! Pipelines: list, view, make or change, delete, stop and resume.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};

use crate::auth::Permission;
use crate::domain::{Blueprint, Context, Identifier, PipelineKey};
use crate::events::Cause;
use crate::http::access::Access;
use crate::http::answer::{Answered, EarlyReturn};
use crate::http::body::{Fields, read_fields};
use crate::http::call::Call;
use crate::http::dto::PipelineView;
use crate::http::idempotent;
use crate::http::outcome::done_within;
use crate::http::paging::{Query, Slice};
use crate::http::problem::Problem;
use crate::http::{answer, definition, paging, refusals};
use crate::idempotency::{Pending, StoredAnswer};
use crate::pipelines::{Definition, Pipeline};
use crate::store::Batch;

/// What to do where the outcome of a change is not known.
const LOOK: &str = "look at the pipeline";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let pipelines = access.realm.pipelines.list(&access.caller.organization);
    let total = pipelines.len() as u64;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = || pipelines.iter().skip(offset).take(slice.limit as usize);
    let mut views = Vec::with_capacity(shown().len());
    for pipeline in shown() {
        views.push(PipelineView::new(pipeline, count_environments(&access, &pipeline.key).await?));
    }
    Ok(paging::slice(&call.request, slice, total, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let pipeline = access.pipeline(&call)?;
    Query::of(&call.request).finish()?;
    let environments = count_environments(&access, &pipeline.key).await?;
    answer::tagged(call.request.headers(), &etag(&pipeline, environments), || {
        Ok(answer::one(StatusCode::OK, PipelineView::new(&pipeline, environments)))
    })
}

pub async fn put(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManagePipelines)?;
    Query::of(&call.request).finish()?;
    let mut fields = read_fields(&mut call).await?;
    let id = Identifier::parse(call.segment("pipelineId"));
    if let Err(malformed) = &id {
        fields.wrong("pipelineId", malformed.to_string());
    }
    let organization = &access.caller.organization;
    // What it uses of registries stays there until it is saved.
    let using = access.realm.registries.using().await;
    let definition = definition::read(&mut fields, id.as_ref().ok(), &|used| using.faults(organization, used));
    if let Err(problem) = read_through(fields, definition.as_ref(), |blueprint| using.resolves(organization, blueprint))
    {
        access.realm.registries.settled().await;
        return Err(problem.into());
    }
    let (Ok(id), Some(definition)) = (id, definition) else {
        return Err(Problem::invalid_request(Vec::new()).into());
    };
    let key = PipelineKey { organization: access.caller.organization.clone(), pipeline: id };
    let expected = answer::expected(call.request.headers());
    let (by, now) = (access.agent(), (access.realm.clock)());
    let putting = access.realm.pipelines.put(&key, definition, expected.as_ref(), &by, now);
    let put = done_within(access.node.answer_timeout, LOOK, putting).await?;
    tracing::info!(organization = %key.organization, pipeline = %key.pipeline, made = put.created, by = %access.caller.person.name, "a pipeline was put");
    let environments = count_environments(&access, &key).await?;
    let mut response = HttpResponse::build(if put.created { StatusCode::CREATED } else { StatusCode::OK });
    response.insert_header((ETAG, etag(&put.pipeline, environments)));
    if put.created {
        response.insert_header((LOCATION, url(&key)));
    }
    let body = answer::written(&answer::One { data: PipelineView::new(&put.pipeline, environments) });
    Ok(response.content_type("application/json").body(body))
}

/// All faults of the fields; or where there are none, whether it still is within its bounds with what it uses filled in.
fn read_through(
    mut fields: Fields,
    definition: Option<&Definition>,
    resolves: impl FnOnce(&Blueprint) -> Result<(), String>,
) -> Result<(), Problem> {
    if !fields.has_faults()
        && let Some(definition) = definition
        && let Err(why) = resolves(&definition.blueprint)
    {
        fields.wrong("stages", why);
    }
    fields.finish()
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManagePipelines)?;
    let key = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let expected = answer::expected(call.request.headers());
    let limit = access.node.answer_timeout;
    // In a task of its own: its secrets must go with it, also where the caller has gone.
    let deleting = actix_web::rt::spawn(async move {
        let closing = access.realm.pipelines.closing().await;
        let environments = count_environments(&access, &key).await?;
        if environments > 0 {
            return Err(refusals::pipeline_in_use(environments));
        }
        let (agent, now) = (access.agent(), (access.realm.clock)());
        access.realm.pipelines.delete(&key, expected.as_ref(), &closing, &agent, now).await?;
        access.realm.vault.delete_pipeline(&key, Cause::by(&agent, now)).await?;
        let by = &access.caller.person.name;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, %by, "a pipeline was deleted");
        Ok::<_, Problem>(())
    });
    done_within(limit, LOOK, async { deleting.await.map_err(Problem::internal)? }).await?;
    Ok(HttpResponse::NoContent().finish())
}

pub async fn stop(mut call: Call) -> Answered {
    let Change { access, key, environments, mut fields, pending } = begin(&mut call).await?;
    let reason = fields.nullable_text("reason", Context::parse);
    fields.finish()?;
    let limit = access.node.answer_timeout;
    // In a task of its own: the key must stay in flight until the change is durable, also where the caller has gone.
    let stopping = actix_web::rt::spawn(async move {
        let now = (access.realm.clock)();
        let keep = |pipeline: &Pipeline, batch: &mut Batch| {
            pending.map(|pending| pending.keep(batch, &render(pipeline, environments), now))
        };
        let pipeline = access.realm.pipelines.stop(&key, reason, &access.agent(), now, keep).await?;
        let by = &access.caller.person.name;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, %by, "a pipeline is stopped");
        Ok::<_, Problem>(render(&pipeline, environments))
    });
    let stopped = done_within(limit, LOOK, async { stopping.await.map_err(Problem::internal)? });
    Ok(idempotent::response(stopped.await?))
}

pub async fn resume(mut call: Call) -> Answered {
    let Change { access, key, environments, fields, pending } = begin(&mut call).await?;
    fields.finish()?;
    let limit = access.node.answer_timeout;
    // In a task of its own, as above; and what waits must be started, also where the caller has gone.
    let resuming = actix_web::rt::spawn(async move {
        let now = (access.realm.clock)();
        let keep = |pipeline: &Pipeline, batch: &mut Batch| {
            pending.map(|pending| pending.keep(batch, &render(pipeline, environments), now))
        };
        let pipeline = access.realm.pipelines.resume(&key, &access.agent(), now, keep).await?;
        access.realm.environments.resume_pipeline(&key).await;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, by = %access.caller.person.name, "a pipeline is resumed");
        Ok::<_, Problem>(render(&pipeline, environments))
    });
    let resumed = done_within(limit, LOOK, async { resuming.await.map_err(Problem::internal)? });
    Ok(idempotent::response(resumed.await?))
}

/// A request to stop or to resume a pipeline.
struct Change {
    access: Access,
    key: PipelineKey,
    environments: u64,
    fields: Fields,
    pending: Option<Pending>,
}

async fn begin(call: &mut Call) -> Result<Change, EarlyReturn> {
    let access = Access::to(call, Permission::ManagePipelines)?;
    let idempotent::Begun { body, pending } = idempotent::begin(call, &access).await?;
    let key = access.pipeline(call)?.key.clone();
    let fields = body.fields()?;
    let environments = count_environments(&access, &key).await?;
    Ok(Change { access, key, environments, fields, pending })
}

fn render(pipeline: &Pipeline, environments: u64) -> StoredAnswer {
    idempotent::answer(StatusCode::OK, None, PipelineView::new(pipeline, environments))
}

async fn count_environments(access: &Access, key: &PipelineKey) -> Result<u64, Problem> {
    let (environments, key) = (access.realm.environments.clone(), key.clone());
    access.node.scans.read(move || environments.count(&key)).await
}

fn etag(pipeline: &Pipeline, environments: u64) -> String {
    format!("\"{}.{environments}\"", pipeline.revision)
}

fn url(key: &PipelineKey) -> String {
    format!("/api/v1/organizations/{}/pipelines/{}", key.organization, key.pipeline)
}
