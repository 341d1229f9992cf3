//! `lockkeeper deploy` and `logs`, and the deployment that a command refers to: by its id, or as the newest of an
//! environment.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::sessions::{EnvironmentArgs, Target, deployment_line};
use crate::api::Api;
use crate::arguments::{EnvironmentName, identifier, seconds};
use crate::connection::options::variable;
use crate::failure::{Failure, deployment_result};
use crate::logs::{LogQuery, Printer, print};
use crate::output::text::{after_colon, shown_of};
use crate::output::{Out, items_of, note, text_of};
use crate::steady::Moment;

/// How long one request waits for a change: shorter than proxies allow.
const POLL_SECONDS: u64 = 20;

/// A deployment as typed by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentName {
    Id(String),
    NewestOf(EnvironmentName),
}

impl FromStr for DeploymentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("dep_") {
            return identifier(text).map(Self::Id);
        }
        text.parse().map(Self::NewestOf)
    }
}

impl DeploymentName {
    /// The given deployment, or else that of the environment in which a command runs.
    pub fn given(name: Option<Self>) -> Result<Self, Failure> {
        if let Some(name) = name {
            return Ok(name);
        }
        let Some(environment) = variable("LOCKKEEPER_ENVIRONMENT") else {
            return Err(Failure::Usage("name a deployment (dep_…) or an environment".to_owned()));
        };
        environment.parse().map_err(|rule| Failure::Usage(format!("LOCKKEEPER_ENVIRONMENT {rule}")))
    }

    /// The deployment's id. For an environment, the id of the running deployment, or else of the last one.
    pub async fn id(&self, api: &Api) -> Result<String, Failure> {
        let environment = match self {
            Self::Id(id) => return Ok(id.clone()),
            Self::NewestOf(environment) => environment,
        };
        let found = api.get(&api.environment_path(environment).await?).await?.data;
        let newest = [&found["currentDeployment"], &found["lastDeployment"]].into_iter().find(|it| !it.is_null());
        let Some(newest) = newest else {
            return Err(Failure::NotFound(format!("nothing was deployed to {} yet", environment.name)));
        };
        identifier(text_of(newest, "deploymentId"))
            .map_err(|_| Failure::Unreachable("the server's answer has no deployment id".to_owned()))
    }
}

#[derive(clap::Args)]
pub struct DeployArgs {
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

/// Deploys a commit in a session that holds the lock, and waits for the end if requested.
pub async fn deploy(args: DeployArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let (environment, commit) = match &args.words[..] {
        [commit] => (None, commit),
        [environment, commit] => {
            let name = environment.parse();
            let name = name.map_err(|rule| Failure::Usage(format!("the environment `{environment}` {rule}")))?;
            (Some(name), commit)
        }
        _ => return Err(Failure::Usage("name the environment and the commit".to_owned())),
    };
    let target = Target { environment: EnvironmentArgs { environment }, session: args.session };
    let path = format!("{}/deploy", target.path(api).await?);
    let mut deployment = api.post(&path, &json!({ "commitId": commit })).await?.data;
    if args.wait > 0 {
        deployment = wait_for_end(&deployment, Duration::from_secs(args.wait), api, out).await?;
    }
    out.record(&deployment, |deployment| vec![deployment_line(deployment, Timestamp::now())])?;
    if args.wait > 0 { deployment_result(&deployment).unwrap_or(Ok(())) } else { Ok(()) }
}

/// Polls a deployment until it has ended, and reports each stage on stderr.
async fn wait_for_end(started: &Value, wait: Duration, api: &Api, out: &Out) -> Result<Value, Failure> {
    let id = identifier(text_of(started, "deploymentId"))
        .map_err(|_| Failure::Failed("the answer names no deployment".to_owned()))?;
    let path = format!("/deployments/{id}");
    let deadline = Moment::now().plus(wait);
    let (mut told, mut etag) = (String::new(), None::<String>);
    loop {
        let left = deadline.since(Moment::now());
        let answer = api.poll(&path, etag.as_deref(), left.as_secs().min(POLL_SECONDS), api.patience).await?;
        if answer.status != 304 {
            let stage = current_stage(&answer.data);
            if stage != told && !out.json {
                note(&stage);
            }
            told = stage;
            if deployment_result(&answer.data).is_some() {
                return Ok(answer.data);
            }
            etag = answer.etag;
        }
        if left.is_zero() {
            return Err(Failure::NotGrantedInTime(format!(
                "the deployment {id} has not ended in time; it goes on: {told}"
            )));
        }
    }
}

/// `deploying c0ffee1: build running (1 of 4 stages done)`.
fn current_stage(deployment: &Value) -> String {
    let stages = items_of(&deployment["stages"]);
    let done = stages.iter().filter(|stage| stage["status"] == "succeeded").count();
    let current = stages.iter().find(|stage| !matches!(text_of(stage, "status"), "succeeded" | "pending" | "skipped"));
    let state = match current {
        Some(stage) => format!("{} {}", shown_of(stage, "name"), shown_of(stage, "status")),
        None => shown_of(deployment, "status"),
    };
    let counted = if stages.is_empty() { String::new() } else { format!(" ({done} of {} stages done)", stages.len()) };
    format!("deploying {}: {state}{counted}", shown_of(deployment, "commitId")).replace('_', " ")
}

#[derive(clap::Args)]
pub struct LogsArgs {
    /// The deployment (dep_…), or an environment: its current deployment, or else its last one [default:
    /// LOCKKEEPER_ENVIRONMENT]
    #[arg(value_name = "DEPLOYMENT|ENV")]
    deployment: Option<DeploymentName>,
    /// Go on until the deployment ends; exit code 1 if it fails or is cancelled
    #[arg(short, long)]
    follow: bool,
    /// Only the output of this stage
    #[arg(long, value_name = "STAGE", value_parser = identifier)]
    stage: Option<String>,
    /// Only the output of steps with this name
    #[arg(long, value_name = "STEP", value_parser = identifier)]
    step: Option<String>,
    /// Begin each line with its time in UTC, its stage and its step
    #[arg(short, long)]
    times: bool,
}

/// Prints the output of a deployment's steps.
pub async fn logs(args: LogsArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let deployment = DeploymentName::given(args.deployment)?.id(api).await?;
    let query = LogQuery { deployment, stage: args.stage, step: args.step, follow: args.follow };
    let Some(ended) = print(api, &query, &mut Printer::new(*out, args.times)).await? else { return Ok(()) };
    let status = text_of(&ended, "status");
    let words = format!("deployment {} {status}{}", query.deployment, after_colon(&ended, "error"));
    if status != "succeeded" {
        return Err(Failure::Failed(words));
    }
    note(&words);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_named_by_its_id_or_its_environment() {
        assert_eq!("dep_01a1".parse(), Ok(DeploymentName::Id("dep_01a1".to_owned())));
        let review = EnvironmentName { pipeline: Some("web".to_owned()), name: "review-1".to_owned() };
        assert_eq!("web/review-1".parse(), Ok(DeploymentName::NewestOf(review)));
        for wrong in ["", "dep_../x", "a/b/c", "dep_1?x"] {
            assert!(wrong.parse::<DeploymentName>().is_err(), "{wrong}");
        }
    }
}
