//! Invitations, as an admin makes them: a link with which a member chooses a password, also instead of a lost one.

use actix_web::http::StatusCode;

use crate::forms::form;
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::InvitationView;
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::done_in_task;
use crate::http::own_page::Origin;
use crate::http::refusals;
use accounts::auth::Permission;
use domain::Timestamp;
use events::Cause;
use locks::idempotency::StoredAnswer;

form! {
    /// Empty: the path names the member.
    #[schema("examples": [{}])]
    pub struct InvitationForm as "InvitationRequest" {}
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageMembers)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let InvitationForm {} = body.form()?;
    let user = call.segment("userId").parse().map_err(|_| refusals::member_not_found())?;
    let origin = Origin::of(&call)?;
    let base = origin.link()?;
    let now = (access.realm.clock)();
    // The link is stored nowhere, so a retry gets none.
    let keep = idempotent::keep(pending, move || now, |expires_at: &Timestamp| kept(None, *expires_at));
    let (realm, initiator) = (access.realm.clone(), access.initiator());
    let organization = access.caller.organization.clone();
    let inviting = async move { realm.accounts.invite(&organization, user, Cause::by(&initiator, now), keep).await };
    let open = done_in_task::<_, _>(access.node.answer_timeout, "invite them again", inviting).await?;
    tracing::info!(member = %user, by = %access.caller.person.name, "member invited");
    // Behind the `#`, so that no browser sends it to a server, and no proxy logs it.
    let url = format!("{}/invitation#{}", base, open.text.reveal());
    Ok(idempotent::response(kept(Some(&url), open.expires_at)))
}

fn kept(url: Option<&str>, expires_at: Timestamp) -> StoredAnswer {
    idempotent::answer(StatusCode::CREATED, None, InvitationView::new(url, expires_at))
}
