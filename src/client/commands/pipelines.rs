//! `lockkeeper pipelines`, `stop` and `resume`: the pipelines of an organization, and whether they deploy.

use serde_json::{Value, json};

use crate::api::{Api, list_all};
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::output::table::Cell;
use crate::output::text::{Style, after_colon, harmless};
use crate::output::{Out, items_of, text_of, times};

pub async fn list(api: &Api, out: &Out) -> Result<(), Failure> {
    let pipelines = list_all(api, "/pipelines", &[]).await?;
    out.list(&pipelines, row, "no pipelines")
}

fn row(pipeline: &Value) -> Vec<Cell> {
    let stages = items_of(&pipeline["stages"]).iter().map(|stage| {
        let mark = if text_of(stage, "approval") == "always" { " (approval)" } else { "" };
        format!("{}{mark}", text_of(stage, "name"))
    });
    vec![
        Cell::whole("PIPELINE", text_of(pipeline, "id")).styled(Style::Strong),
        Cell::cuttable("NAME", text_of(pipeline, "name")),
        Cell::status("STATUS", text_of(pipeline, "status")),
        Cell::whole("ENVIRONMENTS", pipeline["environmentCount"].to_string()),
        Cell::cuttable("STAGES", stages.collect::<Vec<_>>().join(", ")),
        Cell::cuttable("STOPPED", stopped(pipeline).unwrap_or_default()),
    ]
}

/// `by mia at 2026-11-15 10:03:00 UTC: freeze`, if it is stopped.
fn stopped(pipeline: &Value) -> Option<String> {
    let at = times::clock(pipeline["stoppedAt"].as_str()?);
    let by = text_of(&pipeline["stoppedBy"], "name");
    Some(format!("by {by} at {at} UTC{}", after_colon(pipeline, "stopReason")))
}

#[derive(clap::Args)]
pub struct StopArgs {
    /// The pipeline, instead of --pipeline
    #[arg(value_name = "PIPELINE", value_parser = identifier)]
    name: Option<String>,
    /// The reason, for everybody who looks at the pipeline
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
