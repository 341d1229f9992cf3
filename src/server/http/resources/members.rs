//! Members of an organization: list, view, add, promote or demote, disable or enable, remove.

use std::sync::Arc;

use actix_web::http::StatusCode;

use crate::forms::{Clearable, MemberForm, form};
use crate::http::access::Access;
use crate::http::answer;
use crate::http::answer::Answered;
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::dto::MemberView;
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::{done_in_task, done_within, read_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::refusals;
use crate::http::response::Response;
use accounts::auth::{Member, MemberEntry, MemberUpdate, NewMember, Permission};
use domain::{Email, Identifier, Role, UserId};
use events::Cause;
use locks::idempotency::StoredAnswer;

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "list the members";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let role = query.choice("role", &Role::ALL, Role::as_str);
    let name = query.text("name", Identifier::parse);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let mut members = all(&access).await?;
    members.retain(|entry| role.is_none_or(|role| entry.member.role == role));
    members.retain(|entry| name.as_ref().is_none_or(|name| entry.member.name == *name));
    let shown = slice.part(members.iter());
    Ok(paging::slice(&call.request, slice, members.len() as u64, shown.map(MemberView::from).collect()))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let id = user_id(&call)?;
    let members = all(&access).await?;
    let found = members.iter().find(|entry| entry.member.id == id).ok_or_else(refusals::member_not_found)?;
    Ok(render(found))
}

form! {
    /// What is to change of a member; what is left out stays as it is.
    #[schema("examples": [{ "role": "maintainer" }])]
    pub struct MemberChangeForm as "MemberChangeRequest" {
        /// What the member may do from now on.
        optional role: Role,
        /// Where to reach them, for people; null takes it away.
        optional email: Clearable<Email>,
        /// True: their tokens are refused at once, and their sign-ins end. Nothing is deleted: false brings the tokens back.
        optional disabled: bool,
    }
    any_of [role, email, disabled];
}

pub async fn add(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let MemberForm { name, role, email } = body.form()?;
    let new = NewMember { organization: access.caller.organization.clone(), name, role, email };
    let now = (access.realm.clock)();
    let (realm, initiator) = (access.realm.clone(), access.initiator());
    let keep = idempotent::keep(pending, move || now, |member: &Member| added(&Arc::new(member.clone())));
    let adding = async move { realm.accounts.add_member(new, Cause::by(&initiator, now), keep).await };
    let member = done_in_task(access.node.answer_timeout, LOOK, adding).await?;
    log_change(&access, &member, "member added");
    Ok(idempotent::response(added(&member)))
}

pub async fn change(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    Query::of(&call.request).finish()?;
    let id = user_id(&call)?;
    let MemberChangeForm { role, email, disabled } = read_form(&mut call, &mut access).await?;
    let update = MemberUpdate { role, email: email.map(|Clearable(email)| email), disabled };
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let changing = access.realm.accounts.change_member(&access.caller.organization, id, update, cause);
    let entry = done_within(access.node.answer_timeout, LOOK, changing).await?;
    log_change(&access, &entry.member, "member changed");
    Ok(render(&entry))
}

pub async fn remove(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageMembers)?;
    Query::of(&call.request).finish()?;
    let id = user_id(&call)?;
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let removing = access.realm.accounts.remove_member(&access.caller.organization, id, cause);
    let member = done_within(access.node.answer_timeout, LOOK, removing).await?;
    log_change(&access, &member, "member removed");
    Ok(Response::no_content())
}

async fn all(access: &Access) -> Result<Vec<MemberEntry>, Problem> {
    let members = access.realm.accounts.members(&access.caller.organization);
    read_within(access.node.answer_timeout, "members", members).await
}

/// The member in the path. A text that is not an id is not found.
fn user_id(call: &Call) -> Result<UserId, Problem> {
    call.segment("userId").parse().map_err(|_| refusals::member_not_found())
}

fn render(entry: &MemberEntry) -> Response {
    answer::one(StatusCode::OK, MemberView::from(entry))
}

/// A new member has no tokens yet.
fn added(member: &Arc<Member>) -> StoredAnswer {
    let location = format!("/api/v1/organizations/{}/members/{}", member.organization, member.id);
    let entry = MemberEntry { member: member.clone(), tokens: 0, has_password: false, last_sign_in_at: None };
    idempotent::answer(StatusCode::CREATED, Some(location), MemberView::from(&entry))
}

fn log_change(access: &Access, member: &Member, what: &str) {
    let by = &access.caller.person.name;
    let disabled = member.disabled;
    tracing::info!(member = %member.id, name = %member.name, role = %member.role, disabled, %by, "{what}");
}
