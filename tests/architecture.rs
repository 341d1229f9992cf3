//! The shape of the code: which part may use which, where each part of the outside world may be touched, and that no
//! folder's files use each other in a circle.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/sources.rs"]
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use circles::circles;
use sources::{Sources, within_its_part};

/// Each part with those it may use. Everything points one way: main, cli, app, the middle, then store and auth, then the
/// domain, which uses nothing of ours.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("store", &["backoff"]),
    ("cluster", &["backoff", "domain", "store"]),
    ("backoff", &[]),
    ("entropy", &["domain"]),
    ("steady_clock", &["domain", "entropy"]),
    ("stored", &["domain", "store"]),
    ("nearest", &[]),
    ("client", &["processes"]),
    ("processes", &[]),
    ("dashboard", &[]),
    ("outbound", &["backoff"]),
    ("shares", &["domain", "store"]),
    ("archive", &["backoff", "domain", "logs", "outbound", "peers", "shares"]),
    (
        "analysis",
        &["actors", "archive", "backoff", "domain", "events", "logs", "outbound", "shares", "store", "stored"],
    ),
    ("fixes", &["analysis", "domain", "events", "git", "outbound", "pipelines", "secrets", "shares", "store"]),
    ("events", &["domain", "store", "stored"]),
    ("git", &["domain", "outbound", "shares"]),
    ("logs", &["domain", "shares"]),
    ("runner", &["backoff", "domain", "logs", "outbound", "processes", "shares", "store"]),
    ("forms", &["domain", "nearest", "pipelines"]),
    ("tls", &[]),
    ("config", &["auth", "domain", "forms", "identities", "nearest", "outbound", "pipelines", "secrets", "sso", "tls"]),
    ("idempotency", &["domain", "shares", "steady_clock", "store", "stored"]),
    ("auth", &["domain", "entropy", "events", "idempotency", "shares", "store", "stored"]),
    ("pipelines", &["domain", "events", "store", "stored"]),
    ("registries", &["domain", "events", "git", "nearest", "pipelines", "secrets", "store", "stored"]),
    ("secrets", &["domain", "events", "store"]),
    ("identities", &["domain", "outbound", "sso"]),
    ("sso", &["backoff", "domain", "outbound", "secrets"]),
    ("actors", &["backoff", "domain", "entropy", "events", "idempotency", "pipelines", "shares", "store", "stored"]),
    ("webhooks", &["backoff", "domain", "entropy", "events", "outbound", "secrets", "shares", "store", "stored"]),
    ("peers", &["outbound", "secrets"]),
    ("backup", &["actors", "domain", "logs", "store"]),
    ("moving", &["actors", "auth", "backoff", "cluster", "domain", "events", "idempotency", "secrets", "store"]),
    ("telemetry", &["config", "domain", "events", "shares"]),
    (
        "http",
        &[
            "actors",
            "analysis",
            "archive",
            "auth",
            "backoff",
            "backup",
            "dashboard",
            "domain",
            "entropy",
            "events",
            "fixes",
            "forms",
            "git",
            "idempotency",
            "identities",
            "logs",
            "nearest",
            "peers",
            "pipelines",
            "registries",
            "secrets",
            "shares",
            "sso",
            "store",
            "tls",
            "webhooks",
        ],
    ),
    (
        "app",
        &[
            "actors",
            "analysis",
            "archive",
            "auth",
            "backoff",
            "backup",
            "cluster",
            "config",
            "domain",
            "entropy",
            "events",
            "fixes",
            "git",
            "http",
            "idempotency",
            "identities",
            "logs",
            "moving",
            "outbound",
            "peers",
            "pipelines",
            "registries",
            "runner",
            "secrets",
            "shares",
            "sso",
            "steady_clock",
            "store",
            "stored",
            "telemetry",
            "tls",
            "webhooks",
        ],
    ),
    ("doctor", &["app", "client", "config", "runner", "secrets", "store", "tls"]),
    (
        "cli",
        &[
            "app",
            "auth",
            "backup",
            "client",
            "cluster",
            "config",
            "doctor",
            "domain",
            "events",
            "http",
            "logs",
            "moving",
            "outbound",
            "runner",
            "secrets",
            "store",
            "telemetry",
        ],
    ),
];

/// Crates that only some parts may know, so that each can be replaced there.
const KEPT_TO: &[(&str, &[&str])] = &[
    ("sled", &["store"]),
    ("actix", &["actors"]),
    ("dashmap", &["actors", "auth", "idempotency"]),
    ("utoipa", &["http"]),
    ("clap", &["cli", "client"]),
    ("toml", &["analysis", "client", "config"]),
    (
        "tokio",
        &[
            "actors",
            "analysis",
            "app",
            "archive",
            "auth",
            "cli",
            "client",
            "cluster",
            "doctor",
            "events",
            "fixes",
            "git",
            "http",
            "idempotency",
            "identities",
            "logs",
            "moving",
            "outbound",
            "pipelines",
            "registries",
            "runner",
            "shares",
            "sso",
            "store",
            "webhooks",
        ],
    ),
    ("actix_web", &["app", "http"]),
    ("actix_server", &["http"]),
    (
        "serde_json",
        &["analysis", "backup", "cli", "client", "config", "fixes", "forms", "http", "identities", "sso", "telemetry"],
    ),
    ("chacha20poly1305", &["secrets"]),
    ("aho_corasick", &["analysis", "runner"]),
    ("regex", &["analysis"]),
    ("reqwest", &["analysis", "archive", "client", "fixes", "outbound", "runner", "sso", "webhooks"]),
    ("hyper", &["peers"]),
    ("hyper_rustls", &["peers"]),
    ("hyper_util", &["peers"]),
    ("rustls", &["app", "client", "outbound", "peers", "store", "tls"]),
    ("tokio_rustls", &["http", "store"]),
    ("hmac", &["auth", "events", "webhooks"]),
    ("url", &["outbound", "sso", "webhooks"]),
    ("include_dir", &["dashboard"]),
    ("prost", &["store"]),
    ("tonic", &["store"]),
    ("tonic_prost", &["store"]),
    ("tokio_postgres", &["store"]),
];

/// Folders of `src` whose files use each other one way only.
const WITHOUT_CIRCLES: &[&str] = &[
    "actors",
    "analysis",
    "app",
    "archive",
    "auth",
    "backup",
    "cli",
    "client",
    "cluster",
    "doctor",
    "fixes",
    "git",
    "http",
    "idempotency",
    "identities",
    "logs",
    "moving",
    "outbound",
    "peers",
    "pipelines",
    "registries",
    "runner",
    "secrets",
    "shares",
    "sso",
    "store",
    "stored",
    "telemetry",
    "tls",
    "webhooks",
];

#[test]
fn imports_point_one_way() {
    let parts: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let mut faults = BTreeSet::new();
    for named in our_sources().named().filter(|named| named.is_ours) {
        let part = part_of(named.file);
        let Some(allowed) = parts.get(part) else {
            assert!(part == "main" || part == "lib", "src/{part} is not in the table: say what it may use");
            continue;
        };
        let used = named.path[0].as_str();
        if parts.contains_key(used) && used != part && !allowed.contains(&used) {
            faults.insert(format!("{}: {part} must not use {used}", named.file));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn outside_crates_stay_in_their_parts() {
    let mut faults = BTreeSet::new();
    for named in our_sources().named().filter(|named| !named.is_ours) {
        let part = part_of(named.file);
        for (name, parts) in KEPT_TO.iter().filter(|(name, _)| named.path[0] == *name) {
            if !parts.contains(&part) {
                faults.insert(format!("{}: {part} must not use the crate {name}, only {parts:?}", named.file));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn no_folder_has_files_that_use_each_other_in_a_circle() {
    let sources = our_sources();
    for folder in WITHOUT_CIRCLES {
        let found = circles_below(&sources, folder);
        assert!(found.is_empty(), "src/{folder} has circles: {found:#?}");
    }
}

#[test]
fn a_planted_circle_is_found_however_it_is_written() {
    for import in [
        "use crate::rooms::hall::Hall;",
        "use super::hall::Hall;",
        "use super::{\n    door::Lock,\n    hall::{self, Hall},\n};",
        "use crate::{rooms::{door, hall::Hall}};",
        "use super::Hall;",
        "use super::hall; fn go() { hall::enter() }",
        "use crate::rooms as house; fn go() { house::hall::enter() }",
        "fn go() { vec![super::hall::enter()]; }",
    ] {
        let sources = Sources::read([
            ("rooms/mod.rs", "mod door; mod hall; mod kitchen; pub use hall::{\n    Hall,\n};"),
            ("rooms/hall.rs", "use super::kitchen::Stove; pub struct Hall; pub fn enter() {}"),
            ("rooms/kitchen.rs", "use super::door::Lock; pub struct Stove;"),
            ("rooms/door.rs", &format!("pub struct Lock; {import}")),
        ]);
        let circle = vec!["rooms/door.rs", "rooms/hall.rs", "rooms/kitchen.rs"];
        assert_eq!(circles_below(&sources, "rooms"), BTreeSet::from([circle]), "{import}");
    }
}

#[test]
fn a_folder_that_is_a_crate_of_its_own_is_seen_like_the_others() {
    let sources = Sources::read([
        ("lib.rs", "mod hall; use lockkeeper_rooms as rooms;"),
        ("hall.rs", "use crate::rooms::Door; pub struct Hall;"),
        ("rooms/lib.rs", "pub mod door; pub mod window; pub use door::Door;"),
        ("rooms/door.rs", "use crate::window::Window; pub struct Door;"),
        ("rooms/window.rs", "use crate::door::Door; use lockkeeper_hall::Hall; pub struct Window;"),
    ]);
    assert_eq!(circles_below(&sources, "rooms"), BTreeSet::from([vec!["rooms/door.rs", "rooms/window.rs"]]));
    let uses = sources.uses();
    assert_eq!(uses["hall.rs"], BTreeSet::from(["rooms/door.rs"]));
    assert!(uses["rooms/window.rs"].contains("hall.rs"));
}

#[test]
#[should_panic(expected = "rooms/door.rs: import names of ours")]
fn an_import_of_everything_is_refused_since_it_hides_what_is_used() {
    let sources = Sources::read([("rooms/mod.rs", "mod door; pub struct Hall;"), ("rooms/door.rs", "use super::*;")]);
    circles_below(&sources, "rooms");
}

#[test]
fn what_is_no_circle_is_not_taken_for_one() {
    for import in [
        "",
        "// use super::hall::Hall;",
        "const TEXT: &str = \"super::hall::enter()\";",
        "#[cfg(test)] mod tests { use crate::rooms::hall::Hall; }",
        "#[cfg(test)]\nuse super::hall::Hall;",
        "use hall::Hall;",
        "use super::Price;",
    ] {
        let sources = Sources::read([
            ("rooms/mod.rs", "mod door; mod hall; #[cfg(test)] mod tests; pub use hall::Hall; pub struct Price;"),
            ("rooms/hall.rs", "use super::door::Lock; pub struct Hall; pub fn enter() {}"),
            ("rooms/door.rs", &format!("pub struct Lock; {import}")),
            ("rooms/tests.rs", "use super::hall::Hall; pub fn of_a_test() {}"),
        ]);
        assert_eq!(circles_below(&sources, "rooms"), BTreeSet::new(), "{import}");
    }
}

/// `read_body` renews the caller's access; a handler that took the bytes itself could act for somebody who was removed.
#[test]
fn bodies_are_read_in_one_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/front/http");
    let reads = |file: &PathBuf| std::fs::read_to_string(file).unwrap().contains("incoming");
    let found: Vec<_> = rust_files(&folder.join("resources")).into_iter().filter(reads).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(reads(&folder.join("body/mod.rs")));
}

#[test]
fn every_test_that_the_invariants_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text: String = std::fs::read_to_string(root.join("src/lib.rs")).unwrap().replace("\n//! ", " ");
    let files: Vec<_> = rust_files(&root.join("src")).into_iter().chain(rust_files(&root.join("tests"))).collect();
    let everything: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        if let Some((file, test)) = quoted.split_once("::").filter(|(file, _)| file.starts_with("tests/")) {
            assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(&format!("fn {test}(")), "{quoted}");
            named += 1;
        } else if quoted.starts_with("tests/") {
            assert!(root.join(quoted).exists(), "{quoted}");
            named += 1;
        } else if let Some((path, last)) = quoted.rsplit_once("::") {
            let module = format!("{}/{last}.rs", path.replace("::", "/"));
            let exists = || files.iter().any(|file| file.ends_with(&module));
            assert!(everything.contains(&format!("fn {last}(")) || exists(), "{quoted}");
            named += 1;
        }
    }
    assert!(named >= 9, "lib.rs names only {named} tests");
}

#[test]
fn tests_and_load_test_do_not_change_how_the_server_is_built() {
    let server = packages(&["--package", "lockkeeper", "--edges", "normal,build"]);
    let everything = packages(&["--workspace", "--edges", "normal,build,dev"]);
    let only_alone: Vec<_> = server.difference(&everything).collect();
    assert!(server.len() > 100 && only_alone.is_empty(), "built twice, with other features: {only_alone:#?}");
}

/// A profile inherits what is set for single packages; what is shipped must not be built for size by an oversight.
#[test]
fn what_release_builds_for_size_is_built_in_full_for_shipping() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let packages = |profile: &str| manifest["profile"][profile]["package"].as_table().unwrap().clone();
    let (release, dist) = (packages("release"), packages("dist"));
    let small: Vec<_> = release.iter().filter(|(_, settings)| settings.get("opt-level").is_some()).collect();
    assert!(!small.is_empty());
    for (name, _) in small {
        let level = dist.get(name).and_then(|settings| settings["opt-level"].as_integer());
        assert_eq!(level, Some(3), "profile.dist.package.{name} needs `opt-level = 3`");
    }
}

/// The packages of a build, each with its features.
fn packages(selection: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"];
    let output =
        Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(tree).args(selection).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn our_sources() -> Sources {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let texts: Vec<_> = rust_files(&folder)
        .into_iter()
        .filter_map(|file| {
            let below = within_its_part(file.strip_prefix(&folder).unwrap().to_str().unwrap())?.to_owned();
            Some((below, std::fs::read_to_string(&file).unwrap()))
        })
        .collect();
    assert!(texts.len() > 200, "only {} files found", texts.len());
    Sources::read(texts.iter().map(|(file, text)| (&**file, &**text)))
}

/// Circles between the files below a folder; what lies outside it does not count.
fn circles_below<'a>(sources: &'a Sources, folder: &str) -> BTreeSet<Vec<&'a str>> {
    let mut uses = sources.uses();
    uses.retain(|file, _| part_of(file) == folder);
    for used in uses.values_mut() {
        used.retain(|file| part_of(file) == folder);
    }
    circles(&uses)
}

/// The folder, or the file without its ending, directly below `src`.
fn part_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
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
