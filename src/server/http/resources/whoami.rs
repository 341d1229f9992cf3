//! Who the caller is, for clients that have nothing but a token or a sign-in.

use actix_web::http::StatusCode;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::CallerView;
use crate::http::paging::Query;
use accounts::auth::Permission;

pub async fn view(call: Call) -> Answered {
    let access = Access::to_own_organization(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let identity = access.identity().await?;
    let name = access.realm.organization_name(&identity.member.organization);
    Ok(answer::one(StatusCode::OK, CallerView::new(&name, &identity)))
}
