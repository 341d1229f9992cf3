//! Starting, or refusing to with a reason, and the other commands.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::ACME;
use crate::support::namespace::Namespace;
use crate::support::waiting::{Bounded, wait_until};
use crate::support::{Server, Setup, assert_has, at, lockkeeper, refusal};

#[tokio::test]
async fn every_fault_of_the_configuration_is_told_before_anything_starts() {
    let home = tempfile::tempdir().unwrap();
    let setup = Setup::default()
        .settings("workers = \"many\"\nratelimit = 5\n[http]\ndrain_seconds = 601\n[log]\nformat = \"xml\"\n")
        .organization("[organization]\nid = \"-x\"\n[[members]]\nname = \"a\"\nrole = \"boss\"\n")
        .variable("LOCKKEEPER_RATE_LIMIT", "lots")
        .variable("LOCKKEEPER_LISTN", "127.0.0.1:0")
        .variable("LOCKKEEPER_BOOTSTRAP_TOKEN", "lk_hidden");
    let (code, told) = refusal(&setup, home.path());
    assert_eq!(code, 78, "{told}");
    for part in [
        "the configuration has 9 faults",
        "settings.toml:2: workers must be",
        "unknown key `ratelimit`; did you mean `rate_limit`?",
        "http.drain_seconds must be an integer from 0 to 600",
        "log.format must be",
        "LOCKKEEPER_BOOTSTRAP_TOKEN: bootstrap_token must be a token",
        "LOCKKEEPER_LISTN: no setting has this name; did you mean `LOCKKEEPER_LISTEN`?",
        "LOCKKEEPER_RATE_LIMIT: rate_limit must be",
        "organization-0.toml:2: organization.id must be",
        "members.role",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(!told.contains("hidden"), "{told}");
    assert!(!home.path().join("data").exists());
}

#[test]
fn a_port_that_is_taken_is_told_in_one_sentence() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = lockkeeper(&["serve", "--listen", &address, "--data-dir"]);
    let (code, told) = outcome(command.arg(home.path().join("data")).env("LOCKKEEPER_LOG_FILTER", "off"));
    assert_eq!(code, 1);
    let expected = format!(
        "lockkeeper: cannot listen on {address}: the address is in use by another program; stop it, or choose another address with --listen\n"
    );
    assert_eq!(told, expected);
    // It had not begun anything: the first real start still has a token to show.
    let server = Setup::default().without_variable("LOCKKEEPER_BOOTSTRAP_TOKEN").start_at(home.path());
    assert!(server.greeting.contains("shown only this once"), "{}", server.greeting);
}

#[test]
fn a_first_start_takes_its_flags_without_a_command_and_warns_of_nothing() {
    let home = tempfile::tempdir().unwrap();
    let limits = "ulimit -Sn 1024 && ulimit -Hn 4096 && exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limits, env!("CARGO_BIN_EXE_lockkeeper"), "--listen", "localhost:0", "--data-dir"]);
    let mut started = Started::of(command.arg(home.path().join("data")), home.path());
    assert!(started.greeting.contains(" serves on http://127.0.0.1:"), "{}", started.greeting);
    assert!(!started.greeting.contains("Listening:"), "{}", started.greeting);
    let log = started.log();
    assert!(log.contains("serving") && !log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

#[test]
fn a_port_alone_lets_other_machines_connect_and_says_so() {
    let Some(_namespace) =
        Namespace::enter("operating::starting::a_port_alone_lets_other_machines_connect_and_says_so")
    else {
        return;
    };
    for (listen, address, url) in [(":0", "0.0.0.0:", "http://127.0.0.1:"), ("[::]:0", "[::]:", "http://[::1]:")] {
        let home = tempfile::tempdir().unwrap();
        let mut command = lockkeeper(&["--listen", listen, "--data-dir"]);
        let mut started = Started::of(command.arg(home.path().join("data")), home.path());
        assert!(started.greeting.contains(&format!("serves on {url}")), "{}", started.greeting);
        assert!(started.greeting.contains(&format!("Listening:     {address}")), "{}", started.greeting);
        let log = started.log();
        assert!(log.contains("tokens are sent without TLS; turn it on"), "{log}");
    }
}

/// A server started only by its command line; killed when this is dropped.
struct Started {
    child: Bounded,
    greeting: String,
    log: std::path::PathBuf,
}

impl Started {
    fn of(command: &mut Command, home: &Path) -> Self {
        let log = home.join("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKKEEPER_")) {
            command.env_remove(name);
        }
        let mut child = Bounded::spawn(command);
        let mut greeting = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while lines.read_line(&mut greeting).unwrap() > 0 && !greeting.contains("Admin token:") {}
        // It logs only after the greeting.
        let is_serving = || std::fs::read_to_string(&log).unwrap().contains("serving");
        wait_until("it serves, or has ended", || is_serving() || child.try_wait().unwrap().is_some());
        Self { child, greeting, log }
    }

    /// The whole log, once the server has stopped.
    fn log(&mut self) -> String {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        self.child.wait().unwrap();
        std::fs::read_to_string(&self.log).unwrap()
    }
}

#[test]
fn a_data_directory_that_is_a_file_is_said_to_be_one() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("data");
    std::fs::write(&file, "mine").unwrap();
    let (code, told) = refusal(&Setup::default(), home.path());
    let expected =
        format!("{} is a file, not a directory; choose an empty or new directory with --data-dir", file.display());
    assert!(code == 1 && told.contains(&expected), "{code} {told}");
    for command in [&["audit", "verify", "--data-dir"][..], &["secrets", "rotate-key", "--data-dir"]] {
        let (_, told) = outcome(lockkeeper(command).arg(&file));
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_second_server_on_the_same_data_is_told_who_has_it() {
    let server = Server::start();
    let (code, told) = refusal(&Setup::default(), server.home());
    assert_eq!(code, 1);
    assert!(told.contains(&format!("is in use by process {};", server.pid())), "{told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
}

#[test]
fn the_data_directory_is_its_owners_and_a_foreign_one_is_left_alone() {
    let mut server = Server::start();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.data_dir()), 0o700);
    assert!(server.terminate().success());
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("thesis.tex"), "mine").unwrap();
    let (code, told) = refusal(&Setup::default(), home.path());
    assert_eq!(code, 1);
    assert!(told.contains("not a lockkeeper data directory; choose"), "{told}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
}

#[tokio::test]
async fn a_data_directory_that_others_can_read_is_refused_and_nothing_in_it_is_theirs_to_read() {
    // The usual umask.
    let mut server = Setup::default().under(&["sh", "-c", "umask 022; exec \"$@\"", "sh"]).start();
    server.as_user("ana").await.claim("review-1", json!({})).await.created();
    assert!(server.terminate().success());
    let data = server.data_dir();
    let mut folders = vec![data.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let told = server.try_start_again().unwrap_err();
    assert!(told.contains(&format!("run chmod 700 {} and start again", data.display())), "{told}");
    let verified = lockkeeper(&["audit", "verify", "--data-dir"]).arg(&data).output().unwrap();
    assert_eq!(verified.status.code(), Some(2), "{verified:?}");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    server.start_again();
}

#[tokio::test]
async fn what_the_api_changed_outlives_restarts_until_the_declaration_changes() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    admin.put(&at("review-1"), json!({ "description": "by the API" })).await.ok();
    admin.delete(&at("review-2")).await.has_status(204);
    admin.put(&at("review-9"), json!({})).await.created();
    assert!(server.terminate().success());
    server.start_again();
    let configuration =
        async |server: &Server, name: &str| server.admin().environment(name).await.data()["configuration"].clone();
    assert_has(&configuration(&server, "review-1").await, json!({ "description": "by the API", "labels": {} }));
    server.admin().environment("review-2").await.refused(404, "environment_not_found");
    server.admin().environment("review-9").await.ok();
    assert!(server.terminate().success());
    let changed = ACME.replace("labels = { size = \"small\" }", "labels = { size = \"tiny\" }");
    server.change_setup(|_| Setup::default().organization(&changed));
    server.start_again();
    for name in ["review-1", "review-2"] {
        assert_has(
            &configuration(&server, name).await,
            json!({ "description": "For looking at a pull request", "labels": { "size": "tiny" } }),
        );
    }
    server.admin().environment("review-9").await.ok();
}

#[test]
fn a_file_is_checked_without_starting_anything() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let acme = file("acme.toml", ACME);
    let checked = succeed(&["check", &acme]);
    assert_eq!(checked, format!("{acme}: organization acme, 5 members, 2 pipelines, 5 environments\n"));
    let settings = file("settings.toml", "organizations = [\"acme.toml\"]\n");
    assert!(succeed(&["check", &settings]).starts_with(&format!("{settings}: settings, 1 organization\n{acme}: ")));
    let defaults = file("defaults.toml", &succeed(&["config"]));
    assert!(succeed(&["check", &defaults]).contains("so the sample organization is served"));

    let broken = file("broken.toml", "[organization]\nid = \"x\"\ncolour = \"red\"\n[[members]]\nname = \"a b\"\n");
    let (code, told) = outcome(&mut lockkeeper(&["check", &broken]));
    assert_eq!(code, 78);
    for part in [":3: organization.colour is not a known key", "members.name must be", "members.role is required"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let (code, told) = outcome(&mut lockkeeper(&["check", "/nowhere.toml"]));
    assert!(code == 78 && told.contains("the file does not exist"), "{told}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 4, "nothing else was made");
}

#[test]
fn the_command_line_explains_itself() {
    let help = succeed(&["--help"]);
    for part in ["serve", "check", "config", "token", "Exit codes:", "Examples:", "LOCKKEEPER_BOOTSTRAP_TOKEN"] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
    for flag in ["--config", "--data-dir", "--listen", "LOCKKEEPER_LISTEN", "localhost:8080", "`:8080`"] {
        assert!(succeed(&["serve", "--help"]).contains(flag) && help.contains(flag), "{flag}");
    }
    assert!(succeed(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    let (first, second) = (succeed(&["token"]), succeed(&["token"]));
    assert!(first.starts_with("lk_") && first.trim().len() == 39 && first != second, "{first}");
    for wrong in [&["serv"][..], &["serve", "--port", "80"], &["check"], &["--listen", ":1", "token"]] {
        let (code, told) = outcome(&mut lockkeeper(wrong));
        assert!(code == 2 && told.contains("Usage:"), "{wrong:?}: {code} {told}");
    }
}

fn succeed(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = lockkeeper(arguments).output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The exit code of a failing command, and its output.
fn outcome(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}
