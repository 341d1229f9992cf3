//! Members of an organization: list, view, add, promote or demote, disable or enable, remove, and invite, which creates
//! a link for choosing a password, also to replace a lost one. And the caller's identity, for clients that have only a
//! token or a sign-in.

use std::sync::Arc;

use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::forms::{Clearable, MemberForm, form};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::dto::written::{self, Named};
use crate::http::dto::{Time, Written};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::{done_in_task, done_within, read_within};
use crate::http::own_page::Origin;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::refusals;
use accounts::auth::{Identity, Member, MemberEntry, MemberUpdate, NewMember, Permission};
use domain::{Email, Identifier, Role, Timestamp, UserId};
use events::Cause;
use http1::Response;
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
        /// True: their tokens are refused at once, and their sign-ins end. Nothing is deleted: false brings the tokens
        /// back.
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

/// The member in the path. Text that is not an id counts as not found.
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

form! {
    /// Empty: the path names the member.
    #[schema("examples": [{}])]
    pub struct InvitationForm as "InvitationRequest" {}
}

pub async fn invite(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let InvitationForm {} = body.form()?;
    let user = call.segment("userId").parse().map_err(|_| refusals::member_not_found())?;
    let origin = Origin::of(&call)?;
    let base = origin.link()?;
    let now = (access.realm.clock)();
    // The link is not stored, so a retry does not get it.
    let keep = idempotent::keep(pending, move || now, |expires_at: &Timestamp| kept(None, *expires_at));
    let (realm, initiator) = (access.realm.clone(), access.initiator());
    let organization = access.caller.organization.clone();
    let inviting = async move { realm.accounts.invite(&organization, user, Cause::by(&initiator, now), keep).await };
    let open = done_in_task::<_, _>(access.node.answer_timeout, "invite them again", inviting).await?;
    tracing::info!(member = %user, by = %access.caller.person.name, "member invited");
    // In the fragment, which browsers do not send and proxies do not log.
    let url = format!("{}/invitation#{}", base, open.text.reveal());
    Ok(idempotent::response(kept(Some(&url), open.expires_at)))
}

fn kept(url: Option<&str>, expires_at: Timestamp) -> StoredAnswer {
    idempotent::answer(StatusCode::CREATED, None, InvitationView::new(url, expires_at))
}

pub async fn who_am_i(call: Call) -> Answered {
    let access = Access::to_own_organization(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let identity = access.identity().await?;
    let name = access.realm.organization_name(&identity.member.organization);
    Ok(answer::one(StatusCode::OK, CallerView::new(&name, &identity)))
}

/// A member of the organization.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub struct MemberView<'a> {
    user_id: written::UserId,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
    role: written::Role,
    /// Where to reach them; null if unknown.
    #[schema(example = "ana@acme.example")]
    email: Option<&'a str>,
    /// Whether their tokens are refused and they cannot sign in, until an admin enables them again.
    #[schema(example = false)]
    disabled: bool,
    /// Since when.
    created_at: Time,
    /// The number of their tokens.
    #[schema(example = 2)]
    token_count: usize,
    /// Whether they can sign in with a password.
    #[schema(example = true)]
    has_password: bool,
    /// When they last signed in with a browser; null: never.
    last_sign_in_at: Option<Time>,
}

impl<'a> From<&'a MemberEntry> for MemberView<'a> {
    fn from(entry: &'a MemberEntry) -> Self {
        let MemberEntry { member, tokens, has_password, last_sign_in_at } = entry;
        Self {
            user_id: Written(member.id),
            name: member.name.as_str(),
            role: Named(member.role),
            email: email_of(member),
            disabled: member.disabled,
            created_at: Time(member.created_at),
            token_count: *tokens,
            has_password: *has_password,
            last_sign_in_at: last_sign_in_at.map(Time),
        }
    }
}

fn email_of(member: &Member) -> Option<&str> {
    member.email.as_ref().map(Email::as_str)
}

/// A new invitation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invitation)]
pub struct InvitationView<'a> {
    /// A page on which the member chooses a password, once. It is not shown again: a retry with the same
    /// `Idempotency-Key` gets null.
    #[schema(example = "https://lock.example/invitation#lki_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
    url: Option<&'a str>,
    /// When it stops working.
    expires_at: Time,
}

impl<'a> InvitationView<'a> {
    pub fn new(url: Option<&'a str>, expires_at: Timestamp) -> Self {
        Self { url, expires_at: Time(expires_at) }
    }
}

/// Who sends a request, by its token or its sign-in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Caller)]
pub struct CallerView<'a> {
    /// The one organization that the token gives access to.
    organization: CallerOrganization<'a>,
    /// The member whose permissions the token has.
    user: CallerUser<'a>,
    /// The member's role now.
    role: written::Role,
    /// The token; null for a browser that has signed in.
    token: Option<CallerToken<'a>>,
}

/// The organization of a caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallerOrganization<'a> {
    /// As in the paths of the API.
    #[schema(example = "acme")]
    id: &'a str,
    /// For people.
    #[schema(example = "Acme")]
    name: &'a str,
}

/// The member behind a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerUser<'a> {
    user_id: written::UserId,
    /// The member's name.
    #[schema(example = "ana")]
    name: &'a str,
    /// Null if none is known.
    #[schema(example = "ana@acme.example")]
    email: Option<&'a str>,
}

/// The token of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerToken<'a> {
    /// As in the list of tokens, where those of jobs are not listed.
    token_id: written::TokenId,
    /// What it was called when it was created; for a job, its subject in the words of its CI.
    #[schema(example = "ci")]
    name: &'a str,
    /// When it stops working; null if it does not expire.
    #[schema(example = "2027-01-31T00:00:00.000Z")]
    expires_at: Option<Time>,
}

impl<'a> CallerOrganization<'a> {
    pub fn new(id: &'a str, name: &'a str) -> Self {
        Self { id, name }
    }
}

impl<'a> CallerView<'a> {
    pub fn new(organization_name: &'a str, identity: &'a Identity) -> Self {
        let Identity { member, token } = identity;
        Self {
            organization: CallerOrganization::new(member.organization.as_str(), organization_name),
            user: CallerUser { user_id: Written(member.id), name: member.name.as_str(), email: email_of(member) },
            role: Named(member.role),
            token: (!token.is_sign_in()).then(|| CallerToken {
                token_id: Written(token.id),
                name: &token.name,
                expires_at: token.expires_at.map(Time),
            }),
        }
    }
}
