//! A server with a failed deployment that has been analysed, and a bare repository for its fix.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{Site, is_finished, stage};
use crate::support::model::{finding, says, setup};
use crate::support::recorded::{Recorded, Request};
use crate::support::{Answer, Setup};

/// The initial content of every repository here.
pub const SETTINGS: &str = "retries = 1\ntimeout = 5\n";

pub struct Harness {
    pub site: Site,
    home: TempDir,
    stages: Value,
    /// The model that suggested the patch.
    _model: Option<Recorded>,
}

impl Harness {
    /// None, with a message, if git is not installed.
    pub async fn new() -> Option<Self> {
        Self::start(Setup::default()).await
    }

    pub async fn start(setup: Setup) -> Option<Self> {
        Self::open(setup, stages(), None).await
    }

    /// A server whose deployments fail with this output.
    pub async fn printing(output: &str) -> Option<Self> {
        let script = format!("cat <<'END'\n{output}\nEND\nexit 1");
        Self::open(Setup::default(), json!([stage("build", &script)]), None).await
    }

    /// The same with a model that suggests this patch.
    pub async fn suggesting(patch: &str) -> Option<Self> {
        let answer = finding(Some(patch));
        let model = Recorded::start(move |_: Request| std::future::ready(says(&answer))).await;
        Self::open(setup(&model), stages(), Some(model)).await
    }

    async fn open(setup: Setup, stages: Value, model: Option<Recorded>) -> Option<Self> {
        let home = repository()?;
        let site = Site::start(setup.reaching_loopback(), stages.clone()).await;
        let harness = Self { site, home, stages, _model: model };
        harness.put_repository(json!({})).await;
        Some(harness)
    }

    pub fn url(&self) -> String {
        format!("file://{}/acme/shop.git", self.home.path().display())
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    /// Sets the pipeline's repository, with these fields changed.
    pub async fn put_repository(&self, fields: Value) {
        let mut repository = json!({ "provider": "git", "url": self.url(), "defaultBranch": "main" });
        repository.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.put_pipeline(repository).await;
    }

    pub async fn put_pipeline(&self, repository: Value) {
        let body = json!({ "stages": self.stages, "repository": repository });
        self.site.admin.put("/pipelines/web", body).await.ok();
    }

    pub async fn secret(&self, name: &str, value: &str) {
        self.site.admin.post("/secrets", json!({ "name": name, "value": value })).await.created();
    }

    /// A deployment that failed.
    pub async fn failed(&self) -> String {
        let session = self.site.claim().await;
        let deployment = self.site.deploy(&session).await;
        assert_eq!(self.site.until(&deployment, is_finished).await["status"], "failed");
        deployment
    }

    /// An analysis of a failed deployment.
    pub async fn analysis(&self) -> Value {
        let place = format!("/deployments/{}/analyses", self.failed().await);
        let analysis = self.site.admin.post(&place, json!({ "waitSeconds": 60 })).await.has_status(200).data();
        assert_eq!(analysis["status"], "completed", "{analysis:#}");
        analysis
    }

    pub async fn propose(&self, analysis: &Value, body: Value) -> Answer {
        self.site.admin.post(&place(analysis), body).await
    }

    pub async fn read(&self, analysis: &Value) -> Value {
        self.site.admin.get(&format!("/analyses/{}", analysis["analysisId"].as_str().unwrap())).await.ok().data()
    }

    /// Adds a file to the default branch.
    pub fn push_file(&self, name: &str, content: &str) {
        std::fs::write(self.path(&format!("clone/{name}")), content).unwrap();
        self.sh("cd clone && git add -A && git commit -qm more && git push -q origin HEAD:main");
    }

    pub fn sh(&self, script: &str) -> String {
        sh(self.home.path(), script)
    }

    /// Runs git in the bare repository.
    pub fn git(&self, words: &str) -> String {
        self.sh(&format!("git --git-dir acme/shop.git {words}"))
    }

    pub fn branches(&self) -> Vec<String> {
        let listed = self.git("for-each-ref --format='%(refname:short)' refs/heads");
        listed.lines().map(str::to_owned).collect()
    }

    /// Installs a hook at the remote, which runs on a push.
    pub fn hook(&self, name: &str, script: &str) {
        let place = format!("acme/shop.git/hooks/{name}");
        std::fs::write(self.path(&place), format!("#!/bin/sh\n{script}\n")).unwrap();
        self.sh(&format!("chmod +x {place}"));
    }
}

pub fn place(analysis: &Value) -> String {
    format!("/analyses/{}/fix-pull-request", analysis["analysisId"].as_str().unwrap())
}

pub fn branch(analysis: &Value) -> String {
    format!("lockkeeper/fix-{}", analysis["analysisId"].as_str().unwrap())
}

fn stages() -> Value {
    json!([stage("build", "echo \"building <b>$LOCKKEEPER_COMMIT</b>\"; frobnicate --all")])
}

fn repository() -> Option<TempDir> {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return None;
    }
    let home = tempfile::tempdir().unwrap();
    sh(home.path(), "git init -q --bare -b main acme/shop.git && git clone -q acme/shop.git clone 2>&1");
    std::fs::write(home.path().join("clone/settings.toml"), SETTINGS).unwrap();
    sh(home.path(), "cd clone && git add -A && git commit -qm first && git push -q origin HEAD:main");
    Some(home)
}

fn sh(home: &std::path::Path, script: &str) -> String {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(home)
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t")])
        .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@t")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}
