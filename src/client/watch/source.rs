//! The source of the board: the lists of environments, fetched again when the event stream reports a change.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::board::{PipelineRows, Row};
use crate::api::{Answer, Api, Call};
use crate::failure::{CallError, Failure};
use crate::feed::{EventWords, Feed, News};
use crate::output::text::after_colon;
use crate::output::{items_of, text_of};

/// The minimum pause between two fetches: this long, and this multiple of the duration of the last fetch, so that a
/// large board does not keep the server busy.
const FETCH_PAUSE: Duration = Duration::from_millis(250);
const FETCH_SHARE: u32 = 4;
/// Heartbeats extend locks without an event, so the board is fetched at least this often.
const REFRESH: Duration = Duration::from_secs(5);
/// More pipelines than anybody watches.
const PIPELINES_MAX: usize = 100;

/// An update of the board.
pub enum Update {
    /// The newest state, and how far the server's clock is ahead of ours.
    Board {
        pipelines: Vec<PipelineRows>,
        ahead: SignedDuration,
    },
    Event(EventWords),
    /// Why the board may be out of date.
    Trouble(String),
    Live,
}

/// Sends updates until the server refuses permanently, or the receiver is gone. `pipeline` limits the board to one
/// pipeline.
pub async fn follow(api: &Api, pipeline: Option<&str>, updates: mpsc::Sender<Update>) -> Result<(), Failure> {
    let filter = pipeline.map(|pipeline| format!("?pipelineId={pipeline}")).unwrap_or_default();
    // First the stream, then the state: every later change is reported.
    let mut feed = Feed::open(api, format!("/events/stream{filter}")).await?;
    let (first, ahead) = fetch(api, pipeline).await?;
    if updates.send(Update::Board { pipelines: first, ahead }).await.is_err() {
        return Ok(());
    }
    let mut fetched = Instant::now();
    let mut next_fetch = fetched + REFRESH;
    let mut pause = FETCH_PAUSE;
    let mut is_cut = false;
    loop {
        let update = tokio::select! {
            news = feed.next() => match news? {
                News::Event(event) => {
                    next_fetch = next_fetch.min(fetched + pause);
                    Update::Event(EventWords::of(&event))
                }
                News::Gap => {
                    next_fetch = next_fetch.min(fetched + pause);
                    continue;
                }
                News::Cut(why) => {
                    is_cut = true;
                    Update::Trouble(why)
                }
                News::Back => {
                    (is_cut, next_fetch) = (false, fetched + pause);
                    continue;
                }
            },
            // While the stream is disconnected, the feed notices when the server is back.
            () = tokio::time::sleep_until(next_fetch), if !is_cut => {
                let began = Instant::now();
                let got = fetch(api, pipeline).await;
                fetched = Instant::now();
                pause = FETCH_PAUSE.max((fetched - began) * FETCH_SHARE);
                next_fetch = fetched + REFRESH.max(pause);
                match got {
                    Ok((pipelines, ahead)) => {
                        if updates.send(Update::Board { pipelines, ahead }).await.is_err() {
                            return Ok(());
                        }
                        Update::Live
                    }
                    Err(error) if error.is_passing(true) => {
                        next_fetch = fetched + pause;
                        Update::Trouble(Failure::from(error).to_string())
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        if updates.send(update).await.is_err() {
            return Ok(());
        }
    }
}

/// All environments, and how far the server's clock is ahead.
async fn fetch(api: &Api, only: Option<&str>) -> Result<(Vec<PipelineRows>, SignedDuration), CallError> {
    let path = match only {
        Some(pipeline) => format!("/pipelines/{pipeline}"),
        None => format!("/pipelines?limit={PIPELINES_MAX}"),
    };
    let listed = get(api, &path).await?;
    let records = if only.is_some() { std::slice::from_ref(&listed.data) } else { items_of(&listed.data) };
    let mut pipelines = Vec::with_capacity(records.len());
    for record in records {
        let id = text_of(record, "id").to_owned();
        let environments = match get(api, &format!("/pipelines/{id}/ephemeral-environments")).await {
            Ok(answer) => answer.data,
            // The pipeline was deleted after it was listed.
            Err(CallError::Problem(problem)) if problem.status == 404 && only.is_none() => continue,
            Err(error) => return Err(error),
        };
        let rows = items_of(&environments).iter().filter_map(Row::read).collect();
        pipelines.push(PipelineRows { id, name: text_of(record, "name").to_owned(), stopped: stopped(record), rows });
    }
    Ok((pipelines, ahead(listed.date.as_deref(), Timestamp::now())))
}

/// A single attempt: a failed one is repeated soon, and meanwhile the board shows that it may be out of date.
async fn get(api: &Api, path: &str) -> Result<Answer, CallError> {
    api.send(Call { patience: Duration::ZERO, ..api.call(Method::GET, path) }).await
}

/// `stopped by mia: freeze`.
fn stopped(pipeline: &Value) -> Option<String> {
    if text_of(pipeline, "status") != "stopped" {
        return None;
    }
    let by = pipeline["stoppedBy"]["name"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
    Some(format!("stopped{by}{}", after_colon(pipeline, "stopReason")))
}

/// A smaller difference comes from the resolution of `Date` and from network delay, not from the clocks.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(2);

fn ahead(date: Option<&str>, now: Timestamp) -> SignedDuration {
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let ahead = date.map(|date| date.timestamp().duration_since(now)).unwrap_or_default();
    if ahead.abs() > CLOCKS_DIFFER { ahead } else { SignedDuration::ZERO }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_clock_that_differs_is_noticed_and_a_slow_way_is_not() {
        let now = "2026-11-15T10:03:00.900Z".parse().unwrap();
        assert_eq!(ahead(Some("Sun, 15 Nov 2026 10:03:00 GMT"), now), SignedDuration::ZERO);
        assert_eq!(ahead(Some("Sun, 15 Nov 2026 10:13:00 GMT"), now).as_secs(), 599);
        assert_eq!(ahead(Some("Sun, 15 Nov 2026 09:53:00 GMT"), now).as_secs(), -600);
        assert_eq!(ahead(Some("soon"), now), SignedDuration::ZERO);
        assert_eq!(ahead(None, now), SignedDuration::ZERO);
    }
}
