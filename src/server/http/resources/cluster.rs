//! The nodes of a cluster and the shards that they own, for the admins of its organizations.

use actix_web::http::StatusCode;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::ClusterView;
use crate::http::paging::Query;
use accounts::auth::Permission;

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::SeeCluster)?;
    Query::of(&call.request).finish()?;
    let view = match access.node.cluster.get() {
        Some(cluster) => ClusterView::new(&cluster.overview(), cluster.number_of(access.caller.organization.as_str())),
        None => ClusterView::one_machine(),
    };
    Ok(answer::one(StatusCode::OK, view))
}
