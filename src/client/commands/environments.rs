//! `lockkeeper envs`, `env`, `queue` and `history`: the environments of a pipeline; one environment with its waiting
//! and its past sessions.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::sessions::{EnvironmentArgs, deployment_line, list_page};
use crate::api::{Api, query};
use crate::arguments::label;
use crate::failure::Failure;
use crate::holders::holder_in_words;
use crate::output::table::Cell;
use crate::output::text::{Style, harmless, shown_of};
use crate::output::{Out, fields, note, text_of, times};

#[derive(clap::Args)]
pub struct ListArgs {
    /// Only those with this status: unlocked, locked, resetting or disabled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

pub async fn list(args: ListArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let status = args.status.map(|status| ("lockStatus", status));
    let labels = args.label.iter().map(|(name, value)| ("label", format!("{name}:{value}")));
    let filter = query(status.into_iter().chain(labels));
    let path = format!("/pipelines/{}/ephemeral-environments{filter}", api.pipeline().await?);
    let environments = api.get(&path).await?.data;
    let now = Timestamp::now();
    out.list(&environments, |environment| row(environment, now), "no environments")
}

fn row(environment: &Value, now: Timestamp) -> Vec<Cell> {
    let lock = &environment["lock"];
    let expires = match (lock["claimedAt"].as_str(), lock["expiresAt"].as_str()) {
        (Some(_), Some(at)) => times::until(at, now).unwrap_or_default(),
        (Some(_), None) => "never".to_owned(),
        (None, _) => String::new(),
    };
    let queue = environment["queueLength"].as_u64().filter(|length| *length > 0);
    vec![
        Cell::whole("ENVIRONMENT", text_of(environment, "envName")).styled(Style::Strong),
        Cell::status("STATUS", text_of(environment, "lockStatus")),
        Cell::cuttable("HOLDER", text_of(&lock["user"], "name")),
        Cell::whole("SINCE", times::since(text_of(lock, "claimedAt"), now).unwrap_or_default()),
        Cell::whole("EXPIRES", expires),
        Cell::whole("QUEUE", queue.map(|length| length.to_string()).unwrap_or_default()),
        deployment(environment),
        Cell::cuttable("CONTEXT", text_of(lock, "context")),
    ]
}

/// The running deployment, or else the last one: `c0ffee1 succeeded`.
fn deployment(environment: &Value) -> Cell {
    let current = &environment["currentDeployment"];
    let (shown, stage) = if current.is_null() {
        (&environment["lastDeployment"], String::new())
    } else {
        let (done, total) = (current["stagesDone"].as_u64(), current["stagesTotal"].as_u64());
        let progress = done.zip(total).filter(|(_, total)| *total > 0);
        (current, progress.map(|(done, total)| format!(" {done}/{total}")).unwrap_or_default())
    };
    let status = text_of(shown, "status");
    let words = format!("{} {status}{stage}", text_of(shown, "commitId"));
    Cell::optional("DEPLOYMENT", words.trim()).styled(Style::of_status(status))
}

pub async fn show(args: EnvironmentArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let environment = api.get(&api.environment_path(&args.given()?).await?).await?.data;
    out.record(&environment, |environment| lines(environment, out))
}

fn lines(environment: &Value, out: &Out) -> Vec<String> {
    let now = Timestamp::now();
    let (status, configuration) = (text_of(environment, "lockStatus"), &environment["configuration"]);
    let labels = environment["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> =
        labels.map(|(name, value)| harmless(&format!("{name}={}", value.as_str().unwrap_or_default()))).collect();
    let seconds = |field: &str| {
        let seconds = configuration[field].as_u64().map(Duration::from_secs);
        seconds.map(times::span).unwrap_or_default()
    };
    let deployment = |field: &str| {
        let deployment = &environment[field];
        if deployment.is_null() { String::new() } else { deployment_line(deployment, now) }
    };
    let lock = &environment["lock"];
    fields(&[
        ("environment", format!("{}/{}", shown_of(environment, "pipelineId"), shown_of(environment, "envName"))),
        ("description", shown_of(configuration, "description")),
        ("status", out.paint(&harmless(status), Style::of_status(status))),
        ("disabled", shown_of(environment, "disabledReason")),
        ("holder", holder_in_words(lock, now).unwrap_or_default()),
        ("session", shown_of(lock, "sessionId")),
        ("commit", shown_of(lock, "commitId")),
        ("fencing token", lock["fencingToken"].as_u64().map(|token| token.to_string()).unwrap_or_default()),
        ("queue", environment["queueLength"].as_u64().unwrap_or_default().to_string()),
        ("deploying", deployment("currentDeployment")),
        ("deployed", deployment("lastDeployment")),
        ("labels", labels.join(" ")),
        ("default TTL", seconds("defaultTtlSeconds")),
        ("longest TTL", seconds("maxTtlSeconds")),
        ("longest hold", seconds("maxHoldSeconds")),
        ("force-claim", format!("{} or above", shown_of(configuration, "forceClaimRole"))),
    ])
}

/// Lists the waiting sessions of an environment, in order.
pub async fn queue(args: EnvironmentArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = format!("{}/queue?limit=100", api.environment_path(&args.given()?).await?);
    let now = Timestamp::now();
    let page = api.get(&path).await?;
    list_page(&page, "first", out, |waiter| waiter_row(waiter, now), "nobody waits")
}

fn waiter_row(waiter: &Value, now: Timestamp) -> Vec<Cell> {
    let number = |field: &str| waiter[field].as_i64().unwrap_or_default().to_string();
    vec![
        Cell::whole("PLACE", number("position")),
        Cell::cuttable("USER", text_of(&waiter["user"], "name")),
        Cell::whole("WAITS", times::since(text_of(waiter, "createdAt"), now).unwrap_or_default()),
        Cell::whole("PRIORITY", number("priority")),
        Cell::optional("SESSION", text_of(waiter, "sessionId")),
        Cell::cuttable("CONTEXT", text_of(waiter, "context")),
    ]
}

#[derive(clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    environment: EnvironmentArgs,
    /// How many sessions
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Which page of that many, from 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
}

/// The sessions of an environment, newest first.
pub async fn history(args: HistoryArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = api.environment_path(&args.environment.given()?).await?;
    let answer = api.get(&format!("{path}/history?limit={}&page={}", args.limit, args.page)).await?;
    let now = Timestamp::now();
    out.list(&answer.data, |session| history_row(session, now), "no sessions")?;
    let pages = answer.pagination["totalPages"].as_u64().unwrap_or_default();
    if pages > u64::from(args.page) && !out.json {
        note(&format!("page {} of {pages}; --page {} has older ones", args.page, args.page + 1));
    }
    Ok(())
}

fn history_row(session: &Value, now: Timestamp) -> Vec<Cell> {
    let claimed = text_of(session, "claimedAt");
    let ended = text_of(session, "endedAt").parse().unwrap_or(now);
    vec![
        Cell::whole("CLAIMED (UTC)", times::clock(claimed)),
        Cell::whole("HELD", times::since(claimed, ended).unwrap_or_default()),
        Cell::cuttable("USER", text_of(&session["user"], "name")),
        Cell::status("STATUS", text_of(session, "lockStatus")),
        Cell::optional("ENDED BY", text_of(&session["endedBy"], "name")),
        Cell::cuttable("COMMIT", text_of(session, "commitId")),
        Cell::cuttable("CONTEXT", text_of(session, "context")),
    ]
}
