//! `lockkeeper pipelines`, `stop` and `resume`: the pipelines of an organization, and whether they deploy.

use serde_json::{Value, json};

use crate::api::{Api, list_all};
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::text::{Style, harmless};
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 6] = [
    Column::whole("PIPELINE"),
    Column::cuttable("NAME"),
    Column::whole("STATUS"),
    Column::whole("ENVIRONMENTS"),
    Column::cuttable("STAGES"),
    Column::cuttable("STOPPED"),
];

#[derive(clap::Args)]
pub struct ListArgs {}

pub async fn list(_: ListArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let pipelines = list_all(api, "/pipelines", &[]).await?;
    out.list(&pipelines, &COLUMNS, row, "no pipelines")
}

fn row(pipeline: &Value) -> Vec<Cell> {
    let stages = pipeline["stages"].as_array().into_iter().flatten();
    let stages: Vec<String> = stages
        .map(|stage| {
            let mark = if text_of(stage, "approval") == "always" { " (approval)" } else { "" };
            format!("{}{mark}", text_of(stage, "name"))
        })
        .collect();
    vec![
        Cell::styled(text_of(pipeline, "id"), Style::Strong),
        text_of(pipeline, "name").into(),
        Cell::status(text_of(pipeline, "status")),
        pipeline["environmentCount"].to_string().into(),
        stages.join(", ").into(),
        stopped(pipeline).unwrap_or_default().into(),
    ]
}

/// `by mia at 2026-11-15 10:03:00 UTC: freeze`, if it is stopped.
fn stopped(pipeline: &Value) -> Option<String> {
    let at = times::clock(pipeline["stoppedAt"].as_str()?);
    let by = text_of(&pipeline["stoppedBy"], "name");
    let reason = pipeline["stopReason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("by {by} at {at} UTC{reason}"))
}

#[derive(clap::Args)]
pub struct StopArgs {
    /// The pipeline, instead of --pipeline
    #[arg(value_name = "PIPELINE", value_parser = identifier)]
    name: Option<String>,
    /// Why, for everybody who looks at it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn stop(args: StopArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    change(api, out, args.name, "stop", json!({ "reason": args.reason })).await
}

#[derive(clap::Args)]
pub struct ResumeArgs {
    /// The pipeline, instead of --pipeline
    #[arg(value_name = "PIPELINE", value_parser = identifier)]
    name: Option<String>,
}

pub async fn resume(args: ResumeArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    change(api, out, args.name, "resume", json!({})).await
}

async fn change(api: &Api, out: &Out, name: Option<String>, verb: &str, body: Value) -> Result<(), Failure> {
    let name = match name {
        Some(name) => name,
        None => api.pipeline().await?.to_owned(),
    };
    let pipeline = api.post(&format!("/pipelines/{name}/{verb}"), &body).await?.data;
    out.record(&pipeline, |pipeline| {
        let line = match stopped(pipeline) {
            Some(stopped) => format!("{name} is stopped, {stopped}; running deployments finish, new ones wait"),
            None => format!("{name} runs"),
        };
        vec![harmless(&line)]
    })
}
