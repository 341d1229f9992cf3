//! `lockkeeper queue`: who waits for an environment, in order.

use jiff::Timestamp;
use serde_json::Value;

use super::session;
use crate::api::Api;
use crate::arguments::EnvironmentName;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 6] = [
    Column::whole("PLACE"),
    Column::cuttable("USER"),
    Column::whole("WAITS"),
    Column::whole("PRIORITY"),
    Column::optional("SESSION"),
    Column::cuttable("CONTEXT"),
];

#[derive(clap::Args)]
pub struct Args {
    /// The environment, as ENV or PIPELINE/ENV; also LOCKKEEPER_ENVIRONMENT
    #[arg(value_name = "ENV")]
    environment: Option<EnvironmentName>,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let environment = session::environment(args.environment)?;
    let path = format!("{}/queue?limit=100", api.environment_path(&environment).await?);
    let answer = api.get(&path).await?;
    let now = Timestamp::now();
    out.list(&answer.data, &COLUMNS, |waiter| row(waiter, now), "nobody waits")?;
    let shown = answer.data.as_array().map_or(0, Vec::len) as u64;
    let total = answer.pagination["total"].as_u64().unwrap_or_default();
    if total > shown {
        out.note(&format!("the first {shown} of {total}"));
    }
    Ok(())
}

fn row(waiter: &Value, now: Timestamp) -> Vec<Cell> {
    let number = |field: &str| waiter[field].as_i64().unwrap_or_default().to_string();
    let waits = waiter["createdAt"].as_str().and_then(|at| times::since(at, now)).unwrap_or_default();
    vec![
        number("position").into(),
        text_of(&waiter["user"], "name").into(),
        waits.into(),
        number("priority").into(),
        text_of(waiter, "sessionId").into(),
        text_of(waiter, "context").into(),
    ]
}
