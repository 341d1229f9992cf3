//! Pipelines: list, view, create or change, delete, stop and resume.

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};

use crate::forms::{Form, PipelineForm, Reader, form};
use crate::http::access::Access;
use crate::http::answer::{Answered, EarlyReturn};
use crate::http::body::{finish, read_body, read_named};
use crate::http::call::Call;
use crate::http::dto::PipelineView;
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{Query, Slice};
use crate::http::problem::Problem;
use crate::http::response::Response;
use crate::http::{answer, paging, refusals};
use accounts::auth::Permission;
use delivery::registries::Using;
use domain::{Blueprint, Context, Identifier, PipelineKey};
use events::Cause;
use locks::idempotency::{Pending, StoredAnswer};
use locks::pipelines::Pipeline;

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the pipeline";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let slice = Slice::of(&call.request)?;
    let pipelines = access.realm.pipelines.list(&access.caller.organization);
    let total = pipelines.len() as u64;
    let shown = slice.part(pipelines.iter());
    let mut views = Vec::with_capacity(shown.len());
    for pipeline in shown {
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
    let mut access = Access::to(&call, Permission::ManagePipelines)?;
    Query::of(&call.request).finish()?;
    let body = read_body(&mut call, &mut access).await?;
    let segment = call.segment("pipelineId");
    let (read, mut reader) = read_named::<Identifier, PipelineForm>("pipelineId", segment, &body.element()?);
    let read = read.map(|(id, form)| (form.definition(&id), id));
    let organization = &access.caller.organization;
    // The steps that it uses stay in their registries until it is saved.
    let using = access.realm.registries.using().await;
    access.check_again()?;
    check_uses(&using, organization, read.as_ref().map(|(definition, _)| &*definition.blueprint), &mut reader);
    let (definition, id) = match finish(read, reader) {
        Ok(read) => read,
        Err(problem) => {
            access.realm.registries.settled().await;
            return Err(problem.into());
        }
    };
    let key = PipelineKey { organization: organization.clone(), pipeline: id };
    let expected = answer::expected(call.request.headers());
    let (by, now) = (access.initiator(), (access.realm.clock)());
    let putting = access.realm.pipelines.put(&key, definition, expected.as_ref(), &by, now);
    let put = done_within(access.node.answer_timeout, LOOK, putting).await?;
    tracing::info!(organization = %key.organization, pipeline = %key.pipeline, made = put.created, by = %access.caller.person.name, "pipeline saved");
    let environments = count_environments(&access, &key).await?;
    let status = if put.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = answer::one(status, PipelineView::new(&put.pipeline, environments));
    let response = response.with(ETAG, etag(&put.pipeline, environments));
    Ok(if put.created { response.with(LOCATION, url(&key)) } else { response })
}

/// Whether registries have the steps that it uses, and whether it is within its bounds with those filled in.
fn check_uses(using: &Using<'_>, organization: &Identifier, blueprint: Option<&Blueprint>, reader: &mut Reader) {
    for (step, used) in reader.take_uses() {
        for (field, message) in using.faults(organization, &used) {
            reader.outer_fault(format!("{step}.{field}"), message);
        }
    }
    if !reader.has_faults()
        && let Some(Err(why)) = blueprint.map(|blueprint| using.resolves(organization, blueprint))
    {
        reader.outer_fault("stages", why);
    }
}

form! {
    /// Why it is stopped. May be empty.
    #[schema("examples": [{ "reason": "the database is being moved" }])]
    pub struct StopForm as "StopRequest" {
        /// For others who find the pipeline stopped.
        #[schema("examples": ["the database is being moved"])]
        nullable reason: Context,
    }
}

form! {
    /// Empty: the path names the pipeline or registry.
    #[schema("examples": [{}])]
    pub struct ResumeForm as "ResumeRequest" {}
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManagePipelines)?;
    let key = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let expected = answer::expected(call.request.headers());
    let limit = access.node.answer_timeout;
    let deleting = async move {
        let closing = access.realm.pipelines.closing().await;
        let environments = count_environments(&access, &key).await?;
        if environments > 0 {
            return Err(refusals::pipeline_in_use(environments));
        }
        let (initiator, now) = (access.initiator(), (access.realm.clock)());
        access.realm.pipelines.delete(&key, expected.as_ref(), &closing, &initiator, now).await?;
        access.realm.vault.delete_pipeline(&key, Cause::by(&initiator, now)).await?;
        let by = &access.caller.person.name;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, %by, "pipeline deleted");
        Ok::<_, Problem>(())
    };
    // In a separate task: its secrets must be deleted too, even if the caller disconnects.
    done_in_task(limit, LOOK, deleting).await?;
    Ok(Response::no_content())
}

pub async fn stop(mut call: Call) -> Answered {
    let Change { access, key, environments, form: StopForm { reason }, pending } = begin(&mut call).await?;
    let limit = access.node.answer_timeout;
    let stopping = async move {
        let now = (access.realm.clock)();
        let keep = idempotent::keep(pending, || now, |pipeline: &Pipeline| render(pipeline, environments));
        let pipeline = access.realm.pipelines.stop(&key, reason, &access.initiator(), now, keep).await?;
        let by = &access.caller.person.name;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, %by, "pipeline stopped");
        Ok::<_, Problem>(render(&pipeline, environments))
    };
    Ok(idempotent::response(done_in_task(limit, LOOK, stopping).await?))
}

pub async fn resume(mut call: Call) -> Answered {
    let Change { access, key, environments, form: ResumeForm {}, pending } = begin(&mut call).await?;
    let limit = access.node.answer_timeout;
    let resuming = async move {
        let now = (access.realm.clock)();
        let keep = idempotent::keep(pending, || now, |pipeline: &Pipeline| render(pipeline, environments));
        let pipeline = access.realm.pipelines.resume(&key, &access.initiator(), now, keep).await?;
        access.realm.environments.resume_pipeline(&key).await;
        tracing::info!(organization = %key.organization, pipeline = %key.pipeline, by = %access.caller.person.name, "pipeline resumed");
        Ok::<_, Problem>(render(&pipeline, environments))
    };
    // In a separate task: waiting deployments must start too, even if the caller disconnects.
    Ok(idempotent::response(done_in_task(limit, LOOK, resuming).await?))
}

/// A request to stop or to resume a pipeline.
struct Change<T> {
    access: Access,
    key: PipelineKey,
    environments: u64,
    form: T,
    pending: Option<Pending>,
}

async fn begin<T: Form>(call: &mut Call) -> Result<Change<T>, EarlyReturn> {
    let mut access = Access::to(call, Permission::ManagePipelines)?;
    let idempotent::Begun { body, pending } = idempotent::begin(call, &mut access).await?;
    let key = access.pipeline(call)?.key.clone();
    let form = body.form()?;
    let environments = count_environments(&access, &key).await?;
    Ok(Change { access, key, environments, form, pending })
}

fn render(pipeline: &Pipeline, environments: u64) -> StoredAnswer {
    idempotent::answer(StatusCode::OK, None, PipelineView::new(pipeline, environments))
}

async fn count_environments(access: &Access, key: &PipelineKey) -> Result<u64, Problem> {
    let (environments, key) = (access.realm.environments.clone(), key.clone());
    access.read_list(move || environments.count(&key)).await
}

fn etag(pipeline: &Pipeline, environments: u64) -> String {
    format!("\"{}.{environments}\"", pipeline.revision)
}

fn url(key: &PipelineKey) -> String {
    format!("/api/v1/organizations/{}/pipelines/{}", key.organization, key.pipeline)
}
