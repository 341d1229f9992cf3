//! Members of an organization: list, view, add, promote or demote, disable or enable, remove, and invite. An invitation
//! creates a link for choosing a password, also to replace a lost one. Also the caller's identity, for clients that
//! have only a token or a sign-in.

use std::sync::Arc;

use actix_web::http::StatusCode;

use crate::forms::{Clearable, MemberForm, form};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::dto::{Named, Time, Written, view, written};
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within, read_within};
use crate::http::own_page::Origin;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use accounts::auth::{Identity, Member, MemberEntry, MemberUpdate, NewMember, Permission, Token};
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
    Ok(paging::part(&call.request, slice, &members, MemberView::new))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let id: UserId = call.id("userId", Code::MemberNotFound)?;
    let members = all(&access).await?;
    let found = members.iter().find(|entry| entry.member.id == id).ok_or(Code::MemberNotFound)?;
    Ok(answer::ok(MemberView::new(found)))
}

form! {
    /// A change of a member; fields that are left out stay unchanged.
    #[schema("examples": [{ "role": "maintainer" }])]
    pub struct MemberChangeForm as "MemberChangeRequest" {
        /// The member's new role.
        optional role: Role,
        /// The member's address, for people; null removes it.
        optional email: Clearable<Email>,
        /// True: the member's tokens are refused immediately, and their sign-ins end. Nothing is deleted: with false,
        /// the tokens work again.
        optional disabled: bool,
    }
    any_of [role, email, disabled];
}

pub async fn add(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    let (MemberForm { name, role, email }, pending) = idempotent::begin(&mut call, &mut access).await?;
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
    let id = call.id("userId", Code::MemberNotFound)?;
    let MemberChangeForm { role, email, disabled } = read_form(&mut call, &mut access).await?;
    let update = MemberUpdate { role, email: email.map(|Clearable(email)| email), disabled };
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let changing = access.realm.accounts.change_member(&access.caller.organization, id, update, cause);
    let entry = done_within(access.node.answer_timeout, LOOK, changing).await?;
    log_change(&access, &entry.member, "member changed");
    Ok(answer::ok(MemberView::new(&entry)))
}

pub async fn remove(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageMembers)?;
    Query::of(&call.request).finish()?;
    let id = call.id("userId", Code::MemberNotFound)?;
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

/// A new member has no tokens yet.
fn added(member: &Arc<Member>) -> StoredAnswer {
    let location = format!("/api/v1/organizations/{}/members/{}", member.organization, member.id);
    let entry = MemberEntry { member: member.clone(), tokens: 0, has_password: false, last_sign_in_at: None };
    idempotent::answer(StatusCode::CREATED, Some(location), MemberView::new(&entry))
}

fn log_change(access: &Access, member: &Member, what: &str) {
    let by = &access.caller.person.name;
    let disabled = member.disabled;
    tracing::info!(member = %member.id, name = %member.name, role = %member.role, disabled, %by, "{what}");
}

form! {
    /// An invitation. Empty: the path names the member.
    #[schema("examples": [{}])]
    pub struct InvitationForm as "InvitationRequest" {}
}

pub async fn invite(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    let (InvitationForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let user = call.id("userId", Code::MemberNotFound)?;
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
    // The text is in the fragment, which browsers do not send and proxies do not log.
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
    Ok(answer::ok(CallerView::new(&name, &identity)))
}

view! {
    /// A member of the organization.
    pub struct MemberView<'a> as Member of (entry: &'a MemberEntry)
    let MemberEntry { member, tokens, has_password, last_sign_in_at } = entry;
    {
        user_id: written::UserId = Written(member.id),
        /// The member's name, unique in the organization.
        #[schema(example = "ana")]
        name: &'a str = member.name.as_str(),
        role: written::Role = Named(member.role),
        /// The member's address; null if unknown.
        #[schema(example = "ana@acme.example")]
        email: Option<&'a str> = member.email.as_ref().map(Email::as_str),
        /// Whether the member's tokens are refused and they cannot sign in, until an admin enables them again.
        #[schema(example = false)]
        disabled: bool = member.disabled,
        /// When the member was added.
        created_at: Time = Time(member.created_at),
        /// The number of the member's tokens.
        #[schema(example = 2)]
        token_count: usize = *tokens,
        /// Whether the member can sign in with a password.
        #[schema(example = true)]
        has_password: bool = *has_password,
        /// When the member last signed in with a browser; null: never.
        last_sign_in_at: Option<Time> = last_sign_in_at.map(Time),
    }
}

view! {
    /// A new invitation.
    pub struct InvitationView<'a> as Invitation of (url: Option<&'a str>, expires_at: Timestamp) {
        /// A page on which the member can choose a password once. Shown only once: a retry with the same
        /// `Idempotency-Key` gets null.
        #[schema(example = "https://lock.example/invitation#lki_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
        url: Option<&'a str>,
        /// When the invitation expires.
        expires_at: Time = Time(expires_at),
    }
}

view! {
    /// The member behind the token or sign-in of a request.
    pub struct CallerView<'a> as Caller of (organization_name: &'a str, identity: &'a Identity)
    let Identity { member, token } = identity;
    {
        /// The one organization that the token gives access to.
        organization: CallerOrganization<'a> = CallerOrganization::new(member.organization.as_str(), organization_name),
        /// The member whose permissions the token has.
        user: CallerUser<'a> = CallerUser::new(member),
        /// The member's current role.
        role: written::Role = Named(member.role),
        /// The token; null for a browser that has signed in.
        token: Option<CallerToken<'a>> = (!token.is_sign_in()).then(|| CallerToken::new(token)),
    }
}

view! {
    /// The organization of a caller.
    pub struct CallerOrganization<'a> of (id: &'a str, name: &'a str) {
        /// The id, as in the paths of the API.
        #[schema(example = "acme")]
        id: &'a str,
        /// The name for people.
        #[schema(example = "Acme")]
        name: &'a str,
    }
}

view! {
    /// The member behind a caller.
    pub struct CallerUser<'a> of (member: &'a Member) {
        user_id: written::UserId = Written(member.id),
        /// The member's name.
        #[schema(example = "ana")]
        name: &'a str = member.name.as_str(),
        /// The member's address; null if unknown.
        #[schema(example = "ana@acme.example")]
        email: Option<&'a str> = member.email.as_ref().map(Email::as_str),
    }
}

view! {
    /// The token of a caller.
    pub struct CallerToken<'a> of (token: &'a Token) {
        /// The token's id, as in the list of tokens, which does not contain tokens of jobs.
        token_id: written::TokenId = Written(token.id),
        /// The token's name; for a job, its subject as its CI names it.
        #[schema(example = "ci")]
        name: &'a str = &token.name,
        /// When the token expires; null if it does not.
        #[schema(example = "2027-01-31T00:00:00.000Z")]
        expires_at: Option<Time> = token.expires_at.map(Time),
    }
}
