//! Metrics: few on a nearly idle server, correct, and with the names used by the dashboard and the alert rules.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SMALL, get};
use crate::support::authority::Authority;
use crate::support::{Server, Setup, at};
use crate::webhooks::until;

const DASHBOARD: &str = include_str!("../../../config/grafana/lockkeeper.json");
const RULES: &str = include_str!("../../../config/prometheus/alerts.yaml");
const RULES_TEST: &str = include_str!("alerts_test.yaml");

async fn scrape(server: &Server) -> String {
    get(server, "/metrics").await.ok().text
}

/// The value of a series, by its name and labels.
fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// The names of all metrics, without the endings of histograms.
fn names(metrics: &str) -> BTreeSet<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_server_that_does_little_has_few_metrics_and_each_says_what_it_is() {
    let server = Server::start();
    server.admin().get("/pipelines").await.ok();
    let metrics = scrape(&server).await;
    let lines = metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert!((30..150).contains(&lines), "{lines} series:\n{metrics}");
    for name in names(&metrics) {
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name} is not described");
    }
    for unused in ["route=\"/webhooks\"", "code=\"", "session.claimed"] {
        assert!(!metrics.contains(unused), "{unused} was never used");
    }
    let cpu = value(&metrics, "process_cpu_seconds_total").unwrap();
    assert!(cpu > 0.0 && value(&metrics, "process_resident_memory_bytes").unwrap() > 1e6, "{metrics}");
}

#[tokio::test]
async fn environments_locks_waits_and_deployments_are_shown() {
    let server = Server::start();
    let admin = server.admin();
    let environments =
        |metrics: &str, status: &str| value(metrics, &format!("lockkeeper_environments{{status=\"{status}\"}}"));
    // The sample has three in the pipeline `web` and two in `shop`.
    let before = until(|| scrape(&server), |metrics| environments(metrics, "unlocked") == Some(5.0)).await;
    assert_eq!(value(&before, "lockkeeper_oldest_lock_age_seconds"), Some(0.0));
    assert_eq!(value(&before, "lockkeeper_oldest_waiter_age_seconds"), Some(0.0));

    let first = admin.claim("review-1", json!({ "commitId": "c0ffee1" })).await.created().session();
    admin.enqueue("review-1", json!({})).await.session();
    admin.put(&at("review-2"), json!({ "disabled": true })).await.ok();
    let metrics = until(|| scrape(&server), |metrics| environments(metrics, "disabled") == Some(1.0)).await;
    assert_eq!((environments(&metrics, "locked"), environments(&metrics, "unlocked")), (Some(1.0), Some(3.0)));
    for age in ["lockkeeper_oldest_lock_age_seconds", "lockkeeper_oldest_waiter_age_seconds"] {
        assert!(value(&metrics, age).unwrap() > 0.0, "{age} in\n{metrics}");
    }
    admin.release("review-1", &first).await.ok();
    let metrics = scrape(&server).await;
    for (series, expected) in [
        ("lockkeeper_wait_seconds_count", 2.0),
        ("lockkeeper_hold_seconds_count", 1.0),
        ("lockkeeper_hold_seconds_bucket{le=\"604800\"}", 1.0),
        ("lockkeeper_deployments_total{result=\"succeeded\"}", 1.0),
        ("lockkeeper_deployments_total{result=\"failed\"}", 0.0),
        ("lockkeeper_events_total{type=\"session.claimed\"}", 2.0),
    ] {
        assert_eq!(value(&metrics, series), Some(expected), "{series} in\n{metrics}");
    }
}

#[tokio::test]
async fn every_metric_of_the_dashboard_and_of_the_rules_exists() {
    let (server, _files) = busy().await;
    let found = names(&scrape(&server).await);
    let mut wanted = BTreeSet::new();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    expressions(&dashboard, &mut |text| wanted.extend(metrics_in(text)));
    assert!(wanted.len() > 15, "{wanted:?}");
    let of_rules: BTreeSet<_> = RULES.lines().flat_map(metrics_in).collect();
    assert!(of_rules.len() > 8, "{of_rules:?}");
    wanted.extend(of_rules);
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "no server has {missing:?}; it has {found:#?}");
}

#[tokio::test]
async fn promtool_finds_no_fault_and_every_rule_fires_when_it_should() {
    let (server, _files) = busy().await;
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::write(path("metrics"), scrape(&server).await).unwrap();
    std::fs::write(path("alerts.yaml"), RULES).unwrap();
    std::fs::write(path("alerts_test.yaml"), RULES_TEST).unwrap();
    for arguments in
        [&["check", "metrics"][..], &["check", "rules", "alerts.yaml"], &["test", "rules", "alerts_test.yaml"]]
    {
        let mut command = Command::new("promtool");
        command.args(arguments).current_dir(home.path()).stdin(std::fs::File::open(path("metrics")).unwrap());
        let Ok(done) = command.output() else {
            eprintln!("skipped: promtool is not installed (Debian's package prometheus)");
            return;
        };
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "promtool {arguments:?}: {said}");
    }
    let alerts = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        assert!(RULES_TEST.contains(&format!("alertname=\"{alert}\"")), "{alert} is not tried");
    }
}

/// A server that has done a little of everything, with TLS, which has metrics too.
async fn busy() -> (Server, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let issued = Authority::new("tests").issue(&["localhost"]);
    for (name, text) in [("cert.pem", &issued.certificate), ("key.pem", &issued.key)] {
        std::fs::write(home.path().join(name), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(home.path().join(name), mode).unwrap();
    }
    let path = |name: &str| home.path().join(name).display().to_string();
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nplain_listen = \"127.0.0.1:0\"\n",
        path("cert.pem"),
        path("key.pem")
    );
    let mut server = Setup::default().settings(&format!("{SMALL}{tls}")).start();
    let plain = server.greeting.lines().find_map(|line| line.strip_prefix("Plain HTTP:")).unwrap();
    server.address = plain.trim().split(',').next().unwrap().to_owned();
    let admin = server.admin();
    let session = admin.claim("review-1", json!({ "commitId": "c0ffee1" })).await.created().session();
    admin.claim("review-1", json!({})).await.refused(409, "environment_locked");
    admin.release("review-1", &session).await.ok();
    (server, home)
}

/// Every text under `expr` or `query`.
fn expressions(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str().filter(|_| ["expr", "query", "definition"].contains(&name.as_str())) {
                    Some(text) => found(text),
                    None => expressions(member, found),
                }
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| expressions(entry, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names of our metrics in an expression, without the endings of histograms.
fn metrics_in(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let ours = words.filter(|word| word.starts_with("lockkeeper_") || word.starts_with("process_"));
    let bare = |word: &str| {
        ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}
