//! README and the guide in docs/, as a reader follows them: every `sh` block is run, each page in one shell.

mod kits;
mod page;
mod shown;

use std::path::{Path, PathBuf};
use std::process::Command;

use page::Page;
use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Client, Server, Setup, lockkeeper};

/// A page that takes longer is considered hung.
const SECONDS_PER_PAGE: &str = "180";
/// Ports used in the pages besides the server's own 8080: each is replaced by a free one, since they may be in use.
const OTHER_PORTS: [&str; 2] = ["8443", "9000"];
/// Programs that the pages use. If one is missing, nothing is run.
const TOOLS: [&str; 7] = ["bash", "curl", "git", "jq", "openssl", "python3", "timeout"];

#[tokio::test]
async fn every_page_can_be_walked_twice_on_one_server_and_leaves_nothing_behind() {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: the blocks of README and docs are not run, since {missing} is not installed");
        return;
    }
    // Like a reader's server, except for receivers on this machine, confined steps, and the default limits.
    let server = Setup::default()
        .settings("[storage]\nmin_free_mb = 0\n")
        .without_variable("LOCKKEEPER_RUNNER_ISOLATION")
        .variable("LOCKKEEPER_OUTBOUND_ALLOW", "127.0.0.1")
        .start();
    let before = everything(&server.admin()).await;
    for round in ["first", "second"] {
        for page in Page::all() {
            walk(&page, &server).await.unwrap_or_else(|fault| {
                panic!("{} ({round} time): {fault}\nthe server's log:\n{}", page.name, server.log())
            });
            assert_eq!(
                everything(&server.admin()).await,
                before,
                "{} ({round} time) leaves something behind",
                page.name
            );
        }
    }
}

/// Runs the page, and compares its JSON with the actual answers.
async fn walk(page: &Page, server: &Server) -> Result<(), String> {
    let home = tempfile::tempdir().unwrap();
    let script = page.script(home.path(), |line| at_ports(line, server));
    std::fs::write(home.path().join("script"), script).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(built).chain(std::env::split_paths(&path))).unwrap();
    let mut command = tokio::process::Command::new("timeout");
    command
        .args([SECONDS_PER_PAGE, "bash", "-eEuo", "pipefail"])
        .arg(home.path().join("script"))
        .current_dir(sources());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKKEEPER_")) {
        command.env_remove(name);
    }
    command.env("PATH", path).env("TMPDIR", home.path()).env("LOCKKEEPER_URL", &server.address);
    command.env("LOCKKEEPER_TOKEN", ADMIN_TOKEN).stdin(std::process::Stdio::null());
    let done = command.output().await.unwrap();
    let printed = |line: usize| std::fs::read_to_string(home.path().join(line.to_string())).unwrap_or_default();
    if !done.status.success() {
        let blocks: Vec<String> = page.shell().map(|block| printed(block.line)).collect();
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}\n{stderr}\nprinted:\n{}", done.status, blocks.concat()));
    }
    for (block, shown) in page.answers() {
        let printed = printed(block.line);
        let expected = shown::parse(&shown.text).map_err(|error| format!("line {}: {error}", shown.line))?;
        let answer = shown::last_json(&printed).ok_or(format!("line {}: no JSON in {printed}", block.line))?;
        shown::compare(&expected, &answer).map_err(|why| format!("line {}: {why} in {answer:#}", shown.line))?;
    }
    Ok(())
}

/// Replaces the documented addresses by those of this test.
fn at_ports(line: &str, server: &Server) -> String {
    let mut line = line.replace("http://127.0.0.1:8080", &server.address);
    for port in OTHER_PORTS {
        line = line.replace(port, &free_port(port).to_string());
    }
    line
}

/// The same port for all lines of this process.
fn free_port(documented: &str) -> u16 {
    use std::sync::LazyLock;
    static FREE: LazyLock<Vec<(&str, u16)>> = LazyLock::new(|| {
        let listeners = OTHER_PORTS.map(|port| (port, std::net::TcpListener::bind("127.0.0.1:0").unwrap()));
        listeners.iter().map(|(port, listener)| (*port, listener.local_addr().unwrap().port())).collect()
    });
    FREE.iter().find(|(port, _)| *port == documented).unwrap().1
}

/// The visible state of the organization, without times and counters: following a page must not change it.
async fn everything(admin: &Client) -> Value {
    let mut seen = json!({});
    for (list, name) in [
        ("/pipelines", "id"),
        ("/pipelines/web/ephemeral-environments", "envName"),
        ("/pipelines/shop/ephemeral-environments", "envName"),
        ("/secrets", "name"),
        ("/webhooks", "url"),
        ("/step-registries", "name"),
        ("/members", "name"),
        ("/tokens", "name"),
        ("/approvals?status=pending", "approvalId"),
    ] {
        let answer = admin.get(list).await.ok().data();
        let entries = answer.as_array().unwrap().iter();
        seen[list] = entries
            .map(|entry| json!([entry[name], entry["lockStatus"], entry["queueLength"], entry["role"]]))
            .collect();
    }
    seen
}

/// A block that is not run is not tested: whoever adds one must change the number, and needs a reason. These blocks
/// build or install something, need root, a second server in place of the first, or a tool that tests do not have.
#[test]
fn what_is_not_run_is_counted() {
    const CONSOLE: usize = 37;
    let pages = Page::all();
    let mut found = std::collections::BTreeMap::<&str, usize>::new();
    for block in pages.iter().flat_map(|page| &page.blocks) {
        *found.entry(&block.language).or_default() += 1;
    }
    println!("blocks by language, `sh` is run: {found:?}");
    let known = ["console", "groovy", "json", "python", "sh", "sql", "text", "toml", "yaml"];
    assert!(found.keys().all(|language| known.contains(language)), "{found:?}");
    assert_eq!(found["console"], CONSOLE, "{found:?}");
}

/// A command may fail only if the page shows its refusal, which is then compared.
#[test]
fn a_command_that_may_fail_shows_its_refusal() {
    for page in Page::all() {
        for block in page.shell().filter(|block| block.text.contains("|| true")) {
            let shown = page.answers().find(|(shell, _)| shell.line == block.line).map(|(_, shown)| &shown.text);
            assert!(shown.is_some_and(|text| text.contains("\"code\"")), "{}:{}", page.name, block.line);
        }
    }
}

#[test]
fn every_link_to_a_file_or_a_heading_leads_there() {
    let pages = Page::all();
    for page in &pages {
        for (file, heading) in page.links() {
            let path = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(&file) };
            assert!(path.exists(), "{} links to {file}, which does not exist", page.name);
            let Some(heading) = heading else { continue };
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(page::headings(&text).any(|found| found == heading), "{} links to {file}#{heading}", page.name);
        }
    }
}

/// Keys of settings in the guide exist.
#[test]
fn settings_in_the_guide_are_settings() {
    let defaults: toml::Table = include_str!("../../config/default.toml").parse().unwrap();
    for page in Page::all() {
        for block in page.blocks.iter().filter(|block| block.language == "toml") {
            let shown: toml::Table = block.text.parse().unwrap_or_else(|error| panic!("{}: {error}", page.name));
            // An organization file.
            if shown.contains_key("providers") || shown.contains_key("identities") {
                continue;
            }
            for (key, value) in &shown {
                let known = defaults.get(key).unwrap_or_else(|| panic!("{}: no setting {key}", page.name));
                for inner in value.as_table().into_iter().flat_map(toml::Table::keys) {
                    assert!(known.as_table().unwrap().contains_key(inner), "{}: no setting {key}.{inner}", page.name);
                }
            }
        }
    }
}

/// Providers of single sign-on and trusted issuers in the guide are what an organization file takes.
#[test]
fn providers_in_the_guide_are_sound() {
    const HEAD: &str = "[organization]\nid = 'acme'\n[[members]]\nname = 'root'\nrole = 'admin'\n";
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("organization.toml");
    let mut checked = 0;
    for page in Page::all() {
        for block in page.blocks.iter().filter(|block| block.language == "toml" && is_of_organization(&block.text)) {
            for named in block.text.lines().filter_map(|line| line.strip_prefix("client_secret_file = \"")) {
                std::fs::write(home.path().join(named.split('"').next().unwrap()), "s3cret\n").unwrap();
            }
            std::fs::write(&file, format!("{HEAD}{}", block.text)).unwrap();
            let output = lockkeeper(&["check", file.to_str().unwrap()]).output().unwrap();
            assert!(output.status.success(), "{}: {}", page.name, String::from_utf8_lossy(&output.stderr));
            checked += 1;
        }
    }
    assert!(checked >= 9, "only {checked} found");
}

fn is_of_organization(toml: &str) -> bool {
    ["[[providers]]", "[[identities]]"].iter().any(|table| toml.contains(table))
}

fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}
