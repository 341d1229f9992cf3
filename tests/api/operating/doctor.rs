//! `lockkeeper doctor`: its findings before a first start, next to a running server, and with faults.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{ADMIN_TOKEN, Server, Setup, lockkeeper};

/// With a separate home, so that no profile of the test's user is found.
fn doctor(home: &Path, arguments: &[&str]) -> Command {
    let mut command = lockkeeper(&["doctor"]);
    command.args(arguments).current_dir(home).env("HOME", home).env_remove("XDG_CONFIG_HOME");
    command.env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The line of a subject.
fn line<'a>(shown: &'a str, subject: &str) -> &'a str {
    let is_it = |line: &&str| line.split_once(' ').is_some_and(|(_, rest)| rest.trim_start().starts_with(subject));
    shown.lines().find(is_it).unwrap_or_else(|| panic!("nothing of {subject} in\n{shown}"))
}

#[test]
fn before_a_first_start_all_is_well_and_nothing_is_made() {
    let home = tempfile::tempdir().unwrap();
    let output = doctor(home.path(), &["--listen", "127.0.0.1:0"]).output().unwrap();
    let shown = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(line(&shown, "data directory").contains("the first start makes it"), "{shown}");
    assert!(line(&shown, "master key").starts_with("ok"), "{shown}");
    assert!(line(&shown, "listen address").ends_with("is free"), "{shown}");
    for subject in
        ["settings", "file system", "free space", "clock", "certificate", "file descriptors", "isolation of steps"]
    {
        line(&shown, subject);
    }
    assert!(!shown.contains(" token: "), "there is no configuration of a client: {shown}");
    assert_eq!(home.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn beside_a_server_it_says_who_holds_the_data_and_whether_the_token_works() {
    let server = Server::start();
    let data = server.home().join("data");
    let address = server.address.strip_prefix("http://").unwrap();
    let home = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", data.to_str().unwrap(), "--listen", address, "--json"];
    let mut command = doctor(home.path(), &arguments);
    command.env("LOCKKEEPER_URL", &server.address).env("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = |subject: &str| {
        let findings = report["findings"].as_array().unwrap();
        let finding =
            findings.iter().find(|finding| finding["subject"] == subject).unwrap_or_else(|| panic!("{report:#}"));
        (finding["level"].as_str().unwrap().to_owned(), finding["words"].as_str().unwrap().to_owned())
    };
    assert!(found("data directory").1.contains("in use by"), "{report:#}");
    assert!(found("listen address").1.ends_with("and is ready"), "{report:#}");
    assert_eq!(found("master key").0, "ok");
    assert_eq!(found("token"), ("ok".to_owned(), "admin, admin in acme".to_owned()));
    assert_eq!(found("clock of the server").0, "ok");
    assert!(!shown(&output).contains(&ADMIN_TOKEN[3..]));
    server.admin().get("/pipelines").await.ok();
}

#[test]
fn each_fault_is_said_with_what_to_do_and_makes_it_fail() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let faults = |arguments: &[&str], variables: &[(&str, &str)], said: &[&str]| {
        let output = doctor(home.path(), arguments).envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        for said in said {
            assert!(shown(&output).contains(said), "{said} is not in\n{}", shown(&output));
        }
    };
    faults(
        &[],
        &[("LOCKKEEPER_LISTN", "x"), ("LOCKKEEPER_WORKERS", "many")],
        &["fault    settings", "LOCKKEEPER_LISTN", "LOCKKEEPER_WORKERS"],
    );

    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("letter.txt"), "mine").unwrap();
    faults(&[], &[], &["fault    data directory", "not a lockkeeper data directory"]);
    std::fs::remove_dir_all(&data).unwrap();

    // A data directory left by a server, accessible to others, and without its key.
    drop(Setup::default().start_at(home.path()));
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    faults(&[], &[], &["fault    data directory", "chmod 700"]);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(data.join("master.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    faults(&[], &[], &["fault    master key", "chmod 600"]);
    std::fs::remove_file(data.join("master.key")).unwrap();
    faults(&[], &[], &["fault    master key", "put master.key back"]);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    faults(&["--listen", &address, "--data-dir", "elsewhere"], &[], &["another program listens on"]);
    let nowhere = [("LOCKKEEPER_URL", "http://127.0.0.1:9"), ("LOCKKEEPER_TOKEN", ADMIN_TOKEN)];
    faults(&["--data-dir", "elsewhere"], &nowhere, &["fault    server: "]);
}
