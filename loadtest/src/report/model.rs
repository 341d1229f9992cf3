//! Owns the form in which a run is written down (JSON) and read again, to be shown as text or as a page, alone or beside
//! others. Names here are what users' scripts read: they change only with `FORMAT`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub format: u32,
    pub scenario: String,
    /// One sentence: what it does.
    pub description: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    #[serde(deserialize_with = "number_or_null")]
    pub seconds: f64,
    pub interrupted: bool,
    pub target: String,
    /// What was asked for, as shown to a reader: "connections" → "64".
    pub settings: BTreeMap<String, String>,
    /// One for each thing set side by side: a workload, a length of the queue, a number of environments, a peer.
    pub phases: Vec<Phase>,
    /// Phase against phase, round by round.
    pub ratios: Vec<Figure>,
    pub checks: Vec<Check>,
    /// What went wrong without breaking a rule, with its count, bounded.
    pub errors: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    pub name: String,
    /// Latencies by operation ("claim", "release", "handoff", …).
    pub operations: Vec<Operation>,
    pub statuses: Vec<Status>,
    /// Single values with their spread over the rounds: "cycles per second", "server CPU per cycle", "resident memory".
    pub figures: Vec<Figure>,
    /// In order of time; empty where nothing changes over time.
    pub timeline: Vec<Slice>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub name: String,
    pub count: u64,
    pub latency: Latency,
    /// (quantile, microseconds) for a plot by percentile, at most a few hundred points.
    #[serde(deserialize_with = "points_or_null")]
    pub distribution: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub operation: String,
    pub status: u16,
    pub count: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: String,
    pub unit: String,
    #[serde(deserialize_with = "number_or_null")]
    pub median: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub min: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub max: f64,
    pub rounds: usize,
    /// What we want it to be, where somebody has said so. Missing it is told, but it breaks no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// What happened in one stretch of time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Seconds since the run began, at the slice's start.
    #[serde(deserialize_with = "number_or_null")]
    pub at: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub seconds: f64,
    pub operations: Vec<SliceOperation>,
    /// Requests under way at the end of the slice; of these, claims that wait.
    pub in_flight: u64,
    pub waiting: u64,
    pub errors: u64,
    pub server_cpu_percent: Option<f64>,
    pub server_memory_bytes: Option<u64>,
    /// "server killed", "server ready": drawn as a line with its text.
    pub marks: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceOperation {
    pub name: String,
    pub count: u64,
    pub latency: Latency,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// "one holder at a time", …
    pub name: String,
    /// How many grants, pairs or effects were looked at: zero means that the run had nothing to show.
    pub examined: u64,
    pub violation_count: u64,
    /// The first few.
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub what: String,
    /// The requests that show it, one line each, in order of time.
    pub requests: Vec<String>,
}

/// JSON has no NaN and no infinity: they are written as null, and a run with one of them must still be readable.
fn number_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn points_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, u64)>, D::Error> {
    let points: Vec<(Option<f64>, u64)> = Vec::deserialize(from)?;
    Ok(points.into_iter().map(|(quantile, microseconds)| (quantile.unwrap_or(f64::NAN), microseconds)).collect())
}
