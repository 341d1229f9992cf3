//! A backup of the whole server as a stream: for the only organization's admin, and for the operator.

use std::io::{self, Write};
use std::sync::Arc;

use actix_web::http::Method;
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::backup::{InProgress, MakeError, Taking};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::response::Response;
use crate::http::state::Realm;
use crate::http::streaming::bare;
use accounts::auth::Permission;
use store::StoreError;

/// Frames that are made before the client has taken them: a megabyte or two.
const AHEAD: usize = 4;

pub async fn view(call: Call) -> Answered {
    let access = Access::to_own_organization(&call, Permission::Backup)?;
    access.require(Permission::Backup)?;
    Query::of(&call.request).finish()?;
    let realm = Arc::clone(&access.realm);
    let organizations = access.read_list(move || organizations(&realm)).await?;
    // One whose file is no longer there has data all the same, and one that has just been declared may have no events yet.
    let is_own = |organization: &String| organization == access.caller.organization.as_str();
    if access.node.organizations > 1 || !organizations.iter().all(is_own) {
        let detail = "this server has the data of several organizations, and no admin may read all of them; its operator takes \
                      the backup, by the socket in the data directory: `lockkeeper backup FILE --data-dir DIR`";
        return Err(Problem::new(Code::SeveralOrganizations, detail).into());
    }
    if call.request.method() == Method::HEAD {
        return Ok(bare(answer()));
    }
    let held = access.hold_connection()?;
    let pieces = begin(&access.realm, organizations)?;
    let checked = stream::try_unfold((pieces, access, held), |(mut pieces, access, held)| async move {
        let Some(piece) = pieces.recv().await else { return Ok(None) };
        // It may take minutes. What is cut off is not mistaken for a whole one.
        access.check_again()?;
        piece.map(|piece| Some((piece, (pieces, access, held))))
    });
    Ok(answer().streaming(checked))
}

/// The same for the operator, whatever organizations there are.
pub async fn whole(realm: &Realm) -> Result<Response, Problem> {
    let pieces = begin(realm, organizations(realm)?)?;
    let pieces = stream::unfold(pieces, |mut pieces| async move { pieces.recv().await.map(|piece| (piece, pieces)) });
    Ok(answer().streaming(pieces))
}

fn answer() -> Response {
    Response::ok("application/octet-stream")
}

/// All that have data here, declared or not.
fn organizations(realm: &Realm) -> Result<Vec<String>, StoreError> {
    Ok(realm.events.audited()?.into_iter().map(|organization| organization.as_str().to_owned()).collect())
}

type Piece = Result<Bytes, Problem>;

/// Begins to make it, in a thread of its own, which ends when nobody takes the pieces any more.
fn begin(realm: &Realm, organizations: Vec<String>) -> Result<mpsc::Receiver<Piece>, Problem> {
    let now = (realm.clock)();
    let created_at = jiff::Timestamp::from_millisecond(now.as_millis()).unwrap_or_default().to_string();
    let backups = realm.backups.as_ref();
    let backups = backups.ok_or_else(|| Problem::new(Code::BackupUnavailable, Code::BackupUnavailable.meaning()))?;
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
            // Ends the answer as one that is incomplete.
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
        Problem::new(Code::BackupInProgress, "another backup is being taken; wait for its end")
    }
}
