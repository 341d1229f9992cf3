//! Owns the load: clients that claim an environment of their organization with an idempotency key, release it, and read
//! it; and long steps that run while nodes fail and report any other step running in their environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Operation;
use crate::history::{Answer, Request, SessionName};
use crate::report::{Check, Violation};
use crate::server::HOME;
use crate::wire::{EnvironmentView, Grant, made_id, problem_code};
use crate::workloads::failover::fault_run::{Asked, Asker, FaultRun, ORGANIZATIONS};

/// Longer than any fault, so that no lock expires.
const TTL_SECONDS: u32 = 300;
const WAIT_SECONDS: u32 = 1;
/// A steady load below the machine's limit, so that the cost of the fault is measured, not the machine.
const PAUSE: Duration = Duration::from_millis(40);

/// Runs until the load ends, and then finishes its cycle.
pub async fn cycle(field: Arc<FaultRun>, number: u32) {
    let (organizations, nodes) = (ORGANIZATIONS.len() as u32, field.nodes.len());
    let organization = number % organizations;
    let mut asker = Asker::new(field.clone(), number, (number / organizations) as usize % nodes);
    for turn in 0_u32.. {
        if field.is_closing() {
            return;
        }
        // Several clients share each environment, and all of them visit all.
        let place = (number / organizations + turn) % field.environments;
        let environment = organization * field.environments + place;
        if let Answer::Granted { session, .. } = claim(&mut asker, environment, &format!("{number}-{turn}")).await {
            release(&mut asker, environment, session).await;
            let read = field.request("GET", &field.path(environment), "", "");
            let asked = Asked { operation: Operation::Read, environment, request: Request::ReadEnvironment };
            asker.ask(asked, &read, |status, body, _| shown(status, body)).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn claim(asker: &mut Asker, environment: u32, key: &str) -> Answer {
    let field = asker.field.clone();
    let body = format!(r#"{{"ttlSeconds":{TTL_SECONDS},"waitSeconds":{WAIT_SECONDS}}}"#);
    let bytes = field.request("POST", &format!("{}/sessions", field.path(environment)), key, &body);
    let ttl = Some(Duration::from_secs(TTL_SECONDS.into()));
    let request = Request::Claim { any: false, in_line_at: None, ttl };
    asker
        .ask(Asked { operation: Operation::Claim, environment, request }, &bytes, |status, body, _| match Grant::parse(
            body,
        )
        .filter(|_| status == 201)
        {
            Some(Grant { session_id, fencing_token: fencing, .. }) => {
                Ok(Answer::Granted { session: SessionName(session_id.into()), fencing })
            }
            None => refused(status, body, &["environment_locked"]),
        })
        .await
}

async fn release(asker: &mut Asker, environment: u32, session: SessionName) {
    let field = asker.field.clone();
    let bytes = field.request("DELETE", &format!("{}/sessions/{session}", field.path(environment)), "", "");
    let asked = Asked { operation: Operation::Release, environment, request: Request::Release { session } };
    asker
        .ask(asked, &bytes, |status, body, before| match status {
            200 => Ok(Answer::Done),
            // An earlier attempt may have released the session; otherwise the lock was lost.
            status => refused(status, body, if before > 0 { &["session_released"] } else { &[] }),
        })
        .await;
}

pub fn shown(status: u16, body: &[u8]) -> Result<Answer, String> {
    let view = EnvironmentView::parse(body).filter(|_| status == 200);
    let Some(view) = view else { return refused(status, body, &[]) };
    let fencing = view.lock.as_ref().map_or(0, |lock| lock.fencing_token);
    let holder = view.lock.map(|lock| SessionName(lock.session_id.into()));
    Ok(Answer::Environment { holder, fencing, queue_length: view.queue_length })
}

/// Returns an error unless the answer's code is an expected one.
pub fn refused(status: u16, body: &[u8], expected: &[&str]) -> Result<Answer, String> {
    let code = problem_code(body).unwrap_or("without a problem code");
    if expected.contains(&code) {
        Ok(Answer::Refused { status, code: code.into() })
    } else {
        Err(format!("answered {status} {code}"))
    }
}

pub const STEPS: &str = "steps do not overlap";
/// The file that the steps write to, in the directory of the cluster.
const TRACE: &str = "steps.trace";
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The file of each organization: a pipeline for locks only, and one whose step holds a kernel lock for as long as any
/// of its processes lives.
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
        let violations = (violation_count > 0).then(|| Violation::of(what()));
        Check { name: STEPS.to_owned(), examined, violation_count, violations: violations.into_iter().collect() }
    }
}

/// The number of runs, and of runs that overlapped with another.
fn counted(trace: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    let of = |word| text.lines().filter(|line| *line == word).count() as u64;
    (of("run"), of("overlap"))
}

/// Deploys to one environment, again and again.
pub async fn deploy(field: Arc<FaultRun>, organization: usize) {
    let mut asker = Asker::new(field.clone(), 0, organization % field.nodes.len());
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

async fn until_ended(field: &FaultRun, asker: &mut Asker, path: &str) {
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
