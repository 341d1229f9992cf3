//! Owns one run: the server, the threads, and all data collected for the report. Workloads use nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use crate::engine::client::{Client, clients, run_share};
use crate::engine::phase::{Figures, Phase};
use crate::engine::progress::Progress;
use crate::engine::recorder::{MAX_RECORDS, Recorder};
use crate::engine::schedule::share_of;
use crate::engine::tally::{Findings, Operation};
use crate::engine::threads::{ClientThread, LoadThreads, ThreadLost, work};
use crate::report::{Check, FORMAT, Goal, Run, why_not_judged};
use crate::server::{ProcessError, Server};
use crate::settings::Common;
use crate::sync::locked;
use crate::wire::Scope;
use crate::wire::etcd::EtcdError;

/// Enough to create a million environments at 2,000 per second.
pub const PREPARATION_LIMIT: Duration = Duration::from_secs(600);
/// The limit for requests in flight when preparation ends.
const PREPARATION_GRACE: Duration = Duration::from_secs(10);
/// Enough to create environments fast, without straining any server.
const PREPARING_CONNECTIONS: u32 = 64;
/// Connections opened at the same time: fits the backlog of a listening socket while the server is busy accepting.
const OPENING_AT_ONCE: usize = 128;
/// The time limit for opening connections: 20,000 take a few seconds; a full server never answers the rest.
const CONNECTING_LIMIT: Duration = Duration::from_secs(60);
/// Time for the server to notice that its clients have disconnected.
const AFTER_DISCONNECTING: Duration = Duration::from_millis(200);

pub struct LoadTest {
    pub common: Common,
    pub server: Server,
    pub progress: Progress,
    pub scope: Arc<Scope>,
    pub(super) threads: LoadThreads,
    pub(super) recorder: Arc<Recorder>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) origin: Instant,
    pub(super) phases: Vec<Phase>,
    pub(super) ratios: Figures,
    pub(super) checks: Vec<Check>,
    pub(super) findings: Findings,
    pub(super) segments: u32,
    pub(super) retention: u64,
    /// Notes for the reader on how this was measured.
    notes: BTreeMap<String, String>,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    ThreadLost(#[from] ThreadLost),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot start the load generator: {0}")]
    NoThreads(std::io::Error),
    #[error(
        "only {opened} of {wanted} connections could be opened: check the server's limit on open files (ulimit -n)"
    )]
    NotConnected { opened: u64, wanted: u32 },
    #[error("the cluster: {0}")]
    Cluster(String),
    #[error("the cluster: {0}")]
    Etcd(#[from] EtcdError),
    #[error("the neighbour: {0}")]
    Neighbour(String),
    #[error("only {made} of {wanted} environments could be created, so nothing was measured")]
    NotPrepared { made: u64, wanted: u32 },
}

impl Fault {
    pub fn neighbour(why: impl ToString) -> Self {
        Self::Neighbour(why.to_string())
    }
}

impl LoadTest {
    pub fn start(
        common: Common,
        server: Server,
        scope: Scope,
        progress: Progress,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<Self> {
        let (scope, origin) = (Arc::new(scope), Instant::now());
        let recorder = Arc::new(Recorder::new(MAX_RECORDS));
        let threads = common.threads.min(common.connections).max(1);
        let clients = (0..threads)
            .map(|thread| {
                Arc::new(ClientThread::new(thread, threads, server.address, scope.clone(), origin, recorder.clone()))
            })
            .collect();
        let threads = LoadThreads::start(clients, &stop)?;
        Ok(Self {
            retention: common.retention(),
            common,
            server,
            progress,
            scope,
            threads,
            recorder,
            stop,
            origin,
            phases: Vec::new(),
            ratios: Figures::default(),
            checks: Vec::new(),
            findings: Findings::default(),
            segments: 0,
            notes: BTreeMap::new(),
        })
    }

    /// Creates the missing environments among these numbers, with this configuration.
    pub async fn environments(
        &mut self,
        numbers: std::ops::RangeInclusive<u32>,
        configuration: &str,
    ) -> Result<(), Fault> {
        let (first, wanted) = (*numbers.start(), (numbers.end() + 1).saturating_sub(*numbers.start()));
        self.progress.begin(format!("making {wanted} environments"));
        let connections = PREPARING_CONNECTIONS.min(wanted);
        let put = Arc::new(self.threads.clients[0].requests.put(configuration));
        let making = clients(connections, move |mut client| {
            let put = put.clone();
            async move {
                for number in share_of(client.number, connections, wanted) {
                    // A run needs all its environments, so the first failure ends it.
                    if !client.goes_on() || client.put(first + number - 1, &put).await.is_err() {
                        return;
                    }
                }
            }
        });
        let until = tokio::time::Instant::now() + PREPARATION_LIMIT;
        self.threads.perform(&making, None, until, PREPARATION_GRACE).await?;
        let tally = self.threads.take_tally();
        let made = tally.count(Operation::Put);
        self.findings.merge(tally.findings);
        self.interrupted()?;
        if made == u64::from(wanted) { Ok(()) } else { Err(Fault::NotPrepared { made, wanted }) }
    }

    /// Opens this many connections and keeps them, so that a sudden load need not open them first.
    pub async fn connect(&mut self, connections: u32) -> Result<(), Fault> {
        self.progress.begin(format!("opening {connections} connections"));
        let opening = work(move |thread| async move {
            let permits = Arc::new(Semaphore::new(OPENING_AT_ONCE));
            // All are held until the last is open, so that no connection is reused meanwhile.
            let kept = Arc::new(Mutex::new(Vec::new()));
            let open = move |mut client: Client| {
                let (permits, kept) = (permits.clone(), kept.clone());
                async move {
                    let _permit = permits.acquire().await;
                    // Like any kept connection, each has had one answered request, so the server has allocated its
                    // buffers.
                    if client.healthz().await.is_ok() {
                        locked(&kept).push(client);
                    }
                }
            };
            run_share(&thread, connections, open).await;
        });
        let until = tokio::time::Instant::now() + CONNECTING_LIMIT;
        self.threads.perform(&opening, None, until, Duration::ZERO).await?;
        let tally = self.threads.take_tally();
        self.interrupted()?;
        let opened = tally.count(Operation::Health);
        if opened == u64::from(connections) { Ok(()) } else { Err(Fault::NotConnected { opened, wanted: connections }) }
    }

    /// Closes all kept connections, so that the server's memory can be measured without them.
    pub async fn disconnect(&mut self) {
        self.threads.clients.iter().for_each(|thread| thread.drop_connections());
        tokio::time::sleep(AFTER_DISCONNECTING).await;
    }

    /// Kills and restarts the server between two segments; returns the time until it was ready.
    pub async fn restart(&mut self) -> Result<Duration, Fault> {
        self.progress.begin("restarting the server".to_owned());
        self.server.kill()?;
        self.threads.clients.iter().for_each(|thread| thread.drop_connections());
        Ok(self.server.start_again().await?)
    }

    /// An error if an early end was requested.
    pub fn interrupted(&self) -> Result<(), Fault> {
        if *self.stop.borrow() { Err(Fault::Interrupted) } else { Ok(()) }
    }

    /// The phase with this name; created on first use.
    pub fn phase(&mut self, name: &str) -> &mut Phase {
        let index = self.phases.iter().position(|phase| phase.name == name).unwrap_or_else(|| {
            self.phases.push(Phase::new(name));
            self.phases.len() - 1
        });
        &mut self.phases[index]
    }

    /// Removes a phase that was only preparation from the report.
    pub fn forget_phase(&mut self, name: &str) {
        self.phases.retain(|phase| phase.name != name);
    }

    /// Adds one round's value of a figure of a phase.
    pub fn figure(&mut self, phase: &str, name: &str, unit: &'static str, value: Option<f64>) {
        self.phase(phase).figures.add(name, unit, value);
    }

    /// Sets the goal of that figure.
    pub fn aim(&mut self, phase: &str, name: &str, goal: Goal) {
        self.phase(phase).figures.aim(name, goal);
    }

    /// Adds one round's ratio of two phases.
    pub fn ratio(&mut self, name: &str, value: Option<f64>) {
        self.ratios.add(name, "", value);
    }

    /// Sets the goal of that ratio.
    pub fn aim_ratio(&mut self, name: &str, goal: Goal) {
        self.ratios.aim(name, goal);
    }

    pub fn note(&mut self, name: &str, text: String) {
        self.notes.insert(name.to_owned(), text);
    }

    pub fn error(&mut self, what: String) {
        self.findings.error(what);
    }

    pub fn errors(&mut self, what: String, times: u64) {
        self.findings.add_errors(what, times);
    }

    /// Stops the threads and the server, and builds the report.
    pub async fn finish(mut self, fault: Option<Fault>, scenario: &str, started_at: String) -> Run {
        self.progress.finish();
        let interrupted = *self.stop.borrow();
        match fault {
            None | Some(Fault::Interrupted) => {}
            Some(fault) => self.findings.error(fault.to_string()),
        }
        self.threads.finish();
        if let Err(error) = self.server.stop().await {
            self.findings.error(error.to_string());
        }
        let mut settings = self.common.shown();
        settings.extend(self.notes);
        let unexamined = unexamined(&self.common.examines, &self.checks);
        if !unexamined.is_empty() {
            settings.insert("nothing to examine for".to_owned(), unexamined.join(", "));
        }
        let is_full = self.common.is_full;
        let run = Run {
            format: FORMAT,
            scenario: scenario.to_owned(),
            description: self.common.description,
            started_at,
            seconds: self.origin.elapsed().as_secs_f64(),
            interrupted,
            target: format!("http://{}", self.server.authority),
            settings,
            phases: self.phases.into_iter().map(Phase::into_model).collect(),
            ratios: self.ratios.into_model(),
            checks: self.checks,
            errors: self.findings.errors,
        };
        run.judged_unless(why_not_judged(is_full, interrupted))
    }
}

/// Rules that the scenario is designed to exercise, but that found nothing to compare.
fn unexamined(wanted: &[String], checks: &[Check]) -> Vec<String> {
    let examined: HashMap<_, _> = checks.iter().map(|check| (check.name.as_str(), check.examined)).collect();
    let missing = |name: &&String| examined.get(name.as_str()).is_none_or(|count| *count == 0);
    wanted.iter().filter(missing).cloned().collect()
}
