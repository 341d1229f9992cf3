//! Pipelines: list, view, create or change, delete, stop and resume.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};
use serde::Serialize;
use utoipa::ToSchema;

use crate::forms::{Form, PipelineForm, Reader, form};
use crate::http::access::Access;
use crate::http::answer::{self, Answered, EarlyReturn};
use crate::http::body::{finish, read_body, read_named};
use crate::http::call::Call;
use crate::http::dto::{InputValueView, Named, Text, Time, UserView, view, written};
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::{idempotent, refusals};
use accounts::auth::Permission;
use delivery::registries::Using;
use domain::{Action, Blueprint, Context, HttpCall, Identifier, PipelineKey, Stage, Step, StepReference, VariableName};
use events::Cause;
use http1::Response;
use locks::idempotency::{Pending, StoredAnswer};
use locks::pipelines::{Pipeline, Repository};

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
        Ok(answer::ok(PipelineView::new(&pipeline, environments)))
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
    // Keeps the used steps in their registries until the pipeline is saved.
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

/// Checks that the registries have the used steps, and that the pipeline including those steps is within its bounds.
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
    /// A request to stop a pipeline. May be empty.
    #[schema("examples": [{ "reason": "the database is being moved" }])]
    pub struct StopForm as "StopRequest" {
        /// The reason, for others who find the pipeline stopped.
        #[schema("examples": ["the database is being moved"])]
        nullable reason: Context,
    }
}

form! {
    /// A request without fields: the path names the pipeline or registry.
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
    // Runs in a separate task, so that the secrets are deleted too, even if the caller disconnects.
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
    // Runs in a separate task, so that waiting deployments start too, even if the caller disconnects.
    Ok(idempotent::response(done_in_task(limit, LOOK, resuming).await?))
}

/// A request to stop or resume a pipeline.
struct Change<T> {
    access: Access,
    key: PipelineKey,
    environments: u64,
    form: T,
    pending: Option<Pending>,
}

async fn begin<T: Form>(call: &mut Call) -> Result<Change<T>, EarlyReturn> {
    let mut access = Access::to(call, Permission::ManagePipelines)?;
    let (body, pending) = idempotent::begin_body(call, &mut access).await?;
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

view! {
    /// A pipeline: what is deployed to its environments, and how.
    pub struct PipelineView<'a> as Pipeline of (pipeline: &'a Pipeline, environment_count: u64)
    let stopped = pipeline.stopped.as_ref();
    let blueprint = &pipeline.blueprint;
    {
        /// The pipeline's id, unique in the organization.
        #[schema(example = "web")]
        id: &'a str = pipeline.key.pipeline.as_str(),
        /// The name for people.
        #[schema(example = "Web shop")]
        name: &'a str = &pipeline.name,
        /// A short name for links.
        #[schema(example = "web")]
        slug: &'a str = pipeline.slug.as_str(),
        status: PipelineStatus = if stopped.is_some() { PipelineStatus::Stopped } else { PipelineStatus::Running },
        /// Who stopped the pipeline; null while it runs.
        stopped_by: Option<UserView<'a>> = stopped.map(|stopped| UserView::new(&stopped.by)),
        /// When the pipeline was stopped; null while it runs.
        stopped_at: Option<Time> = stopped.map(|stopped| Time(stopped.at)),
        /// Why the pipeline was stopped, or null.
        #[schema(example = "the database is being moved")]
        stop_reason: Option<&'a str> = stopped.and_then(|stopped| stopped.reason.as_ref()).map(Context::as_str),
        /// The stages, in the order in which they run.
        stages: Vec<StageView<'a>> = blueprint.stages.iter().map(StageView::new).collect(),
        /// Variables for all steps; an environment's own variables take precedence.
        #[schema(example = json!({ "SHOP_PORT": "8443" }))]
        variables: BTreeMap<&'a str, &'a str> =
            blueprint.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        /// Whether members may approve what they triggered themselves.
        #[schema(example = true)]
        self_approval: bool = blueprint.self_approval,
        /// How many environments the pipeline has.
        #[schema(example = 3)]
        environment_count: u64,
        /// The repository with the code, or null.
        repository: Option<RepositoryView<'a>> = pipeline.repository.as_ref().map(RepositoryView::new),
    }
}

/// Whether the pipeline is stopped: running deployments finish, and new ones wait until it is resumed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PipelineStatus {
    Running,
    Stopped,
}

view! {
    /// A stage: steps that run one after another.
    pub struct StageView<'a> as StageDefinition of (stage: &'a Stage) {
        /// The stage's name, unique in its pipeline.
        #[schema(example = "build")]
        name: &'a str = stage.name.as_str(),
        approval: written::ApprovalRule = Named(stage.approval),
        /// The time limit for all steps of the stage together.
        #[schema(example = 3600)]
        timeout_seconds: u32 = stage.timeout_seconds,
        /// Whether the stage is restarted automatically after a crash of the server interrupted it.
        #[schema(example = false)]
        idempotent: bool = stage.idempotent,
        /// The steps, in the order in which they run.
        steps: Vec<StepView<'a>> = stage.steps.iter().map(StepView::new).collect(),
    }
}

view! {
    /// A step, with one of `run`, `http` and `uses`.
    pub struct StepView<'a> as StepDefinition of (step: &'a Step)
    let (run, http, used) = match &step.action {
        Action::Run(arguments) => (Some(arguments.as_slice()), None, None),
        Action::Http(call) => (None, Some(HttpCallView::new(call)), None),
        Action::Uses(used) => (None, None, Some(used)),
    };
    {
        /// The step's name, unique in its stage.
        #[schema(example = "step-1")]
        name: &'a str = step.name.as_str(),
        /// A program and its arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Vec<String>, required = false, example = json!(["echo", "hello"]))]
        run: Option<&'a [Arc<str>]>,
        /// An HTTP request to make.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = HttpCallView, required = false)]
        http: Option<HttpCallView<'a>>,
        /// A step of a registry, as `registry/step@version`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String, required = false, example = "tools/build@1.2.0")]
        uses: Option<Text<&'a StepReference>> = used.map(|used| Text(&used.reference)),
        /// The inputs of the registry's step.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = BTreeMap<String, InputValueView>, required = false, example = json!({ "TARGET": "all" }))]
        with: Option<BTreeMap<&'a str, InputValueView<'a>>> =
            used.map(|used| used.with.iter().map(|(name, value)| (name.as_str(), InputValueView(value))).collect()),
    }
}

view! {
    /// An HTTP request that a step makes.
    pub struct HttpCallView<'a> as HttpCall of (call: &'a HttpCall) {
        /// An HTTP method.
        #[schema(example = "POST")]
        method: &'a str = &call.method,
        /// The URL. Redirects are not followed.
        #[schema(example = "https://deploy.example/hooks/shop")]
        url: &'a str = &call.url,
        /// Headers of the request.
        #[schema(example = json!({ "X-Tier": "review" }))]
        headers: BTreeMap<&'a str, &'a str> = call.headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
        /// The body of the request; null if there is none.
        #[schema(example = "tested")]
        body: Option<&'a str> = call.body.as_deref(),
        /// The statuses that count as success. If empty: any 2xx.
        #[schema(example = json!([200, 204]))]
        expect_status: &'a [u16] = &call.expect_status,
    }
}

view! {
    /// The repository with the code that a pipeline deploys.
    pub struct RepositoryView<'a> as Repository of (repository: &'a Repository) {
        provider: written::Provider = Named(repository.provider),
        /// The repository's URL: https or ssh.
        #[schema(example = "https://git.example/shop.git")]
        url: &'a str = &repository.url,
        /// The branch that fixes are merged into.
        #[schema(example = "main")]
        default_branch: &'a str = &repository.default_branch,
        /// The name of the secret with the token for pushing and opening pull requests.
        #[schema(example = "GIT_TOKEN")]
        credential: Option<&'a str> = repository.credential.as_ref().map(VariableName::as_str),
        /// The API's URL for your own GitHub server; null if it is derived from `url`.
        #[schema(example = "https://github.example/api/v3")]
        api_url: Option<&'a str> = repository.api_url.as_deref(),
    }
}
