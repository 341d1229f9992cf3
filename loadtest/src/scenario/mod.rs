//! Owns the form of a scenario: a TOML file with what every workload has (rounds, seconds, connections, the loop), what
//! its kind of workload has, and in `[short]` what differs when it only has to be seen to work.

mod embedded;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

pub use embedded::{embedded, names};

use crate::workloads::Workload;

/// What the server keeps unless it is told otherwise.
const DEFAULT_RETENTION: u64 = 1_000;
const SHORT: &str = "short";

#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub common: Common,
    pub workload: Workload,
}

/// What every scenario has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// One sentence: what it does.
    pub description: String,
    pub kind: String,
    /// `closed`: the next request when the last is answered. `open`: `rate` requests per second, whatever the server does.
    #[serde(default)]
    pub r#loop: Loop,
    pub rate: Option<f64>,
    #[serde(default = "one")]
    pub rounds: u32,
    /// The length, or for work that ends by itself the bound, of each stretch of load.
    pub seconds: u64,
    #[serde(default = "one")]
    pub connections: u32,
    /// Threads that generate load, each with its share of the connections.
    #[serde(default = "one")]
    pub threads: u32,
    /// Checks that must have something to look at.
    #[serde(default)]
    pub examines: Vec<String>,
    /// Settings of the server, by their names in its settings file; for a server that we start.
    #[serde(default)]
    pub server: Table,
    /// Whether nothing in it is smaller than in the scenario's file: goals are for that.
    #[serde(skip)]
    pub is_full: bool,
    /// Everything as it was written, for the report.
    #[serde(skip)]
    written: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    #[default]
    Closed,
    Open,
}

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("unknown scenario {name:?}: give a file, or one of {}", names().collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("cannot read {path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    #[error("{file}: {what}")]
    Wrong { file: String, what: String },
}

/// A scenario by its name or by the path of its file; `changes` are `key=value` from the command line.
pub fn load(named: &str, short: bool, changes: &[(String, String)]) -> Result<Scenario, ScenarioError> {
    let (name, file, text) = find(named)?;
    parse(&name, &text, short, changes).map_err(|what| ScenarioError::Wrong { file, what })
}

/// Name, file and text.
pub fn find(named: &str) -> Result<(String, String, String), ScenarioError> {
    if let Some(text) = embedded(named) {
        return Ok((named.to_owned(), format!("{named}.toml"), text.to_owned()));
    }
    let path = Path::new(named);
    if path.extension().is_none() && !path.exists() {
        return Err(ScenarioError::Unknown { name: named.to_owned() });
    }
    let unreadable = |error| ScenarioError::Unreadable { path: named.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().map_or_else(|| named.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((name, named.to_owned(), text))
}

fn parse(name: &str, text: &str, short: bool, changes: &[(String, String)]) -> Result<Scenario, String> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let overrides = match table.remove(SHORT) {
        Some(Value::Table(overrides)) => overrides,
        Some(_) => return Err(format!("`{SHORT}` must be a table: [{SHORT}]")),
        None => Table::new(),
    };
    // Both forms must be right, whichever is asked for: a mistake in the other one would wait there for years.
    let mut in_short = table.clone();
    merge(&mut in_short, overrides);
    let full = table.clone();
    let (mut asked, other) = if short { (in_short, table) } else { (table, in_short) };
    interpret(name, other)?;
    for (key, value) in changes {
        set(&mut asked, key, value)?;
    }
    let is_full = !short && !is_shortened(&full, &asked);
    let mut scenario = interpret(name, asked)?;
    scenario.common.is_full = is_full;
    Ok(scenario)
}

/// Whether a number of the scenario is smaller than it should be: fewer seconds, rounds, connections, waiters. The settings
/// of the server are not its size.
fn is_shortened(full: &Table, asked: &Table) -> bool {
    let is_smaller = |full: &Value, asked: &Value| match (full, asked) {
        (Value::Array(full), Value::Array(asked)) => asked.len() < full.len() || largest(asked) < largest(full),
        (full, asked) => number(asked).zip(number(full)).is_some_and(|(asked, full)| asked < full),
    };
    let size = full.iter().filter(|(key, _)| !["server", "examines"].contains(&key.as_str()));
    size.into_iter().any(|(key, value)| asked.get(key).is_some_and(|asked| is_smaller(value, asked)))
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

fn largest(values: &[Value]) -> f64 {
    values.iter().filter_map(number).fold(f64::NEG_INFINITY, f64::max)
}

fn interpret(name: &str, mut table: Table) -> Result<Scenario, String> {
    let told_otherwise = ["description", "kind", "examines"];
    let asked = table.iter().filter(|(key, _)| !told_otherwise.contains(&key.as_str()));
    let written = asked.map(|(key, value)| (key.clone(), shown(value))).collect();
    let mut common = Table::new();
    let keys =
        ["description", "kind", "loop", "rate", "rounds", "seconds", "connections", "threads", "examines", "server"];
    for key in keys {
        if let Some(value) = table.remove(key) {
            common.insert(key.to_owned(), value);
        }
    }
    let mut common: Common = common.try_into().map_err(|error| fault(&error))?;
    common.written = written;
    common.check()?;
    let workload = Workload::parse(&common.kind, table)?;
    workload.check(&common)?;
    Ok(Scenario { name: name.to_owned(), common, workload })
}

impl Common {
    pub fn open_rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.r#loop == Loop::Open)
    }

    /// Sessions of each environment that the server keeps.
    pub fn retention(&self) -> u64 {
        let storage = self.server.get("storage").and_then(Value::as_table);
        let kept = storage.and_then(|storage| storage.get("history_retention")).and_then(Value::as_integer);
        kept.and_then(|kept| u64::try_from(kept).ok()).unwrap_or(DEFAULT_RETENTION)
    }

    /// The server's settings as its environment variables.
    pub fn server_variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        variables_of("LOCKKEEPER", &self.server, &mut variables);
        variables
    }

    pub fn shown(&self) -> BTreeMap<String, String> {
        self.written.clone()
    }

    fn check(&self) -> Result<(), String> {
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

/// In one line, and in the words of the file.
pub fn fault(error: &toml::de::Error) -> String {
    error.message().replace("unknown field", "unknown key").replace("missing field", "missing key")
}

fn merge(into: &mut Table, overrides: Table) {
    for (key, value) in overrides {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(fresh)) => merge(known, fresh),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

/// `a.b=5` as in TOML; a bare word is a string.
fn set(table: &mut Table, key: &str, value: &str) -> Result<(), String> {
    let value = match format!("value = {value}").parse::<Table>() {
        Ok(mut parsed) => parsed.remove("value").ok_or_else(|| format!("`{key}`: no value"))?,
        Err(_) => Value::String(value.to_owned()),
    };
    let mut change = Table::new();
    let mut parts = key.rsplit('.');
    let last = parts.next().filter(|last| !last.is_empty()).ok_or_else(|| format!("`{key}` is not a valid key"))?;
    change.insert(last.to_owned(), value);
    for part in parts {
        change = Table::from_iter([(part.to_owned(), Value::Table(change))]);
    }
    merge(table, change);
    Ok(())
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

fn shown(value: &Value) -> String {
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

#[cfg(test)]
mod tests;
