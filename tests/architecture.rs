//! The shape of the code: who may know whom, and where each part of the outside world may be touched.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Each part with those it may use. Everything points one way: main, cli, app, the middle, then store and auth, then the
/// domain, which uses nothing of ours.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("store", &[]),
    ("entropy", &["domain"]),
    ("outbound", &[]),
    ("analysis", &["actors", "domain", "events", "logs", "outbound", "store"]),
    ("fixes", &["analysis", "domain", "events", "git", "outbound", "pipelines", "secrets", "store"]),
    ("events", &["domain", "store"]),
    ("git", &["domain"]),
    ("logs", &["domain"]),
    ("runner", &["domain", "logs", "outbound"]),
    ("config", &["auth", "domain", "pipelines", "secrets"]),
    ("idempotency", &["domain", "store"]),
    ("auth", &["domain", "entropy", "events", "idempotency", "store"]),
    ("pipelines", &["domain", "events", "store"]),
    ("registries", &["domain", "events", "git", "pipelines", "secrets", "store"]),
    ("secrets", &["domain", "events", "store"]),
    ("actors", &["domain", "entropy", "events", "idempotency", "pipelines", "store"]),
    ("webhooks", &["domain", "entropy", "events", "outbound", "secrets", "store"]),
    ("telemetry", &["config", "domain", "events"]),
    (
        "http",
        &[
            "actors",
            "analysis",
            "auth",
            "domain",
            "entropy",
            "events",
            "fixes",
            "git",
            "idempotency",
            "logs",
            "pipelines",
            "registries",
            "secrets",
            "store",
            "webhooks",
        ],
    ),
    (
        "app",
        &[
            "actors",
            "analysis",
            "auth",
            "config",
            "domain",
            "events",
            "fixes",
            "git",
            "http",
            "idempotency",
            "logs",
            "pipelines",
            "registries",
            "runner",
            "secrets",
            "store",
            "telemetry",
            "webhooks",
        ],
    ),
    ("cli", &["app", "auth", "config", "domain", "events", "runner", "secrets", "store", "telemetry"]),
];

/// Crates that only some parts may know, so that each can be replaced there.
const KEPT_TO: &[(&str, &[&str])] = &[
    ("sled", &["store"]),
    ("actix", &["actors"]),
    ("dashmap", &["actors", "auth", "idempotency"]),
    ("utoipa", &["http"]),
    ("clap", &["cli"]),
    ("toml", &["config"]),
    (
        "tokio",
        &[
            "actors",
            "analysis",
            "app",
            "cli",
            "events",
            "fixes",
            "git",
            "http",
            "idempotency",
            "logs",
            "pipelines",
            "registries",
            "runner",
            "store",
            "webhooks",
        ],
    ),
    ("actix_web", &["app", "http"]),
    ("actix_server", &["http"]),
    ("serde_json", &["analysis", "cli", "fixes", "http"]),
    ("chacha20poly1305", &["secrets"]),
    ("aho_corasick", &["analysis", "runner"]),
    ("regex", &["analysis"]),
    ("reqwest", &["analysis", "fixes", "outbound", "runner", "webhooks"]),
    ("hmac", &["webhooks"]),
    ("url", &["webhooks"]),
];

#[test]
fn imports_point_one_way() {
    let mut faults = Vec::new();
    let parts: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for (part, file, line) in lines_of_code() {
        let Some(allowed) = parts.get(part.as_str()) else {
            assert!(part == "main" || part == "lib", "src/{part} is not in the table: say what it may use");
            continue;
        };
        for used in words_after(&line, "crate::") {
            if parts.contains_key(used) && used != part && !allowed.contains(&used) {
                faults.push(format!("{}: {part} must not use {used}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_touches_the_outside_stays_where_it_belongs() {
    let mut faults = Vec::new();
    for (part, file, line) in lines_of_code() {
        for (name, parts) in KEPT_TO {
            let used = words_after(&line, "use ").chain(paths_in(&line)).any(|word| word == *name);
            if used && !parts.contains(&part.as_str()) {
                faults.push(format!("{}: {part} must not use the crate {name}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_test_that_the_invariants_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text: String = std::fs::read_to_string(root.join("src/lib.rs")).unwrap().replace("\n//! ", " ");
    let everything: String = rust_files(&root.join("src"))
        .into_iter()
        .chain(rust_files(&root.join("tests")))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        if let Some((file, test)) = quoted.split_once("::").filter(|(file, _)| file.starts_with("tests/")) {
            assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(&format!("fn {test}(")), "{quoted}");
            named += 1;
        } else if quoted.starts_with("tests/") {
            assert!(root.join(quoted).exists(), "{quoted}");
            named += 1;
        } else if let Some((path, last)) = quoted.rsplit_once("::") {
            let module = root.join("src").join(format!("{}/{last}.rs", path.replace("::", "/")));
            assert!(everything.contains(&format!("fn {last}(")) || module.exists(), "{quoted}");
            named += 1;
        }
    }
    assert!(named >= 9, "lib.rs names only {named} tests");
}

/// Every line of the sources that is not a comment, with the part and the file it stands in. Tests within the sources
/// count too, but for what they use of other parts to set a scene.
fn lines_of_code() -> Vec<(String, PathBuf, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lines = Vec::new();
    for file in rust_files(&source) {
        let below = file.strip_prefix(&source).unwrap();
        let part = below.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if below.to_str().unwrap().contains("tests") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in shipped.lines().filter(|line| !line.trim_start().starts_with("//")) {
            lines.push((part.clone(), file.clone(), line.to_owned()));
        }
    }
    assert!(lines.len() > 3_000, "only {} lines found", lines.len());
    lines
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The identifiers that directly follow `marker`; `crate::{a::x, b}` names both.
fn words_after<'a>(line: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(marker).flat_map(move |(at, _)| {
        let rest = &line[at + marker.len()..];
        let list = rest.strip_prefix('{').and_then(|list| list.split('}').next());
        list.map_or_else(|| vec![word(rest)], |list| list.split(',').map(|item| word(item.trim_start())).collect())
    })
}

/// The first words of paths: what stands before `::` and not after it.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("::").filter_map(|(at, _)| {
        let before = &line[..at];
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |place| place + 1);
        (!before[..start].ends_with("::") && start < at).then(|| &before[start..])
    })
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
