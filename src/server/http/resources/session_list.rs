//! The sessions of a whole organization that hold or wait.

use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::SessionListItem;
use crate::http::paging::{self, Query, Slice};
use accounts::auth::Permission;
use domain::{Identifier, SessionStatus};
use locks::{SessionFilter, SessionList};

/// The other ones have ended.
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
    let views = page.items.iter().map(SessionListItem::from).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}
