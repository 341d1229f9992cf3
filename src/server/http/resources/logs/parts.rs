//! In a cluster: the parts of a log that other nodes wrote.

use actix_web::http::StatusCode;

use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::front::Front;
use crate::http::paging::{PLACE_MAX, Query};
use crate::http::problem::Problem;
use crate::http::refusals;
use crate::http::response::Response;
use delivery::archive::{PART_BYTES_MAX, Unavailable};
use delivery::logs::LogId;
use domain::{DeploymentId, Identifier};
use store::StoreError;

/// A node that has died is back after a minute, if at all.
const RETRIED_AFTER_SECONDS: u64 = 60;

/// The parts of a log, as far as they are here.
pub fn log(access: &Access, id: DeploymentId) -> Result<LogId, Problem> {
    let organization = &access.caller.organization;
    let parts = access.realm.environments.log_parts(organization, id)?;
    Ok(LogId::of(organization, id, parts.iter().map(|part| part.number)))
}

/// The same when all of them are here.
pub async fn brought(access: &Access, id: DeploymentId) -> Result<LogId, Problem> {
    let organization = &access.caller.organization;
    let parts = access.realm.environments.log_parts(organization, id)?;
    let brought = access.node.archive.bring(organization, id, &parts).await;
    // It may have taken a while.
    access.check_again()?;
    brought.map_err(|unavailable| match unavailable {
        Unavailable::Busy(_) => Problem::overloaded(&unavailable.to_string()),
        Unavailable::Node { .. } | Unavailable::Store { .. } | Unavailable::NoRoom => {
            Problem::new(Code::LogUnavailable, unavailable.to_string()).retry_after(RETRIED_AFTER_SECONDS)
        }
        Unavailable::Disk(error) => Problem::internal(error),
    })
}

/// A piece of a part that this node has, for the owner of its shard, which has authorised its reader; 204 if it is not here.
pub async fn part(call: Call<Front>) -> Answered {
    let unknown = || refusals::route_not_found(call.request.path());
    let organization = Identifier::parse(call.segment("organization")).map_err(|_| unknown())?;
    let deployment: DeploymentId = call.segment("deployment").parse().map_err(|_| unknown())?;
    let number = call.segment("part").parse().map_err(|_| unknown())?;
    let mut parameters = Query::of(&call.request);
    let from = parameters.number("from", 0, PLACE_MAX).unwrap_or(0);
    parameters.finish()?;
    let logs = call.app.node.logs.clone();
    let file = logs.file(&organization, deployment, number);
    let read = move || logs.bytes(&file, from, PART_BYTES_MAX).map_err(|error| StoreError::Read(error.to_string()));
    Ok(match call.app.node.log_reads.read(&organization, None, read).await? {
        Some(bytes) => Response::ok("application/octet-stream").body(bytes),
        None => Response::new(StatusCode::NO_CONTENT),
    })
}
