//! `lockkeeper envs`: the environments of a pipeline.

use jiff::Timestamp;
use serde_json::Value;

use crate::api::Api;
use crate::arguments::label;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::text::Style;
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 8] = [
    Column::whole("ENVIRONMENT"),
    Column::whole("STATUS"),
    Column::cuttable("HOLDER"),
    Column::whole("SINCE"),
    Column::whole("EXPIRES"),
    Column::whole("QUEUE"),
    Column::optional("DEPLOYMENT"),
    Column::cuttable("CONTEXT"),
];

#[derive(clap::Args)]
pub struct Args {
    /// Only those with this status: unlocked, locked, resetting or disabled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(status) = &args.status {
        query.append_pair("lockStatus", status);
    }
    for (name, value) in &args.label {
        query.append_pair("label", &format!("{name}:{value}"));
    }
    let path = format!("/pipelines/{}/ephemeral-environments?{}", api.pipeline().await?, query.finish());
    let environments = api.get(&path).await?.data;
    let now = Timestamp::now();
    out.list(&environments, &COLUMNS, |environment| row(environment, now), "no environments")
}

fn row(environment: &Value, now: Timestamp) -> Vec<Cell> {
    let lock = &environment["lock"];
    let since = lock["claimedAt"].as_str().and_then(|at| times::since(at, now)).unwrap_or_default();
    let expires = match (lock["claimedAt"].as_str(), lock["expiresAt"].as_str()) {
        (Some(_), Some(at)) => times::until(at, now).unwrap_or_default(),
        (Some(_), None) => "never".to_owned(),
        (None, _) => String::new(),
    };
    let queue = environment["queueLength"].as_u64().filter(|length| *length > 0);
    vec![
        Cell::styled(text_of(environment, "envName"), Style::Strong),
        Cell::status(text_of(environment, "lockStatus")),
        text_of(&lock["user"], "name").into(),
        since.into(),
        expires.into(),
        queue.map(|length| length.to_string()).unwrap_or_default().into(),
        deployment(environment),
        text_of(lock, "context").into(),
    ]
}

/// The running deployment, or else the last one: `c0ffee1 succeeded`.
pub fn deployment(environment: &Value) -> Cell {
    let current = &environment["currentDeployment"];
    let (shown, stage) = if current.is_null() {
        (&environment["lastDeployment"], String::new())
    } else {
        let (done, total) = (current["stagesDone"].as_u64(), current["stagesTotal"].as_u64());
        let progress = done.zip(total).filter(|(_, total)| *total > 0);
        (current, progress.map(|(done, total)| format!(" {done}/{total}")).unwrap_or_default())
    };
    let status = text_of(shown, "status");
    Cell::styled(format!("{} {status}{stage}", text_of(shown, "commitId")).trim(), Style::of_status(status))
}
