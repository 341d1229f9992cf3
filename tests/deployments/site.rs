//! A server whose pipeline `web` has the stages that a test needs, and the actions of its clients.

#![allow(dead_code, reason = "shared by several test binaries")]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, Setup};

/// The environment of most deployments in tests.
pub const ENVIRONMENT: &str = "review-1";

pub struct Site {
    pub server: Server,
    pub admin: Client,
    /// A file that steps write to, as `$TRACE`.
    pub trace: PathBuf,
}

impl Site {
    pub async fn with(stages: Value) -> Self {
        // With a short grace period for processes that ignore SIGTERM.
        let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\ntermination_grace_seconds = 1\n";
        Self::start(Setup::default().settings(settings).reaching_loopback(), stages).await
    }

    pub async fn start(setup: Setup, stages: Value) -> Self {
        let server = setup.start();
        let (admin, trace) = (server.admin(), server.home().join("trace"));
        let site = Self { server, admin, trace };
        site.put_stages(stages).await;
        site
    }

    pub async fn put_stages(&self, stages: Value) {
        let body = json!({ "stages": stages, "variables": { "TRACE": self.trace } });
        self.admin.put("/pipelines/web", body).await.ok();
    }

    /// After a kill.
    pub fn start_again(&mut self) {
        self.server.start_again();
        self.admin = self.admin.clone().at(&self.server);
    }

    pub async fn claim(&self) -> String {
        self.admin.claim(ENVIRONMENT, json!({})).await.created().session()
    }

    /// A deployment in this session.
    pub async fn deploy(&self, session: &str) -> String {
        id(&self.admin.deploy(ENVIRONMENT, session, json!({ "commitId": "c0ffee1" })).await.has_status(202))
    }

    /// Claims, deploys and waits for the end.
    pub async fn run(&self) -> Value {
        let session = self.claim().await;
        let deployment = self.deploy(&session).await;
        self.finished(&deployment).await
    }

    pub async fn deployment(&self, deployment: &str) -> Value {
        self.admin.get(&format!("/deployments/{deployment}")).await.ok().data()
    }

    pub async fn until(&self, deployment: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.admin.until(&format!("/deployments/{deployment}"), wanted).await
    }

    pub async fn until_status(&self, deployment: &str, status: &str) -> Value {
        self.until(deployment, |found| {
            assert!(found["status"] == status || !is_finished(found), "it will never be {status}: {found:#}");
            found["status"] == status
        })
        .await
    }

    pub async fn finished(&self, deployment: &str) -> Value {
        self.until(deployment, is_finished).await
    }

    /// Waits until the log has this text, which a step prints when it has got that far.
    pub async fn until_printed(&self, deployment: &str, text: &str) {
        self.admin.until_printed(deployment, text).await;
    }

    pub async fn log(&self, deployment: &str) -> String {
        self.admin.get(&format!("/deployments/{deployment}/logs")).await.ok().text
    }

    pub async fn stage(&self, deployment: &str, stage: &str, verb: &str) -> Answer {
        self.admin.post(&format!("/deployments/{deployment}/stages/{stage}/{verb}"), json!({})).await
    }

    /// The lines that the steps wrote to `$TRACE`.
    pub fn traced(&self) -> Vec<String> {
        std::fs::read_to_string(&self.trace).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

pub fn is_finished(deployment: &Value) -> bool {
    ["succeeded", "failed", "cancelled"].iter().any(|status| deployment["status"] == *status)
}

pub fn id(answer: &Answer) -> String {
    answer.data()["deploymentId"].as_str().unwrap().to_owned()
}

pub fn sh(script: &str) -> Value {
    json!({ "run": ["sh", "-c", script] })
}

pub fn stage(name: &str, script: &str) -> Value {
    json!({ "name": name, "steps": [sh(script)] })
}

/// A stage with additional fields.
pub fn stage_with(name: &str, script: &str, more: Value) -> Value {
    let mut stage = stage(name, script);
    stage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage
}

/// Whether a process runs, that is, is not a zombie.
pub fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}
