//! Owns the steps that run while nodes fail: long ones, so that one is always running, each of which says if another one of
//! its environment runs at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::asking::Asker;
use super::field::{Field, ORGANIZATIONS};
use crate::engine::tally::Operation;
use crate::report::model::{Check, Violation};
use crate::server::cluster::HOME;
use crate::wire::answer::made_id;

pub const NAME: &str = "steps do not overlap";
/// What steps write to, in the directory of the cluster.
const TRACE: &str = "steps.trace";
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The file of each organization: a pipeline for locks alone, and one whose step holds a lock of the kernel for as long as
/// any of its processes lives.
pub fn organizations() -> Vec<(String, String)> {
    let of = |id: &str| {
        let step = format!(
            "exec 9>> {HOME}/{id}.held; flock -n 9 || echo overlap >> {HOME}/{TRACE}; \
             echo run >> {HOME}/{TRACE}; sleep 15"
        );
        format!(
            "organization = {{ id = \"{id}\" }}\nmembers = [{{ name = \"admin\", role = \"admin\" }}]\n\
             [[pipelines]]\nid = \"web\"\n[[pipelines]]\nid = \"steps\"\n[[pipelines.stages]]\nname = \"hold\"\n\
             steps = [{{ run = [\"sh\", \"-c\", \"{step}\"] }}]\n"
        )
    };
    ORGANIZATIONS.iter().map(|id| ((*id).to_owned(), of(id))).collect()
}

/// The lines that the steps have written.
pub struct Steps {
    trace: PathBuf,
    before: (u64, u64),
}

impl Steps {
    pub fn watch(home: &Path) -> Self {
        let trace = home.join(TRACE);
        let before = counted(&trace);
        Self { trace, before }
    }

    pub fn check(&self) -> Check {
        let (runs, overlaps) = counted(&self.trace);
        let (examined, violation_count) = (runs - self.before.0, overlaps - self.before.1);
        let what = || format!("{violation_count} steps ran while another one of their environment did");
        let violations = (violation_count > 0).then(|| Violation { what: what(), requests: Vec::new() });
        Check { name: NAME.to_owned(), examined, violation_count, violations: violations.into_iter().collect() }
    }
}

/// Runs, and those that were not alone.
fn counted(trace: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    let of = |word| text.lines().filter(|line| *line == word).count() as u64;
    (of("run"), of("overlap"))
}

/// Deploys to one environment, again whenever a deployment has ended.
pub async fn deploy(field: Arc<Field>, organization: usize) {
    let mut asker = Asker::new(field.clone(), organization % field.nodes.len());
    let of = format!("/organizations/{}", ORGANIZATIONS[organization]);
    let environment = format!("{of}/pipelines/steps/ephemeral-environments/steps-1");
    let body = r#"{"ttlSeconds":600,"waitSeconds":60}"#;
    let claim = field.request("POST", &format!("{environment}/sessions"), "steps", body);
    let Some((201, body)) = asker.until_answered(Operation::Claim, &claim).await else {
        return field.error(format!("steps: {environment} could not be claimed"));
    };
    let Some(session) = made_id(&body, "sessionId") else { return };
    for turn in 0_u32.. {
        let path = format!("{environment}/sessions/{session}/deploy");
        let deploy = field.request("POST", &path, &format!("deploy-{turn}"), r#"{"commitId":"c0ffee1"}"#);
        match asker.until_answered(Operation::Deploy, &deploy).await {
            Some((200..=299, body)) => {
                let Some(deployment) = made_id(&body, "deploymentId") else { break };
                until_ended(&field, &mut asker, &format!("{of}/deployments/{deployment}")).await;
            }
            Some((status, _)) => field.error(format!("steps: a deployment was answered with {status}")),
            None => {}
        }
        if field.is_closing() {
            break;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let release = field.request("DELETE", &format!("{environment}/sessions/{session}"), "", "");
    asker.until_answered(Operation::Release, &release).await;
}

async fn until_ended(field: &Field, asker: &mut Asker, path: &str) {
    let read = field.request("GET", path, "", "");
    while !field.is_closing() {
        let Some((200, body)) = asker.until_answered(Operation::Read, &read).await else { return };
        let found = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
        if !matches!(found["data"]["status"].as_str(), Some("queued" | "running" | "cancelling")) {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
