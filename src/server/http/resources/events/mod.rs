//! Events: listed, viewed, and streamed.

mod filter;
mod stream;

pub use stream::{LAST_EVENT_ID, START, stream};

use actix_web::http::StatusCode;

use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::EventView;
use crate::http::paging::{self, Query, Slice};
use crate::http::{answer, refusals};
use accounts::auth::Permission;
use events::EventId;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = filter::take(&mut query);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (events, organization) = (access.realm.events.clone(), access.caller.organization.clone());
    let read = move || events.list(&organization, &filter, slice.offset, slice.limit);
    let listed = access.read_list(read).await?;
    Ok(paging::slice(&call.request, slice, listed.total, listed.events.iter().map(EventView::from).collect()))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let id: EventId = call.segment("eventId").parse().map_err(|_| refusals::event_not_found())?;
    let found = access.realm.events.get(&access.caller.organization, id)?;
    let event = found.ok_or_else(refusals::event_not_found)?;
    Ok(answer::one(StatusCode::OK, EventView::from(&event)))
}
