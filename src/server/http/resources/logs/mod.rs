//! The log of a deployment: whole, by page, or followed while it is written; as text or as JSON lines. Uses bounded memory,
//! whatever the log's length and the client's speed.

mod parts;
mod source;

pub use parts::part;
pub use source::{Format, LINES_MAX, LineView};

use std::pin::pin;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::sync::watch;

use super::deployments::{deployment_id, find};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::clients::{Waited, while_connected};
use crate::http::paging::{self, Query};
use crate::http::problem::Problem;
use crate::http::request::Request;
use crate::http::response::Response;
use crate::http::streaming::bare;
use accounts::auth::Permission;
use domain::DeploymentId;
use locks::Watch;
use shares::Place;
use source::{LogQuery, LogSource};

/// The header with the offset of the next page, as the OpenAPI document writes it.
pub const NEXT_OFFSET: &str = "Lockkeeper-Next-Offset";
const NEXT_OFFSET_HEADER: HeaderName = HeaderName::from_static("lockkeeper-next-offset");

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let id = deployment_id(&call)?;
    let mut parameters = Query::of(&call.request);
    let query = LogQuery::take(&mut parameters);
    parameters.finish()?;
    find(&access, id)?;
    let log = parts::brought(&access, id).await?;
    let source = LogSource::new(access.node.logs.clone(), log, query);
    let response =
        if source.query.follow { follow(&call, access, source)? } else { page(&call, access, source).await? };
    Ok(response)
}

/// The log so far, or a page of it.
async fn page(call: &Call, access: Access, source: LogSource) -> Answered {
    let (mut source, end) = source.with_end(&access).await?;
    source.until = end.next;
    let response = answer(&source.query).with(NEXT_OFFSET_HEADER, end.next.to_string());
    let limit = source.query.limit;
    let pieces = stream::try_unfold((access, source), |(access, source)| async move {
        let (source, piece) = source.next_piece(&access).await?;
        // A long log takes time. An answer that is cut off is not mistaken for a whole one.
        access.check_again()?;
        Ok::<_, Problem>((!piece.is_empty()).then_some((piece, (access, source))))
    });
    let response = match *call.request.method() {
        Method::HEAD => bare(response),
        _ => response.streaming(pieces),
    };
    Ok(match limit.filter(|_| end.more) {
        Some(limit) => paging::linked_to_next(&call.request, limit, end.next, response),
        None => response,
    })
}

/// The log so far, and what is added until the deployment finishes, the client disconnects or loses its access, or the
/// server stops.
fn follow(call: &Call, access: Access, source: LogSource) -> Answered {
    let response = answer(&source.query);
    if call.request.method() == Method::HEAD {
        return Ok(bare(response));
    }
    let holder = Some(access.caller.holder());
    let place = access.node.log_followers.try_acquire_for(&access.caller.organization, holder).map_err(|refused| {
        Problem::overloaded(&format!(
            "too many clients follow a log: {refused}; close some, or read the log without `follow`"
        ))
    })?;
    let held = access.hold_connection()?;
    let follower = Follower {
        request: call.request.clone(),
        id: source.log.deployment,
        // Both watch from before the first read, so that nothing is missed.
        written: access.node.logs.watch(source.log.deployment),
        changes: access.realm.environments.watch_deployment(source.log.deployment),
        access,
        source: Some(source),
        has_finished: false,
        _place: place,
        _held: held,
    };
    let pieces = stream::try_unfold(follower, |mut follower| async move {
        let (request, access) = (follower.request.clone(), follower.access.clone());
        let waited = while_connected(&request, &access, true, pin!(follower.next_piece())).await;
        match waited {
            Waited::There(piece) => Ok(piece?.map(|piece| (piece, follower))),
            Waited::TooLate(_) | Waited::Gone | Waited::Revoked(..) => Ok::<_, Problem>(None),
        }
    });
    Ok(response.streaming(pieces))
}

fn answer(query: &LogQuery) -> Response {
    Response::ok(match query.format {
        Format::Text => "text/plain; charset=utf-8",
        Format::Json => "application/x-ndjson",
    })
}

/// A client that reads a log while it is written.
struct Follower {
    access: Access,
    request: Request,
    id: DeploymentId,
    /// `None` while a piece is being read.
    source: Option<LogSource>,
    written: watch::Receiver<u64>,
    changes: Watch,
    /// Set before the last read of the log, after which nothing is added.
    has_finished: bool,
    _place: Place,
    _held: Option<Place>,
}

impl Follower {
    /// `None` at the end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        while let Some(mut source) = self.source.take() {
            // Another part may have been begun.
            source.log = parts::log(&self.access, self.id)?;
            let (source, piece) = source.next_piece(&self.access).await?;
            if !piece.is_empty() {
                self.source = Some(source);
                return Ok(Some(piece));
            }
            if source.left == 0 || self.has_finished || !self.wait().await? {
                break;
            }
            self.source = Some(source);
        }
        Ok(None)
    }

    /// Until there may be more to read; false if the server stops.
    async fn wait(&mut self) -> Result<bool, Problem> {
        let environments = &self.access.realm.environments;
        let found = environments.deployment(&self.access.caller.organization, self.id)?;
        self.has_finished = found.is_none_or(|found| found.record.deployment.status.is_finished());
        if self.has_finished {
            return Ok(true);
        }
        tokio::select! {
            _ = self.written.changed() => Ok(true),
            () = self.changes.changed() => Ok(true),
            () = environments.closed() => Ok(false),
        }
    }
}
