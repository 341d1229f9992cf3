//! The settings of a server without any configuration.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::{load_variables, number};
use crate::config::settings::KEYS;
use crate::config::{
    Analysis, AnalysisEngine, Auth, DEFAULT_TOML, Environments, Events, FileUrls, Git, Http, Idempotency, Isolation,
    Log, LogFormat, RateLimit, Runner, StepNetwork, Storage, UserRange, Webhooks, check_file,
};
use accounts::auth::{AttemptLimits, SignInLimits};

#[test]
fn without_any_configuration_every_setting_is_as_documented() {
    let settings = load_variables(&[]).unwrap();
    assert_eq!(settings.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(settings.data_dir, Path::new("data"));
    assert_eq!(settings.workers, 0);
    assert_eq!(settings.bootstrap_token, None);
    assert_eq!((settings.master_key, settings.master_key_new), (None, None));
    assert_eq!(
        settings.rate_limit,
        Some(RateLimit { per_second: NonZeroU32::new(50_000).unwrap(), burst: NonZeroU32::new(100_000).unwrap() })
    );
    assert_eq!(settings.public_url, None);
    let attempts = AttemptLimits { per_account: Some(10), per_address: Some(60) };
    assert_eq!(settings.auth, Auth { sign_ins: SignInLimits::default(), attempts });
    assert_eq!(settings.log, Log { filter: "info".to_owned(), format: LogFormat::Text });
    assert_eq!(
        settings.http,
        Http {
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            drain: Duration::from_secs(20),
            max_connections: 25_000,
            max_connections_given: false,
            metrics_names: false,
        }
    );
    assert_eq!(settings.tls, None);
    assert_eq!(
        settings.storage,
        Storage {
            history_retention: 1_000,
            log_segment_bytes: 32 * 1024 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            min_free_bytes: 128 * 1024 * 1024,
            deployment_log_bytes: 2048 * 1024 * 1024,
        }
    );
    let environments = Environments {
        idle: Duration::from_secs(60),
        mailbox: 16_384,
        max_waiting: 200_000,
        max_waiting_per_token: 5_000,
    };
    assert_eq!(settings.environments, environments);
    assert_eq!(settings.idempotency, Idempotency { max_keys: 1_000_000 });
    assert_eq!(
        settings.events,
        Events {
            max_events: 1_000_000,
            max_security_events: 100_000,
            max_security_age: Duration::from_secs(3_650 * 24 * 60 * 60),
            max_age: Duration::from_secs(365 * 24 * 60 * 60),
            heartbeat: Duration::from_secs(15),
            stall: Duration::from_secs(30),
        }
    );
    assert_eq!(
        settings.runner,
        Runner {
            max_running_steps: 64,
            termination_grace: Duration::from_secs(10),
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            log_bytes_per_step: 8192 * 1024,
            isolation: Isolation::Best,
            network: StepNetwork::Open,
            users: UserRange { first: 1_900_000_000, last: 1_900_065_535 },
            read_only_paths: Vec::new(),
            writable_paths: Vec::new(),
            max_processes: Some(8_192),
            max_memory_bytes: Some(32 << 30),
            max_file_bytes: Some(64 << 30),
            max_open_files: Some(65_536),
            max_cpu_seconds: Some(86_400),
            max_disk_bytes: Some(8 << 30),
            max_organization_disk_bytes: Some(32 << 30),
            min_free_bytes: Some(512 << 20),
            max_write_bytes: Some(128 << 20),
        }
    );
    assert_eq!(settings.outbound.allow, []);
    assert_eq!(
        settings.webhooks,
        Webhooks {
            allow_private: false,
            timeout: Duration::from_secs(15),
            retries: [5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 36_000].map(Duration::from_secs).to_vec(),
            disable_after: Duration::from_hours(120),
            max_sending: 256,
        }
    );
    assert_eq!(settings.analysis, Analysis { engine: AnalysisEngine::Builtin, llm: None });
    let git = Git {
        program: "git".into(),
        timeout: Duration::from_secs(60),
        max_repository_bytes: 2 << 30,
        file_urls: FileUrls::Sample,
    };
    assert_eq!(settings.git, git);
    assert!(load_variables(&[]).unwrap().allows_file_urls(), "where the sample is served");
    assert!(settings.sample);
    assert_eq!(settings.organizations[0].id.as_str(), "acme");
}

#[test]
fn the_default_file_has_every_key_and_no_other() {
    let table = DeTable::parse(DEFAULT_TOML).unwrap().into_inner();
    let mut listed = BTreeSet::new();
    for (name, value) in &table {
        match value.get_ref() {
            DeValue::Table(section) => listed
                .extend(section.keys().map(|key| format!("{name}.{key}", name = name.get_ref(), key = key.get_ref()))),
            _ => _ = listed.insert(name.get_ref().to_string()),
        }
    }
    let known: BTreeSet<String> = KEYS.iter().filter(|key| !key.is_secret).map(|key| key.name.to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn the_default_file_says_which_numbers_each_key_takes() {
    for key in KEYS.iter() {
        let Some((min, max)) = number(key) else { continue };
        // Two sections may have a key with the same name.
        let (section, last) = key.name.split_once('.').unwrap_or(("", key.name));
        let begin = if section.is_empty() { 0 } else { DEFAULT_TOML.find(&format!("\n[{section}]\n")).unwrap() };
        let after = &DEFAULT_TOML[begin..];
        let before = &after[..after.find(&format!("\n{last} = ")).unwrap()];
        let comment = before.rsplit("\n\n").next().unwrap().replace("\n# ", " ");
        assert!(comment.contains(&format!("{min} to {max}")), "{}: {comment}", key.name);
    }
}

#[test]
fn the_files_we_ship_pass_our_own_check() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    assert!(check_file(&config.join("default.toml")).is_ok());
    assert!(check_file(&config.join("acme.toml")).is_ok());
}

#[test]
fn every_setting_has_a_variable_of_its_own() {
    let variables: BTreeSet<String> = KEYS.iter().map(|key| key.variable()).collect();
    assert_eq!(variables.len(), KEYS.len());
    assert!(variables.contains("LOCKKEEPER_HTTP_DRAIN_SECONDS"));
    assert!(variables.contains("LOCKKEEPER_LISTEN"));
}
