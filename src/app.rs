//! The one place that wires the parts together: from settings to a serving server, and to its end.

mod analysing;
mod declared;
mod delivery;
mod greeting;
mod orphans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::delivery::{Hands, Registered, Reports};
use crate::actors::{Clock, Environments, Failure, Options};
use crate::auth::{Accounts, AccountsError, NewToken, TokenText};
use crate::config::{self, Settings};
use crate::domain::{Now, Tick, Timestamp};
use crate::events::{Cause, Events, Retention, Sweeper};
use crate::fixes::{self, Fixes};
use crate::git::{Git, GitSettings};
use crate::http::{self, Connections, Followers, Front, Hubs, Pace, RateLimits, Running, Scans, State, WallClock};
use crate::idempotency::Keys;
use crate::logs::Logs;
use crate::pipelines::Pipelines;
use crate::registries::Registries;
use crate::runner::Runner;
use crate::secrets::Vault;
use crate::store::{self, LoggedStore, Store};
use crate::webhooks::Webhooks;
use crate::{runner, secrets, telemetry, webhooks};

/// Where the logs of deployments are, in the data directory.
const LOGS: &str = "logs";
/// Where deployments have their working directories, in the data directory.
const WORK: &str = "work";
/// Where repositories are fetched to, in the data directory.
const GIT: &str = "git";
/// Reads of whole lists at once; more would only take the processors from those who claim.
const SCANS_MAX: usize = 8;
/// Lists that wait for their turn: a fleet that starts at once, and no more than can be read within seconds.
const SCANS_WAITING_MAX: usize = 4_096;
/// How often what is not urgent is done: actors let go, stalled connections shut, tokens' last use written down, metrics
/// tidied.
const CHORES_EVERY: Duration = Duration::from_secs(5);
/// How many of those pass between two times that tokens' last use is written down.
const CHORES_PER_USAGE: u32 = 12;
/// With more actors than this in memory, one that was not used since the last chores goes at once, instead of after its idle
/// time: at 3 kB each, a script that makes a million environments would else fill the memory.
const CROWD_OF_ACTORS: usize = 50_000;
/// How often idempotency keys that have expired, or are too many, are dropped.
const KEYS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// How often events that are too old, or too many, are dropped.
const EVENTS_SWEPT_EVERY: Duration = Duration::from_secs(60);

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
    let clock: WallClock = Arc::new(|| Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()));
    let events = Events::new(store.clone());
    // Before anything is added to them.
    events.mend().await?;
    let accounts = Accounts::open(store.clone(), declared::members(&settings.organizations), clock()).await?;
    let admin_token = admin_token(&accounts, &settings, clock()).await?;
    let vault = Arc::new(open_vault(&settings, store.clone()).await?);
    let logs = Logs::open(&settings.data_dir.join(LOGS), settings.storage.deployment_log_bytes)?;
    let idempotency = Keys::open(store.clone(), settings.idempotency.max_keys)?;
    let pipelines = Pipelines::open(store.clone(), declared::pipelines(&settings.organizations), clock()).await?;
    let known = settings.organizations.iter().map(|organization| &organization.id);
    if let Err(error) = orphans::forget_secrets(&vault, &pipelines, known, clock()).await {
        tracing::warn!(%error, "the secrets of pipelines that are gone could not be deleted; the next start tries again");
    }
    let git = open_git(&settings)?;
    let registries = Registries::open(store.clone(), pipelines.clone(), vault.clone(), git.clone(), config::read_step)?;
    declared::warn_of_unresolved(&settings.organizations, &pipelines, &registries);
    let definitions = Registered { pipelines: pipelines.clone(), registries: registries.clone() };
    let environments = open_environments(&settings, store.clone(), both_clocks(clock.clone()), definitions)?;
    let reports = Arc::new(Reports::new(environments.clone(), vault.clone(), clock.clone()));
    let runner = Runner::new(runner_options(&settings)?, logs.clone(), reports);
    // Before anything else is decided: what the last run had begun must not be taken for what this one begins.
    take_up_deployments(&environments, &runner).await?;
    declared::environments(&environments, &settings, &pipelines).await?;
    let masks = analysing::masks(vault.clone());
    let analyses = analysing::open(&settings, store.clone(), &environments, &logs, masks.clone(), clock.clone())?;
    let fixes = Fixes::new(fixes::Parts {
        git,
        analyses: analyses.clone(),
        pipelines: pipelines.clone(),
        vault: vault.clone(),
        masks,
        clock: clock.clone(),
    });

    let webhooks = open_webhooks(&settings, store.clone(), vault.clone(), clock.clone())?;
    let handle = metrics.clone();
    let state = State {
        environments,
        accounts,
        idempotency,
        pipelines,
        registries,
        vault,
        webhooks: webhooks.clone(),
        analyses: analyses.clone(),
        fixes,
        logs,
        followers: Followers::default(),
        event_hubs: Hubs::new(events.clone(), pace(&settings)),
        events,
        store: store.clone(),
        clock,
        rate_limits: settings.rate_limit.map(|limit| RateLimits::new(limit.per_second, limit.burst)),
        body_timeout: settings.http.body_timeout,
        answer_timeout: settings.http.answer_timeout,
        metrics: Box::new(move || handle.render()),
        scans: Scans::new(SCANS_MAX, SCANS_WAITING_MAX),
        connections: Connections::new(settings.http.keep_alive + settings.http.head_timeout),
        draining: AtomicBool::new(false),
        underway: AtomicUsize::new(0),
    };
    let running = http::start(&front, reserved, state).map_err(|error| listen_error(&front, &error))?;
    greeting::greet(&settings, &running, admin_token.as_ref());
    let chores =
        actix_web::rt::spawn(do_chores(running.state.clone(), runner.clone(), settings.environments.idle, metrics));
    let sweeping = actix_web::rt::spawn(sweep_keys(running.state.clone()));
    let forgetting = actix_web::rt::spawn(sweep_events(running.state.clone(), retention(&settings)));
    let keeping_time = actix_web::rt::spawn(keep_time(running.state.clone()));
    let organizations = settings.organizations.iter().map(|organization| organization.id.clone()).collect();
    let tidying = actix_web::rt::spawn(delivery::tidy(running.state.clone(), runner.clone(), organizations));
    let telling = webhooks.clone();
    let telling = actix_web::rt::spawn(async move { telling.run().await });

    signals.next().await;
    analyses.close();
    for task in [chores, sweeping, forgetting, keeping_time, tidying] {
        task.abort();
    }
    webhooks.stop();
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
    let state = running.state.clone();
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
    if let Err(error) = state.accounts.write_usage().await {
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

async fn open_vault(settings: &Settings, store: Arc<dyn Store>) -> Result<Vault, secrets::OpenError> {
    let master = secrets::unlock(&*store, &settings.data_dir, settings.master_key.clone()).await?;
    Vault::open(store, master)
}

fn open_webhooks(
    settings: &Settings,
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
    clock: WallClock,
) -> Result<Webhooks, store::StoreError> {
    let options = webhooks::Options {
        allow_private: settings.webhooks.allow_private,
        timeout: settings.webhooks.timeout,
        retries: settings.webhooks.retries.clone(),
        disable_after: settings.webhooks.disable_after,
        max_sending: settings.webhooks.max_sending,
    };
    let events = Events::new(store.clone());
    Webhooks::open(store, events, vault, clock, Arc::new(http::webhook_body), options)
}

fn open_git(settings: &Settings) -> std::io::Result<Git> {
    Git::new(GitSettings {
        program: settings.git.program.clone(),
        timeout: settings.git.timeout,
        allow_file: settings.allows_file_urls(),
        scratch: settings.data_dir.join(GIT),
    })
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

/// The admin's token of the first organization: the operator's, or on a first start a new one, to be shown once.
async fn admin_token(
    accounts: &Accounts,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<TokenText>, store::StoreError> {
    let Some(first) = settings.organizations.first() else {
        return Ok(None);
    };
    if let Some(text) = &settings.bootstrap_token {
        accounts.bootstrap(&first.id, text, now).await?;
        return Ok(None);
    }
    let Some(user) = accounts.first_admin(&first.id).filter(|_| !accounts.has_tokens()) else {
        return Ok(None);
    };
    let new = NewToken { organization: first.id.clone(), user, name: "first start".to_owned(), expires_at: None };
    match accounts.create_token(new, Cause::system(now), |_, _| ()).await {
        Ok(open) => Ok(Some(open.text)),
        Err(AccountsError::Store(error)) => Err(error),
        // None of these can be: it is the first token of all, for one who is a member.
        Err(
            AccountsError::TooManyTokens
            | AccountsError::TokenNotFound
            | AccountsError::TooManyMembers
            | AccountsError::MemberExists
            | AccountsError::MemberNotFound
            | AccountsError::LastAdmin
            | AccountsError::NoLongerAdmin,
        ) => Ok(None),
    }
}

/// What runs out by itself goes by a clock that nobody sets.
fn both_clocks(wall: WallClock) -> Clock {
    let began = Instant::now();
    Arc::new(move || Now { at: wall(), tick: Tick(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX)) })
}

fn open_environments(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Clock,
    definitions: Registered,
) -> Result<Environments, store::StoreError> {
    let options = Options {
        history_retention: settings.storage.history_retention.into(),
        mailbox: settings.environments.mailbox,
        answer_timeout: settings.http.answer_timeout,
    };
    Environments::open(store, clock, Arc::new(definitions), options)
}

/// From now on stages are run, beginning with those that the last run of the server left.
async fn take_up_deployments(environments: &Environments, runner: &Runner) -> Result<(), ServeError> {
    environments.set_executor(Box::new(Hands(runner.clone())));
    let unfinished = environments.recover().await.map_err(ServeError::Recover)?;
    if unfinished > 0 {
        tracing::info!(environments = unfinished, "took up the deployments that had not ended");
    }
    Ok(())
}

fn runner_options(settings: &Settings) -> std::io::Result<runner::Options> {
    Ok(runner::Options {
        max_running: settings.runner.max_running_steps,
        grace: settings.runner.termination_grace,
        path: settings.runner.path.clone(),
        work_dir: std::path::absolute(settings.data_dir.join(WORK))?,
        log_bytes_per_step: settings.runner.log_bytes_per_step,
        supervisor: runner::OWN_PROGRAM.into(),
    })
}

async fn do_chores(
    state: Arc<State>,
    runner: Runner,
    idle: Duration,
    metrics: metrics_exporter_prometheus::PrometheusHandle,
) {
    let stages_running = metrics::gauge!("lockkeeper_stages", "state" => "running");
    let stages_waiting = metrics::gauge!("lockkeeper_stages", "state" => "waiting");
    let undelivered = metrics::gauge!("lockkeeper_webhook_deliveries_pending");
    let actors = metrics::gauge!("lockkeeper_environment_actors");
    let waiting_by_name = metrics::gauge!("lockkeeper_waiting", "for" => "environment");
    let waiting_for_any = metrics::gauge!("lockkeeper_waiting", "for" => "any");
    let mut every = tokio::time::interval(CHORES_EVERY.min(idle));
    let rounds_per_idle = idle.as_secs().div_ceil(every.period().as_secs().max(1)).max(1);
    for round in 1_u64.. {
        every.tick().await;
        metrics.run_upkeep();
        actors.set(state.environments.resident() as f64);
        waiting_by_name.set(state.environments.waiting_by_name() as f64);
        waiting_for_any.set(state.environments.waiting_for_any() as f64);
        stages_running.set(runner.running() as f64);
        stages_waiting.set(runner.waiting() as f64);
        undelivered.set(state.webhooks.pending() as f64);
        if round % rounds_per_idle == 0 || state.environments.resident() > CROWD_OF_ACTORS {
            state.environments.dismiss_unused();
        }
        state.environments.expire_pools();
        let stalled = state.connections.shut_stalled();
        if stalled > 0 {
            tracing::info!(stalled, "shut down connections that had stalled within a request's head");
        }
        if let Some(limits) = &state.rate_limits {
            limits.forget_idle();
        }
        if round % u64::from(CHORES_PER_USAGE) == 0
            && let Err(error) = state.accounts.write_usage().await
        {
            tracing::warn!(%error, "when tokens were last used could not be written down");
        }
    }
}

/// Ends what runs out by itself, when it does, and serves those who have waited since before the start.
async fn keep_time(state: Arc<State>) {
    if let Err(error) = state.environments.resume_pools().await {
        tracing::error!(%error, "those who waited for any environment could not be served");
    }
    state.environments.keep_time().await;
}

/// Apart from the other chores, since a million of them take a while.
async fn sweep_keys(state: Arc<State>) {
    let mut every = tokio::time::interval(KEYS_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        state.idempotency.sweep((state.clock)()).await;
        if let Err(error) = state.environments.forget_those_who_left().await {
            tracing::warn!(%error, "sessions that ended in a queue could not be forgotten");
        }
    }
}

/// Apart from the other chores, for the same reason.
async fn sweep_events(state: Arc<State>, retention: Retention) {
    let mut sweeper = Sweeper::new(state.events.clone(), retention);
    let mut every = tokio::time::interval(EVENTS_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        match sweeper.sweep((state.clock)(), |organization| state.webhooks.floor(organization)).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "dropped events that were too old, or too many"),
            Err(error) => tracing::warn!(%error, "old events could not be dropped; the next sweep tries again"),
        }
    }
}

fn retention(settings: &Settings) -> Retention {
    Retention { max_events: settings.events.max_events, max_age: settings.events.max_age }
}

fn pace(settings: &Settings) -> Pace {
    Pace { heartbeat: settings.events.heartbeat, stall: settings.events.stall }
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
