//! The files that a server is installed with: each is valid, and they agree with the program and with each other.

use std::path::Path;
use std::process::Command;

use crate::support::{ADMIN_TOKEN, lockkeeper};

const DEFAULTS: &str = include_str!("../../config/default.toml");
const MANIFESTS: &str = include_str!("../../config/kubernetes/lockkeeper.yaml");
const CLUSTER: &str = include_str!("../../config/kubernetes/cluster.yaml");
const UNIT: &str = include_str!("../../config/systemd/lockkeeper.service");
const DOCKERFILE: &str = include_str!("../../Dockerfile");
const CARGO: &str = include_str!("../../Cargo.toml");

#[test]
fn the_settings_of_the_debian_package_are_valid() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("settings.toml"), include_str!("../../config/debian/settings.toml")).unwrap();
    std::fs::write(home.path().join("organization.toml"), include_str!("../../config/acme.toml")).unwrap();
    is_valid(&home.path().join("settings.toml"));
}

#[test]
fn the_settings_in_the_kubernetes_manifests_are_valid() {
    for manifest in [MANIFESTS, CLUSTER] {
        let home = tempfile::tempdir().unwrap();
        for name in ["settings.toml", "organization.toml"] {
            std::fs::write(home.path().join(name), in_manifest(manifest, name)).unwrap();
        }
        is_valid(&home.path().join("settings.toml"));
    }
}

/// Exactly those that the manifest sets for each node.
#[test]
fn the_variables_of_a_node_in_kubernetes_are_settings() {
    let names = CLUSTER.lines().filter_map(|line| line.trim().strip_prefix("- name: LOCKKEEPER_"));
    let names: Vec<_> = names.map(|name| format!("LOCKKEEPER_{name}")).collect();
    let value = |name: &str| match name {
        "LOCKKEEPER_BOOTSTRAP_TOKEN" => ADMIN_TOKEN.to_owned(),
        "LOCKKEEPER_MASTER_KEY" => "1".repeat(64),
        "LOCKKEEPER_CLUSTER_NODE" => "lockkeeper-0".to_owned(),
        "LOCKKEEPER_CLUSTER_ADVERTISE" => "http://lockkeeper-0.lockkeeper-nodes:8080".to_owned(),
        other => panic!("{other}"),
    };
    assert_eq!(names.len(), 4, "{names:?}");
    let home = tempfile::tempdir().unwrap();
    for name in ["settings.toml", "organization.toml"] {
        std::fs::write(home.path().join(name), in_manifest(CLUSTER, name)).unwrap();
    }
    let settings = home.path().join("settings.toml");
    let mut check = lockkeeper(&["check", settings.to_str().unwrap()]);
    let checked = check.envs(names.iter().map(|name| (name, value(name)))).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// A server that is killed while it drains would leave its steps interrupted.
#[test]
fn a_stop_is_given_more_time_than_the_server_takes() {
    let defaults: toml::Table = DEFAULTS.parse().unwrap();
    let seconds = |section: &str, key: &str| defaults[section][key].as_integer().unwrap();
    let takes = seconds("http", "drain_seconds") + seconds("runner", "termination_grace_seconds");
    assert!(number_after(MANIFESTS, "terminationGracePeriodSeconds: ") > takes);
    assert!(number_after(CLUSTER, "terminationGracePeriodSeconds: ") > takes);
    assert!(number_after(UNIT, "TimeoutStopSec=") > takes);
}

#[test]
fn the_pod_gets_no_variables_that_the_server_refuses() {
    assert!([MANIFESTS, CLUSTER].iter().all(|manifest| manifest.contains("enableServiceLinks: false")));
}

#[test]
fn the_image_and_the_manifests_name_the_versions_of_the_sources() {
    let manifest: toml::Table = CARGO.parse().unwrap();
    let of = |key: &str| manifest["workspace"]["package"][key].as_str().unwrap();
    let image = format!("image: lockkeeper:{}\n", of("version"));
    assert!(MANIFESTS.contains(&image) && CLUSTER.contains(&image));
    assert!(DOCKERFILE.contains(&format!("FROM rust:{}-slim-", of("rust-version"))));
}

/// Through the program, so that they cover the commands that it has.
#[test]
fn manual_pages_and_completions_are_where_the_package_takes_them_from() {
    let home = tempfile::tempdir().unwrap();
    let pages = home.path().join("pages");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/pages");
    let written = Command::new(script).arg(env!("CARGO_BIN_EXE_lockkeeper")).arg(&pages).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let manifest: toml::Table = CARGO.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let sources = assets.iter().map(|asset| asset[0].as_str().unwrap());
    let from_pages: Vec<&str> = sources.filter_map(|source| source.strip_prefix("target/release/pages/")).collect();
    assert_eq!(from_pages.len(), 4, "{from_pages:?}");
    for source in from_pages {
        let file = pages.join(source.replace("*.1", "lockkeeper-envs.1"));
        assert!(file.metadata().is_ok_and(|found| found.len() > 0), "{source}");
    }
}

fn is_valid(settings: &Path) {
    let checked = lockkeeper(&["check", settings.to_str().unwrap()]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// The text of a file in the ConfigMap.
fn in_manifest(manifest: &str, name: &str) -> String {
    let begin = format!("  {name}: |\n");
    let text = manifest.split(&begin).nth(1).unwrap();
    let lines = text.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect()
}

fn number_after(text: &str, name: &str) -> i64 {
    let rest = text.split(name).nth(1).unwrap();
    rest.lines().next().unwrap().trim().parse().unwrap()
}
