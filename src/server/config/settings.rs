//! The settings of the server, within their bounds and in the units of the code. A setting is one field, with its key
//! and its kind; its default is in `config/default.toml`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::analysis::Analysis;
use super::cluster::Cluster;
use super::document::Document;
use super::fault::SourceLocation;
use super::keys::Key;
use super::kinds::{
    Kind, address, choice, count, days, delays, directory, flag, hours, is_plain_url, mebibytes, number, program,
    seconds, secret,
};
use super::layers::{self, Findings, Flags, Layers, Purpose, Variables, section};
use super::organization::Organization;
use super::runner::Runner;
use super::tls::Tls;
use super::value::ValueError;
use accounts::auth::{AttemptLimits, SignInLimits, TokenText};
use accounts::secrets::MasterKey;
use domain::named::named_enum;
use outbound::{DESTINATIONS_MAX, Destination};

/// Enough for dozens of directives, each of which is compiled at the start.
const LOG_FILTER_MAX: usize = 1_024;
/// Enough for doubling delays over a fortnight. Each attempt is stored in the delivery's record.
const RETRIES_MAX: usize = 16;

/// All keys, in the order in which they are read.
pub(super) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let (_, _, findings) = read(Purpose::Command, None, &Variables::new(), &Flags::default());
    findings.keys
});

/// The settings without the organizations; and the organization files, each with the location of its entry.
pub(super) fn read(
    purpose: Purpose,
    file: Option<&Document>,
    variables: &Variables,
    flags: &Flags,
) -> (Settings, Vec<(PathBuf, SourceLocation)>, Findings) {
    let both = |layers: &mut Layers<'_>| (Settings::read(layers), layers.organization_files());
    let ((settings, files), findings) = layers::read(purpose, file, variables, flags, both);
    (settings, files, findings)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// HTTP threads; 0: one per core.
    pub workers: usize,
    pub bootstrap_token: Option<TokenText>,
    /// `None` to use the key file in the data directory.
    pub master_key: Option<MasterKey>,
    /// The next key, for a rotation.
    pub master_key_new: Option<MasterKey>,
    /// `None` for no limit.
    pub rate_limit: Option<RateLimit>,
    /// The URL of the server for browsers, if a proxy with TLS is in front of it: `https://host`.
    pub public_url: Option<String>,
    pub auth: Auth,
    pub log: Log,
    pub http: Http,
    /// `None` for plain HTTP.
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
    /// `None` for a single machine, with its data in the data directory.
    pub cluster: Option<Cluster>,
    /// At least one, in the order of the settings.
    pub organizations: Vec<Organization>,
    /// Whether `organizations` contains the embedded sample, because the settings name no files.
    pub sample: bool,
}

impl Settings {
    fn read(layers: &mut Layers<'_>) -> Self {
        let master_key = || secret("a key, as `openssl rand -hex 32` makes one", MasterKey::parse);
        let token = secret("a token, as `lockkeeper token` makes one", TokenText::parse);
        let listen = layers.get("listen", address());
        let mut settings = Self {
            listen,
            data_dir: layers.get("data_dir", directory()),
            workers: layers.get("workers", count(0, 256)),
            bootstrap_token: layers.secret("bootstrap_token", token),
            master_key: layers.secret("master_key", master_key()),
            master_key_new: layers.secret("master_key_new", master_key()),
            rate_limit: RateLimit::read(layers),
            public_url: layers.get("public_url", public_url()),
            auth: Auth::read(layers),
            log: Log::read(layers),
            http: Http::read(layers),
            tls: Tls::read(layers, listen),
            storage: Storage::read(layers),
            environments: Environments::read(layers),
            idempotency: Idempotency::read(layers),
            events: Events::read(layers),
            runner: Runner::read(layers),
            outbound: Outbound::read(layers),
            webhooks: Webhooks::read(layers),
            analysis: Analysis::read(layers),
            git: Git::read(layers),
            cluster: None,
            organizations: Vec::new(),
            sample: false,
        };
        settings.cluster = Cluster::read(layers, listen, settings.master_key.is_some());
        settings
    }

    /// The keys or sections that differ in `new` and take effect at the next start. The log filter and the content of
    /// organization files take effect immediately.
    pub fn changed_for_restart(&self, new: &Settings) -> Vec<&'static str> {
        macro_rules! changed {
            ($($field:ident)*) => {{
                // Names every field, so that none is forgotten.
                let Settings { $($field: _,)* log: _, organizations: _, sample: _ } = self;
                [$((stringify!($field), self.$field != new.$field)),*]
            }};
        }
        let ids = |settings: &Settings| settings.organizations.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        let fields = changed! {
            listen data_dir workers bootstrap_token master_key master_key_new rate_limit public_url auth http tls
            storage environments idempotency events runner outbound webhooks analysis git cluster
        };
        let others = [("log.format", self.log.format != new.log.format), ("organizations", ids(self) != ids(new))];
        fields.into_iter().chain(others).filter_map(|(name, is_changed)| is_changed.then_some(name)).collect()
    }

    pub fn allows_file_urls(&self) -> bool {
        match self.git.file_urls {
            FileUrls::Always => true,
            FileUrls::Never => false,
            FileUrls::Sample => self.sample,
        }
    }
}

/// The rate limit of each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub per_second: NonZeroU32,
    pub burst: NonZeroU32,
}

impl RateLimit {
    fn read(layers: &mut Layers<'_>) -> Option<Self> {
        let non_zero = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let per_second = layers.get("rate_limit", number(1, 1_000_000).map(non_zero).or_off());
        let burst = layers.get("rate_limit_burst", number(1, 10_000_000).map(non_zero));
        per_second.map(|per_second| Self { per_second, burst })
    }
}

/// The scheme, host and port of an https URL: links to pages and the origin of requests are made from it.
fn public_url() -> Kind<Option<String>> {
    Kind::text("the scheme, host and port of an https URL, such as \"https://lock.example\", or \"\"", |text| {
        let origin = text.strip_suffix('/').unwrap_or(text);
        match origin.strip_prefix("https://") {
            Some(host) if !host.contains('/') && is_plain_url(text) => Some(Some(origin.to_ascii_lowercase())),
            None if text.is_empty() => Some(None),
            Some(_) | None => None,
        }
    })
}

/// How people sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auth {
    pub sign_ins: SignInLimits,
    pub attempts: AttemptLimits,
}

impl Auth {
    fn read(layers: &mut Layers<'_>) -> Self {
        Self {
            sign_ins: SignInLimits {
                idle: layers.get("auth.sign_in_idle_hours", hours(1, 8_760)),
                max: layers.get("auth.sign_in_max_hours", hours(1, 8_760)),
                invitation: layers.get("auth.invitation_hours", hours(1, 720)),
            },
            attempts: AttemptLimits {
                per_account: layers.get("auth.failures_per_account", number(1, 1_000).or_off()),
                per_address: layers.get("auth.attempts_per_address", number(1, 100_000).or_off()),
            },
        }
    }
}

section! {
    pub struct Log {
        /// A valid filter for `EnvFilter`.
        pub filter: String = get("log.filter", log_filter()),
        pub format: LogFormat = get("log.format", choice(LogFormat::ALL, LogFormat::as_str)),
    }
}

named_enum! {
    pub enum LogFormat {
        Text = "text",
        Json = "json",
    }
}

fn log_filter() -> Kind<String> {
    let allowed = "a filter such as \"info\" or \"warn,lockkeeper=debug\", without spaces, of the levels error, warn, \
                   info, debug, trace, off";
    Kind::text(allowed, |text| {
        // An empty filter would be valid, but log only errors. Characters beyond ASCII can make the parser panic
        // (tracing-subscriber 0.3.23), and no target contains any.
        let sane = (1..=LOG_FILTER_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        (sane && EnvFilter::try_new(text).is_ok()).then(|| text.to_owned())
    })
}

section! {
    pub struct Http {
        pub head_timeout: Duration = get("http.head_timeout_seconds", seconds(1, 300)),
        pub body_timeout: Duration = get("http.body_timeout_seconds", seconds(1, 300)),
        /// How long a request waits for the disk before its outcome is reported as unknown.
        pub answer_timeout: Duration = get("http.answer_timeout_seconds", seconds(1, 600)),
        /// How long a client may go without reading its answer.
        pub write_timeout: Duration = get("http.write_timeout_seconds", seconds(1, 300)),
        pub keep_alive: Duration = get("http.keep_alive_seconds", seconds(1, 3_600)),
        pub drain: Duration = get("http.drain_seconds", seconds(0, 600)),
        /// The limit per worker.
        pub max_connections: usize = get("http.max_connections", count(1, 1_000_000)),
        /// Whether the operator set this number.
        pub max_connections_given: bool = is_set("http.max_connections"),
        /// Whether the metrics name organizations.
        pub metrics_names: bool = get("http.metrics_names", flag()),
    }
}

section! {
    pub struct Storage {
        /// Ended sessions kept per environment.
        pub history_retention: u32 = get("storage.history_retention", number(1, 10_000_000)),
        pub log_segment_bytes: u64 = get("storage.log_segment_mb", mebibytes(4, 1_024)),
        pub cache_bytes: u64 = get("storage.cache_mb", mebibytes(8, 65_536)),
        pub min_free_bytes: u64 = get("storage.min_free_mb", mebibytes(0, 1_048_576)),
        /// The limit for the logs of all deployments together.
        pub deployment_log_bytes: u64 = get("storage.log_max_mb", mebibytes(16, 1_048_576)),
    }
}

section! {
    pub struct Environments {
        /// An environment's actor is removed from memory after this long without use.
        pub idle: Duration = get("environments.idle_seconds", seconds(1, 86_400)),
        /// How many claims may wait, for all organizations together.
        pub max_waiting: usize = get("environments.max_waiting", count(10, 10_000_000)),
        /// How many of these claims may belong to one token.
        pub max_waiting_per_token: usize = get("environments.max_waiting_per_token", count(1, 10_000_000)),
        /// How many requests may wait for one environment.
        pub mailbox: usize = get("environments.mailbox", count(16, 65_536)),
    }
}

section! {
    pub struct Idempotency {
        /// Stored responses for retries, for all tokens together.
        pub max_keys: usize = get("idempotency.max_keys", count(1_000, 100_000_000)),
    }
}

section! {
    pub struct Events {
        /// The limit per organization.
        pub max_events: u64 = get("events.max_events", number(1_000, 100_000_000).map(u64::from)),
        pub max_security_events: u64 = get("events.max_security_events", number(1_000, 10_000_000).map(u64::from)),
        pub max_security_age: Duration = get("events.max_security_age_days", days(1, 36_500)),
        pub max_age: Duration = get("events.max_age_days", days(1, 3_650)),
        /// The interval of keep-alive comments on a stream without events.
        pub heartbeat: Duration = get("events.heartbeat_seconds", seconds(1, 300)),
        /// A stream is cut off after its client has read nothing for this long.
        pub stall: Duration = get("events.stall_seconds", seconds(1, 600)),
    }
}

section! {
    /// The allowed destinations of connections made for tenants.
    pub struct Outbound {
        /// Allowed in addition to public addresses.
        pub allow: Vec<Destination> = get("outbound.allow", destinations()),
    }
}

/// A list of destinations, separated by commas in a variable.
fn destinations() -> Kind<Vec<Destination>> {
    let allowed = format!(
        "a list of at most {DESTINATIONS_MAX} networks such as \"10.1.0.0/16\", addresses, host names, or names with a \
         wildcard such as \"*.internal\""
    );
    Kind::new(allowed, |value| {
        value.list(b',', DESTINATIONS_MAX, |entry| Destination::parse(entry.text()?).ok_or(ValueError::Mismatch))
    })
}

section! {
    pub struct Webhooks {
        /// Whether deliveries may go to any private address.
        pub allow_private: bool = get("webhooks.allow_private", flag()),
        /// How long a receiver may take to respond.
        pub timeout: Duration = get("webhooks.timeout_seconds", seconds(1, 60)),
        /// The delays after failed attempts. The last delay is followed by one more attempt.
        pub retries: Vec<Duration> = get("webhooks.retry_seconds", delays(RETRIES_MAX, 0, 604_800)),
        /// A webhook is disabled after it has failed for this long.
        pub disable_after: Duration = get("webhooks.disable_after_hours", hours(0, 8_760)),
        /// Concurrent deliveries, to all receivers.
        pub max_sending: usize = get("webhooks.max_sending", count(1, 4_096)),
    }
}

section! {
    pub struct Git {
        /// A path, or a name to look up in the server's `PATH`.
        pub program: PathBuf = get("git.program", program()),
        pub timeout: Duration = get("git.timeout_seconds", seconds(1, 600)),
        pub max_repository_bytes: u64 = get("git.max_repository_mb", mebibytes(1, 1_048_576)),
        pub file_urls: FileUrls = get("git.allow_file_urls", file_urls()),
    }
}

/// Whether `file://` repositories are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUrls {
    Always,
    Never,
    /// Only with the embedded sample organization, for trying out the server.
    Sample,
}

fn file_urls() -> Kind<FileUrls> {
    Kind::new("true, false or \"sample\"", |value| match value.flag() {
        Ok(true) => Ok(FileUrls::Always),
        Ok(false) => Ok(FileUrls::Never),
        Err(_) if value.text()? == "sample" => Ok(FileUrls::Sample),
        Err(_) => Err(ValueError::Mismatch),
    })
}
