//! `lockkeeper history`: the sessions of an environment, newest first.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::session;
use crate::api::Api;
use crate::arguments::EnvironmentName;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 7] = [
    Column::whole("CLAIMED (UTC)"),
    Column::whole("HELD"),
    Column::cuttable("USER"),
    Column::whole("STATUS"),
    Column::optional("ENDED BY"),
    Column::cuttable("COMMIT"),
    Column::cuttable("CONTEXT"),
];

#[derive(clap::Args)]
pub struct Args {
    /// The environment, as ENV or PIPELINE/ENV; also LOCKKEEPER_ENVIRONMENT
    #[arg(value_name = "ENV")]
    environment: Option<EnvironmentName>,
    /// How many sessions
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Which page of that many, from 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let environment = session::environment(args.environment)?;
    let path = api.environment_path(&environment).await?;
    let answer = api.get(&format!("{path}/history?limit={}&page={}", args.limit, args.page)).await?;
    let now = Timestamp::now();
    out.list(&answer.data, &COLUMNS, |session| row(session, now), "no sessions")?;
    let pages = answer.pagination["totalPages"].as_u64().unwrap_or_default();
    if pages > u64::from(args.page) && !out.json {
        out.note(&format!("page {} of {pages}; --page {} has older ones", args.page, args.page + 1));
    }
    Ok(())
}

fn row(session: &Value, now: Timestamp) -> Vec<Cell> {
    let claimed: Option<Timestamp> = session["claimedAt"].as_str().and_then(|at| at.parse().ok());
    let ended = session["endedAt"].as_str().and_then(|at| at.parse().ok()).unwrap_or(now);
    let held = claimed.map(|claimed| Duration::try_from(ended.duration_since(claimed)).unwrap_or_default());
    vec![
        session["claimedAt"].as_str().map(times::clock).unwrap_or_default().into(),
        held.map(times::span).unwrap_or_default().into(),
        text_of(&session["user"], "name").into(),
        Cell::status(text_of(session, "lockStatus")),
        text_of(&session["endedBy"], "name").into(),
        text_of(session, "commitId").into(),
        text_of(session, "context").into(),
    ]
}
