//! The program, run like a user would: with a separate home, and without variables of the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{ADMIN_TOKEN, Server, lockkeeper, secrecy};

/// A user at a command line.
pub struct User {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a command.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl User {
    /// Without URL, token or profile.
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// The admin of the sample, in its pipeline `web`.
    pub fn admin(server: &Server) -> Self {
        Self::of(server, ADMIN_TOKEN)
    }

    pub fn of(server: &Server, token: &str) -> Self {
        secrecy::note_variable("LOCKKEEPER_TOKEN", token);
        Self::new()
            .with("LOCKKEEPER_URL", &server.address)
            .with("LOCKKEEPER_TOKEN", token)
            .with("LOCKKEEPER_PIPELINE", "web")
    }

    /// A member of the sample: mia is a maintainer, ana and ben are developers, vic is a viewer.
    pub async fn member(server: &Server, name: &str) -> Self {
        let made = server.admin().post("/tokens", json!({ "name": "test", "user": name })).await.created();
        Self::of(server, made.data()["token"].as_str().unwrap())
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn profiles(&self) -> PathBuf {
        self.home().join(".config/lockkeeper/profiles.toml")
    }

    /// A command that is ready to start.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = lockkeeper(arguments);
        for name in ["XDG_CONFIG_HOME", "NO_COLOR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command.env("HOME", self.home()).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().unwrap().into()
    }

    pub fn run_with_stdin(&self, arguments: &[&str], stdin: &str) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// The `data` printed by a command with `--json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.run(&[arguments, &["--json"]].concat()).ok();
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {}", ended.stdout))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    pub fn ok(self) -> Self {
        self.with_code(0)
    }

    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Checks that stdout contains this.
    pub fn says(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "no {words:?} in stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Checks that stderr contains this.
    pub fn complains(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "no {words:?} in stderr: {}\nstdout: {}", self.stderr, self.stdout);
        self
    }
}
