//! Wires the parts together: from settings to a running server, and through its shutdown.

mod analysing;
mod census;
mod certificates;
mod chores;
mod declared;
mod error;
mod greeting;
mod isolation;
mod masks;
mod opening;
mod orphans;
mod runner_host;
mod step_users;

pub use error::ServeError;
pub use isolation::examine as try_isolation;

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::opening::OpenedRealm;
use crate::config::Settings;
use crate::events::Sealer;
use crate::http::{self, Encryption, ListenOptions, Listeners, OPERATOR_SOCKET, OperatorSocket, RunningServer};
use crate::runner::Runner;
use crate::store::{self, LoggedStore};
use crate::telemetry;
use crate::tls::ServerTls;

/// How long a stop waits for webhook receivers: long enough for one that works.
const LAST_DELIVERIES_MAX: Duration = Duration::from_secs(5);

/// Serves until asked to stop.
pub fn serve(settings: Settings, discard_damaged_log: bool, step_umask: u32) -> Result<(), ServeError> {
    actix_web::rt::System::new().block_on(serve_until_stopped(settings, discard_damaged_log, step_umask))
}

async fn serve_until_stopped(settings: Settings, discard_damaged_log: bool, step_umask: u32) -> Result<(), ServeError> {
    // A signal during the start stops the server as soon as it has started.
    let mut signals = Signals::new()?;
    let hangup = settings.tls.as_ref().map(|_| signal(SignalKind::hangup())).transpose()?;
    let metrics = telemetry::metrics();
    let store = Arc::new(open_store(&settings, discard_damaged_log)?);
    let listen = listen_options(&settings);
    let listeners = reserve(&settings)?;
    let node = opening::open_node(&settings, metrics.clone())?;
    let OpenedRealm { realm, runner, first_admin, isolation } =
        opening::open_realm(&settings, store.clone(), &node, step_umask).await?;
    let running =
        http::start(&listen, listeners, node, realm).map_err(|error| ServeError::listen(settings.listen, &error))?;
    let operator_socket = open_operator_socket(&settings, &running);
    greeting::greet(&settings, &running, &isolation, first_admin.as_ref());
    let chores = chores::begin(&running, &runner, &settings, metrics, hangup);
    let webhooks = running.realm.webhooks.clone();
    let delivering = actix_web::rt::spawn(async move { webhooks.run().await });

    signals.next().await;
    running.realm.analyses.close();
    chores.iter().for_each(tokio::task::JoinHandle::abort);
    running.realm.webhooks.stop();
    if let Some(socket) = operator_socket {
        socket.close().await;
    }
    let events = running.realm.events.clone();
    let gone = stop(running, runner, delivering, settings.http.drain, &mut signals).await;
    if let Some(mut sealer) = Sealer::new(events)
        && let Err(error) = sealer.seal().await
    {
        tracing::warn!(%error, "cannot seal the last events; the next start does");
    }
    store.close();
    if !gone {
        // The runtime would wait for the tasks that wait for them.
        tracing::warn!("stopped, but some processes of steps could not be killed; the next start waits for their end");
        std::process::exit(0);
    }
    tracing::info!("stopped");
    Ok(())
}

/// Without it the server works; only commands of the operator cannot ask it.
fn open_operator_socket(settings: &Settings, running: &RunningServer) -> Option<OperatorSocket> {
    let opened = OperatorSocket::open(&settings.data_dir, running.realm.clone());
    let failed = |error: &std::io::Error| {
        let path = settings.data_dir.join(OPERATOR_SOCKET);
        tracing::warn!(path = %path.display(), %error, "cannot open the operator's socket: `lockkeeper backup --data-dir` needs it");
    };
    opened.inspect_err(failed).ok()
}

/// Answers the requests in flight, for up to `patience`. Returns whether all processes of steps have ended.
async fn stop(
    running: RunningServer,
    runner: Runner,
    delivering: tokio::task::JoinHandle<()>,
    patience: Duration,
    signals: &mut Signals,
) -> bool {
    tracing::info!("stopping: answering the requests in flight; a second signal stops at once");
    let realm = running.realm.clone();
    // Deliveries that are still pending are made after the next start.
    let last_deliveries = tokio::time::timeout(patience.min(LAST_DELIVERIES_MAX), delivering);
    let finish = async { tokio::join!(running.drain(patience), runner.shut_down(patience), last_deliveries) };
    let gone = tokio::select! {
        (left, gone, _) = finish => {
            if left > 0 {
                tracing::warn!(left, "stopped before all requests were answered; raise http.drain_seconds to wait longer");
            }
            gone
        }
        () = signals.next() => {
            tracing::warn!("stopped at once by a second signal");
            runner.shut_down(Duration::ZERO).await
        }
    };
    if let Err(error) = realm.accounts.write_usage().await {
        tracing::warn!(%error, "cannot write when tokens were last used");
    }
    gone
}

/// Ctrl-C and SIGTERM.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Opens the store of the data directory, which locks the directory.
pub fn open_store(settings: &Settings, discard_damaged_log: bool) -> Result<LoggedStore, store::OpenError> {
    let options = store::Options {
        segment_bytes: usize::try_from(settings.storage.log_segment_bytes).unwrap_or(usize::MAX),
        cache_bytes: settings.storage.cache_bytes,
        min_free_bytes: settings.storage.min_free_bytes,
        discard_damaged_log,
        appended: Some(event_counter()),
        ..store::Options::default()
    };
    LoggedStore::open(&settings.data_dir, options)
}

/// Counts events as they become durable.
fn event_counter() -> store::journal::Appended {
    let counter = telemetry::EventCounter::new();
    Arc::new(move |organization, event| counter.count(organization, event))
}

/// Binds the addresses, and reads the certificate if there is one.
fn reserve(settings: &Settings) -> Result<Listeners, ServeError> {
    let reserve = |address| http::reserve(address).map_err(|error| ServeError::listen(address, &error));
    let main = reserve(settings.listen)?;
    let Some(options) = &settings.tls else {
        return Ok(Listeners { main, encryption: None });
    };
    let tls = Arc::new(ServerTls::open(options.files.clone()).map_err(ServeError::Tls)?);
    let plain = options.plain_listen.map(reserve).transpose()?;
    Ok(Listeners { main, encryption: Some(Encryption { tls, hsts: options.hsts, plain }) })
}

fn listen_options(settings: &Settings) -> ListenOptions {
    ListenOptions {
        workers: match settings.workers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            workers => workers,
        },
        head_timeout: settings.http.head_timeout,
        max_connections: settings.http.max_connections,
        max_connections_given: settings.http.max_connections_given,
    }
}
