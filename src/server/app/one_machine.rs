//! A server with all its data in its data directory, and how its store is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::ServeError;
use super::node::{self, event_counter, listen_options, reserve};
use super::node_chores::{self, ChoreContext, LogPlace};
use super::realm::{self, LiveRealm, OpenedRealm, RealmStore};
use super::runner_host::Hosts;
use super::signals::{Hangups, Load, Reloading, Signals, drain, stop};
use super::{greeting, isolation, step_users};
use crate::config::Settings;
use crate::http::{self, OPERATOR_SOCKET, OperatorSocket, Realm, Served};
use crate::telemetry;
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
pub async fn serve(settings: &Settings, load: Load, start: Start) -> Result<(), ServeError> {
    // A signal during the start stops the server as soon as it has started.
    let mut signals = Signals::new()?;
    let hangups = Hangups::new()?;
    let metrics = telemetry::metrics();
    let store = Arc::new(open_store(settings, start.discard_damaged_log)?);
    warn_if_full(settings, &store);
    if start.forget_master_key {
        secrets::forget_sealed(&*store, &settings.data_dir, settings.master_key.as_ref()).await?;
    }
    let listen = listen_options(settings);
    let listeners = reserve(settings)?;
    let logs = Logs::open(&settings.data_dir.join(logs::FOLDER), settings.storage.deployment_log_bytes)?;
    let node = Arc::new(node::open_node(settings, metrics.clone(), (logs, Archive::default()))?);
    let users = if isolation::needs_users(settings) {
        step_users::open(&*store, &settings.organizations, settings.runner.users).await?
    } else {
        BTreeMap::new()
    };
    let hosts = Hosts::new(node::wall_clock(), |_| ONLY);
    let steps = node::open_steps(settings, &node, users, hosts, start.step_umask).await?;
    let (logged, steady) = (Some(store.clone()), SteadyClock::of_machine());
    let realm_store = RealmStore {
        store: store.clone(),
        number: ONLY,
        logged,
        steady,
        clock: node::wall_clock(),
        log_keeper: None,
        steps_over_at: None,
        makes_admin: true,
        tickets: TicketLane::ONLY,
    };
    let OpenedRealm { realm, first_admin } = realm::open_realm(settings, realm_store, &node, &steps).await?;
    store.started();
    let reloading = Reloading::new(hangups, load, settings);
    let mut live = LiveRealm::begin(realm, settings, &Archive::default(), reloading.declarations());
    let realm = live.realm.clone();
    let running = http::start(&listen, listeners, node.clone(), Served::Only(realm.clone()))
        .map_err(|error| ServeError::listen(settings.listen, &error))?;
    let operator_socket = open_operator_socket(settings, realm.clone(), steps.closes_data);
    greeting::greet(settings, &running, &realm.accounts, &steps.isolation, first_admin.as_ref());
    let only = realm.clone();
    let context = ChoreContext {
        node,
        runner: steps.runner.clone(),
        realms: Arc::new(move || vec![realm.clone()]),
        organizations: settings.organizations.iter().map(|organization| organization.id.clone()).collect(),
        place_of: Box::new(move |_| LogPlace::Here(only.clone())),
    };
    let chores = node_chores::begin(context, &running, settings.environments.idle, metrics, reloading);

    signals.next().await;
    chores.iter().for_each(tokio::task::JoinHandle::abort);
    live.wind_down();
    if let Some(socket) = operator_socket {
        socket.close().await;
    }
    let patience = settings.http.drain;
    let finish = async {
        let last_deliveries = live.finish_deliveries(patience);
        tokio::join!(drain(running, patience), steps.runner.shut_down(patience), last_deliveries).1
    };
    let gone = stop(finish, &steps.runner, &mut signals).await;
    live.write_last().await;
    store.close();
    if !gone {
        // Exit here, because dropping the runtime would wait for tasks that wait for these processes.
        tracing::warn!("stopped, but some processes of steps could not be killed; the next start waits for their end");
        std::process::exit(0);
    }
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
