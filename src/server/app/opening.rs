//! Opens the node and its realm from the settings, in the order in which the parts depend on each other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, LazyLock, OnceLock};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::Instant;

use super::error::ServeError;
use super::isolation::FoundIsolation;
use super::masks::PipelineMasks;
use super::runner_host::{Hosts, PipelineDefinitions, RunnerExecutor, RunnerHost};
use super::{analysing, declared, declared_entries, isolation, orphans};
use crate::backup::Backups;
use crate::config::{self, Settings};
use crate::http::{
    self, Connections, EventHubs, Node, Patience, RateLimits, Realm, Replaceable, Scans, StreamTiming, WallClock,
};
use crate::telemetry;
use accounts::auth::{Accounts, AccountsError, Member, NewToken, Password, TokenText};
use accounts::identities::Identities;
use accounts::secrets;
use accounts::secrets::Vault;
use accounts::sso::SingleSignOn;
use ambient::steady_clock::SteadyClock;
use analysis::fixes::{self, Fixes, Repositories};
use delivery::archive::Archive;
use delivery::git::{Git, GitSettings};
use delivery::logs::Logs;
use delivery::registries::Registries;
use delivery::runner;
use delivery::runner::Runner;
use domain::{Identifier, Now, Timestamp};
use events::{Cause, Events};
use locks::idempotency::Keys;
use locks::pipelines::Pipelines;
use locks::{Clock, Environments, LogKeeper, Options, TicketLane};
use outbound::Policy;
use shares::{Capacity, Disk, DiskLimits, Limited, Places};
use store::{LoggedStore, Store};
use webhooks::Webhooks;

/// The folder of working directories of deployments in the data directory.
const WORK: &str = "work";
/// The folder of fetched repositories in the data directory.
const GIT: &str = "git";
/// Each follower holds a connection, and is woken whenever its deployment writes something.
const LOG_FOLLOWERS_MAX: usize = 1_000;

/// Opens the parts of the process, shared by all realms.
pub fn open_node(
    settings: &Settings,
    metrics: PrometheusHandle,
    (logs, archive): (Logs, Archive),
) -> std::io::Result<Node> {
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
        connections: Connections::new(Patience {
            idle: settings.http.keep_alive,
            silence: settings.http.keep_alive + settings.http.head_timeout,
            unread: settings.http.write_timeout,
        }),
        scans: Scans::of_lists(organizations),
        log_reads: Scans::of_logs(organizations),
        audits: Limited::new(1),
        git: open_git(settings, disk.clone())?,
        disk,
        logs,
        archive,
        log_followers: Places::without_queue("log_followers", Capacity::seats(LOG_FOLLOWERS_MAX).among(organizations)),
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

/// The realms of this process at the moment.
pub type RealmsHere = Arc<dyn Fn() -> Vec<Arc<Realm>> + Send + Sync>;

/// The parts that run steps, shared by all realms.
pub struct Steps {
    pub runner: Runner,
    pub hosts: Arc<Hosts>,
    /// How steps are confined, for the operator.
    pub isolation: String,
    /// Whether steps that are to be confined can read no file of the data directory.
    pub closes_data: bool,
}

/// Opens the runner; each realm becomes one of its hosts.
pub async fn open_steps(
    settings: &Settings,
    node: &Node,
    users: BTreeMap<Identifier, u32>,
    hosts: Hosts,
    umask: u32,
) -> Result<Steps, ServeError> {
    let data_dir = settings.data_dir.canonicalize()?;
    let FoundIsolation { isolation, summary, closes_data } =
        isolation::find(settings, users, &data_dir, &data_dir.join(WORK)).await?;
    let hosts = Arc::new(hosts);
    let options = runner_options(settings, node, &data_dir, (umask, isolation));
    Ok(Steps { runner: Runner::new(options, node.logs.clone(), hosts.clone()), hosts, isolation: summary, closes_data })
}

/// A store to be opened as a realm.
pub struct RealmStore {
    pub store: Arc<dyn Store>,
    /// Its number among the hosts of the runner.
    pub number: u16,
    /// `None`: it has no data directory to be copied.
    pub logged: Option<Arc<LoggedStore>>,
    pub clock: WallClock,
    pub steady: SteadyClock,
    /// The keeper of the output of stages, in a cluster.
    pub log_keeper: Option<Box<dyn LogKeeper>>,
    /// From then on, no step of an earlier owner can be running.
    pub steps_over_at: Option<Instant>,
    /// Whether it has the organization whose admin gets a token at the first start.
    pub makes_admin: bool,
    pub tickets: TicketLane,
}

pub struct OpenedRealm {
    pub realm: Realm,
    /// At the first start.
    pub first_admin: Option<FirstAdmin>,
}

/// The credentials of the first admin, to be shown once.
pub struct FirstAdmin {
    pub organization: Identifier,
    pub name: Identifier,
    pub password: Password,
    pub token: TokenText,
}

/// Opens the parts that stand on a store, and resumes what the previous run left unfinished. The settings have the
/// organizations of this store alone.
pub async fn open_realm(
    settings: &Settings,
    RealmStore { store, number, logged, clock, steady, log_keeper, steps_over_at, makes_admin, tickets }: RealmStore,
    node: &Node,
    steps: &Steps,
) -> Result<OpenedRealm, ServeError> {
    let events = Events::new(store.clone());
    // Before any event is added.
    events.repair_heads().await?;
    declared::log_changes(&*store, &settings.organizations)?;
    let accounts = Accounts::open(store.clone(), declared::members(&settings.organizations), clock()).await?;
    let accounts = accounts.with_limits(settings.auth.sign_ins, settings.auth.attempts);
    accounts.apply_trust(declared::trusted(&settings.organizations), clock()).await?;
    let first_admin = if makes_admin { first_admin(&accounts, settings, clock()).await? } else { None };
    let master = secrets::unlock(&*store, &settings.data_dir, settings.master_key.clone()).await?;
    let events = events.with_key(secrets::audit_key(&*store, &master).await?);
    let backups = logged.map(|logged| Backups::new(logged, node.logs.clone(), Some(master.fingerprint())));
    let vault = Arc::new(Vault::open(store.clone(), master)?);
    let idempotency = Keys::open(store.clone(), settings.idempotency.max_keys, steady.clone())?;
    let pipelines = Pipelines::open(store.clone(), declared::pipelines(&settings.organizations), clock()).await?;
    let known = settings.organizations.iter().map(|organization| &organization.id);
    if let Err(error) = orphans::delete_secrets(&vault, &pipelines, known, clock()).await {
        tracing::warn!(%error, "cannot delete the secrets of deleted pipelines; the next start tries again");
    }
    let registries =
        Registries::open(store.clone(), pipelines.clone(), vault.clone(), node.git.clone(), config::read_step)?;
    declared::warn_of_unresolved(&settings.organizations, &pipelines, &registries);
    let definitions = PipelineDefinitions { pipelines: pipelines.clone(), registries: registries.clone() };
    let environments =
        open_environments((settings, node), (store.clone(), tickets), clock.clone(), &steady, definitions)?;
    if let Some(keeper) = log_keeper {
        environments.set_log_keeper(keeper);
    }
    let pipeline_masks = PipelineMasks::new(vault.clone());
    let host = Arc::new(RunnerHost::new(
        environments.clone(),
        pipeline_masks.clone(),
        clock.clone(),
        store.clone(),
        steps_over_at,
    ));
    steps.hosts.add(number, host);
    // Before anything else is decided: stages of the previous run must not be mistaken for stages of this one.
    resume_deployments(&environments, &steps.runner).await?;
    declared::environments(&environments, &settings.organizations, &pipelines).await?;
    // Their actors run on this thread; the next request starts one on a thread that serves requests. The first call only forgets
    // that they have just been used.
    environments.dismiss_unused();
    environments.dismiss_unused();
    declared::forget_gone((&environments, &pipelines), &*store, &settings.organizations, clock()).await?;
    declared_entries::note(&*store, &settings.organizations).await?;
    declared::warn_of_reserved_names(&settings.organizations, &pipelines, &environments)?;
    let masks = analysing::masks(pipeline_masks);
    let repositories = Repositories { git: node.git.clone(), pipelines: pipelines.clone(), vault: vault.clone() };
    let of = (settings, node);
    let analyses =
        analysing::open(of, store.clone(), &environments, masks.clone(), repositories.clone(), clock.clone())?;
    let dependencies = fixes::FixDependencies {
        repositories,
        policy: policy(settings),
        analyses: analyses.clone(),
        masks,
        clock: clock.clone(),
    };
    let fixes = Fixes::new(dependencies, node.organizations);

    let webhooks = open_webhooks((settings, node), store.clone(), vault.clone(), clock.clone())?;
    let realm = Realm {
        store,
        environments,
        accounts,
        organization_names: Replaceable::new(declared::organization_names(&settings.organizations)),
        idempotency,
        pipelines,
        registries,
        vault,
        webhooks,
        analyses,
        fixes,
        event_hubs: EventHubs::new(events.clone(), stream_timing(settings), node.organizations),
        events,
        sso: Replaceable::new(SingleSignOn::new(declared::providers(&settings.organizations))),
        identities: Replaceable::new(Identities::new(declared::identities(&settings.organizations))),
        backups,
        rate_limits: settings.rate_limit.map(|limit| RateLimits::new(limit.per_second, limit.burst)),
        clock,
    };
    Ok(OpenedRealm { realm, first_admin })
}

pub fn wall_clock() -> WallClock {
    Arc::new(|| Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()))
}

fn open_webhooks(
    (settings, node): (&Settings, &Node),
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
    clock: WallClock,
) -> Result<Webhooks, store::StoreError> {
    let options = webhooks::Options {
        policy: if settings.webhooks.allow_private { Policy::anywhere() } else { policy(settings) },
        timeout: settings.webhooks.timeout,
        retries: settings.webhooks.retries.clone(),
        disable_after: settings.webhooks.disable_after,
        max_sending: settings.webhooks.max_sending,
        organizations: node.organizations,
    };
    let events = Events::new(store.clone());
    Webhooks::open(store, events, vault, clock, Arc::new(http::webhook_body), options)
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

/// Where the server connects to for tenants.
fn policy(settings: &Settings) -> Policy {
    Policy::new(settings.outbound.allow.clone())
}

/// The admin of the first organization: with the operator's token, or on the first start with a new token and a password.
async fn first_admin(
    accounts: &Accounts,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<FirstAdmin>, store::StoreError> {
    let Some(first) = settings.organizations.first() else {
        return Ok(None);
    };
    if let Some(text) = &settings.bootstrap_token {
        if let Some(revoked) = accounts.bootstrap(&first.id, text, now).await? {
            tracing::warn!(
                revoked_at = %jiff::Timestamp::from_millisecond(revoked.as_millis()).unwrap_or_default(),
                "LOCKKEEPER_BOOTSTRAP_TOKEN has a token that was revoked, and that stays so; unset it, or set a new one from `lockkeeper token`"
            );
        }
        return Ok(None);
    }
    let user = accounts.first_admin(&first.id).filter(|_| !accounts.has_been_used());
    let Some(member) = user.and_then(|user| accounts.member(&first.id, user)) else {
        return Ok(None);
    };
    match make_first_admin(accounts, &member, now).await {
        Ok(first_admin) => Ok(Some(first_admin)),
        Err(AccountsError::Store(error)) => Err(error),
        // None of these can happen: it is the first token, for an existing member.
        Err(
            AccountsError::TooManyTokens(_)
            | AccountsError::TokenNotFound
            | AccountsError::TooManyMembers
            | AccountsError::MemberExists
            | AccountsError::MemberNotFound
            | AccountsError::LastAdmin
            | AccountsError::NoLongerAdmin
            | AccountsError::InvalidCredentials
            | AccountsError::Crowded
            | AccountsError::InvitationNotFound
            | AccountsError::MemberDisabled
            | AccountsError::PasswordIsName
            | AccountsError::SignInNotFound
            | AccountsError::ExchangedTooOften
            | AccountsError::TooManyExchanged(_)
            | AccountsError::NotForJobs
            | AccountsError::MemberForJobs
            | AccountsError::NoPassword
            | AccountsError::InvitationDenied
            | AccountsError::NoLongerTrusted
            | AccountsError::AboveProvider,
        ) => Ok(None),
    }
}

/// The token is made last: a start that dies before it is the first once more.
async fn make_first_admin(accounts: &Accounts, member: &Member, now: Timestamp) -> Result<FirstAdmin, AccountsError> {
    let password = Password::generate();
    accounts.set_first_password(member, password.clone(), now).await?;
    let (organization, name) = (member.organization.clone(), member.name.clone());
    let new = NewToken {
        organization: organization.clone(),
        user: member.id,
        name: "first start".to_owned(),
        expires_at: None,
    };
    let open = accounts.create_token(new, Cause::system(now), |_, _| ()).await?;
    Ok(FirstAdmin { organization, name, password, token: open.text })
}

fn open_environments(
    (settings, node): (&Settings, &Node),
    (store, tickets): (Arc<dyn Store>, TicketLane),
    wall: WallClock,
    steady: &SteadyClock,
    definitions: PipelineDefinitions,
) -> Result<Environments, store::StoreError> {
    let (boot, steady) = (steady.boot, steady.clone());
    let clock: Clock = Arc::new(move || Now { at: wall(), tick: steady.tick() });
    let options = Options {
        history_retention: settings.storage.history_retention.into(),
        mailbox: settings.environments.mailbox,
        waiting: Capacity::seats(settings.environments.max_waiting).among(node.organizations),
        waiting_per_token: settings.environments.max_waiting_per_token,
        answer_timeout: settings.http.answer_timeout,
        tickets,
    };
    Environments::open(store, clock, boot, Arc::new(definitions), options)
}

/// Starts running stages, beginning with those that the previous run left.
async fn resume_deployments(environments: &Environments, runner: &Runner) -> Result<(), ServeError> {
    environments.set_executor(Box::new(RunnerExecutor(runner.clone())));
    let unfinished = environments.recover().await.map_err(ServeError::Recover)?;
    if unfinished > 0 {
        tracing::info!(environments = unfinished, "resumed unfinished deployments");
    }
    Ok(())
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

fn stream_timing(settings: &Settings) -> StreamTiming {
    StreamTiming { heartbeat: settings.events.heartbeat, stall: settings.events.stall }
}
