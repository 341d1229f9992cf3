//! A real server in a separate process, and clients that talk to it over real sockets.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by several test binaries"
)]

mod assertions;
pub use testkit::authority;
mod client;
pub mod issuer;
pub mod model;
pub mod namespace;
pub mod recorded;
pub mod registries;
pub mod secrecy;
pub mod tenants;
pub mod waiting;
pub mod wire;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use tempfile::TempDir;

pub use assertions::*;
pub use client::*;

/// A token with a fixed text, so that tests can log in after any restart.
pub const ADMIN_TOKEN: &str = "lk_0000000000000000000000000000002C8GjS";

/// A server is killed after this time, so that a test that waits for one without a limit fails instead of hanging. Much
/// longer than any test, even on a machine that is frozen half of the time.
const LIFE_MAX: Timespec = Timespec { tv_sec: 15 * 60, tv_nsec: 0 };

/// How a server is started.
pub struct Setup {
    settings: String,
    organizations: Vec<String>,
    variables: Vec<(String, String)>,
    /// Programs under which the server runs, like strace.
    wrapper: Vec<String>,
    arguments: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            // A small log and no reserve, so that a hundred servers fit on a small disk.
            settings: "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n".to_owned(),
            organizations: Vec::new(),
            variables: vec![
                ("LOCKKEEPER_BOOTSTRAP_TOKEN".to_owned(), ADMIN_TOKEN.to_owned()),
                ("LOCKKEEPER_RUNNER_ISOLATION".to_owned(), isolation()),
            ],
            wrapper: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

/// Most tests examine processes and files of steps from outside, which confinement hides; `tests/deployments/isolation`
/// covers confined steps.
fn isolation() -> String {
    std::env::var("LOCKKEEPER_TEST_ISOLATION").unwrap_or_else(|_| "off".to_owned())
}

impl Setup {
    /// Settings in TOML instead of the tests' own.
    pub fn settings(mut self, toml: &str) -> Self {
        self.settings = toml.to_owned();
        self
    }

    /// An organization in TOML; without any, the sample is served.
    pub fn organization(mut self, toml: &str) -> Self {
        self.organizations.push(toml.to_owned());
        self
    }

    /// Replaces all organizations.
    pub fn organizations(mut self, tomls: &[&str]) -> Self {
        self.organizations = tomls.iter().map(|toml| (*toml).to_owned()).collect();
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets it connect to this machine for its tenants: the receivers of tests are here.
    pub fn reaching_loopback(self) -> Self {
        self.variable("LOCKKEEPER_OUTBOUND_ALLOW", "127.0.0.0/8")
    }

    pub fn without_variable(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    pub fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The command that serves from `home/data`, with its settings written to `home`.
    pub fn command(&self, home: &Path) -> Command {
        let mut names = Vec::new();
        for (place, organization) in self.organizations.iter().enumerate() {
            let name = format!("organization-{place}.toml");
            std::fs::write(home.join(&name), organization).unwrap();
            names.push(format!("{name:?}"));
        }
        let organizations = format!("organizations = [{}]\n", names.join(", "));
        std::fs::write(home.join("settings.toml"), organizations + &self.settings).unwrap();
        let mut words = self.wrapper.clone();
        words.push(env!("CARGO_BIN_EXE_lockkeeper").to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["serve", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(home.join("settings.toml")).arg("--data-dir").arg(home.join("data")).args(&self.arguments);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKKEEPER_")) {
            command.env_remove(name);
        }
        self.variables.iter().for_each(|(name, value)| secrecy::note_variable(name, value));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn start(self) -> Server {
        let home = tempfile::tempdir().unwrap();
        self.start_in(Home::Own(home))
    }

    /// Serves from a directory that outlives the server.
    pub fn start_at(self, home: &Path) -> Server {
        self.start_in(Home::Others(home.to_owned()))
    }

    fn start_in(self, home: Home) -> Server {
        let (child, address, greeting) = spawn(&self, home.path()).unwrap_or_else(|stderr| {
            panic!("the server did not start: {stderr}");
        });
        Server { setup: self, home, child, address, greeting }
    }
}

enum Home {
    Own(TempDir),
    Others(PathBuf),
}

impl Home {
    fn path(&self) -> &Path {
        match self {
            Home::Own(dir) => dir.path(),
            Home::Others(path) => path,
        }
    }
}

/// Starts it and waits for the line with its address; if that does not come, returns its output on stderr.
fn spawn(setup: &Setup, home: &Path) -> Result<(Child, String, String), String> {
    let log = secrecy::log_in(home);
    let before = std::fs::metadata(home.join("stderr")).unwrap().len() as usize;
    let mut child = setup.command(home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    bound_life(&child);
    let mut greeting = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    while lines.read_line(&mut greeting).unwrap() > 0 {
        // The line about the token is the last before the example, if there is one.
        if greeting.contains("Admin token:") {
            break;
        }
    }
    secrecy::note_greeting(&greeting);
    let address = greeting.lines().find_map(|line| line.split("serves on ").nth(1)).map(str::to_owned);
    let Some(address) = address else {
        child.wait().unwrap();
        return Err(std::fs::read_to_string(home.join("stderr")).unwrap()[before..].to_owned());
    };
    // Continues to read, so that the server never finds its stdout closed or full.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Ok((child, address, greeting))
}

/// Kills a server that runs too long.
fn bound_life(server: &Child) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let process = pidfd_open(Pid::from_child(server), PidfdFlags::empty()).unwrap();
    std::thread::spawn(move || {
        if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LIFE_MAX)) == Ok(0) {
            eprintln!("{test}: its server has run for {} s and is killed", LIFE_MAX.tv_sec);
            pidfd_send_signal(&process, Signal::KILL).ok();
        }
    });
}

/// A running server. It is killed when this is dropped.
pub struct Server {
    setup: Setup,
    home: Home,
    child: Child,
    /// `http://127.0.0.1:port`; with TLS, `https://` and a name of its certificate.
    pub address: String,
    /// Its output on stdout up to and including the line about the token.
    pub greeting: String,
}

impl Server {
    pub fn start() -> Self {
        Setup::default().start()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.home().join("data")
    }

    /// Everything it has logged so far, over restarts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("stderr")).unwrap()
    }

    /// `kill -9`: the server cannot react.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        self.wait()
    }

    /// Waits until it ends on its own.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(std::time::Instant::now() < deadline, "the server did not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Restarts it with the same data, after a kill or an end. The port changes.
    pub fn start_again(&mut self) {
        self.try_start_again().unwrap_or_else(|stderr| panic!("the server did not start again: {stderr}"));
    }

    /// The same; if it refuses to start, returns its output on stderr.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        assert!(self.child.try_wait().unwrap().is_some(), "the server is still running");
        (self.child, self.address, self.greeting) = spawn(&self.setup, self.home.path())?;
        Ok(())
    }

    /// Applies to the next start.
    pub fn change_setup(&mut self, change: impl FnOnce(Setup) -> Setup) {
        self.setup = change(std::mem::take(&mut self.setup));
    }

    pub fn admin(&self) -> Client {
        self.with_token(ADMIN_TOKEN)
    }

    pub fn anonymous(&self) -> Client {
        Client::anonymous(&self.address)
    }

    pub fn with_token(&self, token: &str) -> Client {
        self.anonymous().with_token(token)
    }

    /// Removes the TTL that an environment of the sample has by default: then only a grant that its client has not seen
    /// yet expires.
    pub async fn without_ttl(&self, environment: &str) {
        let admin = self.admin();
        let mut configuration = admin.environment(environment).await.ok().data()["configuration"].clone();
        configuration["defaultTtlSeconds"] = json!(null);
        admin.put(&at(environment), configuration).await.ok();
    }

    /// A client of the sample's member with this name: mia is a maintainer, ana and ben are developers, vic is a
    /// viewer.
    pub async fn as_user(&self, name: &str) -> Client {
        let made = self.admin().post("/tokens", json!({ "name": "test", "user": name })).await;
        assert_eq!(made.status, 201, "{made:?}");
        self.with_token(made.data()["token"].as_str().unwrap())
    }
}

impl Client {
    /// The same client after a restart of the server, which changes its port.
    pub fn at(self, server: &Server) -> Self {
        self.at_address(&server.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The refusal of a server that should not start: its exit code and its output.
pub fn refusal(setup: &Setup, home: &Path) -> (i32, String) {
    let output = setup.command(home).stdin(Stdio::null()).output().unwrap();
    let code = output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or_default());
    (code, String::from_utf8(output.stderr).unwrap())
}

/// The program with these arguments, and without settings from the environment of the tests.
pub fn lockkeeper(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKKEEPER_")) {
        command.env_remove(name);
    }
    command
}
