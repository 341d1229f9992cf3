//! Periodic work while the server runs: of the node, and of each realm.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::task::JoinHandle;

use super::dropped_logs::DroppedLogRemoval;
use super::opening::RealmsHere;
use super::reloading::Reloading;
use super::{census, certificates};
use crate::config::Settings;
use crate::http::{Node, Realm, RunningServer};
use crate::telemetry;
use ambient::backoff::{Backoff, Retries};
use delivery::archive::Archive;
use delivery::logs::{LogFile, LogOwner};
use delivery::runner::Runner;
use domain::Identifier;
use events::{Retention, Sealer, Sweeper};
use store::StoreError;

/// How often idle actors are removed and gauges updated.
const CHORES_EVERY: Duration = Duration::from_secs(5);
/// How often stalled connections are looked for: much shorter than they may stall.
const CONNECTIONS_WATCHED_EVERY: Duration = Duration::from_secs(1);
/// How often the log says how many strangers were refused.
const REFUSALS_REPORTED_EVERY: Duration = Duration::from_secs(10);
/// How often it is written when tokens were last used.
const USAGE_WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// With more actors than this in memory, those not used since the last round are removed at once instead of after their idle
/// time: at 3 kB each, a script that creates a million environments would otherwise fill the memory.
const ACTORS_MAX: usize = 50_000;
/// How often expired idempotency keys are dropped.
const KEYS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// The pause between two sweeps while there are too many of them: each may count a million. Longer while sweeps fail.
const SURPLUS_KEYS_SWEPT_EVERY: Duration = Duration::from_secs(5);
const SWEEP_BACKOFF: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));
/// While a full disk stays full although files were swept.
const FULL_DISK_BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// How often sign-ins, invitations and tokens of jobs that are over are dropped; they are refused as soon as they are.
const SIGN_INS_SWEPT_EVERY: Duration = Duration::from_secs(600);
/// How often old and surplus events are dropped.
const EVENTS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// The events of this time are not sealed yet when the server is killed; the next start seals them.
const EVENTS_SEALED_EVERY: Duration = Duration::from_secs(1);
const SEAL_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// How often logs and working directories that are no longer needed are removed.
const FILES_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// The shortest pause between two sweeps: each looks up the deployment of every log.
const SURPLUS_FILES_SWEPT_EVERY: Duration = Duration::from_secs(5);
const FULL_DISK_NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// The process and its realms, as their chores see them.
pub struct House {
    pub node: Arc<Node>,
    pub runner: Runner,
    pub realms: RealmsHere,
    /// The organizations that files declare.
    pub organizations: Vec<Identifier>,
    /// Where the deployment of a log is, whose organization is known in a cluster.
    pub place_of: LogPlaces,
}

pub type LogPlaces = Box<dyn Fn(Option<&Identifier>) -> LogPlace + Send + Sync>;

pub enum LogPlace {
    /// In a realm of this process.
    Here(Arc<Realm>),
    Elsewhere,
    /// On its way.
    Unknown,
}

/// Starts the chores of the process; they run until they are aborted.
pub fn begin(
    house: House,
    running: &RunningServer,
    idle: Duration,
    metrics: PrometheusHandle,
    reloading: Reloading,
) -> Vec<JoinHandle<()>> {
    let House { node, runner, realms, organizations, .. } = &house;
    let mut chores = vec![
        chore(census::run(realms.clone(), organizations.clone())),
        chore(do_chores_of_node(node.clone(), runner.clone(), metrics)),
        chore(watch_connections(node.clone())),
        chore(report_refusals(node.clone())),
        chore(do_chores_of_realms(realms.clone(), idle)),
        chore(sweep_files(house)),
    ];
    if let Some(encrypted) = running.encrypted.as_ref() {
        chores.push(chore(certificates::keep_fresh(encrypted.tls.clone(), reloading.certificates.clone())));
        chores.push(chore(certificates::report_handshakes(encrypted.handshakes.clone())));
    }
    chores.push(chore(reloading.run()));
    chores
}

/// Starts those of a realm that take their own time.
pub fn begin_of_realm(realm: &Arc<Realm>, settings: &Settings, archive: &Archive) -> Vec<JoinHandle<()>> {
    vec![
        chore(sweep_keys(realm.clone())),
        chore(write_usage(realm.clone())),
        chore(sweep_sign_ins(realm.clone())),
        chore(sweep_events(realm.clone(), retention(settings))),
        chore(seal_events(realm.clone())),
        chore(keep_time(realm.clone())),
        chore(remove_dropped_logs(realm.clone(), archive.clone())),
    ]
}

fn chore(work: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    actix_web::rt::spawn(work.boxed_local())
}

async fn do_chores_of_node(node: Arc<Node>, runner: Runner, metrics: PrometheusHandle) {
    let stages_running = metrics::gauge!("lockkeeper_stages", "state" => "running");
    let stages_waiting = metrics::gauge!("lockkeeper_stages", "state" => "waiting");
    let connections = metrics::gauge!("lockkeeper_connections");
    let mut every = tokio::time::interval(CHORES_EVERY);
    loop {
        every.tick().await;
        metrics.run_upkeep();
        stages_running.set(runner.running() as f64);
        stages_waiting.set(runner.waiting() as f64);
        connections.set(node.connections.staying() as f64);
        telemetry::report_left_out();
    }
}

async fn watch_connections(node: Arc<Node>) {
    let mut every = tokio::time::interval(CONNECTIONS_WATCHED_EVERY);
    loop {
        every.tick().await;
        let shut = node.connections.shut_stalled();
        if shut.silent > 0 {
            tracing::info!(
                connections = shut.silent,
                "shut down connections that stalled within the head of a request"
            );
        }
        if shut.unread > 0 {
            tracing::info!(connections = shut.unread, "cut off clients that did not read their answers");
        }
    }
}

async fn report_refusals(node: Arc<Node>) {
    let mut every = tokio::time::interval(REFUSALS_REPORTED_EVERY);
    loop {
        every.tick().await;
        node.refusals.report(REFUSALS_REPORTED_EVERY.as_secs());
    }
}

async fn do_chores_of_realms(realms: RealmsHere, idle: Duration) {
    let undelivered = metrics::gauge!("lockkeeper_webhook_deliveries_pending");
    let actors = metrics::gauge!("lockkeeper_environment_actors");
    let waiting_by_name = metrics::gauge!("lockkeeper_waiting", "for" => "environment");
    let waiting_for_any = metrics::gauge!("lockkeeper_waiting", "for" => "any");
    let mut every = tokio::time::interval(CHORES_EVERY.min(idle));
    let rounds_per_idle = idle.as_secs().div_ceil(every.period().as_secs().max(1)).max(1);
    for round in 1_u64.. {
        every.tick().await;
        let here = realms();
        let sum = |count: fn(&Realm) -> usize| here.iter().map(|realm| count(realm)).sum::<usize>();
        let resident = sum(|realm| realm.environments.resident());
        actors.set(resident as f64);
        waiting_by_name.set(sum(|realm| realm.environments.waiting_by_name()) as f64);
        waiting_for_any.set(sum(|realm| realm.environments.waiting_for_any()) as f64);
        undelivered.set(here.iter().map(|realm| realm.webhooks.pending()).sum::<u64>() as f64);
        for realm in &here {
            if round % rounds_per_idle == 0 || resident > ACTORS_MAX {
                realm.environments.dismiss_unused();
            }
            realm.environments.expire_pools();
            if let Some(limits) = &realm.rate_limits {
                limits.forget_idle();
            }
        }
    }
}

async fn write_usage(realm: Arc<Realm>) {
    let mut retries = Retries::new(SWEEP_BACKOFF);
    let mut pause = USAGE_WRITTEN_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let written = realm.accounts.write_usage().await;
        if let Err(error) = &written {
            tracing::warn!(%error, "cannot write when tokens were last used; trying again");
        }
        pause = pause_after(written.is_ok(), &mut retries, USAGE_WRITTEN_EVERY);
    }
}

/// Ends expired sessions in time, and serves the waiters from before the start.
async fn keep_time(realm: Arc<Realm>) {
    if let Err(error) = realm.environments.resume_pools().await {
        tracing::error!(%error, "cannot serve the waiters for any environment");
    }
    realm.environments.keep_time().await;
}

/// A task of its own, since a million keys take a while.
async fn sweep_keys(realm: Arc<Realm>) {
    let mut every = tokio::time::interval(KEYS_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut retries = Retries::new(SWEEP_BACKOFF);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = realm.idempotency.too_many() => {}
        }
        let swept = realm.idempotency.sweep((realm.clock)()).await;
        if let Err(error) = &swept {
            tracing::warn!(%error, "cannot sweep old idempotency keys; the next sweep tries again");
        }
        let dropped = realm.environments.drop_old_ended_sessions().await;
        if let Err(error) = &dropped {
            tracing::warn!(%error, "cannot drop sessions that ended in a queue");
        }
        let worked = swept.is_ok() && dropped.is_ok();
        tokio::time::sleep(pause_after(worked, &mut retries, SURPLUS_KEYS_SWEPT_EVERY)).await;
    }
}

fn pause_after(worked: bool, retries: &mut Retries, pause: Duration) -> Duration {
    if worked {
        retries.worked();
        return pause;
    }
    retries.failed()
}

/// Drops sign-ins, invitations and tokens that have expired.
async fn sweep_sign_ins(realm: Arc<Realm>) {
    let mut retries = Retries::new(SWEEP_BACKOFF);
    loop {
        let now = (realm.clock)();
        let accounts = &realm.accounts;
        let swept = async {
            let (sign_ins, invitations) = (accounts.sweep_sign_ins(now).await?, accounts.sweep_invitations(now).await?);
            let (tokens, of_jobs) = (accounts.sweep_tokens(now).await?, accounts.sweep_exchanged(now).await?);
            Ok((sign_ins, invitations, tokens, of_jobs))
        };
        let swept = swept.await;
        let worked = swept.is_ok();
        match swept {
            Ok((0, 0, 0, 0)) => {}
            Ok((sign_ins, invitations, tokens, of_jobs)) => {
                tracing::info!(sign_ins, invitations, tokens, of_jobs, "dropped what had expired");
            }
            Err(error) => {
                let error: StoreError = error;
                tracing::warn!(%error, "cannot drop expired sign-ins; the next sweep tries again");
            }
        }
        tokio::time::sleep(pause_after(worked, &mut retries, SIGN_INS_SWEPT_EVERY)).await;
    }
}

/// A task of its own, for the same reason.
async fn sweep_events(realm: Arc<Realm>, retention: Retention) {
    let mut sweeper = Sweeper::new(realm.events.clone(), retention);
    let mut retries = Retries::new(SWEEP_BACKOFF);
    loop {
        let swept = sweeper.sweep((realm.clock)(), |organization| realm.webhooks.floor(organization)).await;
        let worked = swept.is_ok();
        match swept {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "dropped old or surplus events"),
            Err(error) => tracing::warn!(%error, "cannot drop old events; the next sweep tries again"),
        }
        tokio::time::sleep(pause_after(worked, &mut retries, EVENTS_SWEPT_EVERY)).await;
    }
}

/// Seals new events, at most once in a while.
async fn seal_events(realm: Arc<Realm>) {
    let Some(mut sealer) = Sealer::new(realm.events.clone()) else { return };
    let (mut durable, mut retries) = (realm.events.durable(), Retries::new(SEAL_BACKOFF));
    loop {
        let sealed = sealer.seal().await;
        let pause = pause_after(sealed.is_ok(), &mut retries, EVENTS_SEALED_EVERY);
        if let Err(error) = &sealed
            && retries.is_first()
        {
            tracing::warn!(%error, "cannot seal new events; trying again until it works");
        }
        if durable.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Removes from the store of logs what deployments have left there that are no longer kept.
async fn remove_dropped_logs(realm: Arc<Realm>, archive: Archive) {
    let (mut retries, mut removal) = (Retries::new(SWEEP_BACKOFF), DroppedLogRemoval::default());
    loop {
        let worked = removal.round(&(&*realm, &archive)).await;
        tokio::time::sleep(pause_after(worked, &mut retries, FILES_SWEPT_EVERY)).await;
    }
}

/// Removes the files of deployments that are no longer needed. Those of an organization that is not declared this time stay,
/// like all its data: a start without its file must cost nothing.
async fn sweep_files(house: House) {
    let house = Arc::new(house);
    let mut every = tokio::time::interval(FILES_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut retries, mut full) = (Retries::new(SWEEP_BACKOFF), Retries::new(FULL_DISK_BACKOFF));
    loop {
        let is_full = tokio::select! {
            _ = every.tick() => false,
            () = house.node.logs.too_full() => false,
            () = house.disk_is_full() => true,
        };
        let sweeping = house.clone();
        let failed = match tokio::task::spawn_blocking(move || sweeping.sweep_files()).await {
            Ok(swept) => swept.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = &failed {
            tracing::error!(error, "cannot remove old logs and working directories");
        }
        // If it is still full, there is little to sweep.
        let pause = pause_after(!is_full, &mut full, SURPLUS_FILES_SWEPT_EVERY);
        tokio::time::sleep(pause_after(failed.is_none(), &mut retries, pause)).await;
    }
}

impl House {
    /// Then working directories that are no longer needed are not left until the next ordinary sweep.
    async fn disk_is_full(&self) {
        let refuses = || (self.realms)().iter().any(|realm| realm.store.refusing_writes().is_some());
        while !refuses() && !self.node.disk.is_low() {
            tokio::time::sleep(FULL_DISK_NOTICED_WITHIN).await;
        }
    }

    fn sweep_files(&self) -> Result<(), StoreError> {
        let realms = (self.realms)();
        let mut organizations = self.organizations.clone();
        for realm in &realms {
            organizations.extend(realm.environments.organizations_with_deployments()?);
        }
        organizations.sort_unstable();
        organizations.dedup();
        let holds_work =
            |id| realms.iter().any(|realm| realm.environments.holds_work(organizations.iter(), id).unwrap_or(true));
        self.runner.remove_work_dirs(holds_work);
        let owner = |id| {
            let owns = |organization: &&Identifier| {
                realms.iter().any(|realm| realm.environments.holds_work([*organization], id).unwrap_or(false))
            };
            organizations.iter().find(owns).cloned()
        };
        self.runner.count_work_dirs(owner);
        self.node.logs.sweep(|file| self.owner_of_log(&organizations, file));
        Ok(())
    }

    fn owner_of_log(&self, organizations: &[Identifier], file: &LogFile) -> LogOwner {
        let realm = match (self.place_of)(file.organization.as_ref()) {
            LogPlace::Here(realm) => realm,
            LogPlace::Elsewhere => return LogOwner::Foreign,
            LogPlace::Unknown => return LogOwner::Unknown,
        };
        let mut unread = false;
        for organization in file.organization.as_ref().map_or(organizations, std::slice::from_ref) {
            match realm.environments.deployment(organization, file.deployment) {
                Ok(Some(_)) => return LogOwner::Organization(organization.clone()),
                Ok(None) => {}
                Err(_) => unread = true,
            }
        }
        if unread { LogOwner::Unknown } else { LogOwner::Nobody }
    }
}

fn retention(settings: &Settings) -> Retention {
    Retention {
        max_events: settings.events.max_events,
        max_age: settings.events.max_age,
        max_security_events: settings.events.max_security_events,
        security_max_age: settings.events.max_security_age,
    }
}
