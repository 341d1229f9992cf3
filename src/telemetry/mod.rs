//! What operators see: logs and metrics. Never a token, a secret or a body.

use std::sync::OnceLock;

use metrics::{Counter, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
use crate::domain::Notice;
use crate::events;

#[derive(Debug, thiserror::Error)]
#[error("log.filter: {0}; write it like `info` or `info,lockkeeper::store=debug`")]
pub struct BadFilter(String);

/// What the web server says of its own comings and goings, and of every client that sends nonsense, is not news; and the
/// engine of the store would write out each record that it keeps. The operator's filter comes after it and can ask for it
/// all the same.
const QUIET: &str = "actix_server=warn,actix_http::h1::dispatcher=off,sled=info";

/// Logs go to stderr, so that stdout has only what was asked for.
pub fn start_logging(log: &Log) -> Result<(), BadFilter> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", log.filter)).map_err(|error| BadFilter(error.to_string()))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // What cannot be logged is not worth a panic, which is what reporting it on a full stderr would be.
    let subscriber = subscriber.log_internal_errors(false);
    match log.format {
        LogFormat::Text => subscriber.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Buckets that show both an idle disk (a tenth of a millisecond) and a server in trouble.
const SECONDS: [f64; 14] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The process's metrics, from the first call on.
pub fn metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
                .expect("the list of buckets is not empty")
                .build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("something else records the metrics of this process");
            }
            describe();
            handle
        })
        .clone()
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("lockkeeper_http_requests_total", "Requests answered, by route, method and class of status");
    describe_histogram!("lockkeeper_http_request_seconds", Unit::Seconds, "From a request's head to its answer");
    describe_counter!("lockkeeper_problems_total", "Problems answered, by code");
    describe_counter!("lockkeeper_events_total", "What has durably happened, by type");
    describe_gauge!("lockkeeper_event_subscribers", "Clients that follow what happens");
    describe_gauge!("lockkeeper_environment_actors", "Environments that are in memory");
    describe_gauge!("lockkeeper_waiting", "Claims that wait for their turn, by what they wait for");
    describe_gauge!("lockkeeper_stages", "Stages of deployments that run, and that wait for a place to run");
    describe_counter!(
        "lockkeeper_webhook_attempts_total",
        "Attempts to deliver something to a webhook, by what came of them"
    );
    describe_gauge!("lockkeeper_webhook_deliveries_pending", "Deliveries that have neither arrived nor been given up");
    describe_counter!("lockkeeper_analyses_total", "Analyses of failed deployments that ended, by outcome");
    describe_counter!("lockkeeper_fix_pull_requests_total", "Fixes that were put on a branch and proposed");
    describe_counter!("lockkeeper_log_groups_total", "Groups of commits made durable, one fdatasync each");
    describe_counter!("lockkeeper_log_batches_total", "Commits made durable");
    describe_counter!("lockkeeper_log_bytes_total", "Bytes written to the redo log");
    describe_histogram!("lockkeeper_log_sync_seconds", Unit::Seconds, "One write and fdatasync of the redo log");
    describe_gauge!("lockkeeper_storage_refusing_writes", "1 while the disk is too full to accept writes");
    describe_gauge!("lockkeeper_overlay_bytes", "Durable changes that are not in the database yet");
    describe_counter!("lockkeeper_checkpoints_total", "Times the database was brought up to the log and synced");
    describe_gauge!("lockkeeper_build_info", "1, with the version of this server");
    metrics::gauge!("lockkeeper_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Counts and, for those who ask for it, logs what has happened, in all organizations.
pub struct EventCounter {
    counters: Vec<Counter>,
}

impl EventCounter {
    pub fn new() -> Self {
        let counter = |notice: &Notice| metrics::counter!("lockkeeper_events_total", "type" => notice.as_str());
        Self { counters: Notice::ALL.iter().map(counter).collect() }
    }

    /// It is durable.
    pub fn happened(&self, organization: &str, event: &[u8]) {
        let Some(notice) = events::notice_of(event) else { return };
        if let Some(counter) = self.counters.get(notice as usize) {
            counter.increment(1);
        }
        tracing::debug!(organization, "{}", notice.as_str());
    }
}

impl Default for EventCounter {
    fn default() -> Self {
        Self::new()
    }
}
