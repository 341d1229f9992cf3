//! The settings of the server, within their bounds and in the units of the code.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use super::Organization;
use crate::tls;
use accounts::auth::{AttemptLimits, SignInLimits, TokenText};
use accounts::secrets::{MasterKey, SecretValue};
use outbound::Destination;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// HTTP threads; 0: one per core.
    pub workers: usize,
    pub bootstrap_token: Option<TokenText>,
    /// `None`: the key of the file in the data directory.
    pub master_key: Option<MasterKey>,
    /// The next key, for a rotation.
    pub master_key_new: Option<MasterKey>,
    /// `None`: off.
    pub rate_limit: Option<RateLimit>,
    /// Where browsers find the server, if a proxy with TLS stands in front of it: `https://host`.
    pub public_url: Option<String>,
    pub auth: Auth,
    pub log: Log,
    pub http: Http,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    pub storage: Storage,
    pub environments: Environments,
    pub idempotency: Idempotency,
    pub events: Events,
    pub runner: Runner,
    pub outbound: Outbound,
    pub webhooks: Webhooks,
    pub analysis: Analysis,
    pub git: Git,
    /// `None`: one machine, with the data in its data directory.
    pub cluster: Option<Cluster>,
    /// At least one, in the order of the settings.
    pub organizations: Vec<Organization>,
    /// No organization was named, and the one in `organizations` is the embedded sample.
    pub sample: bool,
}

/// Of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub per_second: NonZeroU32,
    pub burst: NonZeroU32,
}

/// How people sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auth {
    pub sign_ins: SignInLimits,
    pub attempts: AttemptLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A text that `EnvFilter` parses.
    pub filter: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    pub(super) const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    pub const fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    /// How long a request waits for the disk before its outcome is reported as unknown.
    pub answer_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    pub keep_alive: Duration,
    pub drain: Duration,
    /// Of one worker.
    pub max_connections: usize,
    /// Whether the operator asked for that number.
    pub max_connections_given: bool,
    /// Whether the metrics name organizations.
    pub metrics_names: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub files: tls::Files,
    /// A listener for plain HTTP beside the encrypted one, only for this machine.
    pub plain_listen: Option<SocketAddr>,
    /// How long browsers remember to use TLS; zero: not at all.
    pub hsts: Duration,
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    Off,
    Optional,
    Required,
}

impl ClientCertificates {
    pub(super) const ALL: [ClientCertificates; 3] =
        [ClientCertificates::Off, ClientCertificates::Optional, ClientCertificates::Required];

    pub const fn as_str(self) -> &'static str {
        match self {
            ClientCertificates::Off => "off",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "required",
        }
    }
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub engine: Engine,
    /// The name of this node.
    pub node: String,
    /// Where the other nodes reach this one; `None`: at the address it listens on.
    pub advertise: Option<String>,
    /// The authorities of the other nodes' certificates, instead of those of the system.
    pub nodes_ca: Option<PathBuf>,
    /// Into how many shards the organizations of a new cluster are divided.
    pub shards: NonZeroU16,
    /// How much the engine may hold.
    pub quota_bytes: u64,
    /// Steps end when their node could not show for so long that it still owns them.
    pub step_lease: Duration,
    /// Where logs are kept that outlive their node.
    pub logs: Option<LogStore>,
    /// How much a node keeps of the logs of shards that it does not own.
    pub foreign_log_bytes: u64,
}

/// Where the logs of all nodes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogStore {
    /// Of which all nodes see the same.
    Directory(PathBuf),
    S3(S3Store),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Store {
    pub bucket: String,
    /// Of all objects.
    pub prefix: String,
    /// `None`: Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    pub key_id: String,
    pub secret: SecretValue,
    /// Of credentials that expire.
    pub session_token: Option<SecretValue>,
}

/// The database of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    Etcd(EtcdEngine),
    Postgres(PostgresEngine),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEngine {
    /// The URL of each member.
    pub members: Vec<String>,
    /// Of all keys.
    pub prefix: String,
    pub certificates: EngineCertificates,
    /// The user and its password.
    pub credentials: Option<(String, SecretValue)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresEngine {
    /// May have a password.
    pub url: SecretValue,
    pub certificates: EngineCertificates,
}

/// The files of encrypted connections to an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineCertificates {
    pub authority: Option<PathBuf>,
    /// The certificate and the key that this node shows.
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    Off,
    Etcd,
    Postgres,
}

impl EngineChoice {
    pub(super) const ALL: [EngineChoice; 3] = [EngineChoice::Off, EngineChoice::Etcd, EngineChoice::Postgres];

    pub const fn as_str(self) -> &'static str {
        match self {
            EngineChoice::Off => "off",
            EngineChoice::Etcd => "etcd",
            EngineChoice::Postgres => "postgres",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Ended sessions kept per environment.
    pub history_retention: u32,
    pub log_segment_bytes: u64,
    pub cache_bytes: u64,
    pub min_free_bytes: u64,
    /// Of the logs of all deployments together.
    pub deployment_log_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environments {
    /// An environment's actor leaves memory after this long without use.
    pub idle: Duration,
    /// How many requests may wait for one environment.
    pub mailbox: usize,
    /// How many claims may wait, of all organizations together.
    pub max_waiting: usize,
    /// How many of them may be of one token.
    pub max_waiting_per_token: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Answers kept for retries, of all tokens together.
    pub max_keys: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// Kept per organization.
    pub max_events: u64,
    pub max_security_events: u64,
    pub max_security_age: Duration,
    pub max_age: Duration,
    /// The interval of keep-alive comments on a stream without events.
    pub heartbeat: Duration,
    /// A stream is cut off after its client has taken nothing for this long.
    pub stall: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Of all deployments together.
    pub max_running_steps: usize,
    /// The time between the request to end and the kill of a step.
    pub termination_grace: Duration,
    /// The `PATH` of steps.
    pub path: String,
    pub log_bytes_per_step: u64,
    pub isolation: Isolation,
    pub network: StepNetwork,
    pub users: UserRange,
    /// Steps may read these besides the paths of the system.
    pub read_only_paths: Vec<PathBuf>,
    pub writable_paths: Vec<PathBuf>,
    /// The limits of a confined step; `None`: off.
    pub max_processes: Option<u32>,
    pub max_memory_bytes: Option<u64>,
    pub max_file_bytes: Option<u64>,
    pub max_open_files: Option<u32>,
    pub max_cpu_seconds: Option<u32>,
    /// Of the directories of one deployment, and of all of an organization; `None`: off.
    pub max_disk_bytes: Option<u64>,
    pub max_organization_disk_bytes: Option<u64>,
    /// Steps are ended, and none starts, below this.
    pub min_free_bytes: Option<u64>,
    /// Per second, by the steps of all organizations; `None`: off.
    pub max_write_bytes: Option<u64>,
}

/// What the programs of steps can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepNetwork {
    /// Whatever the machine can.
    Open,
    None,
}

impl StepNetwork {
    pub(super) const ALL: [StepNetwork; 2] = [StepNetwork::Open, StepNetwork::None];

    pub const fn as_str(self) -> &'static str {
        match self {
            StepNetwork::Open => "open",
            StepNetwork::None => "none",
        }
    }
}

/// How steps are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Completely, or the server does not start.
    Strict,
    /// By everything that the machine has.
    Best,
    Off,
}

impl Isolation {
    pub(super) const ALL: [Isolation; 3] = [Isolation::Strict, Isolation::Best, Isolation::Off];

    pub const fn as_str(self) -> &'static str {
        match self {
            Isolation::Strict => "strict",
            Isolation::Best => "best",
            Isolation::Off => "off",
        }
    }
}

/// User ids for the steps of organizations, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    pub first: u32,
    pub last: u32,
}

impl UserRange {
    /// Below are the users of the system, and root.
    pub(super) const LOWEST: u32 = 1_000;
    /// The last two numbers mean "nobody" and "unchanged" to the kernel.
    pub(super) const HIGHEST: u32 = u32::MAX - 2;

    /// `first-last`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let range = Self { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? };
        (Self::LOWEST <= range.first && range.first <= range.last && range.last <= Self::HIGHEST).then_some(range)
    }
}

/// Where the server connects to for tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// Besides public addresses.
    pub allow: Vec<Destination>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhooks {
    /// Whether deliveries may go to addresses that are not public, wherever.
    pub allow_private: bool,
    /// The time limit of a receiver.
    pub timeout: Duration,
    /// The delays after failed attempts; after the last delay comes one more attempt.
    pub retries: Vec<Duration>,
    /// A webhook is disabled after it has failed for this long.
    pub disable_after: Duration,
    /// Deliveries under way at once, to all receivers.
    pub max_sending: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    pub engine: AnalysisEngine,
    /// The server of the model; `None`: no model.
    pub llm: Option<AnalysisLlm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnalysisEngine {
    Off,
    Builtin,
    Llm,
}

impl AnalysisEngine {
    pub(super) const ALL: [AnalysisEngine; 3] = [AnalysisEngine::Off, AnalysisEngine::Builtin, AnalysisEngine::Llm];

    pub const fn as_str(self) -> &'static str {
        match self {
            AnalysisEngine::Off => "off",
            AnalysisEngine::Builtin => "builtin",
            AnalysisEngine::Llm => "llm",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalysisLlm {
    pub url: String,
    pub model: String,
    pub key: Option<SecretValue>,
    pub timeout: Duration,
    pub max_log_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// A path, or a name to find in the server's `PATH`.
    pub program: PathBuf,
    pub timeout: Duration,
    pub max_repository_bytes: u64,
    pub file_urls: FileUrls,
}

/// Whether `file://` repositories are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUrls {
    Always,
    Never,
    /// Only with the embedded sample organization, to try things out.
    Sample,
}

impl Settings {
    /// The settings that are others in `new` and count only from the next start on, by key or section. The log filter and what
    /// organization files declare are none of them.
    pub fn changed_for_restart(&self, new: &Settings) -> Vec<&'static str> {
        // Each field is named, so that none is forgotten.
        let Settings {
            listen,
            data_dir,
            workers,
            bootstrap_token,
            master_key,
            master_key_new,
            rate_limit,
            public_url,
            auth,
            log: Log { filter: _, format },
            http,
            tls,
            storage,
            environments,
            idempotency,
            events,
            runner,
            outbound,
            webhooks,
            analysis,
            git,
            cluster,
            organizations,
            sample: _,
        } = self;
        let ids = |organizations: &[Organization]| organizations.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        let changed = [
            ("listen", *listen != new.listen),
            ("data_dir", *data_dir != new.data_dir),
            ("workers", *workers != new.workers),
            ("bootstrap_token", *bootstrap_token != new.bootstrap_token),
            ("master_key", *master_key != new.master_key),
            ("master_key_new", *master_key_new != new.master_key_new),
            ("rate_limit", *rate_limit != new.rate_limit),
            ("public_url", *public_url != new.public_url),
            ("organizations", ids(organizations) != ids(&new.organizations)),
            ("auth", *auth != new.auth),
            ("log.format", *format != new.log.format),
            ("http", *http != new.http),
            ("tls", *tls != new.tls),
            ("storage", *storage != new.storage),
            ("environments", *environments != new.environments),
            ("idempotency", *idempotency != new.idempotency),
            ("events", *events != new.events),
            ("runner", *runner != new.runner),
            ("outbound", *outbound != new.outbound),
            ("webhooks", *webhooks != new.webhooks),
            ("analysis", *analysis != new.analysis),
            ("git", *git != new.git),
            ("cluster", *cluster != new.cluster),
        ];
        changed.into_iter().filter_map(|(name, is_changed)| is_changed.then_some(name)).collect()
    }

    pub fn allows_file_urls(&self) -> bool {
        match self.git.file_urls {
            FileUrls::Always => true,
            FileUrls::Never => false,
            FileUrls::Sample => self.sample,
        }
    }
}
