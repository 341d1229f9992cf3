//! An event in words, for people.

use serde_json::{Map, Value};

use crate::output::Out;
use crate::output::paint::Style;
use crate::output::text::harmless;
use crate::output::times;

/// Wide enough for most; a longer one moves the rest of its line.
const TYPE_WIDTH: usize = 20;
const PLACE_WIDTH: usize = 16;
const ACTOR_WIDTH: usize = 8;

/// An event, cut into the columns of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWords {
    /// As the server wrote it.
    pub at: String,
    pub event_type: String,
    /// Pipeline and environment, as far as it has them.
    pub place: String,
    pub actor: String,
    pub details: String,
}

impl EventWords {
    pub fn of(event: &Value) -> Self {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let place = match (event["pipelineId"].as_str(), event["envName"].as_str()) {
            (Some(pipeline), Some(environment)) => format!("{pipeline}/{environment}"),
            (pipeline, environment) => pipeline.or(environment).unwrap_or_default().to_owned(),
        };
        let actor = event["actor"]["name"].as_str().or(event["actor"]["kind"].as_str()).unwrap_or_default();
        Self { at: text("at"), event_type: text("type"), place, actor: actor.to_owned(), details: details(event) }
    }

    /// For a list that grows, whose widths nobody knows.
    pub fn line(&self, out: &Out) -> String {
        self.after(&out.paint(&times::clock(&self.at), Style::Dim))
    }

    /// The same without colours, and without the date, for the events of the last minutes.
    pub fn brief(&self) -> String {
        let clock = times::clock(&self.at);
        self.after(clock.split(' ').next_back().unwrap_or_default())
    }

    fn after(&self, time: &str) -> String {
        let [event_type, place, actor] = [&self.event_type, &self.place, &self.actor].map(|text| harmless(text));
        let line = format!("{time}  {event_type:TYPE_WIDTH$}  {place:PLACE_WIDTH$}  {actor:ACTOR_WIDTH$}  ");
        format!("{line}{}", harmless(&self.details)).trim_end().to_owned()
    }
}

/// All that the event says of itself, and the ids to go on with: a type that is newer than this program is shown as well.
fn details(event: &Value) -> String {
    let none = Map::new();
    let data = event["data"].as_object().unwrap_or(&none);
    let mut parts: Vec<String> = data.iter().filter_map(|(name, value)| part(name, value)).collect();
    // A session is told by its environment; a deployment has a log to look at.
    if let Some(deployment) = event["deploymentId"].as_str() {
        parts.push(deployment.to_owned());
    }
    parts.join(", ")
}

fn part(name: &str, value: &Value) -> Option<String> {
    let value = match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    // The prefix of an id says already what it is.
    if name.ends_with("Id") && value.contains('_') { Some(value) } else { Some(format!("{} {value}", spaced(name))) }
}

/// `fencingToken` as `fencing token`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words.strip_suffix(" id").map(str::to_owned).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_says_who_did_what_where() {
        let words = EventWords::of(&json!({
            "eventId": "evt_1", "type": "session.claimed", "at": "2026-11-15T09:30:00.123Z",
            "actor": { "kind": "user", "userId": "usr_1", "name": "ana", "tokenId": "tok_1" },
            "pipelineId": "web", "envName": "review-1", "sessionId": "ses_1", "deploymentId": null,
            "data": { "fencingToken": 42, "commitId": "c0ffee1" },
        }));
        assert_eq!((&*words.place, &*words.actor), ("web/review-1", "ana"));
        assert_eq!(words.details, "commit c0ffee1, fencing token 42");
    }

    #[test]
    fn an_unknown_event_is_shown_too() {
        let words = EventWords::of(&json!({
            "type": "cluster.moved", "at": "2026-11-15T09:30:00.123Z", "actor": { "kind": "system", "name": null },
            "pipelineId": null, "envName": null, "deploymentId": "dep_1",
            "data": { "approvalId": "apr_1", "toNode": "b", "because": null, "parts": [1, 2] },
        }));
        assert_eq!((&*words.place, &*words.actor), ("", "system"));
        assert_eq!(words.details, "apr_1, parts [1,2], to node b, dep_1");
    }

    #[test]
    fn whatever_comes_is_shown() {
        for strange in [json!(null), json!([]), json!({ "data": 1, "actor": "x" })] {
            assert_eq!(EventWords::of(&strange).details, "", "{strange}");
        }
    }
}
