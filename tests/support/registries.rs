//! A real bare repository with steps, and a server that may fetch it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Answer, Client, Server};

/// Prints the reason if git cannot be used.
pub fn git_is_usable() -> bool {
    let usable = Command::new("git").arg("--version").output().is_ok();
    if !usable {
        println!("skipped: git is not installed");
    }
    usable
}

/// A bare repository and a clone of it to commit from, in a separate directory.
pub struct Remote {
    home: tempfile::TempDir,
}

impl Remote {
    /// With `steps/greet.toml`, version 1, on `main`.
    pub fn new() -> Self {
        let remote = Self { home: tempfile::tempdir().unwrap() };
        remote.sh("git init -q --bare -b main remote.git && git clone -q remote.git clone 2>&1");
        remote.write("steps/greet.toml", &greet("1", "hello"));
        remote.push();
        remote
    }

    pub fn url(&self) -> String {
        format!("file://{}/remote.git", self.home.path().display())
    }

    pub fn path(&self, rest: &str) -> std::path::PathBuf {
        self.home.path().join(rest)
    }

    /// The body for creating a registry from it.
    pub fn registry(&self, name: &str, reference: &str) -> Value {
        json!({ "name": name, "git": { "url": self.url(), "ref": reference } })
    }

    pub fn sh(&self, script: &str) -> String {
        let done = Command::new("sh")
            .args(["-ec", script])
            .current_dir(self.home.path())
            .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t.example")])
            .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@t.example")])
            .output()
            .unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    pub fn write(&self, path: &str, text: &str) {
        let file = self.home.path().join("clone").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.home.path().join("clone").join(path)).unwrap();
    }

    /// Commits all changes and pushes them to `main`; returns the commit.
    pub fn push(&self) -> String {
        self.sh("cd clone && git add -A && git commit -q --allow-empty -m x && git push -q origin HEAD:main && git rev-parse HEAD")
    }
}

/// A step that greets its input `WHOM` with these words.
pub fn greet(version: &str, words: &str) -> String {
    format!(
        "name = \"greet\"\nversion = \"{version}\"\ndescription = \"Greets\"\n\
         run = [\"sh\", \"-c\", \"echo {words} $WHOM $TIMES\"]\n\
         [inputs]\nWHOM = {{ type = \"string\", required = true }}\nTIMES = {{ type = \"number\", default = 1 }}\n"
    )
}

/// The same in a request body.
pub fn greeting(version: &str, words: &str) -> Value {
    json!({
        "name": "greet", "version": version, "description": "Greets",
        "inputs": { "WHOM": { "type": "string", "required": true }, "TIMES": { "type": "number", "default": 1 } },
        "run": ["sh", "-c", format!("echo {words} $WHOM $TIMES")],
    })
}

pub async fn make(client: &Client, body: Value) -> Answer {
    client.post("/step-registries", body).await.created()
}

pub fn place(registry: &Value) -> String {
    format!("/step-registries/{}", registry["registryId"].as_str().unwrap())
}

pub async fn sync(client: &Client, registry: &Value) -> Answer {
    client.post(&format!("{}/sync", place(registry)), json!({})).await
}

/// The names and versions of its steps.
pub async fn steps(client: &Client, registry: &Value) -> Vec<String> {
    let list = client.get(&format!("{}/steps", place(registry))).await.ok().data();
    let name = |step: &Value| format!("{}@{}", step["name"].as_str().unwrap(), step["version"].as_str().unwrap());
    list.as_array().unwrap().iter().map(name).collect()
}

/// A pipeline with one step that greets.
pub fn using(reference: &str, with: Value) -> Value {
    json!({ "stages": [{ "name": "say", "steps": [{ "name": "greet", "uses": reference, "with": with }] }] })
}

/// A program in place of git. Written by another process: a file that this process has open for writing, or that a
/// child just forked by another test has open, cannot be executed.
pub fn program(home: &Path, script: &str) -> String {
    let program = home.join("program");
    let write = "printf '%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&program).arg(format!("#!/bin/sh\n{script}")).status();
    assert!(written.unwrap().success());
    program.to_str().unwrap().to_owned()
}

/// Whether git has left nothing in the data directory.
pub fn scratch_is_empty(server: &Server) -> bool {
    let scratch = server.data_dir().join("git");
    !Path::new(&scratch).exists() || std::fs::read_dir(scratch).unwrap().next().is_none()
}
