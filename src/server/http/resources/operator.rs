//! The server as a whole: health, readiness, metrics, the OpenAPI document, the meaning of error codes; backups as a
//! stream, for the only organization's admin and for the operator; and the nodes and shards of a cluster.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix_web::body::MessageBody;
use actix_web::http::header::LOCATION;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::backup::{InProgress, MakeError, Taking};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::{Call, Front, Realms};
use crate::http::clients::bare;
use crate::http::codes::Code;
use crate::http::dto::view;
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::state::{NodeSeen, Overview, Realm, ShardSeen};
use accounts::auth::Permission;
use http1::Response;
use store::StoreError;

/// The process answers.
pub async fn healthz(_: Call<Front>) -> Answered {
    Ok(text("application/json", r#"{"status":"alive"}"#))
}

/// Ready: the server accepts writes and is not stopping; in a cluster, every shard has an owner.
pub async fn readyz(call: Call<Front>) -> Answered {
    if call.app.node.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(Code::ShuttingDown, "the server is stopping; use another one").retry_after(1).into());
    }
    let unready: Option<Problem> = match &call.app.realms {
        Realms::Only(realm) => realm.store.refusing_writes().map(Problem::from),
        Realms::Shards(cluster) => cluster.shards.unready().map(Problem::engine_unavailable),
    };
    if let Some(problem) = unready {
        return Err(problem.into());
    }
    Ok(text("application/json", r#"{"status":"ready"}"#))
}

pub async fn metrics(call: Call<Front>) -> Answered {
    Ok(text("text/plain; version=0.0.4; charset=utf-8", (call.app.node.metrics)()))
}

pub async fn description(call: Call<Front>) -> Answered {
    Ok(text("application/json", call.app.node.openapi.clone()))
}

/// The target of a problem's `type`.
pub async fn problem(call: Call<Front>) -> Answered {
    let name = call.segment("code");
    let code = Code::ALL.iter().find(|code| code.as_str() == name);
    let code = code.ok_or(Code::ProblemNotFound)?;
    let meaning = format!("{} ({}, {})\n\n{}\n", code.title(), code.as_str(), code.status(), code.meaning());
    Ok(text("text/plain; charset=utf-8", meaning))
}

/// Redirects to the path with a slash, since the explorer's page loads files relative to it.
pub async fn explorer(_: Call<Front>) -> Answered {
    Ok(Response::new(StatusCode::TEMPORARY_REDIRECT).with(LOCATION, "/docs/"))
}

fn text(kind: &'static str, body: impl MessageBody + 'static) -> Response {
    Response::ok(kind).body(body)
}

/// Frames prepared ahead of the client: a megabyte or two.
const AHEAD: usize = 4;

pub async fn backup(call: Call) -> Answered {
    let access = Access::to_own_organization(&call, Permission::Backup)?;
    access.require(Permission::Backup)?;
    Query::of(&call.request).finish()?;
    let realm = Arc::clone(&access.realm);
    let organizations = access.read_list(move || organizations(&realm)).await?;
    // Checks both: an organization without a file may still have data, and a newly declared one may have no events yet.
    let is_own = |organization: &String| organization == access.caller.organization.as_str();
    if access.node.organizations > 1 || !organizations.iter().all(is_own) {
        return Err(Code::SeveralOrganizations.into());
    }
    if call.request.method() == Method::HEAD {
        return Ok(bare(answer()));
    }
    let held = access.hold_connection()?;
    let pieces = begin(&access.realm, organizations)?;
    let checked = stream::try_unfold((pieces, access, held), |(mut pieces, access, held)| async move {
        let Some(piece) = pieces.recv().await else { return Ok(None) };
        // Access is checked again because a backup may take minutes. One that is cut off cannot be mistaken for a
        // complete one.
        access.check_again()?;
        piece.map(|piece| Some((piece, (pieces, access, held))))
    });
    Ok(answer().streaming(checked))
}

/// The backup for the operator, with any number of organizations.
pub async fn whole_backup(realm: &Realm) -> Result<Response, Problem> {
    let pieces = begin(realm, organizations(realm)?)?;
    let pieces = stream::unfold(pieces, |mut pieces| async move { pieces.recv().await.map(|piece| (piece, pieces)) });
    Ok(answer().streaming(pieces))
}

fn answer() -> Response {
    Response::ok("application/octet-stream")
}

/// All organizations with data in this realm, declared or not.
fn organizations(realm: &Realm) -> Result<Vec<String>, StoreError> {
    Ok(realm.events.audited()?.into_iter().map(|organization| organization.as_str().to_owned()).collect())
}

type Piece = Result<Bytes, Problem>;

/// Starts the backup in a separate thread, which ends when the receiver is dropped.
fn begin(realm: &Realm, organizations: Vec<String>) -> Result<mpsc::Receiver<Piece>, Problem> {
    let now = (realm.clock)();
    let created_at = jiff::Timestamp::from_millisecond(now.as_millis()).unwrap_or_default().to_string();
    let backups = realm.backups.as_ref().ok_or(Code::BackupUnavailable)?;
    let taking = backups.begin(created_at, organizations)?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let thread = std::thread::Builder::new().name("backup".to_owned()).spawn(move || take(taking, sender));
    thread.map_err(Problem::internal)?;
    Ok(receiver)
}

fn take(taking: Taking, sender: mpsc::Sender<Piece>) {
    match taking.write_to(Pieces(sender.clone())) {
        Ok(totals) => tracing::info!(records = totals.pairs, sequence = totals.sequence, "a backup was taken"),
        Err(MakeError::Write(_)) => tracing::warn!("a backup was not finished: its client went away"),
        Err(error @ (MakeError::Copy(_) | MakeError::Logs(_))) => {
            tracing::error!(%error, "a backup failed");
            // Ends the response as incomplete.
            let _ = sender.blocking_send(Err(Problem::internal(error)));
        }
    }
}

struct Pieces(mpsc::Sender<Piece>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<InProgress> for Problem {
    fn from(InProgress: InProgress) -> Self {
        Code::BackupInProgress.into()
    }
}

pub async fn cluster(call: Call) -> Answered {
    let access = Access::to(&call, Permission::SeeCluster)?;
    Query::of(&call.request).finish()?;
    let view = match access.node.cluster.get() {
        Some(cluster) => {
            ClusterView::new(&cluster.overview(), Some(cluster.number_of(access.caller.organization.as_str())))
        }
        None => ClusterView::new(&Overview::default(), None),
    };
    Ok(answer::ok(view))
}

view! {
    /// The machines that share the work. A single machine has no shards, and lists no nodes.
    pub struct ClusterView as Cluster of (overview: &Overview, shard: Option<u16>)
    let (nodes, shards) = (by_name(&overview.nodes), &overview.shards);
    {
        /// The shard of this organization.
        #[schema(example = 3)]
        shard: Option<u16>,
        /// The owner of the shard, which answers the requests of this organization.
        #[schema(example = "n1")]
        owner: Option<String> = shard.and_then(|shard| shards.get(usize::from(shard))?.owner.clone()),
        /// The nodes, by name. A node that has been away for long is not listed.
        nodes: Vec<ClusterNodeView> = nodes.into_iter().map(|seen| ClusterNodeView::new(seen, shards)).collect(),
        /// The shards, by number.
        shards: Vec<ClusterShardView> =
            shards.iter().enumerate().map(|(number, seen)| ClusterShardView::new(number, seen)).collect(),
    }
}

fn by_name(nodes: &[NodeSeen]) -> Vec<&NodeSeen> {
    let mut nodes: Vec<_> = nodes.iter().collect();
    nodes.sort_unstable_by_key(|seen| &seen.node);
    nodes
}

view! {
    /// One server of a cluster.
    pub struct ClusterNodeView as ClusterNode of (seen: &NodeSeen, shards: &[ShardSeen]) {
        /// The node's name, unique in the cluster.
        #[schema(example = "n1")]
        node: String = seen.node.clone(),
        /// Whether the node has recently sent a sign of life.
        #[schema(example = true)]
        lives: bool = seen.lives,
        /// How many shards the node owns.
        #[schema(example = 5)]
        shards: usize = shards.iter().filter(|shard| shard.owner.as_ref() == Some(&seen.node)).count(),
        /// The version of the node's program.
        #[schema(example = "0.1.0")]
        version: String = seen.version.clone(),
    }
}

view! {
    /// A subset of the organizations, with one owner at a time.
    pub struct ClusterShardView as ClusterShard of (shard: usize, seen: &ShardSeen) {
        /// The number of the shard; the first is 0.
        #[schema(example = 3)]
        shard: usize,
        /// The node that owns the shard; `null` while it is being taken over.
        #[schema(example = "n1")]
        owner: Option<String> = seen.owner.clone(),
        /// Rises with each change of the owner.
        #[schema(example = 2)]
        epoch: u64 = seen.epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_shown_with_its_shards_and_the_organization_with_its_owner() {
        let node = |name: &str, lives| NodeSeen { node: name.to_owned(), version: "1".to_owned(), lives };
        let shard = |owner: Option<&str>| ShardSeen { owner: owner.map(str::to_owned), epoch: 1 };
        let overview = Overview {
            nodes: vec![node("n2", false), node("n1", true)],
            shards: vec![shard(Some("n1")), shard(None), shard(Some("n1"))],
        };
        let view = ClusterView::new(&overview, Some(2));
        let nodes: Vec<_> = view.nodes.iter().map(|node| (node.node.as_str(), node.lives, node.shards)).collect();
        assert_eq!(nodes, [("n1", true, 2), ("n2", false, 0)]);
        assert_eq!((view.shard, view.owner.as_deref()), (Some(2), Some("n1")));
        assert_eq!(ClusterView::new(&overview, Some(1)).owner, None);
    }
}
