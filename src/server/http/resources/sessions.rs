//! Sessions: claim one environment or any, view, deploy, keep alive, release, force-claim; and the organization's list
//! of active and queued sessions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use serde::Serialize;

use super::{deployments, environments};
use crate::forms::{ClaimAnyForm, ClaimForm, DeployForm, ForceClaimForm, Form, HeartbeatForm, Integer, WaitSeconds};
use crate::http::access::Access;
use crate::http::answer::{self, Answered, EarlyReturn};
use crate::http::body::read_body;
use crate::http::call::Call;
use crate::http::clients::{self, Read, Waited, while_connected};
use crate::http::codes::Code;
use crate::http::dto::{ForceClaimView, SessionListItem, SessionView};
use crate::http::idempotent::{self, keyed};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::refusals;
use accounts::auth::Permission;
use ambient::entropy;
use domain::{
    ASK_WITHIN_MILLIS, ClaimRequest, Deploy, DeploymentRecord, EnvironmentKey, ForceClaimed, Heartbeat, Id, Identifier,
    PipelineKey, Priority, Rejection, Release, ReleaseLock, Session, SessionId, SessionStatus,
};
use http1::{Request, Response};
use locks::idempotency::{Pending, StoredAnswer, Subject};
use locks::{ClaimOutcome, Failure, Keyed, SessionFilter, SessionFound, SessionList, WaitPolicy, Waiting};

pub async fn claim(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    let (form, pending) = begin(&mut call, &mut access).await?;
    let (claim, policy) = read_claim(&access, form)?;
    let place = ClaimTarget { pipeline: key.pipeline.clone(), environment: Some(key.name.clone()) };
    let keyed = place.keyed(pending);
    let (has_key, waits) = (keyed.is_some(), !policy.wait.is_zero());
    let _held = if waits { access.hold_connection()? } else { None };
    let environments = access.environments();
    let claiming = pin!(environments.claim(&key, claim, policy, keyed));
    let waited = while_connected(&call.request, &access, waits, claiming).await;
    answer_claim(&call.request, &access, &place, has_key, waited, Problem::from)
}

pub async fn claim_any(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    let (ClaimAnyForm { claim, labels }, pending) = begin(&mut call, &mut access).await?;
    let labels = labels.unwrap_or_default().0;
    let (claim, policy) = read_claim(&access, claim)?;
    let place = ClaimTarget { pipeline: pipeline.clone(), environment: None };
    let keyed = place.keyed(pending);
    let (has_key, waits) = (keyed.is_some(), !policy.wait.is_zero());
    let _held = if waits { access.hold_connection()? } else { None };
    let environments = access.environments();
    let claiming = pin!(environments.claim_any(&pipeline, labels.clone(), claim, policy, keyed));
    let waited = while_connected(&call.request, &access, waits, claiming).await;
    answer_claim(&call.request, &access, &place, has_key, waited, |failure| match failure {
        Failure::Rejected(Rejection::AllLocked { queue_length }) => match environments.holders(&pipeline, &labels) {
            Ok(holders) => refusals::all_locked(&holders, queue_length),
            Err(error) => error.into(),
        },
        failure => failure.into(),
    })
}

/// A disconnected client gets nothing, but can retry with its key. If the member was removed or demoted while waiting,
/// the lock is taken back, since they could neither use nor release it.
fn answer_claim(
    request: &Request,
    access: &Access,
    place: &ClaimTarget,
    has_key: bool,
    waited: Waited<Result<ClaimOutcome, Failure>>,
    refused: impl FnOnce(Failure) -> Problem,
) -> Answered {
    match waited {
        Waited::There(outcome) => Ok(idempotent::response(place.render(&outcome.map_err(refused)?))),
        Waited::TooLate(Ok(ClaimOutcome::Granted { environment, session })) => {
            access.realm.environments.undelivered(&environment, session.id, has_key);
            tracing::info!(path = request.path(), session = %session.id, "the client disconnected before it got the lock");
            Err(Code::ClientGone.into())
        }
        Waited::Revoked(problem, answer) => {
            if let Some(Ok(ClaimOutcome::Granted { environment, session })) = answer {
                access.realm.environments.undelivered(&environment, session.id, false);
                tracing::info!(path = request.path(), session = %session.id, "access was revoked while waiting; taking the lock back");
            }
            Err(problem.into())
        }
        Waited::TooLate(_) | Waited::Gone => Err(Code::ClientGone.into()),
    }
}

/// Called by the node that forwarded a claim, if its client had disconnected before the response.
pub async fn undelivered(call: Call) -> Answered {
    let [organization, pipeline, name] =
        ["orgId", "pipelineId", "envName"].map(|name| Identifier::parse(call.segment(name)));
    let not_found = |_| Code::EnvironmentNotFound;
    let (organization, pipeline) = (organization.map_err(not_found)?, pipeline.map_err(not_found)?);
    let pipeline = PipelineKey { organization, pipeline };
    let key = EnvironmentKey { pipeline, name: name.map_err(not_found)? };
    let session = session_id(&call)?;
    call.app.realm.environments.undelivered(&key, session, call.request.query_string() == "keyed=true");
    tracing::info!(environment = %key, %session, "the client disconnected before it got the lock");
    Ok(Response::no_content())
}

pub async fn force_claim(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    let (form, pending) = begin(&mut call, &mut access).await?;
    let request = read_request(&access, form, Priority::default());
    let role = access.caller.role;
    let render = {
        let key = key.clone();
        move |claimed: &ForceClaimed| {
            let view = ForceClaimView::new(key.name.as_str(), claimed);
            session_answer(StatusCode::CREATED, &key, claimed.session.id, view)
        }
    };
    let keyed = keyed(pending, render.clone());
    let claimed = access.environments().force_claim(&key, request, role, keyed).await?;
    Ok(idempotent::response(render(&claimed)))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let id = session_id(&call)?;
    let (environments, reader) = (&access.realm.environments, access.caller.person.id);
    let find = || {
        let environment = environments.environment(&key)?.ok_or(Code::EnvironmentNotFound)?;
        Ok(environments.session(&key, &environment, id, reader)?.ok_or(Code::SessionNotFound)?)
    };
    match show(&call.request, &access, id, find).await {
        // The session may have been deleted with its environment; wait until readers see the deletion.
        Err(EarlyReturn::Problem(problem)) if problem.code() == Code::SessionNotFound => {
            environments.caught_up(&key).await?;
            show(&call.request, &access, id, find).await
        }
        shown => shown,
    }
}

/// Shows a session that waits, or waited, for any environment.
pub async fn view_any(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    let id = session_id(&call)?;
    let (environments, reader) = (&access.realm.environments, access.caller.person.id);
    show(&call.request, &access, id, || {
        environments.session_of_any(&pipeline, id, reader)?.ok_or_else(queued_session_not_found)
    })
    .await
}

async fn show(
    request: &Request,
    access: &Access,
    id: SessionId,
    find: impl Fn() -> Result<SessionFound, Problem>,
) -> Answered {
    let wait = clients::wait_of(request)?;
    let environments = &access.realm.environments;
    let read = || find().map(|found| Read { etag: etag(&found.session), state: found });
    let watch = || environments.watch_session(id);
    let mut shown = clients::read_when_changed(request, access, wait, watch, &read).await?;
    // The session was granted its lock while the client was away. Record the session as seen before responding.
    let own = shown.state.session.user.id == access.caller.person.id;
    if let (Some(key), true) = (&shown.state.environment, own && shown.state.session.is_unseen()) {
        environments.seen(key, id).await?;
        shown = read()?;
    }
    let SessionFound { environment, session, waiting } = &shown.state;
    answer::tagged(request.headers(), &shown.etag, || {
        let name = environment.as_ref().map(|key| key.name.as_str());
        Ok(answer::ok(SessionView::new(name, session, *waiting)))
    })
}

/// The `ETag` of a session. Excludes the position in the queue, which changes with every other session.
fn etag(session: &Session) -> String {
    format!("\"{}\"", session.revision)
}

/// Deploys a commit. A retry gets the stored response, from when the deployment was accepted.
pub async fn deploy(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let body = read_body(&mut call, &mut access).await?;
    let pending = match idempotent::check_key(&call.request, &access, body.bytes()) {
        Err(EarlyReturn::Replay(kept)) => {
            let form: DeployForm = body.form()?;
            return deployments::deployed_before(&call.request, &access, kept, duration(form.wait_seconds)).await;
        }
        checked => checked?,
    };
    let DeployForm { commit_id: commit, wait_seconds, fencing_token } = body.form()?;
    let (wait, fencing_token) = (duration(wait_seconds), fencing_token.map(Integer::u64));
    let session = session_id(&call)?.into();
    let by = access.caller.person.clone();
    let deploy = Deploy { session, by, seed: entropy::id_seed(), commit, fencing_token };
    let render = {
        let key = key.clone();
        move |record: &DeploymentRecord| {
            let finished = !wait.is_zero() && record.deployment.status.is_finished();
            deployments::render(if finished { StatusCode::OK } else { StatusCode::ACCEPTED }, &key, record)
        }
    };
    let record = access.environments().ask_keyed(&key, deploy, keyed(pending, render.clone())).await?;
    let record = deployments::finished_within(&call.request, &access, record, wait).await?;
    Ok(idempotent::response(render(&record)))
}

pub async fn heartbeat(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    let (HeartbeatForm { fencing_token }, pending) = begin(&mut call, &mut access).await?;
    let session = session_id(&call)?.into();
    let by = access.caller.person.clone();
    let heartbeat = Heartbeat { session, by, fencing_token: fencing_token.map(Integer::u64) };
    let render = {
        let name = key.name.clone();
        move |session: &Arc<Session>| {
            idempotent::answer(StatusCode::OK, None, SessionView::new(Some(name.as_str()), session, None))
        }
    };
    let session = access.environments().ask_keyed(&key, heartbeat, keyed(pending, render.clone())).await?;
    Ok(idempotent::response(render(&session)))
}

pub async fn release(call: Call) -> Answered {
    let access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let session = release_in(&access, &key, session_id(&call)?).await?;
    Ok(answer::ok(SessionView::new(Some(key.name.as_str()), &session, None)))
}

/// Leaves the queue for any environment, or releases the environment granted in the meantime.
pub async fn release_any(call: Call) -> Answered {
    let access = Access::to(&call, Permission::UseEnvironments)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let id = session_id(&call)?;
    let environments = access.environments();
    let any = access.may(Permission::ReleaseAnySession);
    let left = environments.leave_pool(&pipeline, id, &access.caller.person, any).await?;
    let found = left.ok_or_else(queued_session_not_found)?;
    let Some(key) = found.environment else {
        // The session has left the queue, now or earlier; leaving again succeeds.
        return Ok(answer::ok(SessionView::new(None, &found.session, None)));
    };
    let session = release_in(&access, &key, id).await?;
    Ok(answer::ok(SessionView::new(Some(key.name.as_str()), &session, None)))
}

/// Releases the caller's session that holds the environment, for clients that do not keep its id. A maintainer can
/// release anyone's.
pub async fn release_lock(call: Call) -> Answered {
    let access = Access::to(&call, Permission::UseEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let release = ReleaseLock { by: access.caller.person.clone(), any: access.may(Permission::ReleaseAnySession) };
    let session = access.environments().ask(&key, release).await?;
    Ok(answer::ok(SessionView::new(Some(key.name.as_str()), &session, None)))
}

async fn release_in(access: &Access, key: &EnvironmentKey, session: SessionId) -> Result<Arc<Session>, Problem> {
    let any = access.may(Permission::ReleaseAnySession);
    let release = Release { session: session.into(), by: access.caller.person.clone(), any };
    Ok(access.environments().ask(key, release).await?)
}

fn session_answer<T: Serialize>(status: StatusCode, key: &EnvironmentKey, session: SessionId, view: T) -> StoredAnswer {
    let subject = Subject::Session { environment: key.clone(), session };
    let location = environments::url(key, ["/sessions/", &session.text()]);
    idempotent::answer_about(subject, status, location, view)
}

/// The target of a claim: one environment, or any.
#[derive(Clone)]
struct ClaimTarget {
    pipeline: PipelineKey,
    environment: Option<Identifier>,
}

impl ClaimTarget {
    fn keyed(&self, pending: Option<Pending>) -> Option<Keyed<ClaimOutcome>> {
        let place = self.clone();
        keyed(pending, move |outcome| place.render(outcome))
    }

    fn render(&self, outcome: &ClaimOutcome) -> StoredAnswer {
        match outcome {
            ClaimOutcome::Granted { environment, session } => {
                let view = SessionView::new(Some(environment.name.as_str()), session, None);
                session_answer(StatusCode::CREATED, environment, session.id, view)
            }
            ClaimOutcome::Queued { session, position, holder_never_expires } => {
                let name = self.environment.as_ref().map(Identifier::as_str);
                let until = session.created_at.plus(ASK_WITHIN_MILLIS);
                let (position, holder_never_expires) = (*position, *holder_never_expires);
                let view = SessionView::new(name, session, Some(Waiting { position, until, holder_never_expires }));
                match &self.environment {
                    Some(name) => {
                        let key = EnvironmentKey { pipeline: self.pipeline.clone(), name: name.clone() };
                        session_answer(StatusCode::ACCEPTED, &key, session.id, view)
                    }
                    None => {
                        let PipelineKey { organization, pipeline } = &self.pipeline;
                        let location = format!(
                            "/api/v1/organizations/{organization}/pipelines/{pipeline}/sessions/{}",
                            session.id
                        );
                        idempotent::answer(StatusCode::ACCEPTED, Some(location), view)
                    }
                }
            }
        }
    }
}

/// A client that retries learns its session from the response, so it is recorded as seen before responding.
async fn begin<T: Form>(call: &mut Call, access: &mut Access) -> Result<(T, Option<Pending>), EarlyReturn> {
    let begun = idempotent::begin(call, access).await;
    if let Err(EarlyReturn::Replay(answer)) = &begun
        && let Some(Subject::Session { environment, session }) = &answer.subject
    {
        match access.realm.environments.seen(environment, *session).await {
            // The session is gone by now; the stored response is still returned.
            Ok(()) | Err(Failure::Rejected(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    begun
}

/// The parsed claim, and how long it waits if the lock is taken.
fn read_claim(access: &Access, form: ClaimForm) -> Result<(ClaimRequest, WaitPolicy), Problem> {
    let ClaimForm { request, wait_seconds, queue, priority } = form;
    if priority > Priority::default() && !access.may(Permission::RaisePriority) {
        return Err(refusals::priority_too_high(&access.caller));
    }
    let request = read_request(access, request, priority);
    Ok((request, WaitPolicy { wait: duration(wait_seconds), queue }))
}

fn read_request(access: &Access, form: ForceClaimForm, priority: Priority) -> ClaimRequest {
    let ForceClaimForm { commit_id, context, ttl_seconds } = form;
    ClaimRequest {
        user: access.caller.person.clone(),
        commit: commit_id,
        context,
        ttl_seconds: ttl_seconds.map(Integer::u32),
        priority,
    }
}

fn session_id(call: &Call) -> Result<SessionId, Problem> {
    call.id("sessionId", Code::SessionNotFound)
}

fn queued_session_not_found() -> Problem {
    Problem::new(
        Code::SessionNotFound,
        "the pipeline has no such queued session, or has dropped it; sessions that were never queued are found under \
         their environment",
    )
}

fn duration(wait_seconds: Option<WaitSeconds>) -> Duration {
    Duration::from_secs(wait_seconds.map_or(0, WaitSeconds::u64))
}

/// The listed statuses; all other sessions have ended.
pub const LISTED: [SessionStatus; 2] = [SessionStatus::Active, SessionStatus::Queued];

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let mine = query.flag("mine");
    let filter = SessionFilter {
        status: query.choice("lockStatus", &LISTED, SessionStatus::as_str),
        pipeline: query.text("pipelineId", Identifier::parse),
        environment: query.text("envName", Identifier::parse),
        user: mine.then_some(access.caller.person.id),
        user_named: query.one("user"),
    };
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (environments, organization) = (access.realm.environments.clone(), access.caller.organization.clone());
    environments.learn_sessions(&organization, |learn| access.read_list(learn)).await?;
    let reader = environments.clone();
    let read = move || reader.sessions(&organization, &filter, slice.offset, slice.limit);
    let SessionList { page, durable_at } = access.read_list(read).await?;
    environments.shown_durably(durable_at).await?;
    let views = page.items.iter().map(SessionListItem::new).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}
