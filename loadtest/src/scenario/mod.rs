//! The form of a scenario: a TOML file with the settings common to all workloads (rounds, seconds, connections, the
//! loop), those of its kind of workload, and in `[short]` the values for a short run that only shows that the scenario
//! works.

use std::path::Path;

use toml::{Table, Value};

use crate::settings::{Common, fault, shown};
use crate::workloads::Workload;

const SHORT: &str = "short";

#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub common: Common,
    pub workload: Workload,
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

/// Returns name, file and text.
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
    // Both forms are checked, whichever is used, so that a mistake in the unused one is noticed.
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

/// Whether any number of the scenario is smaller than in the file: seconds, rounds, connections, waiters. Settings of
/// the server do not count.
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

fn interpret(name: &str, table: Table) -> Result<Scenario, String> {
    let told_otherwise = ["description", "kind", "examines"];
    let asked = table.iter().filter(|(key, _)| !told_otherwise.contains(&key.as_str()));
    let written = asked.map(|(key, value)| (key.clone(), shown(value))).collect();
    let common: Common = table.try_into().map_err(|error| fault(&error))?;
    let mut common = Common { written, ..common };
    common.check()?;
    let workload = Workload::parse(&common.kind, std::mem::take(&mut common.of_kind))?;
    workload.check(&common)?;
    Ok(Scenario { name: name.to_owned(), common, workload })
}

fn merge(into: &mut Table, overrides: Table) {
    for (key, value) in overrides {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(fresh)) => merge(known, fresh),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

/// Sets a key such as `a.b` to a value in TOML; a bare word is a string.
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

#[cfg(test)]
mod tests;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        const ALL: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*];
    };
}

scenarios!(
    "cycle",
    "hot",
    "stampede",
    "deploy-storm",
    "force-claim-race",
    "readers",
    "many-environments",
    "long-queue",
    "neighbour",
    "restart",
    "churn",
    "soak",
    "history",
    "disk",
    "failover",
);

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The text of a built-in scenario.
pub fn embedded(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
