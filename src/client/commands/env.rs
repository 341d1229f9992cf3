//! `lockkeeper env`: one environment, with its configuration.

use jiff::Timestamp;
use serde_json::Value;

use super::session::{self, deployment_line};
use crate::api::Api;
use crate::arguments::EnvironmentName;
use crate::failure::Failure;
use crate::holders::holder_in_words;
use crate::output::text::{Style, harmless};
use crate::output::times::span;
use crate::output::{Out, fields, text_of};

#[derive(clap::Args)]
pub struct Args {
    /// The environment, as ENV or PIPELINE/ENV; also LOCKKEEPER_ENVIRONMENT
    #[arg(value_name = "ENV")]
    environment: Option<EnvironmentName>,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let name = session::environment(args.environment)?;
    let environment = api.get(&api.environment_path(&name).await?).await?.data;
    out.record(&environment, |environment| lines(environment, out))
}

fn lines(environment: &Value, out: &Out) -> Vec<String> {
    let now = Timestamp::now();
    let (status, configuration) = (text_of(environment, "lockStatus"), &environment["configuration"]);
    let labels = environment["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> =
        labels.map(|(name, value)| harmless(&format!("{name}={}", value.as_str().unwrap_or_default()))).collect();
    let seconds = |field: &str| {
        let seconds = configuration[field].as_u64();
        seconds.map(|seconds| span(std::time::Duration::from_secs(seconds))).unwrap_or_default()
    };
    let deployment = |field: &str| {
        let deployment = &environment[field];
        if deployment.is_null() { String::new() } else { deployment_line(deployment, now) }
    };
    let lock = &environment["lock"];
    fields(&[
        (
            "environment",
            harmless(&format!("{}/{}", text_of(environment, "pipelineId"), text_of(environment, "envName"))),
        ),
        ("description", harmless(text_of(configuration, "description"))),
        ("status", out.paint(&harmless(status), Style::of_status(status))),
        ("disabled", harmless(text_of(environment, "disabledReason"))),
        ("holder", holder_in_words(lock, now).unwrap_or_default()),
        ("session", harmless(text_of(lock, "sessionId"))),
        ("commit", harmless(text_of(lock, "commitId"))),
        ("fencing token", lock["fencingToken"].as_u64().map(|token| token.to_string()).unwrap_or_default()),
        ("queue", environment["queueLength"].as_u64().unwrap_or_default().to_string()),
        ("deploying", deployment("currentDeployment")),
        ("deployed", deployment("lastDeployment")),
        ("labels", labels.join(" ")),
        ("default TTL", seconds("defaultTtlSeconds")),
        ("longest TTL", seconds("maxTtlSeconds")),
        ("longest hold", seconds("maxHoldSeconds")),
        ("force-claim", harmless(&format!("{} or above", text_of(configuration, "forceClaimRole")))),
    ])
}
