//! Approvals: list, view, approve, reject.

use actix_web::http::StatusCode;

use crate::forms::{Form, form};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::dto::{Named, Time, UserView, Written, view, written};
use crate::http::idempotent;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::refusals;
use accounts::auth::Permission;
use domain::{
    ApprovalId, ApprovalRecord, ApprovalStatus, Context, DecideApproval, DeploymentId, EnvironmentKey, Identifier,
    Rejection, Verdict,
};
use locks::{ApprovalFilter, ApprovalFound, Failure};

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = ApprovalFilter {
        status: query.text("status", ApprovalStatus::parse),
        pipeline: query.text("pipelineId", Identifier::parse),
        environment: query.text("envName", Identifier::parse),
        deployment: query.text("deploymentId", str::parse::<DeploymentId>),
    };
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (environments, organization) = (access.realm.environments.clone(), access.caller.organization.clone());
    let read = move || environments.approvals(&organization, &filter, slice.offset, slice.limit);
    let page = access.read_list(read).await?;
    let views = page.items.iter().map(|found| ApprovalView::new(&found.environment, &found.record)).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let id = call.id("approvalId", Code::ApprovalNotFound)?;
    Query::of(&call.request).finish()?;
    let found = find(&access, id)?;
    Ok(answer::ok(ApprovalView::new(&found.environment, &found.record)))
}

form! {
    /// The approval of a stage. May be empty.
    #[schema("examples": [{ "comment": "looks good" }])]
    pub struct ApproveForm as "ApproveRequest" {
        /// A comment, for others who look at the deployment.
        #[schema("examples": ["looks good"])]
        nullable comment: Context,
    }
}

form! {
    /// The rejection of a stage. May be empty.
    #[schema("examples": [{ "reason": "not before the weekend" }])]
    pub struct RejectForm as "RejectRequest" {
        /// The reason, for others who look at the deployment.
        #[schema("examples": ["not before the weekend"])]
        nullable reason: Context,
    }
}

pub async fn approve(call: Call) -> Answered {
    decide(call, Verdict::Approve, |ApproveForm { comment }| comment).await
}

pub async fn reject(call: Call) -> Answered {
    decide(call, Verdict::Reject, |RejectForm { reason }| reason).await
}

async fn decide<T: Form>(mut call: Call, verdict: Verdict, comment_of: fn(T) -> Option<Context>) -> Answered {
    let mut access = Access::to(&call, Permission::Approve)?;
    let (form, pending) = idempotent::begin(&mut call, &mut access).await?;
    let comment = comment_of(form).filter(|comment| !comment.as_str().is_empty());
    let id = call.id("approvalId", Code::ApprovalNotFound)?;
    let ApprovalFound { environment: key, record } = find(&access, id)?;
    let by = access.caller.person.clone();
    let comment = comment.map(|comment| comment.shared());
    let decide = DecideApproval { approval: id, deployment: record.deployment, verdict, by, comment };
    let render = {
        let key = key.clone();
        move |record: &ApprovalRecord| idempotent::answer(StatusCode::OK, None, ApprovalView::new(&key, record))
    };
    let keyed = idempotent::keyed(pending, render.clone());
    let decided = match access.environments().ask_keyed(&key, decide, keyed).await {
        Err(Failure::Rejected(Rejection::ApprovalNotPending { .. })) => decided_before(&access, id, verdict)?,
        decided => decided?,
    };
    Ok(idempotent::response(render(&decided)))
}

/// Repeating a decision succeeds for the same member; any other decision is refused, with a description of the first.
fn decided_before(access: &Access, id: ApprovalId, verdict: Verdict) -> Result<ApprovalRecord, Problem> {
    let ApprovalFound { record, .. } = find(access, id)?;
    let same = record.approval.status == outcome_of(verdict);
    let own = record.approval.decided_by.as_ref().is_some_and(|by| by.id == access.caller.person.id);
    if same && own { Ok(record) } else { Err(refusals::approval_not_pending(&record)) }
}

fn outcome_of(verdict: Verdict) -> ApprovalStatus {
    match verdict {
        Verdict::Approve => ApprovalStatus::Approved,
        Verdict::Reject => ApprovalStatus::Rejected,
    }
}

fn find(access: &Access, id: ApprovalId) -> Result<ApprovalFound, Problem> {
    Ok(access.realm.environments.approval(&access.caller.organization, id)?.ok_or(Code::ApprovalNotFound)?)
}

view! {
    /// An approval that a stage needs before it starts.
    pub struct ApprovalView<'a> as Approval of (key: &'a EnvironmentKey, record: &'a ApprovalRecord)
    let approval = &record.approval;
    {
        approval_id: written::ApprovalId = Written(approval.id),
        status: written::ApprovalStatus = Named(approval.status),
        deployment_id: written::DeploymentId = Written(record.deployment),
        /// The deployment's pipeline.
        #[schema(example = "shop")]
        pipeline_id: &'a str = key.pipeline.pipeline.as_str(),
        /// The deployment's environment.
        #[schema(example = "staging-1")]
        env_name: &'a str = key.name.as_str(),
        /// The session; null for the reset of an environment after a release.
        session_id: Option<written::SessionId> = record.session.map(Written),
        /// The commit to be deployed.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = record.commit.as_str(),
        /// The stage to start.
        #[schema(example = "deploy")]
        stage: &'a str = record.stage.as_str(),
        /// The number of the stage's attempt, from 1.
        #[schema(example = 1)]
        attempt: u32 = record.attempt,
        /// When the stage was ready to start.
        requested_at: Time = Time(approval.requested_at),
        /// The member who requested the deployment.
        requested_by: Option<UserView<'a>> = record.requested_by.as_ref().map(UserView::new),
        /// When the approval was decided or cancelled.
        decided_at: Option<Time> = approval.decided_at.map(Time),
        /// The member who decided, or null.
        decided_by: Option<UserView<'a>> = approval.decided_by.as_ref().map(UserView::new),
        /// The comment of an approval, or the reason of a rejection.
        #[schema(example = "looks good")]
        comment: Option<&'a str> = approval.comment.as_deref(),
    }
}
