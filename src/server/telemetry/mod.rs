//! Logs, metrics, and the process metrics that all Prometheus client libraries export. Never a token, a secret or a
//! body.

mod line;

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use line::Lines;
use metrics::{Counter, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use domain::{EventType, Identifier};
use shares::OTHERS;

#[derive(Debug, thiserror::Error)]
#[error("log.filter: {0}; write it like `info` or `info,lockkeeper::store=debug`")]
pub struct BadFilter(String);

/// Suppresses the web server's lifecycle messages and sled's dumps of every record. The operator's filter comes after
/// this one and can enable them again.
const QUIET: &str = "actix_server=warn,sled=info";

/// Parts that a filter may name, as in `lockkeeper::auth`, with their crates. Any other name is a crate.
const PARTS: [(&str, &str); 23] = [
    ("actors", "lockkeeper_locks"),
    ("app", "lockkeeper_server::app"),
    ("archive", "lockkeeper_delivery::archive"),
    ("auth", "lockkeeper_accounts::auth"),
    ("backup", "lockkeeper_server::backup"),
    ("cli", "lockkeeper_server::cli"),
    ("config", "lockkeeper_server::config"),
    ("doctor", "lockkeeper_server::doctor"),
    ("fixes", "lockkeeper_analysis::fixes"),
    ("git", "lockkeeper_delivery::git"),
    ("http", "lockkeeper_server::http"),
    ("idempotency", "lockkeeper_locks::idempotency"),
    ("identities", "lockkeeper_accounts::identities"),
    ("logs", "lockkeeper_delivery::logs"),
    ("moving", "lockkeeper_server::moving"),
    ("peers", "lockkeeper_cluster::peers"),
    ("pipelines", "lockkeeper_locks::pipelines"),
    ("registries", "lockkeeper_delivery::registries"),
    ("runner", "lockkeeper_delivery::runner"),
    ("secrets", "lockkeeper_accounts::secrets"),
    ("sso", "lockkeeper_accounts::sso"),
    ("telemetry", "lockkeeper_server::telemetry"),
    ("tls", "lockkeeper_server::tls"),
];

/// The filter with the names of parts replaced by their crates.
fn by_crate(filter: &str) -> String {
    let target = |part: &str| {
        let name_end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(name_end);
        let known = PARTS.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| format!("lockkeeper_{part}"), |(_, target)| format!("{target}{rest}"))
    };
    let directives =
        filter.split(',').map(|one| one.strip_prefix("lockkeeper::").map_or_else(|| one.to_owned(), target));
    directives.collect::<Vec<_>>().join(",")
}

/// The formatter of this process's log.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Logs how many lines were left out recently, unless a later line has said so. Must be called every few seconds.
pub fn report_left_out() {
    if let Some(lines) = LINES.get() {
        lines.report_left_out();
    }
}

/// Logs go to stderr, so that stdout contains only the output of commands.
pub fn start_logging(log: &Log) -> Result<(), BadFilter> {
    let filter = read_filter(&log.filter)?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Reporting a failed log line on a full stderr would panic.
    let subscriber = subscriber.log_internal_errors(false);
    let is_terminal = log.format == LogFormat::Text && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = LINES.get_or_init(|| Lines::new(log.format));
    let subscriber = subscriber.with_ansi(is_terminal).event_format(lines).with_filter_reloading();
    let handle = subscriber.reload_handle();
    REPLACE_FILTER.set(Box::new(move |filter| handle.reload(filter).is_ok())).ok();
    subscriber.init();
    Ok(())
}

/// Replaces the filter that logging was started with.
type ReplaceFilter = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;
static REPLACE_FILTER: OnceLock<ReplaceFilter> = OnceLock::new();

pub fn replace_filter(filter: EnvFilter) -> bool {
    REPLACE_FILTER.get().is_some_and(|replace| replace(filter))
}

pub fn read_filter(text: &str) -> Result<EnvFilter, BadFilter> {
    EnvFilter::try_new(format!("{QUIET},{}", by_crate(text))).map_err(|error| BadFilter(error.to_string()))
}

/// Buckets that show both an idle disk (a tenth of a millisecond) and an overloaded server.
const SYNC_SECONDS: [f64; 12] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0];
/// Only a few buckets, because each used route has all of them: immediate responses, waits for the disk, waits for
/// other people.
const REQUEST_SECONDS: [f64; 8] = [0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];
/// From a claim that is granted immediately to one that takes a working day.
const WAIT_SECONDS: [f64; 9] = [0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 28_800.0];
/// From a quick check to an environment held for a week.
const HOLD_SECONDS: [f64; 9] = [1.0, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];
const BUCKETS: [(&str, &[f64]); 4] = [
    ("lockkeeper_log_sync_seconds", &SYNC_SECONDS),
    ("lockkeeper_http_request_seconds", &REQUEST_SECONDS),
    ("lockkeeper_wait_seconds", &WAIT_SECONDS),
    ("lockkeeper_hold_seconds", &HOLD_SECONDS),
];

/// The process's metrics, which exist from the first call on.
pub fn metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            process_started();
            let with_buckets = |builder: PrometheusBuilder, (name, buckets): (&str, &[f64])| {
                let named = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets);
                named.expect("the list of buckets is not empty")
            };
            let recorder = BUCKETS.into_iter().fold(PrometheusBuilder::new(), with_buckets).build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another recorder is installed for the metrics of this process");
            }
            describe();
            handle
        })
        .clone()
}

/// All metrics in Prometheus' text format.
pub fn render(metrics: &PrometheusHandle) -> String {
    let mut text = metrics.render();
    render_process(&mut text);
    text
}

/// Replaces each organization's name with its position in the settings, counted from 1, because everybody who reaches
/// `/metrics` can read them.
pub fn without_names(text: &str, organizations: &[Identifier]) -> String {
    const LABEL: &str = "organization=\"";
    // Organizations that a file declared once and that the settings no longer list come last.
    let mut names: Vec<&str> = organizations.iter().map(Identifier::as_str).collect();
    let mut numbered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (name, after))) =
        rest.split_once(LABEL).and_then(|(before, after)| Some((before, after.split_once('"')?)))
    {
        numbered.extend([before, LABEL]);
        if name == OTHERS {
            numbered.push_str(OTHERS);
        } else {
            let known = names.iter().position(|known| *known == name);
            let index = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            numbered.push_str(&(index + 1).to_string());
        }
        numbered.push('"');
        rest = after;
    }
    numbered + rest
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("lockkeeper_http_requests_total", "Answered requests, by route, method and status class");
    describe_histogram!("lockkeeper_http_request_seconds", Unit::Seconds, "From a request's head to its answer");
    describe_gauge!("lockkeeper_connections", "Open connections");
    describe_counter!(
        "lockkeeper_connections_cut_off_total",
        "Connections shut down: silent, unread (its answer), or crowded (for another one)"
    );
    describe_counter!(
        "lockkeeper_tls_handshakes_total",
        "TLS handshakes: anonymous, certified (with a client certificate), failed, or timed_out"
    );
    describe_counter!("lockkeeper_tls_reloads_total", "Changed TLS files that were used (replaced) or refused");
    describe_gauge!(
        "lockkeeper_tls_certificate_expires_timestamp_seconds",
        "When the server's certificate expires, in seconds since 1970"
    );
    describe_counter!("lockkeeper_problems_total", "Problems answered, by code");
    describe_counter!("lockkeeper_events_total", "Durable events, by type");
    describe_counter!(
        "lockkeeper_token_exchanges_total",
        "Identity tokens of jobs that were exchanged (granted), refused, or could not be checked (unavailable)"
    );
    describe_gauge!("lockkeeper_event_subscribers", "Clients that stream events");
    describe_counter!("lockkeeper_deployments_total", "Deployments that ended, by result");
    describe_gauge!("lockkeeper_environments", "Environments, by status");
    describe_gauge!("lockkeeper_oldest_lock_age_seconds", Unit::Seconds, "How long the oldest lock has been held");
    describe_gauge!(
        "lockkeeper_oldest_waiter_age_seconds",
        Unit::Seconds,
        "How long the oldest claim has been waiting"
    );
    describe_histogram!("lockkeeper_wait_seconds", Unit::Seconds, "From a claim to its lock, of those that got it");
    describe_histogram!("lockkeeper_hold_seconds", Unit::Seconds, "How long a lock was held, of those that ended");
    describe_gauge!("lockkeeper_environment_actors", "Environments in memory");
    describe_gauge!("lockkeeper_waiting", "Waiting claims, for a named or for any environment");
    describe_gauge!("lockkeeper_stages", "Stages of deployments that run, or wait for capacity");
    describe_gauge!("lockkeeper_share_used", "Places of an organization that has nearly all it may, by resource");
    describe_counter!(
        "lockkeeper_share_refused_total",
        "Refusals since an organization or the server was at its bound"
    );
    describe_counter!("lockkeeper_webhook_attempts_total", "Attempts to deliver to a webhook, by outcome");
    describe_counter!("lockkeeper_log_uploads_total", "Logs uploaded to the store of a cluster, by outcome");
    describe_gauge!("lockkeeper_log_uploads_waiting", "Logs that wait to be uploaded, or are being so");
    describe_gauge!("lockkeeper_webhook_deliveries_pending", "Deliveries that are neither completed nor given up");
    describe_counter!("lockkeeper_analyses_total", "Analyses of failed deployments that ended, by outcome");
    describe_counter!("lockkeeper_fix_pull_requests_total", "Fixes proposed as pull requests");
    describe_counter!("lockkeeper_log_groups_total", "Groups of commits made durable, one fdatasync each");
    describe_counter!("lockkeeper_log_batches_total", "Commits made durable");
    describe_counter!("lockkeeper_log_bytes_total", "Bytes written to the redo log");
    describe_histogram!("lockkeeper_log_sync_seconds", Unit::Seconds, "One write and fdatasync of the redo log");
    describe_gauge!("lockkeeper_storage_refusing_writes", "1 while the disk is too full to accept writes");
    describe_gauge!("lockkeeper_overlay_bytes", "Durable changes that are not in the database yet");
    describe_counter!("lockkeeper_checkpoints_total", "Times the database was updated from the log and synced");
    describe_gauge!("lockkeeper_build_info", "1, with the version of this server");
    metrics::gauge!("lockkeeper_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Counts the events of all organizations, and logs them at debug level.
pub struct EventCounter {
    /// By type. A counter is created with the type's first event: most servers never have most types.
    by_type: Vec<OnceLock<Counter>>,
    deployments: [(EventType, Counter); 3],
}

impl EventCounter {
    pub fn new() -> Self {
        let results = [
            (EventType::DeploymentSucceeded, "succeeded"),
            (EventType::DeploymentFailed, "failed"),
            (EventType::DeploymentCancelled, "cancelled"),
        ];
        let counter = |result| metrics::counter!("lockkeeper_deployments_total", "result" => result);
        Self {
            by_type: EventType::ALL.iter().map(|_| OnceLock::new()).collect(),
            deployments: results.map(|(event_type, result)| (event_type, counter(result))),
        }
    }

    /// Called when an event is durable.
    pub fn count(&self, organization: &str, event: &[u8]) {
        let Some(event_type) = events::notice_of(event) else { return };
        let counter = || metrics::counter!("lockkeeper_events_total", "type" => event_type.as_str());
        if let Some(of_type) = self.by_type.get(event_type as usize) {
            of_type.get_or_init(counter).increment(1);
        }
        if let Some((_, ended)) = self.deployments.iter().find(|(ended, _)| *ended == event_type) {
            ended.increment(1);
        }
        tracing::debug!(organization, "{}", event_type.as_str());
    }
}

impl Default for EventCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// When the process, or its telemetry a moment later, started.
static STARTED: OnceLock<f64> = OnceLock::new();

fn process_started() -> f64 {
    *STARTED.get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

/// Adds the metrics of the process, without unreadable ones.
fn render_process(text: &mut String) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let max_descriptors = getrlimit(Resource::Nofile).current.map(|limit| limit as f64);
    let metrics = [
        ("process_cpu_seconds_total", "counter", "CPU time that the process has used", Some(cpu_seconds)),
        ("process_resident_memory_bytes", "gauge", "Memory of the process", bytes_of(&status, "VmRSS:")),
        ("process_virtual_memory_bytes", "gauge", "Address space of the process", bytes_of(&status, "VmSize:")),
        ("process_open_fds", "gauge", "Open file descriptors", open_descriptors()),
        ("process_max_fds", "gauge", "The limit on open file descriptors", max_descriptors),
        (
            "process_start_time_seconds",
            "gauge",
            "When the process started, in seconds since 1970",
            Some(process_started()),
        ),
    ];
    for (name, kind, help, value) in metrics {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
}

/// A line of `/proc/self/status` such as `VmRSS:    1234 kB`.
fn bytes_of(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Newer kernels report the number as the size of the directory; otherwise count the entries.
fn open_descriptors() -> Option<f64> {
    const DESCRIPTORS: &str = "/proc/self/fd";
    match std::fs::metadata(DESCRIPTORS).ok()?.len() {
        0 => Some(std::fs::read_dir(DESCRIPTORS).ok()?.count() as f64),
        count => Some(count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::{by_crate, bytes_of, render_process, without_names};
    use domain::Identifier;

    #[test]
    fn organizations_are_numbered_as_the_settings_list_them() {
        let organizations: Vec<_> = ["acme", "beta"].iter().filter_map(|id| Identifier::parse(id).ok()).collect();
        let text = "# HELP x organization of others\nx{resource=\"a\",organization=\"beta\"} 1\n\
                    x{organization=\"acme\",le=\"beta\"} 2\nx{organization=\"gone\"} 3\nx{organization=\"others\"} 4\ny 5\n";
        let numbered = "# HELP x organization of others\nx{resource=\"a\",organization=\"2\"} 1\n\
                        x{organization=\"1\",le=\"beta\"} 2\nx{organization=\"3\"} 3\n\
                        x{organization=\"others\"} 4\ny 5\n";
        assert_eq!(without_names(text, &organizations), numbered);
    }

    #[test]
    fn a_filter_names_a_part_and_not_its_crate() {
        let filter = "info,lockkeeper::store=debug,lockkeeper::auth::tokens=trace,sled=warn,lockkeeper::actors=debug";
        let expected =
            "info,lockkeeper_store=debug,lockkeeper_accounts::auth::tokens=trace,sled=warn,lockkeeper_locks=debug";
        assert_eq!(by_crate(filter), expected);
        for whole in ["info", "lockkeeper=debug", "[request{id=7,user=ana}]=trace", ""] {
            assert_eq!(by_crate(whole), whole);
        }
    }

    #[test]
    fn each_metric_of_the_process_is_there_with_a_sane_value() {
        let mut text = String::new();
        render_process(&mut text);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")));
        assert!(value("process_start_time_seconds") > 1.7e9);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tlockkeeper\nVmSize:\t  200 kB\nVmRSS:\t     100 kB\n";
        assert_eq!((bytes_of(status, "VmRSS:"), bytes_of(status, "VmSwap:")), (Some(102_400.0), None));
    }
}
