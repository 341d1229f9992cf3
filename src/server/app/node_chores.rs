//! Periodic work of the process: gauges, idle actors, stalled connections, obsolete files. The census shows operators
//! the state of their environments: how many are in each state, and which states have lasted longest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::certificates;
use super::host::{ShardHost, wall_clock};
use super::realm_chores::{FILES_SWEPT_EVERY, SWEEP_BACKOFF, chore, every, pause_after};
use super::signals::Reloading;
use crate::http::{Node, Realm, RunningServer, Served, Whereabouts};
use crate::telemetry;
use ambient::backoff::{Backoff, Retries};
use delivery::logs::{LogFile, LogOwner};
use delivery::runner::Runner;
use domain::{Identifier, LockStatus, Timestamp};
use locks::Census;
use store::{Sequence, StoreError};

/// How often idle actors are removed and gauges updated.
const CHORES_EVERY: Duration = Duration::from_secs(5);
/// How often to look for stalled connections: much shorter than the time they may stall.
const CONNECTIONS_WATCHED_EVERY: Duration = Duration::from_secs(1);
/// How often to log how many strangers were refused.
const REFUSALS_REPORTED_EVERY: Duration = Duration::from_secs(10);
/// With more actors in memory than this, those unused since the last round are removed without waiting for their idle
/// time: at 3 kB each, a script that creates a million environments would otherwise fill the memory.
const ACTORS_MAX: usize = 50_000;
/// The pauses while the disk stays full although files were swept.
const FULL_DISK_BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// The shortest pause between two sweeps: each looks up the deployment of every log.
const SURPLUS_FILES_SWEPT_EVERY: Duration = Duration::from_secs(5);
const FULL_DISK_NOTICED_WITHIN: Duration = Duration::from_secs(1);
/// How often the gauges are updated.
const CENSUS_EVERY: Duration = Duration::from_secs(5);
/// The census repeats after this many times its own duration, so that it takes a hundredth of a core regardless of the
/// number of environments.
const CENSUS_PAUSE_FACTOR: u32 = 100;

/// Starts the chores of the process; they run until they are aborted.
pub fn begin(host: &ShardHost<'_>, running: &RunningServer, reloading: Reloading) -> Vec<JoinHandle<()>> {
    let organizations: Vec<_> =
        host.settings.organizations.iter().map(|organization| organization.id.clone()).collect();
    let (node, runner, realms) = (running.node.clone(), host.runner.clone(), running.realms.clone());
    let mut chores = vec![
        chore(run_census(realms.clone(), organizations.clone())),
        chore(do_chores_of_node(node.clone(), runner.clone())),
        chore(watch_connections(node.clone())),
        chore(report_refusals(node.clone())),
        chore(do_chores_of_realms(realms.clone(), host.settings.environments.idle)),
        chore(sweep_files(FileSweep { node, runner, realms, organizations })),
    ];
    if let Some(encrypted) = running.encrypted.as_ref() {
        chores.push(chore(certificates::keep_fresh(encrypted.tls.clone(), reloading.certificates.clone())));
        chores.push(chore(certificates::report_handshakes(encrypted.handshakes.clone())));
    }
    chores.push(chore(reloading.run()));
    chores
}

async fn do_chores_of_node(node: Arc<Node>, runner: Runner) {
    let metrics = telemetry::metrics();
    let stages_running = metrics::gauge!("lockkeeper_stages", "state" => "running");
    let stages_waiting = metrics::gauge!("lockkeeper_stages", "state" => "waiting");
    let connections = metrics::gauge!("lockkeeper_connections");
    let work = || {
        metrics.run_upkeep();
        stages_running.set(runner.running() as f64);
        stages_waiting.set(runner.waiting() as f64);
        connections.set(node.connections.staying() as f64);
        telemetry::report_left_out();
    };
    every(CHORES_EVERY, work).await;
}

async fn watch_connections(node: Arc<Node>) {
    let work = || {
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
    };
    every(CONNECTIONS_WATCHED_EVERY, work).await;
}

async fn report_refusals(node: Arc<Node>) {
    every(REFUSALS_REPORTED_EVERY, || node.refusals.report(REFUSALS_REPORTED_EVERY.as_secs())).await;
}

async fn do_chores_of_realms(realms: Served, idle: Duration) {
    let undelivered = metrics::gauge!("lockkeeper_webhook_deliveries_pending");
    let actors = metrics::gauge!("lockkeeper_environment_actors");
    let waiting_by_name = metrics::gauge!("lockkeeper_waiting", "for" => "environment");
    let waiting_for_any = metrics::gauge!("lockkeeper_waiting", "for" => "any");
    let interval = CHORES_EVERY.min(idle);
    let rounds_per_idle = idle.as_secs().div_ceil(interval.as_secs().max(1)).max(1);
    let mut round = 0_u64;
    let work = || {
        round += 1;
        let here = realms.here();
        let sum = |count: fn(&Realm) -> usize| here.iter().map(|realm| count(realm)).sum::<usize>();
        let resident = sum(|realm| realm.environments.resident());
        actors.set(resident as f64);
        waiting_by_name.set(sum(|realm| realm.environments.waiting_by_name()) as f64);
        waiting_for_any.set(sum(|realm| realm.environments.waiting_for_any()) as f64);
        undelivered.set(here.iter().map(|realm| realm.webhooks.pending()).sum::<u64>() as f64);
        for realm in &here {
            if round.is_multiple_of(rounds_per_idle) || resident > ACTORS_MAX {
                realm.environments.dismiss_unused();
            }
            realm.environments.expire_pools();
            if let Some(limits) = &realm.rate_limits {
                limits.forget_idle();
            }
        }
    };
    every(interval, work).await;
}

/// Removes obsolete files of deployments. Keeps those of organizations that are currently not declared, like all their
/// data: a start without their file must not lose anything.
async fn sweep_files(files: FileSweep) {
    let files = Arc::new(files);
    let mut rounds = tokio::time::interval(FILES_SWEPT_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut retries, mut full) = (Retries::new(SWEEP_BACKOFF), Retries::new(FULL_DISK_BACKOFF));
    loop {
        let is_full = tokio::select! {
            _ = rounds.tick() => false,
            () = files.node.logs.too_full() => false,
            () = files.disk_is_full() => true,
        };
        let sweeping = files.clone();
        let failed = match tokio::task::spawn_blocking(move || sweeping.run()).await {
            Ok(swept) => swept.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = &failed {
            tracing::error!(error, "cannot remove old logs and working directories");
        }
        // If the disk is still full, there is little left to sweep, so pause longer.
        let pause = pause_after(!is_full, &mut full, SURPLUS_FILES_SWEPT_EVERY);
        tokio::time::sleep(pause_after(failed.is_none(), &mut retries, pause)).await;
    }
}

struct FileSweep {
    node: Arc<Node>,
    runner: Runner,
    realms: Served,
    /// The organizations that files declare.
    organizations: Vec<Identifier>,
}

impl FileSweep {
    /// Resolves when the disk is full, so that obsolete working directories are removed before the next regular sweep.
    async fn disk_is_full(&self) {
        let refuses = || self.realms.here().iter().any(|realm| realm.store.refusing_writes().is_some());
        while !refuses() && !self.node.disk.is_low() {
            tokio::time::sleep(FULL_DISK_NOTICED_WITHIN).await;
        }
    }

    fn run(&self) -> Result<(), StoreError> {
        let realms = self.realms.here();
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
        let realm = match (&self.realms, &file.organization) {
            (Served::Only(realm), _) => realm.clone(),
            (Served::Shards(cluster), Some(organization)) => match cluster.shards.of(organization.as_str()) {
                Whereabouts::Here(realm) => realm,
                Whereabouts::At(_) => return LogOwner::Foreign,
                Whereabouts::Nowhere => return LogOwner::Unknown,
            },
            (Served::Shards(_), None) => return LogOwner::Foreign,
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

/// Runs until it is aborted.
async fn run_census(realms: Served, organizations: Vec<Identifier>) {
    let environments =
        LockStatus::ALL.map(|status| metrics::gauge!("lockkeeper_environments", "status" => status.as_str()));
    let oldest_lock = metrics::gauge!("lockkeeper_oldest_lock_age_seconds");
    let oldest_waiter = metrics::gauge!("lockkeeper_oldest_waiter_age_seconds");
    let mut census = Census::default();
    // The sequences at the last census; `None` if there was none or it failed.
    let mut counted: Option<Vec<Sequence>> = None;
    let mut fails = false;
    let mut next = Instant::now();
    let mut rounds = tokio::time::interval(CENSUS_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let here = realms.here();
        // Readers see only durable changes.
        let durable: Vec<_> = here.iter().map(|realm| *realm.store.durable().borrow()).collect();
        if counted.as_ref() != Some(&durable) && next <= Instant::now() {
            let began = Instant::now();
            match read_census(here, &organizations).await {
                Ok(found) => (census, counted, fails) = (found, Some(durable), false),
                Err(error) => {
                    if !fails {
                        tracing::warn!(%error, "cannot count the environments; trying again until it works");
                    }
                    (counted, fails) = (None, true);
                }
            }
            next = Instant::now() + began.elapsed() * CENSUS_PAUSE_FACTOR;
        }
        for (gauge, (_, count)) in environments.iter().zip(census.by_status()) {
            gauge.set(count as f64);
        }
        let now = wall_clock()();
        let age = |since: Option<Timestamp>| since.map_or(0.0, |since| now.since(since).as_secs_f64());
        oldest_lock.set(age(census.oldest_lock));
        oldest_waiter.set(age(census.oldest_waiter));
    }
}

/// Reads on a thread that may block.
async fn read_census(realms: Vec<Arc<Realm>>, organizations: &[Identifier]) -> Result<Census, StoreError> {
    let pipelines = |realm: Arc<Realm>| {
        let keys = organizations.iter().flat_map(|organization| realm.pipelines.list(organization));
        let keys: Vec<_> = keys.map(|pipeline| pipeline.key.clone()).collect();
        (realm, keys)
    };
    let all: Vec<_> = realms.into_iter().map(pipelines).collect();
    let read = move || {
        let mut census = Census::default();
        all.into_iter().try_for_each(|(realm, pipelines)| realm.environments.add_to_census(pipelines, &mut census))?;
        Ok(census)
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(StoreError::Read(error.to_string())))
}
