//! A server with all its data in its data directory, and how its store is opened.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::error::ServeError;
use super::host::{self, ShardHost, event_counter, reserve};
use super::realm::{LiveRealm, RealmStore};
use super::runner_host::RunnerHosts;
use super::signals::{Reloading, Signals, drain, exit_unless, stop};
use super::{greeting, node_chores, step_users};
use crate::config::Settings;
use crate::http::{OPERATOR_SOCKET, OperatorSocket, Realm, Served};
use accounts::secrets;
use ambient::steady_clock::SteadyClock;
use delivery::archive::Archive;
use delivery::logs::{self, Logs};
use locks::TicketLane;
use store::{LoggedStore, Store, space};

/// The number of the only realm.
const ONLY: u16 = 0;

/// The command-line options that apply to this start only.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub discard_damaged_log: bool,
    /// Whether to continue without a lost master key.
    pub forget_master_key: bool,
    pub step_umask: u32,
}

/// Serves until asked to stop.
pub async fn serve(
    settings: &Settings,
    start: Start,
    mut signals: Signals,
    reloading: Reloading,
) -> Result<(), ServeError> {
    let store = Arc::new(open_store(settings, start.discard_damaged_log)?);
    warn_if_full(settings, &store);
    if start.forget_master_key {
        secrets::forget_sealed(&*store, &settings.data_dir, settings.master_key.as_ref()).await?;
    }
    let listeners = reserve(settings)?;
    let logs = Logs::open(&settings.data_dir.join(logs::FOLDER), settings.storage.deployment_log_bytes)?;
    let organizations = settings.organizations.iter().map(|organization| &organization.id);
    let users = step_users::open(&*store, organizations, settings.runner.users);
    let runner_hosts = RunnerHosts::new(host::wall_clock(), |_| ONLY);
    let (declarations, logs) = (reloading.declarations(), (logs, Archive::default()));
    let host = ShardHost::open(settings, declarations, start.step_umask, logs, users, runner_hosts).await?;
    let realm_store = RealmStore {
        store: store.clone(),
        number: ONLY,
        logged: Some(store.clone()),
        steady: SteadyClock::of_machine(),
        clock: host::wall_clock(),
        log_keeper: None,
        steps_over_at: None,
        makes_admin: true,
        tickets: TicketLane::ONLY,
    };
    let (mut live, first_admin) = LiveRealm::open(&host, settings, realm_store).await?;
    store.started();
    let running = host.listen(listeners, Served::Only(live.realm.clone()))?;
    let operator_socket = open_operator_socket(settings, live.realm.clone(), host.closes_data);
    let chores = node_chores::begin(&host, &running, reloading);
    greeting::greet(&host, &running, &live.realm.accounts, first_admin.as_ref());

    signals.next().await;
    chores.iter().for_each(JoinHandle::abort);
    live.wind_down();
    if let Some(socket) = operator_socket {
        socket.close().await;
    }
    let patience = settings.http.drain;
    let finish = async {
        let last_deliveries = live.finish_deliveries(patience);
        tokio::join!(drain(running, patience), host.runner.shut_down(patience), last_deliveries).1
    };
    let gone = stop(finish, &host.runner, &mut signals).await;
    live.write_last().await;
    store.close();
    exit_unless(gone);
    tracing::info!("stopped");
    Ok(())
}

/// Logs what to remove, which an operator who starts the server on a full disk probably needs.
fn warn_if_full(settings: &Settings, store: &LoggedStore) {
    if store.refusing_writes().is_some() {
        let usage = space::describe(&settings.data_dir);
        tracing::warn!(
            usage,
            "the disk of the data directory is full; reads, releases and removals work: free some space there"
        );
    }
}

/// Without the socket the server works, but commands of the operator cannot ask it. If steps could read its key, it
/// must not be opened.
fn open_operator_socket(settings: &Settings, realm: Arc<Realm>, is_closed: bool) -> Option<OperatorSocket> {
    if !is_closed {
        OperatorSocket::remove(&settings.data_dir);
        tracing::warn!(
            "the operator's socket is not opened, since steps could use it: this machine has neither namespaces nor Landlock; \
             stop the server for `lockkeeper backup --data-dir`"
        );
        return None;
    }
    let opened = OperatorSocket::open(&settings.data_dir, realm);
    let failed = |error: &std::io::Error| {
        let path = settings.data_dir.join(OPERATOR_SOCKET);
        tracing::warn!(path = %path.display(), %error, "cannot open the operator's socket: `lockkeeper backup --data-dir` needs it");
    };
    opened.inspect_err(failed).ok()
}

/// Opens the store of the data directory, which locks the directory.
pub fn open_store(settings: &Settings, discard_damaged_log: bool) -> Result<LoggedStore, store::OpenError> {
    let options = store::Options {
        segment_bytes: usize::try_from(settings.storage.log_segment_bytes).unwrap_or(usize::MAX),
        cache_bytes: settings.storage.cache_bytes,
        min_free_bytes: settings.storage.min_free_bytes,
        starting: true,
        discard_damaged_log,
        appended: Some(event_counter()),
        ..store::Options::default()
    };
    LoggedStore::open(&settings.data_dir, options)
}
