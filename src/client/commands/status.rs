//! `lockkeeper status`: one session, or all of the caller's.

use jiff::Timestamp;
use serde_json::Value;

use super::session::{self, Target, without_lock};
use crate::api::Api;
use crate::connection::options::variable;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::text::Style;
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 7] = [
    Column::whole("ENVIRONMENT"),
    Column::whole("STATUS"),
    Column::cuttable("USER"),
    Column::whole("SINCE"),
    Column::whole("EXPIRES"),
    Column::optional("SESSION"),
    Column::cuttable("CONTEXT"),
];

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// List the sessions of everybody that hold or wait
    #[arg(long, conflicts_with_all = ["environment", "session"])]
    all: bool,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let named = args.target.environment.is_some() || args.target.session.is_some();
    let under_run = variable("LOCKKEEPER_SESSION").is_some() && variable("LOCKKEEPER_ENVIRONMENT").is_some();
    if args.all || !(named || under_run) {
        return list(args.all, api, out).await;
    }
    let found = args.target.find(api).await?;
    let session = api.get(&found.path()).await?.data;
    out.record(&session, |session| session::lines(session, out))?;
    without_lock(&session).map_or(Ok(()), Err)
}

async fn list(all: bool, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = if all { "/sessions?limit=100" } else { "/sessions?mine=true&limit=100" };
    let answer = api.get(path).await?;
    let now = Timestamp::now();
    let none = if all { "no sessions" } else { "you hold nothing and wait for nothing" };
    out.list(&answer.data, &COLUMNS, |session| row(session, now), none)?;
    let shown = answer.data.as_array().map_or(0, Vec::len) as u64;
    let total = answer.pagination["total"].as_u64().unwrap_or_default();
    if total > shown {
        out.note(&format!("the newest {shown} of {total}"));
    }
    Ok(())
}

fn row(session: &Value, now: Timestamp) -> Vec<Cell> {
    let environment = match session["envName"].as_str() {
        Some(name) => format!("{}/{name}", text_of(session, "pipelineId")),
        None => format!("{}/*", text_of(session, "pipelineId")),
    };
    let since = session["claimedAt"].as_str().or(session["createdAt"].as_str());
    let expires = match (text_of(session, "lockStatus"), session["expiresAt"].as_str()) {
        ("active", None) => "never".to_owned(),
        ("active", Some(at)) => times::until(at, now).unwrap_or_default(),
        _ => String::new(),
    };
    vec![
        Cell::styled(&environment, Style::Strong),
        Cell::status(text_of(session, "lockStatus")),
        text_of(&session["user"], "name").into(),
        since.and_then(|at| times::since(at, now)).unwrap_or_default().into(),
        expires.into(),
        text_of(session, "sessionId").into(),
        text_of(session, "context").into(),
    ]
}
