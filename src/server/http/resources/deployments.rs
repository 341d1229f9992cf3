//! Deployments: list, view, wait; cancel or retry a stage.

use std::time::Duration;

use actix_web::http::StatusCode;

use crate::forms::form;
use crate::http::access::Access;
use crate::http::answer::{Answered, EarlyReturn};
use crate::http::call::Call;
use crate::http::clients::{self, Read};
use crate::http::codes::Code;
use crate::http::dto::DeploymentView;
use crate::http::idempotent;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::{answer, refusals};
use accounts::auth::Permission;
use domain::{
    CancelStage, DeploymentId, DeploymentRecord, DeploymentStatus, EnvironmentKey, Identifier, Person, RetryStage,
    SessionId,
};
use http1::Request;
use locks::idempotency::{StoredAnswer, Subject};
use locks::{DeploymentFilter, DeploymentFound};

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = DeploymentFilter {
        pipeline: query.text("pipelineId", Identifier::parse),
        environment: query.text("envName", Identifier::parse),
        session: query.text("sessionId", str::parse::<SessionId>),
        status: query.text("status", DeploymentStatus::parse),
    };
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (environments, organization) = (access.realm.environments.clone(), access.caller.organization.clone());
    let read = move || environments.deployments(&organization, &filter, slice.offset, slice.limit);
    let page = access.read_list(read).await?;
    let views = page.items.iter().map(|found| DeploymentView::new(&found.environment, &found.record)).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let id = deployment_id(&call)?;
    let wait = clients::wait_of(&call.request)?;
    let environments = &access.realm.environments;
    let read = || find(&access, id).map(|found| Read { etag: etag(&found.record), state: found });
    let watch = || environments.watch_deployment(id);
    let Read { state, etag } = clients::read_when_changed(&call.request, &access, wait, watch, read).await?;
    answer::tagged(call.request.headers(), &etag, || {
        Ok(answer::ok(DeploymentView::new(&state.environment, &state.record)))
    })
}

form! {
    /// The action on a stage. Empty: the path names the stage.
    #[schema("examples": [{}])]
    pub struct StageActionForm as "StageActionRequest" {}
}

pub async fn cancel_stage(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let (StageActionForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let Target { found, stage, by, any } = Target::of(&call, &access)?;
    let key = found.environment;
    let cancel = CancelStage { target: found.record.deployment.id.into(), stage, by, any };
    let render = rendered(&key);
    let keyed = idempotent::keyed(pending, render.clone());
    let record = access.environments().ask_keyed(&key, cancel, keyed).await?;
    Ok(idempotent::response(render(&record)))
}

pub async fn retry_stage(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let (StageActionForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let Target { found, stage, by, any } = Target::of(&call, &access)?;
    let Some(session) = found.record.session else {
        return Err(refusals::reset_not_retryable(&found.record, &stage).into());
    };
    let key = found.environment;
    let target = found.record.deployment.id.into();
    let retry = RetryStage { target, session: session.into(), stage, by, any };
    let render = rendered(&key);
    let keyed = idempotent::keyed(pending, render.clone());
    let record = access.environments().ask_keyed(&key, retry, keyed).await?;
    Ok(idempotent::response(render(&record)))
}

/// The stage to cancel or retry.
struct Target {
    found: DeploymentFound,
    stage: Identifier,
    by: Person,
    any: bool,
}

impl Target {
    fn of(call: &Call, access: &Access) -> Result<Self, Problem> {
        let found = find(access, deployment_id(call)?)?;
        let stage = Identifier::parse(call.segment("stage")).map_err(|_| Code::StageNotFound)?;
        Ok(Self { found, stage, by: access.caller.person.clone(), any: access.may(Permission::ManageDeployments) })
    }
}

fn rendered(key: &EnvironmentKey) -> impl Fn(&DeploymentRecord) -> StoredAnswer + Clone + Send + use<> {
    let key = key.clone();
    move |record| {
        let finished = record.deployment.status.is_finished();
        let status = if finished { StatusCode::OK } else { StatusCode::ACCEPTED };
        render(status, &key, record)
    }
}

/// A deployment with its `Location`.
pub fn render(status: StatusCode, key: &EnvironmentKey, record: &DeploymentRecord) -> StoredAnswer {
    let location = format!("/api/v1/organizations/{}/deployments/{}", key.pipeline.organization, record.deployment.id);
    let subject = Subject::Deployment(record.deployment.id);
    idempotent::answer_about(subject, status, location, DeploymentView::new(key, record))
}

/// Waits for a deployment to finish while the client is connected; returns its newest state.
pub async fn finished_within(
    request: &Request,
    access: &Access,
    record: DeploymentRecord,
    wait: Duration,
) -> Result<DeploymentRecord, Problem> {
    let (environments, organization) = (&access.realm.environments, &access.caller.organization);
    let id = record.deployment.id;
    let read = || Ok(environments.deployment(organization, id)?.map(|found| found.record));
    let has_finished = |record: &DeploymentRecord| record.deployment.status.is_finished();
    let watch = || environments.watch_deployment(id);
    clients::newest_within(request, access, wait, record, has_finished, watch, read).await
}

/// The answer to a retried deploy. The stored answer is from the start of the deployment; a retry that waits gets the
/// newest state instead.
pub async fn deployed_before(request: &Request, access: &Access, kept: Box<StoredAnswer>, wait: Duration) -> Answered {
    let (environments, organization) = (&access.realm.environments, &access.caller.organization);
    let found = match kept.subject {
        Some(Subject::Deployment(id)) if !wait.is_zero() => environments.deployment(organization, id)?,
        _ => None,
    };
    let Some(DeploymentFound { environment, record }) = found else { return Err(EarlyReturn::Replay(kept)) };
    let record = finished_within(request, access, record, wait).await?;
    Ok(idempotent::replayed(rendered(&environment)(&record)))
}

pub fn deployment_id(call: &Call) -> Result<DeploymentId, Problem> {
    call.id("deploymentId", Code::DeploymentNotFound)
}

pub fn find(access: &Access, id: DeploymentId) -> Result<DeploymentFound, Problem> {
    Ok(access.realm.environments.deployment(&access.caller.organization, id)?.ok_or(Code::DeploymentNotFound)?)
}

fn etag(record: &DeploymentRecord) -> String {
    format!("\"{}\"", record.deployment.revision)
}
