//! The table of settings: one row per key with its type and its target. Files, variables and flags all use it.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use accounts::auth::{AttemptLimits, SignInLimits, TokenText};
use accounts::secrets::{MasterKey, SecretValue};
use outbound::{DESTINATIONS_MAX, Destination};

use super::cluster::ClusterDraft;
use super::cluster::LogsUrl;
use super::fault::{Fault, Place};
use super::given::{Given, Unfit};
use super::settings::{
    Analysis, AnalysisEngine, AnalysisLlm, Auth, ClientCertificates, EngineChoice, Environments, Events, FileUrls, Git,
    Http, Idempotency, Isolation, Log, LogFormat, Outbound, Runner, Settings, StepNetwork, Storage, UserRange,
    Webhooks,
};
use super::tls::TlsDraft;

/// The settings while the layers are laid over each other.
pub(super) struct Draft {
    /// Without organizations and rate limit, which need more than one key.
    pub(super) settings: Settings,
    pub(super) per_second: Option<NonZeroU32>,
    pub(super) burst: NonZeroU32,
    /// The server of the model, if there is one or not.
    pub(super) llm: AnalysisLlm,
    pub(super) tls: TlsDraft,
    pub(super) cluster: ClusterDraft,
    /// The organization files, with the places that name them.
    pub(super) organizations: Vec<(PathBuf, Place)>,
}

impl Draft {
    /// Nothing in here survives the first layer: `default.toml` has every key, as a test proves.
    pub(super) fn blank() -> Self {
        let settings = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: PathBuf::new(),
            workers: 0,
            bootstrap_token: None,
            master_key: None,
            master_key_new: None,
            rate_limit: None,
            public_url: None,
            auth: Auth {
                sign_ins: SignInLimits { idle: Duration::ZERO, max: Duration::ZERO, invitation: Duration::ZERO },
                attempts: AttemptLimits { per_account: None, per_address: None },
            },
            log: Log { filter: String::new(), format: LogFormat::Text },
            http: Http {
                head_timeout: Duration::ZERO,
                body_timeout: Duration::ZERO,
                answer_timeout: Duration::ZERO,
                write_timeout: Duration::ZERO,
                keep_alive: Duration::ZERO,
                drain: Duration::ZERO,
                max_connections: 0,
                max_connections_given: false,
                metrics_names: false,
            },
            tls: None,
            storage: Storage {
                history_retention: 0,
                log_segment_bytes: 0,
                cache_bytes: 0,
                min_free_bytes: 0,
                deployment_log_bytes: 0,
            },
            environments: Environments { idle: Duration::ZERO, mailbox: 0, max_waiting: 0, max_waiting_per_token: 0 },
            idempotency: Idempotency { max_keys: 0 },
            events: Events {
                max_events: 0,
                max_security_events: 0,
                max_security_age: Duration::ZERO,
                max_age: Duration::ZERO,
                heartbeat: Duration::ZERO,
                stall: Duration::ZERO,
            },
            runner: Runner {
                max_running_steps: 0,
                termination_grace: Duration::ZERO,
                path: String::new(),
                log_bytes_per_step: 0,
                isolation: Isolation::Off,
                network: StepNetwork::Open,
                users: UserRange { first: UserRange::LOWEST, last: UserRange::LOWEST },
                read_only_paths: Vec::new(),
                writable_paths: Vec::new(),
                max_processes: None,
                max_memory_bytes: None,
                max_file_bytes: None,
                max_open_files: None,
                max_cpu_seconds: None,
                max_disk_bytes: None,
                max_organization_disk_bytes: None,
                min_free_bytes: None,
                max_write_bytes: None,
            },
            outbound: Outbound { allow: Vec::new() },
            webhooks: Webhooks {
                allow_private: false,
                timeout: Duration::ZERO,
                retries: Vec::new(),
                disable_after: Duration::ZERO,
                max_sending: 0,
            },
            analysis: Analysis { engine: AnalysisEngine::Off, llm: None },
            git: Git {
                program: PathBuf::new(),
                timeout: Duration::ZERO,
                max_repository_bytes: 0,
                file_urls: FileUrls::Never,
            },
            cluster: None,
            organizations: Vec::new(),
            sample: false,
        };
        let (url, model) = (String::new(), String::new());
        let llm = AnalysisLlm { url, model, key: None, timeout: Duration::ZERO, max_log_bytes: 0 };
        let (tls, cluster, organizations) = (TlsDraft::default(), ClusterDraft::default(), Vec::new());
        Self { settings, per_second: None, burst: NonZeroU32::MIN, llm, tls, cluster, organizations }
    }
}

pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// The type of a key, and its target.
pub(super) enum Kind {
    Address(fn(&mut Draft, SocketAddr)),
    /// An address that only this machine can reach, with the place that names it, or none.
    LoopbackOrOff(fn(&mut Draft, Option<(SocketAddr, Place)>)),
    Directory(fn(&mut Draft, PathBuf)),
    Number(u32, u32, fn(&mut Draft, u32)),
    NumberOrOff(u32, u32, fn(&mut Draft, Option<u32>)),
    /// At most this many numbers, each within these bounds.
    Numbers(usize, u32, u32, fn(&mut Draft, Vec<u32>)),
    Flag(fn(&mut Draft, bool)),
    LogFilter(fn(&mut Draft, String)),
    LogFormat(fn(&mut Draft, LogFormat)),
    OrganizationFiles,
    /// A file with the place that names it, or none.
    File(fn(&mut Draft, Option<(PathBuf, Place)>)),
    ClientCertificates(fn(&mut Draft, ClientCertificates)),
    SearchPath(fn(&mut Draft, String)),
    Isolation(fn(&mut Draft, Isolation)),
    StepNetwork(fn(&mut Draft, StepNetwork)),
    Users(fn(&mut Draft, UserRange)),
    /// Absolute paths.
    Paths(fn(&mut Draft, Vec<PathBuf>)),
    AnalysisEngine(fn(&mut Draft, AnalysisEngine)),
    ClusterEngine(fn(&mut Draft, EngineChoice)),
    /// At most this many http or https URLs.
    Urls(usize, fn(&mut Draft, Vec<String>)),
    /// Where logs are kept, or nothing.
    LogsUrl(fn(&mut Draft, Option<LogsUrl>)),
    /// The URL of a database; one with a password only from the environment.
    DatabaseUrl(fn(&mut Draft, Option<SecretValue>)),
    /// An http or https URL, or nothing.
    Url(fn(&mut Draft, String)),
    /// The scheme, host and port of an https URL, or nothing.
    PublicUrl(fn(&mut Draft, Option<String>)),
    /// What is allowed besides public addresses.
    Destinations(fn(&mut Draft, Vec<Destination>)),
    /// A name of at most this many bytes, or nothing.
    Name(usize, fn(&mut Draft, String)),
    /// Only from the environment.
    Secret(fn(&mut Draft, SecretValue)),
    Program(fn(&mut Draft, PathBuf)),
    FileUrls(fn(&mut Draft, FileUrls)),
    /// Only from the environment.
    Token(fn(&mut Draft, TokenText)),
    /// Only from the environment.
    MasterKey(fn(&mut Draft, MasterKey)),
}

impl Kind {
    /// Whether it is not allowed in a file.
    pub(super) fn is_secret(&self) -> bool {
        match self {
            Kind::Token(_) | Kind::MasterKey(_) | Kind::Secret(_) => true,
            Kind::Address(_)
            | Kind::LoopbackOrOff(_)
            | Kind::Directory(_)
            | Kind::Number(..)
            | Kind::NumberOrOff(..)
            | Kind::Numbers(..)
            | Kind::Flag(_)
            | Kind::LogFilter(_)
            | Kind::LogFormat(_)
            | Kind::OrganizationFiles
            | Kind::File(_)
            | Kind::ClientCertificates(_)
            | Kind::SearchPath(_)
            | Kind::Isolation(_)
            | Kind::StepNetwork(_)
            | Kind::Users(_)
            | Kind::Paths(_)
            | Kind::AnalysisEngine(_)
            | Kind::ClusterEngine(_)
            | Kind::Urls(..)
            | Kind::LogsUrl(_)
            | Kind::DatabaseUrl(_)
            | Kind::Url(_)
            | Kind::PublicUrl(_)
            | Kind::Destinations(_)
            | Kind::Name(..)
            | Kind::Program(_)
            | Kind::FileUrls(_) => false,
        }
    }
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

/// More organizations than one server should have, few enough to read at each start.
pub(super) const ORGANIZATIONS_MAX: usize = 1_000;

/// Dozens of directives; each is compiled at the start.
pub(super) const LOG_FILTER_MAX: usize = 1_024;

/// A fortnight of doubling waits; each attempt is kept in the delivery's record.
const RETRIES_MAX: usize = 16;

/// Dozens of directories; every step gets a copy.
pub(super) const SEARCH_PATH_MAX: usize = 4_096;

/// An engine has three or five.
pub(super) const ENGINE_MEMBERS_MAX: usize = 16;

/// Every step opens each of them.
pub(super) const STEP_PATHS_MAX: usize = 64;

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("listen", Kind::Address(|d, address| d.settings.listen = address)),
    key("data_dir", Kind::Directory(|d, path| d.settings.data_dir = path)),
    key("workers", Kind::Number(0, 256, |d, n| d.settings.workers = n as usize)),
    key("bootstrap_token", Kind::Token(|d, token| d.settings.bootstrap_token = Some(token))),
    key("master_key", Kind::MasterKey(|d, key| d.settings.master_key = Some(key))),
    key("master_key_new", Kind::MasterKey(|d, key| d.settings.master_key_new = Some(key))),
    key("rate_limit", Kind::NumberOrOff(1, 1_000_000, |d, n| d.per_second = n.and_then(NonZeroU32::new))),
    key("rate_limit_burst", Kind::Number(1, 10_000_000, |d, n| d.burst = NonZeroU32::new(n).unwrap_or(d.burst))),
    key("public_url", Kind::PublicUrl(|d, url| d.settings.public_url = url)),
    key("organizations", Kind::OrganizationFiles),
    key("auth.sign_in_idle_hours", Kind::Number(1, 8_760, |d, n| d.settings.auth.sign_ins.idle = hours(n))),
    key("auth.sign_in_max_hours", Kind::Number(1, 8_760, |d, n| d.settings.auth.sign_ins.max = hours(n))),
    key("auth.invitation_hours", Kind::Number(1, 720, |d, n| d.settings.auth.sign_ins.invitation = hours(n))),
    key("auth.failures_per_account", Kind::NumberOrOff(1, 1_000, |d, n| d.settings.auth.attempts.per_account = n)),
    key("auth.attempts_per_address", Kind::NumberOrOff(1, 100_000, |d, n| d.settings.auth.attempts.per_address = n)),
    key("log.filter", Kind::LogFilter(|d, filter| d.settings.log.filter = filter)),
    key("log.format", Kind::LogFormat(|d, format| d.settings.log.format = format)),
    key("http.head_timeout_seconds", Kind::Number(1, 300, |d, n| d.settings.http.head_timeout = seconds(n))),
    key("http.body_timeout_seconds", Kind::Number(1, 300, |d, n| d.settings.http.body_timeout = seconds(n))),
    key("http.answer_timeout_seconds", Kind::Number(1, 600, |d, n| d.settings.http.answer_timeout = seconds(n))),
    key("http.write_timeout_seconds", Kind::Number(1, 300, |d, n| d.settings.http.write_timeout = seconds(n))),
    key("http.keep_alive_seconds", Kind::Number(1, 3_600, |d, n| d.settings.http.keep_alive = seconds(n))),
    key("http.drain_seconds", Kind::Number(0, 600, |d, n| d.settings.http.drain = seconds(n))),
    key("http.max_connections", Kind::Number(1, 1_000_000, |d, n| {
        (d.settings.http.max_connections, d.settings.http.max_connections_given) = (n as usize, true);
    })),
    key("http.metrics_names", Kind::Flag(|d, names| d.settings.http.metrics_names = names)),
    key("tls.certificate", Kind::File(|d, file| d.tls.certificate = file)),
    key("tls.key", Kind::File(|d, file| d.tls.key = file)),
    key("tls.plain_listen", Kind::LoopbackOrOff(|d, address| d.tls.plain_listen = address)),
    key("tls.client_certificates", Kind::ClientCertificates(|d, clients| d.tls.client_certificates = clients)),
    key("tls.client_ca", Kind::File(|d, file| d.tls.client_ca = file)),
    key("tls.hsts_seconds", Kind::Number(0, 63_072_000, |d, n| d.tls.hsts = seconds(n))),
    key("storage.history_retention", Kind::Number(1, 10_000_000, |d, n| d.settings.storage.history_retention = n)),
    key("storage.log_segment_mb", Kind::Number(4, 1_024, |d, n| d.settings.storage.log_segment_bytes = mebibytes(n))),
    key("storage.cache_mb", Kind::Number(8, 65_536, |d, n| d.settings.storage.cache_bytes = mebibytes(n))),
    key("storage.min_free_mb", Kind::Number(0, 1_048_576, |d, n| d.settings.storage.min_free_bytes = mebibytes(n))),
    key("storage.log_max_mb", Kind::Number(16, 1_048_576, |d, n| d.settings.storage.deployment_log_bytes = mebibytes(n))),
    key("environments.idle_seconds", Kind::Number(1, 86_400, |d, n| d.settings.environments.idle = seconds(n))),
    key(
        "environments.max_waiting",
        Kind::Number(10, 10_000_000, |d, n| d.settings.environments.max_waiting = n as usize),
    ),
    key(
        "environments.max_waiting_per_token",
        Kind::Number(1, 10_000_000, |d, n| d.settings.environments.max_waiting_per_token = n as usize),
    ),
    key("environments.mailbox", Kind::Number(16, 65_536, |d, n| d.settings.environments.mailbox = n as usize)),
    key("idempotency.max_keys", Kind::Number(1_000, 100_000_000, |d, n| d.settings.idempotency.max_keys = n as usize)),
    key("events.max_events", Kind::Number(1_000, 100_000_000, |d, n| d.settings.events.max_events = n.into())),
    key(
        "events.max_security_events",
        Kind::Number(1_000, 10_000_000, |d, n| d.settings.events.max_security_events = n.into()),
    ),
    key("events.max_security_age_days", Kind::Number(1, 36_500, |d, n| d.settings.events.max_security_age = days(n))),
    key("events.max_age_days", Kind::Number(1, 3_650, |d, n| d.settings.events.max_age = days(n))),
    key("events.heartbeat_seconds", Kind::Number(1, 300, |d, n| d.settings.events.heartbeat = seconds(n))),
    key("events.stall_seconds", Kind::Number(1, 600, |d, n| d.settings.events.stall = seconds(n))),
    key("runner.max_running_steps", Kind::Number(1, 256, |d, n| d.settings.runner.max_running_steps = n as usize)),
    key("runner.termination_grace_seconds", Kind::Number(0, 600, |d, n| d.settings.runner.termination_grace = seconds(n))),
    key("runner.path", Kind::SearchPath(|d, path| d.settings.runner.path = path)),
    key("runner.log_kb_per_step", Kind::Number(64, 1_048_576, |d, n| d.settings.runner.log_bytes_per_step = kibibytes(n))),
    key("runner.network", Kind::StepNetwork(|d, network| d.settings.runner.network = network)),
    key("runner.isolation", Kind::Isolation(|d, isolation| d.settings.runner.isolation = isolation)),
    key("runner.user_range", Kind::Users(|d, range| d.settings.runner.users = range)),
    key("runner.read_only_paths", Kind::Paths(|d, paths| d.settings.runner.read_only_paths = paths)),
    key("runner.writable_paths", Kind::Paths(|d, paths| d.settings.runner.writable_paths = paths)),
    key("runner.max_processes", Kind::NumberOrOff(16, 1_000_000, |d, n| d.settings.runner.max_processes = n)),
    key("runner.max_memory_mb", Kind::NumberOrOff(64, 16_777_216, |d, n| d.settings.runner.max_memory_bytes = n.map(mebibytes))),
    key("runner.max_file_mb", Kind::NumberOrOff(1, 16_777_216, |d, n| d.settings.runner.max_file_bytes = n.map(mebibytes))),
    key("runner.max_open_files", Kind::NumberOrOff(64, 1_048_576, |d, n| d.settings.runner.max_open_files = n)),
    key("runner.max_cpu_seconds", Kind::NumberOrOff(1, 31_536_000, |d, n| d.settings.runner.max_cpu_seconds = n)),
    key("runner.max_disk_mb", Kind::NumberOrOff(1, 16_777_216, |d, n| d.settings.runner.max_disk_bytes = n.map(mebibytes))),
    key("runner.max_disk_per_organization_mb", Kind::NumberOrOff(1, 16_777_216, |d, n| {
        d.settings.runner.max_organization_disk_bytes = n.map(mebibytes);
    })),
    key("runner.min_free_mb", Kind::NumberOrOff(1, 1_048_576, |d, n| d.settings.runner.min_free_bytes = n.map(mebibytes))),
    key("runner.max_write_mb_per_second", Kind::NumberOrOff(1, 1_048_576, |d, n| d.settings.runner.max_write_bytes = n.map(mebibytes))),
    key("outbound.allow", Kind::Destinations(|d, allow| d.settings.outbound.allow = allow)),
    key("webhooks.allow_private", Kind::Flag(|d, allowed| d.settings.webhooks.allow_private = allowed)),
    key("webhooks.timeout_seconds", Kind::Number(1, 60, |d, n| d.settings.webhooks.timeout = seconds(n))),
    key("webhooks.retry_seconds", Kind::Numbers(RETRIES_MAX, 0, 604_800, |d, n| d.settings.webhooks.retries = n.into_iter().map(seconds).collect())),
    key("webhooks.disable_after_hours", Kind::Number(0, 8_760, |d, n| d.settings.webhooks.disable_after = seconds(n * 3_600))),
    key("webhooks.max_sending", Kind::Number(1, 4_096, |d, n| d.settings.webhooks.max_sending = n as usize)),
    key("analysis.engine", Kind::AnalysisEngine(|d, engine| d.settings.analysis.engine = engine)),
    key("analysis.llm_url", Kind::Url(|d, url| d.llm.url = url)),
    key("analysis.llm_model", Kind::Name(256, |d, model| d.llm.model = model)),
    key("analysis.llm_key", Kind::Secret(|d, value| d.llm.key = Some(value))),
    key("analysis.llm_timeout_seconds", Kind::Number(1, 600, |d, n| d.llm.timeout = seconds(n))),
    key("analysis.llm_max_log_kb", Kind::Number(1, 4_096, |d, n| d.llm.max_log_bytes = (n as usize) << 10)),
    key("git.program", Kind::Program(|d, program| d.settings.git.program = program)),
    key("git.timeout_seconds", Kind::Number(1, 600, |d, n| d.settings.git.timeout = seconds(n))),
    key("git.max_repository_mb", Kind::Number(1, 1_048_576, |d, n| d.settings.git.max_repository_bytes = mebibytes(n))),
    key("git.allow_file_urls", Kind::FileUrls(|d, urls| d.settings.git.file_urls = urls)),
    key("cluster.engine", Kind::ClusterEngine(|d, engine| d.cluster.engine = engine)),
    key("cluster.etcd", Kind::Urls(ENGINE_MEMBERS_MAX, |d, urls| d.cluster.etcd = urls)),
    key("cluster.etcd_prefix", Kind::Name(64, |d, prefix| d.cluster.etcd_prefix = prefix)),
    key("cluster.etcd_user", Kind::Name(256, |d, user| d.cluster.etcd_user = user)),
    key("cluster.etcd_password", Kind::Secret(|d, value| d.cluster.etcd_password = Some(value))),
    key("cluster.postgres", Kind::DatabaseUrl(|d, url| d.cluster.postgres = url)),
    key("cluster.engine_ca", Kind::File(|d, file| d.cluster.engine_ca = file)),
    key("cluster.engine_certificate", Kind::File(|d, file| d.cluster.engine_certificate = file)),
    key("cluster.engine_key", Kind::File(|d, file| d.cluster.engine_key = file)),
    key("cluster.node", Kind::Name(64, |d, node| d.cluster.node = node)),
    key("cluster.advertise", Kind::Url(|d, url| d.cluster.advertise = url)),
    key("cluster.nodes_ca", Kind::File(|d, file| d.cluster.nodes_ca = file)),
    key("cluster.shards", Kind::Number(1, 1_024, |d, n| {
        d.cluster.shards = u16::try_from(n).ok().and_then(NonZeroU16::new).unwrap_or(d.cluster.shards);
    })),
    key("cluster.step_lease_seconds", Kind::Number(5, 600, |d, n| d.cluster.step_lease = seconds(n))),
    key("cluster.logs", Kind::LogsUrl(|d, url| d.cluster.logs.url = url)),
    key("cluster.logs_endpoint", Kind::Url(|d, url| d.cluster.logs.endpoint = url)),
    key("cluster.logs_region", Kind::Name(64, |d, region| d.cluster.logs.region = region)),
    key("cluster.logs_key_id", Kind::Name(256, |d, id| d.cluster.logs.key_id = id)),
    key("cluster.logs_secret", Kind::Secret(|d, value| d.cluster.logs.secret = Some(value))),
    key("cluster.foreign_log_mb", Kind::Number(1, 1_048_576, |d, n| d.cluster.foreign_log_bytes = mebibytes(n))),
    key("cluster.quota_mb", Kind::Number(64, 1_048_576, |d, n| d.cluster.quota_bytes = mebibytes(n))),
];

fn seconds(n: u32) -> Duration {
    Duration::from_secs(n.into())
}

fn hours(n: u32) -> Duration {
    Duration::from_secs(u64::from(n) * 3_600)
}

fn days(n: u32) -> Duration {
    Duration::from_secs(u64::from(n) * 86_400)
}

fn kibibytes(n: u32) -> u64 {
    u64::from(n) << 10
}

fn mebibytes(n: u32) -> u64 {
    u64::from(n) << 20
}

impl Key {
    /// `server.listen` is `LOCKKEEPER_SERVER_LISTEN`.
    pub(super) fn variable(&self) -> String {
        format!("LOCKKEEPER_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }

    /// Puts the value into `draft`, or says why it is refused.
    pub(super) fn put(&self, given: &Given<'_>, draft: &mut Draft, faults: &mut Vec<Fault>) {
        let fits = match self.kind {
            Kind::Address(put) => given.address().map(|address| put(draft, address)),
            Kind::LoopbackOrOff(put) => given.loopback_or_off().map(|address| put(draft, address)),
            Kind::File(put) => given.file().map(|file| put(draft, file)),
            Kind::ClientCertificates(put) => {
                given.choice(ClientCertificates::ALL, ClientCertificates::as_str).map(|clients| put(draft, clients))
            }
            Kind::Directory(put) => given.path().map(|path| put(draft, path)),
            Kind::Number(min, max, put) => given.number(min, max).map(|n| put(draft, n)),
            Kind::NumberOrOff(min, max, put) => given.number_or_off(min, max).map(|n| put(draft, n)),
            Kind::Numbers(count, min, max, put) => given.numbers(count, min, max).map(|numbers| put(draft, numbers)),
            Kind::Flag(put) => given.flag().map(|flag| put(draft, flag)),
            Kind::LogFilter(put) => given.log_filter().map(|filter| put(draft, filter)),
            Kind::LogFormat(put) => given.log_format().map(|format| put(draft, format)),
            Kind::SearchPath(put) => given.search_path().map(|path| put(draft, path)),
            Kind::StepNetwork(put) => {
                given.choice(StepNetwork::ALL, StepNetwork::as_str).map(|choice| put(draft, choice))
            }
            Kind::Isolation(put) => given.choice(Isolation::ALL, Isolation::as_str).map(|choice| put(draft, choice)),
            Kind::Users(put) => given.user_range().map(|range| put(draft, range)),
            Kind::Paths(put) => given.absolute_paths().map(|paths| put(draft, paths)),
            Kind::Program(put) => given.program().map(|program| put(draft, program)),
            Kind::FileUrls(put) => given.file_urls().map(|urls| put(draft, urls)),
            Kind::Token(put) => given.secret(TokenText::parse).map(|token| put(draft, token)),
            Kind::MasterKey(put) => given.secret(MasterKey::parse).map(|key| put(draft, key)),
            Kind::Secret(put) => given.secret(SecretValue::parse).map(|value| put(draft, value)),
            Kind::AnalysisEngine(put) => {
                given.choice(AnalysisEngine::ALL, AnalysisEngine::as_str).map(|e| put(draft, e))
            }
            Kind::ClusterEngine(put) => given.choice(EngineChoice::ALL, EngineChoice::as_str).map(|e| put(draft, e)),
            Kind::Urls(count, put) => given.urls(count).map(|urls| put(draft, urls)),
            Kind::LogsUrl(put) => given.logs_url().map(|url| put(draft, url)),
            Kind::DatabaseUrl(put) => given.database_url().map(|url| put(draft, url)),
            Kind::Url(put) => given.url().map(|url| put(draft, url)),
            Kind::PublicUrl(put) => given.public_url().map(|url| put(draft, url)),
            Kind::Destinations(put) => given.destinations().map(|allow| put(draft, allow)),
            Kind::Name(max, put) => given.name(max).map(|name| put(draft, name)),
            Kind::OrganizationFiles => given.organization_files(faults).map(|files| draft.organizations = files),
        };
        if let Err(unfit) = fits {
            faults.push(self.fault(given, &unfit));
        }
    }

    fn fault(&self, given: &Given<'_>, unfit: &Unfit) -> Fault {
        if self.kind.is_secret() && matches!(given, Given::InFile { .. }) {
            return self.secret_in_a_file(given.place());
        }
        unfit.fault(given.place(), self.name, &self.allowed())
    }

    fn secret_in_a_file(&self, place: Place) -> Fault {
        let (name, variable) = (self.name, self.variable());
        let why = "files are copied, committed and backed up";
        Fault::new(place, format!("{name} is not taken from a file, since {why}; set {variable} instead"))
    }

    /// Completes "must be".
    fn allowed(&self) -> String {
        match self.kind {
            Kind::Address(_) => {
                "an IP address or localhost, and a port, such as 127.0.0.1:8080 or [::]:8080, or only a port, such as :8080, \
                 for all IPv4 addresses"
                    .to_owned()
            }
            Kind::LoopbackOrOff(_) => {
                let why = "everybody on the way could read what is sent without TLS";
                format!("an address of this machine alone, such as 127.0.0.1:8081, or \"off\", since {why}")
            }
            Kind::File(_) => "the path of a file, or \"\"".to_owned(),
            Kind::ClientCertificates(_) => "\"off\", \"optional\" or \"required\"".to_owned(),
            Kind::Directory(_) => "the path of a directory".to_owned(),
            Kind::Number(min, max, _) => format!("an integer from {min} to {max}"),
            Kind::NumberOrOff(min, max, _) => format!("an integer from {min} to {max}, or \"off\""),
            Kind::Numbers(count, min, max, _) => {
                format!("a list of at most {count} integers from {min} to {max}")
            }
            Kind::Flag(_) => "true or false".to_owned(),
            Kind::LogFilter(_) => {
                let levels = "error, warn, info, debug, trace, off";
                format!(
                    "a filter such as \"info\" or \"warn,lockkeeper=debug\", without spaces, of the levels {levels}"
                )
            }
            Kind::LogFormat(_) => "\"text\" or \"json\"".to_owned(),
            Kind::OrganizationFiles => format!("a list of at most {ORGANIZATIONS_MAX} paths of files"),
            Kind::SearchPath(_) => {
                format!("absolute directories with ':' between them, at most {SEARCH_PATH_MAX} bytes in all")
            }
            Kind::StepNetwork(_) => "\"open\" or \"none\"".to_owned(),
            Kind::Isolation(_) => "\"strict\", \"best\" or \"off\"".to_owned(),
            Kind::Users(_) => {
                let (lowest, highest) = (UserRange::LOWEST, UserRange::HIGHEST);
                format!("two user ids from {lowest} to {highest} with '-' between them, the lower one first")
            }
            Kind::Paths(_) => format!("a list of at most {STEP_PATHS_MAX} absolute paths other than \"/\""),
            Kind::AnalysisEngine(_) => "\"builtin\", \"llm\" or \"off\"".to_owned(),
            Kind::ClusterEngine(_) => "\"off\", \"etcd\" or \"postgres\"".to_owned(),
            Kind::Urls(count, _) => format!("a list of at most {count} http or https URLs, with commas between them in a variable"),
            Kind::LogsUrl(_) => {
                "\"file:///\" with the path of a directory, \"s3://\" with a bucket and perhaps a prefix, or \"\"".to_owned()
            }
            Kind::DatabaseUrl(_) => {
                let variable = self.variable();
                format!("a URL such as \"postgresql://user@host/name\", or \"\"; one with a password is taken from {variable} alone")
            }
            Kind::PublicUrl(_) => "the scheme, host and port of an https URL, such as \"https://lock.example\", or \"\"".to_owned(),
            Kind::Url(_) => "an http or https URL without credentials, query and fragment, or \"\"".to_owned(),
            Kind::Destinations(_) => format!(
                "a list of at most {DESTINATIONS_MAX} networks such as \"10.1.0.0/16\", addresses, host names, or names with \
                 a wildcard such as \"*.internal\""
            ),
            Kind::Name(max, _) => format!("at most {max} visible ASCII characters without spaces"),
            Kind::Secret(_) => "1 to 16384 bytes, without NUL".to_owned(),
            Kind::Program(_) => "the absolute path of a program, or its name in the PATH".to_owned(),
            Kind::FileUrls(_) => "true, false or \"sample\"".to_owned(),
            Kind::Token(_) => "a token, as `lockkeeper token` makes one".to_owned(),
            Kind::MasterKey(_) => "a key, as `openssl rand -hex 32` makes one".to_owned(),
        }
    }
}
