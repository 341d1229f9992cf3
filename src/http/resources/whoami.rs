//! Who the caller is, for clients that have nothing but a token.

use actix_web::http::StatusCode;

use crate::auth::Permission;
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::CallerView;
use crate::http::paging::Query;

pub async fn view(call: Call) -> Answered {
    let access = Access::to_own_organization(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let identity = access.identity().await?;
    let organization = &identity.member.organization;
    let name = access.realm.organization_names.get(organization).map_or(organization.as_str(), String::as_str);
    Ok(answer::one(StatusCode::OK, CallerView::new(name, &identity)))
}
