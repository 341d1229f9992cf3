//! Approvals: list, view, approve, reject.

use actix_web::http::StatusCode;

use crate::forms::{Form, form};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::ApprovalView;
use crate::http::idempotent::{self, Begun};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::{answer, refusals};
use accounts::auth::Permission;
use domain::{
    ApprovalId, ApprovalRecord, ApprovalStatus, Context, DecideApproval, DeploymentId, Identifier, Rejection, Verdict,
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
    let id = approval_id(&call)?;
    Query::of(&call.request).finish()?;
    let found = find(&access, id)?;
    Ok(answer::one(StatusCode::OK, ApprovalView::new(&found.environment, &found.record)))
}

form! {
    /// A remark on the approval. May be empty.
    #[schema("examples": [{ "comment": "looks good" }])]
    pub struct ApproveForm as "ApproveRequest" {
        /// For others who look at the deployment.
        #[schema("examples": ["looks good"])]
        nullable comment: Context,
    }
}

form! {
    /// Why it is rejected. May be empty.
    #[schema("examples": [{ "reason": "not before the weekend" }])]
    pub struct RejectForm as "RejectRequest" {
        /// For others who look at the deployment.
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
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let comment = comment_of(body.form()?).filter(|comment| !comment.as_str().is_empty());
    let id = approval_id(&call)?;
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

/// The same decision by the same member again is no error; any other is refused with the one that was first.
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

/// The approval in the path. A text that is not an id is not found.
fn approval_id(call: &Call) -> Result<ApprovalId, Problem> {
    call.segment("approvalId").parse().map_err(|_| refusals::approval_not_found())
}

fn find(access: &Access, id: ApprovalId) -> Result<ApprovalFound, Problem> {
    let found = access.realm.environments.approval(&access.caller.organization, id)?;
    found.ok_or_else(refusals::approval_not_found)
}
