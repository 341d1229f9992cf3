//! What has happened: listed, viewed one by one, and streamed as it happens.

mod hub;
mod stream;
mod wanted;

pub use hub::{Hubs, Pace};
pub use stream::{LAST_EVENT_ID, START, stream};

use actix_web::http::StatusCode;

use super::access::Access;
use super::call::Call;
use super::dto::EventView;
use super::paging::{self, Query, Slice};
use super::routes::Answered;
use super::{answer, refusals};
use crate::auth::Permission;
use crate::events::EventId;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = wanted::take(&mut query);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (events, organization) = (access.realm.events.clone(), access.caller.organization.clone());
    let read = move || events.list(&organization, &filter, slice.offset, slice.limit);
    let listed = access.node.scans.read(read).await?;
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
