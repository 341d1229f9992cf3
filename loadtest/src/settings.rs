//! Owns the settings common to all scenarios: rounds, seconds, connections, the loop, the server's settings.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

/// The server's default.
const DEFAULT_RETENTION: u64 = 1_000;

/// The settings common to all scenarios.
#[derive(Clone, Debug, Deserialize)]
pub struct Common {
    /// One sentence: what the scenario does.
    pub description: String,
    pub kind: String,
    /// `closed`: the next request follows the last answer. `open`: `rate` requests per second, whether or not the
    /// server keeps up.
    #[serde(default)]
    pub r#loop: Loop,
    pub rate: Option<f64>,
    #[serde(default = "one")]
    pub rounds: u32,
    /// The length of each segment of load; for work that ends earlier, its time limit.
    pub seconds: u64,
    #[serde(default = "one")]
    pub connections: u32,
    /// Threads that generate load, each with its share of the connections.
    #[serde(default = "one")]
    pub threads: u32,
    /// The checks that must find something to compare.
    #[serde(default)]
    pub examines: Vec<String>,
    /// Settings for a server that we start, by their names in its settings file.
    #[serde(default)]
    pub server: Table,
    /// The settings specific to this kind of workload.
    #[serde(flatten)]
    pub of_kind: Table,
    /// Whether no size is smaller than in the scenario's file: goals apply only then.
    #[serde(skip)]
    pub is_full: bool,
    /// All settings as written, for the report.
    #[serde(skip)]
    pub written: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    #[default]
    Closed,
    Open,
}

impl Common {
    pub fn open_rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.r#loop == Loop::Open)
    }

    /// Number of sessions of each environment that the server keeps.
    pub fn retention(&self) -> u64 {
        let storage = self.server.get("storage").and_then(Value::as_table);
        let kept = storage.and_then(|storage| storage.get("history_retention")).and_then(Value::as_integer);
        kept.and_then(|kept| u64::try_from(kept).ok()).unwrap_or(DEFAULT_RETENTION)
    }

    /// The server's settings as environment variables.
    pub fn server_variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        variables_of("LOCKKEEPER", &self.server, &mut variables);
        variables
    }

    pub fn shown(&self) -> BTreeMap<String, String> {
        self.written.clone()
    }

    pub fn check(&self) -> Result<(), String> {
        within("rounds", self.rounds.into(), 1, 1_000)?;
        within("seconds", self.seconds, 1, 3_600)?;
        within("connections", self.connections.into(), 1, 20_000)?;
        within("threads", self.threads.into(), 1, 64)?;
        match (self.r#loop, self.rate) {
            (Loop::Open, None) => Err("`loop` = \"open\" needs a `rate`, in requests per second".to_owned()),
            (Loop::Open, Some(rate)) if !(0.1..=1_000_000.0).contains(&rate) => {
                Err(format!("`rate` must be from 0.1 to 1000000 requests per second, got {rate}"))
            }
            (Loop::Closed, Some(_)) => Err("`rate` belongs to `loop` = \"open\"".to_owned()),
            (Loop::Open, Some(_)) | (Loop::Closed, None) => Ok(()),
        }
    }
}

pub fn within(key: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    let fits = (least..=most).contains(&value);
    if fits { Ok(()) } else { Err(format!("`{key}` must be from {least} to {most}, got {value}")) }
}

/// An error in one line, in the terms of the file.
pub fn fault(error: &toml::de::Error) -> String {
    error.message().replace("unknown field", "unknown key").replace("missing field", "missing key")
}

fn variables_of(prefix: &str, table: &Table, into: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let name = format!("{prefix}_{}", key.to_uppercase());
        match value {
            Value::Table(deeper) => variables_of(&name, deeper, into),
            value => into.push((name, shown(value))),
        }
    }
}

pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Table(table) => {
            let one = |(key, value): (&String, &Value)| match value {
                Value::Table(_) => format!("{key}.{}", shown(value)),
                value => format!("{key} = {}", shown(value)),
            };
            table.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

fn one() -> u32 {
    1
}
