//! `lockkeeper events`: past events and, with `--follow`, new ones.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::{Api, ITEMS_MAX, list_first, query};
use crate::arguments::{EnvironmentName, moment};
use crate::failure::Failure;
use crate::feed::{EventWords, Feed, News};
use crate::output::table::Cell;
use crate::output::text::{Style, harmless};
use crate::output::{Out, items_of, note, reader_gone, text_of, times};

#[derive(clap::Args)]
pub struct Args {
    /// Continue with new events as they happen, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only these types, like session.claimed, or groups, like deployment.*; with commas or repeated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only events of this environment
    #[arg(long, value_name = "ENV")]
    env: Option<EnvironmentName>,
    /// Only events about this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only events about this deployment
    #[arg(long, value_name = "DEPLOYMENT")]
    deployment: Option<String>,
    /// Only events by this member (usr_…), or by the `system`
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
    /// Only events since this time, like 2026-11-15T10:03:00Z, or this long ago, like 15m, 2h or 3d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only events before this time, in the same forms
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "follow")]
    until: Option<Timestamp>,
    /// How many at most, the newest ones; with --follow, how many that have already happened [default: 50, or all since
    /// --since]
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    limit: Option<u16>,
}

/// As many events as fit on a screen or two.
const LIMIT: usize = 50;

impl Args {
    fn filter(&self, api: &Api) -> Vec<(&'static str, String)> {
        let pipeline = self.env.as_ref().and_then(|name| name.pipeline.as_deref()).or(api.given_pipeline());
        let given = [
            ("type", Some(self.types.join(",")).filter(|types| !types.is_empty())),
            ("pipelineId", pipeline.map(str::to_owned)),
            ("envName", self.env.as_ref().map(|name| name.name.clone())),
            ("sessionId", self.session.clone()),
            ("deploymentId", self.deployment.clone()),
            ("actor", self.actor.clone()),
            ("since", self.since.map(|at| at.to_string())),
            ("until", self.until.map(|at| at.to_string())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn limit(&self) -> usize {
        let all = if self.since.is_some() { ITEMS_MAX } else { LIMIT };
        self.limit.map_or(all, usize::from)
    }
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let filter = args.filter(api);
    if args.follow {
        return tokio::select! {
            ended = follow(api, out, &filter, args.limit()) => ended,
            () = reader_gone() => Err(Failure::OutputClosed),
        };
    }
    let events = list_first(api, "/events", &filter, args.limit()).await?;
    if out.json {
        return out.json(&events);
    }
    // Newest last, since people read downwards.
    out.rows(items_of(&events).iter().rev(), row, "no events")
}

fn row(event: &Value) -> Vec<Cell> {
    let words = EventWords::of(event);
    vec![
        Cell::whole("TIME (UTC)", times::clock(&words.at)).styled(Style::Dim),
        Cell::whole("TYPE", words.event_type),
        Cell::whole("WHERE", words.place),
        Cell::cuttable("WHO", words.actor),
        Cell::cuttable("DETAILS", words.details),
    ]
}

async fn follow(api: &Api, out: &Out, filter: &[(&str, String)], limit: usize) -> Result<(), Failure> {
    // First the stream, then the list, so that no event is lost between them; events in both are recognised by their
    // ids.
    let mut feed = Feed::open(api, format!("/events/stream{}", query(filter.iter().cloned()))).await?;
    let past = list_first(api, "/events", filter, limit).await?;
    let past = items_of(&past);
    let mut shown: HashSet<String> = past.iter().map(|event| text_of(event, "eventId").to_owned()).collect();
    past.iter().rev().try_for_each(|event| print(out, event))?;
    let mut is_cut = false;
    loop {
        match feed.next().await? {
            // After the first connection, the stream does not repeat events.
            News::Event(event) if shown.remove(text_of(&event, "eventId")) => {}
            News::Event(event) => print(out, &event)?,
            News::Gap => note("some events are missing here: they are no longer kept"),
            News::Cut(why) if !is_cut => {
                is_cut = true;
                note(&harmless(&format!("{why}; trying again")));
            }
            News::Cut(_) => {}
            News::Back => {
                is_cut = false;
                note("connected again");
            }
        }
    }
}

fn print(out: &Out, event: &Value) -> Result<(), Failure> {
    if out.json { out.json_line(event) } else { out.line(&EventWords::of(event).line(out)) }
}
