//! `lockkeeper deploy`: deploys a commit in a session that holds the lock, and waits for the end if requested.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::session::{Target, deployment_line};
use crate::api::{ANSWER_WITHIN, Api, Call};
use crate::arguments::{identifier, seconds};
use crate::failure::Failure;
use crate::output::text::harmless;
use crate::output::{Out, text_of};
use crate::steady::Moment;

/// How long one request waits for a change: shorter than proxies allow.
const POLL_SECONDS: u64 = 20;

#[derive(clap::Args)]
pub struct Args {
    /// The environment, as ENV or PIPELINE/ENV, which LOCKKEEPER_ENVIRONMENT may name instead; and the commit
    #[arg(value_names = ["ENV", "COMMIT"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// The session; also LOCKKEEPER_SESSION [default: your own in the environment]
    #[arg(long, value_name = "SESSION", value_parser = identifier)]
    session: Option<String>,
    /// Wait for the end of the deployment, this long at most; 0 does not wait
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_value = "0", default_missing_value = "3600", value_parser = seconds)]
    wait: u64,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let (environment, commit) = match &args.words[..] {
        [commit] => (None, commit),
        [environment, commit] => {
            let name = environment
                .parse()
                .map_err(|rule| Failure::Usage(format!("the environment `{environment}` {rule}")))?;
            (Some(name), commit)
        }
        _ => return Err(Failure::Usage("name the environment and the commit".to_owned())),
    };
    let found = Target { environment, session: args.session }.find(api).await?;
    let started = api.post(&format!("{}/deploy", found.path()), &json!({ "commitId": commit })).await?.data;
    if args.wait == 0 {
        return out.record(&started, |deployment| vec![deployment_line(deployment, Timestamp::now())]);
    }
    let ended = wait_for_end(&started, Duration::from_secs(args.wait), api, out).await?;
    out.record(&ended, |deployment| vec![deployment_line(deployment, Timestamp::now())])?;
    match text_of(&ended, "status") {
        "succeeded" => Ok(()),
        status => {
            let how = if status == "cancelled" { "was cancelled" } else { "failed" };
            let why = ended["error"].as_str().map(|error| format!(": {}", harmless(error))).unwrap_or_default();
            Err(Failure::Failed(format!("the deployment of {} {how}{why}", harmless(commit))))
        }
    }
}

/// Polls a deployment until it has ended, and reports each stage on stderr.
pub async fn wait_for_end(started: &Value, wait: Duration, api: &Api, out: &Out) -> Result<Value, Failure> {
    let id = identifier(text_of(started, "deploymentId"))
        .map_err(|_| Failure::Failed("the answer names no deployment".to_owned()))?;
    let deadline = Moment::now().plus(wait);
    let mut told = String::new();
    let mut etag: Option<String> = None;
    loop {
        let left = deadline.since(Moment::now());
        // Without an ETag the server would wait for a change after the last one.
        let seconds = if etag.is_some() { left.as_secs().min(POLL_SECONDS) } else { 0 };
        let call = api.call(Method::GET, &format!("/deployments/{id}?waitSeconds={seconds}"));
        let headers = etag.clone().map(|etag| vec![("If-None-Match", etag)]).unwrap_or_default();
        let timeout = ANSWER_WITHIN + Duration::from_secs(seconds);
        let answer = api.send(Call { headers, timeout, ..call }).await?;
        if answer.status != 304 {
            let stage = current_stage(&answer.data);
            if stage != told && !out.json {
                out.note(&stage);
            }
            told = stage;
            if matches!(text_of(&answer.data, "status"), "succeeded" | "failed" | "cancelled") {
                return Ok(answer.data);
            }
            etag = answer.etag;
        }
        if left.is_zero() {
            return Err(Failure::WaitedInVain(format!(
                "the deployment {id} has not ended in time; it goes on: {told}"
            )));
        }
    }
}

/// `deploying c0ffee1: build running (1 of 4 stages done)`.
fn current_stage(deployment: &Value) -> String {
    let commit = harmless(text_of(deployment, "commitId"));
    let stages = deployment["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let done = stages.iter().filter(|stage| stage["status"] == "succeeded").count();
    let current = stages.iter().find(|stage| !matches!(text_of(stage, "status"), "succeeded" | "pending" | "skipped"));
    let state = match current {
        Some(stage) => format!("{} {}", harmless(text_of(stage, "name")), harmless(text_of(stage, "status"))),
        None => harmless(text_of(deployment, "status")),
    };
    let counted = if stages.is_empty() { String::new() } else { format!(" ({done} of {} stages done)", stages.len()) };
    format!("deploying {commit}: {state}{counted}").replace('_', " ")
}
