//! Sessions: claim, view, deploy, release, force-claim.

use actix_web::http::StatusCode;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};

use super::access::{Access, session_id};
use super::body::{Fields, Json, read_fields};
use super::dto::{DeploymentView, ForceClaimView, SessionView};
use super::paging::Query;
use super::problem::Problem;
use super::{answer, environments, refusals};
use crate::auth::Permission;
use crate::domain::{Claim, CommitId, Context, Deploy, EnvironmentKey, ForceClaim, Release, SessionId};
use crate::entropy;

pub async fn claim(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::UseEnvironments)?;
    let key = access.environment(&request)?;
    let claim = read_claim(&request, payload, &access).await?;
    let session = access.app.environments.claim(&key, claim).await?;
    Ok(answer::created(&url(&key, session.id), SessionView::new(key.name.as_str(), &session)))
}

pub async fn force_claim(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::UseEnvironments)?;
    let key = access.environment(&request)?;
    let claim = read_claim(&request, payload, &access).await?;
    let role = access.caller.role;
    let claimed = access.app.environments.force_claim(&key, ForceClaim { claim, role }).await?;
    Ok(answer::created(&url(&key, claimed.session.id), ForceClaimView::new(key.name.as_str(), &claimed)))
}

pub async fn view(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::Read)?;
    let key = access.environment(&request)?;
    Query::of(&request).finish()?;
    let environments = &access.app.environments;
    let environment = environments.environment(&key)?.ok_or_else(refusals::environment_not_found)?;
    let session = environments.session(&key, &environment, session_id(&request)?)?;
    let session = session.ok_or_else(refusals::session_not_found)?;
    let etag = format!("\"{}\"", session.revision);
    Ok(answer::tagged(request.headers(), &etag, || {
        answer::one(StatusCode::OK, SessionView::new(key.name.as_str(), &session))
    }))
}

pub async fn deploy(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::UseEnvironments)?;
    let plan = access.pipeline(&request)?.plan();
    let key = access.environment(&request)?;
    Query::of(&request).finish()?;
    let mut fields = read_fields(&request, &mut payload.into_inner(), &access.app).await?;
    let commit = fields.required_text("commitId", CommitId::parse);
    fields.not_yet("waitSeconds", &Json::Null);
    fields.finish()?;
    let commit = commit.ok_or_else(|| Problem::invalid_request(Vec::new()))?;

    let session = session_id(&request)?;
    let by = access.caller.person.clone();
    let deploy = Deploy { session: session.into(), by, seed: entropy::id_seed(), commit, plan };
    let deployed = access.app.environments.deploy(&key, deploy).await?;
    // The session shows how its deployments go.
    Ok(answer::at(StatusCode::ACCEPTED, &url(&key, session), DeploymentView::new(&key, &deployed)))
}

pub async fn release(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::UseEnvironments)?;
    let key = access.environment(&request)?;
    Query::of(&request).finish()?;
    let session = session_id(&request)?.into();
    let any = access.may(Permission::ReleaseAnySession);
    let release = Release { session, by: access.caller.person.clone(), any };
    let session = access.app.environments.release(&key, release).await?;
    Ok(answer::one(StatusCode::OK, SessionView::new(key.name.as_str(), &session)))
}

fn url(key: &EnvironmentKey, session: SessionId) -> String {
    format!("{}/sessions/{session}", environments::url(key))
}

async fn read_claim(request: &HttpRequest, payload: Payload, access: &Access) -> Result<Claim, Problem> {
    let plan = access.pipeline(request)?.plan();
    Query::of(request).finish()?;
    let mut fields = read_fields(request, &mut payload.into_inner(), &access.app).await?;
    let commit = fields.nullable_text("commitId", CommitId::parse);
    let context = fields.nullable_text("context", Context::parse);
    refuse_what_crowds_need(&mut fields);
    fields.finish()?;
    Ok(Claim { seed: entropy::id_seed(), user: access.caller.person.clone(), commit, context, plan })
}

/// Leases and the queue are not there yet. Ignoring what asks for them would leave a client waiting for what never comes.
fn refuse_what_crowds_need(fields: &mut Fields) {
    for name in ["ttlSeconds", "waitSeconds", "queue", "priority"] {
        fields.not_yet(name, &Json::Null);
    }
}
