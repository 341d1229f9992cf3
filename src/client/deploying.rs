//! A deployment from its order to its end, with its stages told on the way.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::acquire::{Fate, Session, fate};
use super::api::{Api, Call};
use super::failure::Failure;
use super::output::text::harmless;
use super::output::{note, text_of};
use super::retry;
use super::steady::Moment;

/// Proxies cut longer waits off.
const POLL_SECONDS: u64 = 20;
/// An answer takes this much longer than what it waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Deploys a commit in a session and waits for the end. Fails unless it succeeds.
pub async fn deploy(api: &Api, session: &Session, commit: &str) -> Result<Value, Failure> {
    let body = json!({ "commitId": commit, "fencingToken": session.fencing_token() });
    let ordered = api.post(&format!("{}/deploy", session.path()), &body).await?;
    wait(api, ordered.data).await
}

/// Waits for the end of a deployment, and tells its stages on stderr.
pub async fn wait(api: &Api, mut deployment: Value) -> Result<Value, Failure> {
    let path = format!("/deployments/{}", text_of(&deployment, "deploymentId"));
    let (mut etag, mut told, mut attempt) = (None::<String>, Vec::new(), 0);
    let mut heard = Moment::now();
    loop {
        for line in stages(&deployment) {
            if !told.contains(&line) {
                note(&format!("lockkeeper: {line}"));
                told.push(line);
            }
        }
        let commit = harmless(text_of(&deployment, "commitId"));
        match text_of(&deployment, "status") {
            "succeeded" => return Ok(deployment),
            status @ ("failed" | "cancelled") => {
                let why = harmless(text_of(&deployment, "error"));
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                return Err(Failure::Failed(format!("the deployment of {commit} {}{why}", past(status))));
            }
            _ => {}
        }
        let seconds = if etag.is_some() { POLL_SECONDS } else { 0 };
        let call = api.call(Method::GET, &format!("{path}?waitSeconds={seconds}"));
        let headers = etag.iter().map(|etag| ("If-None-Match", etag.clone())).collect();
        let timeout = Duration::from_secs(seconds) + ANSWER_WITHIN;
        match api.send(Call { headers, patience: Duration::ZERO, timeout, ..call }).await {
            Ok(answer) => {
                (attempt, heard) = (0, Moment::now());
                if answer.status != 304 {
                    etag = answer.etag;
                    deployment = answer.data;
                }
            }
            Err(error) => match fate(error) {
                Fate::Lost(words) => return Err(Failure::NotFound(words)),
                Fate::Refused(failure) => return Err(failure),
                Fate::Unclear(words) => {
                    let pause = retry::pause(attempt, None, rand::random());
                    if Moment::now().since(heard) + pause > api.patience() {
                        return Err(Failure::Unreachable(words));
                    }
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
            },
        }
    }
}

fn past(status: &str) -> &str {
    if status == "cancelled" { "was cancelled" } else { status }
}

/// One line for each stage that has begun.
fn stages(deployment: &Value) -> Vec<String> {
    let commit = harmless(text_of(deployment, "commitId"));
    let listed = deployment["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let begun = listed.iter().filter(|stage| !matches!(text_of(stage, "status"), "" | "pending" | "skipped"));
    let line = |stage: &Value| {
        let attempt = match stage["attempt"].as_u64() {
            Some(attempt) if attempt > 1 => format!(", attempt {attempt}"),
            _ => String::new(),
        };
        let status = harmless(text_of(stage, "status")).replace('_', " ");
        format!("deploying {commit}: {} {status}{attempt}", harmless(text_of(stage, "name")))
    };
    begun.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_told_once_they_have_begun() {
        let stage =
            |name: &str, status: &str, attempt: u64| json!({ "name": name, "status": status, "attempt": attempt });
        let stages_of = [stage("build", "succeeded", 1), stage("go", "awaiting_approval", 2), stage("x", "pending", 0)];
        let deployment = json!({ "commitId": "c0ffee1", "stages": stages_of });
        assert_eq!(
            stages(&deployment),
            ["deploying c0ffee1: build succeeded", "deploying c0ffee1: go awaiting approval, attempt 2"]
        );
    }
}
