//! The host of shards: the parts of the process that all realms share. One machine has one shard, in its data directory;
//! in a cluster shards come and go.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, LazyLock, OnceLock};

use super::error::ServeError;
use super::isolation::{self, FoundIsolation};
use super::reconcile::Declarations;
use super::runner_host::RunnerHosts;
use crate::config::Settings;
use crate::http::{self, Encryption, ListenOptions, Listeners, Node, RunningServer, Scans, Served, WallClock};
use crate::telemetry;
use crate::tls::ServerTls;
use delivery::archive::Archive;
use delivery::git::{Git, GitSettings};
use delivery::logs::Logs;
use delivery::runner;
use delivery::runner::Runner;
use domain::{Identifier, Timestamp};
use http1::{ConnectionTimeouts, Connections, CutOffCounters};
use outbound::Policy;
use shares::{Capacity, Disk, DiskLimits, Limited, Permits};

/// The folder of working directories of deployments in the data directory.
const WORK: &str = "work";
/// The folder of fetched repositories in the data directory.
const GIT: &str = "git";
/// Each follower holds a connection, and wakes up whenever its deployment writes something.
const LOG_FOLLOWERS_MAX: usize = 1_000;

/// Binds the addresses, and reads the certificate if TLS is on.
pub fn reserve(settings: &Settings) -> Result<Listeners, ServeError> {
    let reserve = |address| http::reserve(address).map_err(|error| ServeError::listen(address, &error));
    let main = reserve(settings.listen)?;
    let Some(options) = &settings.tls else {
        return Ok(Listeners { main, encryption: None });
    };
    let tls = Arc::new(ServerTls::open(options.files.clone()).map_err(ServeError::Tls)?);
    let plain = options.plain_listen.map(reserve).transpose()?;
    Ok(Listeners { main, encryption: Some(Encryption { tls, hsts: options.hsts, plain }) })
}

pub struct ShardHost<'a> {
    pub settings: &'a Settings,
    pub declarations: Declarations,
    pub node: Arc<Node>,
    pub runner: Runner,
    pub runner_hosts: Arc<RunnerHosts>,
    /// How steps are confined, for the operator.
    pub isolation: String,
    /// Whether confined steps cannot read any file of the data directory.
    pub closes_data: bool,
}

impl<'a> ShardHost<'a> {
    /// `users` finds the users of organizations, if their steps need separate ones.
    pub async fn open(
        settings: &'a Settings,
        declarations: Declarations,
        step_umask: u32,
        logs: (Logs, Archive),
        users: impl Future<Output = Result<BTreeMap<Identifier, u32>, ServeError>>,
        runner_hosts: RunnerHosts,
    ) -> Result<Self, ServeError> {
        let node = Arc::new(open_node(settings, logs)?);
        let users = if isolation::needs_users(settings) { users.await? } else { BTreeMap::new() };
        let data_dir = settings.data_dir.canonicalize()?;
        let FoundIsolation { isolation, summary, closes_data } =
            isolation::find(settings, users, &data_dir, &data_dir.join(WORK)).await?;
        let options = runner_options(settings, &node, &data_dir, (step_umask, isolation));
        let runner_hosts = Arc::new(runner_hosts);
        let runner = Runner::new(options, node.logs.clone(), runner_hosts.clone());
        Ok(Self { settings, declarations, node, runner, runner_hosts, isolation: summary, closes_data })
    }

    /// Accepts connections from now on.
    pub fn listen(&self, listeners: Listeners, served: Served) -> Result<RunningServer, ServeError> {
        http::start(&listen_options(self.settings), listeners, self.node.clone(), served)
            .map_err(|error| ServeError::listen(self.settings.listen, &error))
    }
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

fn open_node(settings: &Settings, (logs, archive): (Logs, Archive)) -> std::io::Result<Node> {
    let metrics = telemetry::metrics();
    let organizations = settings.organizations.len();
    let has_names = settings.http.metrics_names;
    let names: Vec<_> = settings.organizations.iter().map(|organization| organization.id.clone()).collect();
    let limits = DiskLimits {
        min_free_bytes: settings.runner.min_free_bytes,
        organization_bytes: settings.runner.max_organization_disk_bytes,
        organizations,
    };
    let disk = Disk::new(&settings.data_dir, limits);
    Ok(Node {
        refusals: Default::default(),
        connections: open_connections(settings),
        scans: Scans::of_lists(organizations),
        log_reads: Scans::of_logs(organizations),
        audits: Limited::new(1),
        git: open_git(settings, disk.clone())?,
        disk,
        logs,
        archive,
        log_followers: Permits::without_queue("log_followers", Capacity::seats(LOG_FOLLOWERS_MAX).among(organizations)),
        held_connections: OnceLock::new(),
        cluster: OnceLock::new(),
        organizations,
        openapi: LazyLock::new(|| http::openapi_document().into()),
        body_timeout: settings.http.body_timeout,
        answer_timeout: settings.http.answer_timeout,
        public_url: settings.public_url.clone(),
        tls: OnceLock::new(),
        metrics: Box::new(move || {
            let text = telemetry::render(&metrics);
            if has_names { text } else { telemetry::without_names(&text, &names) }
        }),
        draining: AtomicBool::new(false),
        underway: AtomicUsize::new(0),
    })
}

fn open_connections(settings: &Settings) -> Arc<Connections> {
    let timeouts = ConnectionTimeouts {
        idle: settings.http.keep_alive,
        silence: settings.http.keep_alive + settings.http.head_timeout,
        unread: settings.http.write_timeout,
    };
    let counter = |reason| metrics::counter!("lockkeeper_connections_cut_off_total", "reason" => reason);
    let counters = CutOffCounters { silent: counter("silent"), unread: counter("unread"), crowded: counter("crowded") };
    Connections::new(timeouts, counters)
}

fn runner_options(
    settings: &Settings,
    node: &Node,
    data_dir: &Path,
    (umask, isolation): (u32, runner::SharedIsolation),
) -> runner::Options {
    runner::Options {
        max_running: settings.runner.max_running_steps,
        organizations: settings.organizations.len(),
        grace: settings.runner.termination_grace,
        path: settings.runner.path.clone(),
        work_dir: data_dir.join(WORK),
        log_bytes_per_step: settings.runner.log_bytes_per_step,
        umask,
        policy: policy(settings),
        supervisor: runner::OWN_PROGRAM.into(),
        isolation,
        step_lease: settings.cluster.as_ref().map(|cluster| cluster.step_lease),
        disk: Some(node.disk.clone()),
        max_disk_bytes: settings.runner.max_disk_bytes,
        write_pace: settings
            .runner
            .max_write_bytes
            .filter(|_| settings.organizations.len() > 1)
            .map(runner::WritePace::new),
    }
}

fn open_git(settings: &Settings, disk: Disk) -> std::io::Result<Git> {
    let options = GitSettings {
        program: settings.git.program.clone(),
        timeout: settings.git.timeout,
        allow_file: settings.allows_file_urls(),
        scratch: settings.data_dir.join(GIT),
        policy: policy(settings),
        own_program: std::env::current_exe()?,
        disk: Some(disk),
        max_bytes: settings.git.max_repository_bytes,
    };
    Git::new(options, settings.organizations.len())
}

/// The policy for connections that tenants choose.
pub fn policy(settings: &Settings) -> Policy {
    Policy::new(settings.outbound.allow.clone())
}

pub fn wall_clock() -> WallClock {
    Arc::new(|| Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()))
}

/// Counts events as they become durable.
pub fn event_counter() -> store::journal::Appended {
    let counter = telemetry::EventCounter::new();
    Arc::new(move |organization, event| counter.count(organization, event))
}
