//! The one place that wires the parts together: from settings to a serving server, and to its end.

mod analysing;
mod chores;
mod declared;
mod delivery;
mod greeting;
mod opening;
mod orphans;

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::opening::OpenedRealm;
use crate::actors::Failure;
use crate::config::Settings;
use crate::http::{self, Front, Running};
use crate::runner::Runner;
use crate::store::{self, LoggedStore};
use crate::{secrets, telemetry};

/// How long a stop waits for receivers of webhooks that have not answered: long enough for one that works.
const DELIVERING_MAX: Duration = Duration::from_secs(5);

/// Why the server did not start, or did not go on: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Open(#[from] store::OpenError),
    #[error(transparent)]
    Secrets(#[from] secrets::OpenError),
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: std::net::SocketAddr, reason: String },
    #[error("the data directory cannot be prepared: {0}")]
    Store(#[from] store::StoreError),
    #[error("an environment cannot be made as declared: {0}")]
    Declare(#[from] Failure),
    #[error("the deployments that the last run of the server left cannot be taken up: {0}")]
    Recover(#[source] Failure),
    #[error("cannot start: {0}")]
    Io(#[from] std::io::Error),
}

/// Serves until asked to stop.
pub fn serve(settings: Settings, discard_damaged_log: bool) -> Result<(), ServeError> {
    actix_web::rt::System::new().block_on(serve_until_stopped(settings, discard_damaged_log))
}

async fn serve_until_stopped(settings: Settings, discard_damaged_log: bool) -> Result<(), ServeError> {
    // Asked to stop while still starting, we stop as soon as we have started.
    let mut signals = Signals::new()?;
    let metrics = telemetry::metrics();
    let store = Arc::new(open_store(&settings, discard_damaged_log)?);
    let front = front(&settings);
    let reserved = http::reserve(front.listen).map_err(|error| listen_error(&front, &error))?;
    let node = opening::open_node(&settings, metrics.clone())?;
    let OpenedRealm { realm, runner, admin_token } = opening::open_realm(&settings, store.clone(), &node).await?;
    let running = http::start(&front, reserved, node, realm).map_err(|error| listen_error(&front, &error))?;
    greeting::greet(&settings, &running, admin_token.as_ref());
    let chores = chores::begin(&running, &runner, &settings, metrics);
    let webhooks = running.realm.webhooks.clone();
    let telling = actix_web::rt::spawn(async move { webhooks.run().await });

    signals.next().await;
    running.realm.analyses.close();
    chores.iter().for_each(tokio::task::JoinHandle::abort);
    running.realm.webhooks.stop();
    let gone = stop(running, runner, telling, settings.http.drain, &mut signals).await;
    store.close();
    if !gone {
        // The runtime would wait for whoever waits for them.
        tracing::warn!("stopped while processes of steps could not be killed; the next start waits for their end");
        std::process::exit(0);
    }
    tracing::info!("stopped");
    Ok(())
}

/// Answers what is under way, as long as the operator has patience. Says whether nothing of ours runs any more.
async fn stop(
    running: Running,
    runner: Runner,
    telling: tokio::task::JoinHandle<()>,
    patience: Duration,
    signals: &mut Signals,
) -> bool {
    tracing::info!("stopping: answering what is under way; a second signal stops at once");
    let realm = running.realm.clone();
    // What is not delivered by then is delivered after the next start.
    let last_deliveries = tokio::time::timeout(patience.min(DELIVERING_MAX), telling);
    let finish = async { tokio::join!(running.drain(patience), runner.shut_down(patience), last_deliveries) };
    let gone = tokio::select! {
        (left, gone, _) = finish => {
            if left > 0 {
                tracing::warn!(left, "stopped before all requests were answered; raise http.drain_seconds to wait longer");
            }
            gone
        }
        () = signals.next() => {
            tracing::warn!("stopped at once, as asked");
            runner.shut_down(Duration::ZERO).await
        }
    };
    if let Err(error) = realm.accounts.write_usage().await {
        tracing::warn!(%error, "when tokens were last used is not up to date");
    }
    gone
}

/// Ctrl-C and SIGTERM: both ask us to stop.
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

/// The store of the data directory, which is then nobody else's.
pub fn open_store(settings: &Settings, discard_damaged_log: bool) -> Result<LoggedStore, store::OpenError> {
    let options = store::Options {
        segment_bytes: usize::try_from(settings.storage.log_segment_bytes).unwrap_or(usize::MAX),
        cache_bytes: settings.storage.cache_bytes,
        min_free_bytes: settings.storage.min_free_bytes,
        discard_damaged_log,
        appended: Some(counted()),
        ..store::Options::default()
    };
    LoggedStore::open(&settings.data_dir, options)
}

/// Counts what happens.
fn counted() -> store::journal::Appended {
    let counter = telemetry::EventCounter::new();
    Arc::new(move |organization, event| counter.happened(organization, event))
}

fn front(settings: &Settings) -> Front {
    Front {
        listen: settings.listen,
        workers: match settings.workers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            workers => workers,
        },
        head_timeout: settings.http.head_timeout,
        keep_alive: settings.http.keep_alive,
        max_connections: settings.http.max_connections,
    }
}

fn listen_error(front: &Front, error: &std::io::Error) -> ServeError {
    let address = front.listen;
    let reason = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or choose another address with --listen".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => {
            "that port needs more rights; choose one above 1023 with --listen".to_owned()
        }
        _ => format!("{error}; choose another address with --listen"),
    };
    ServeError::Listen { address, reason }
}
