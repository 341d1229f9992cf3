//! The holder of an environment in words, with time and reason: for refusals, tables and progress.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::output::text::harmless;
use super::output::times;

/// The context of a holder in one line of text.
const CONTEXT_SHOWN_MAX: usize = 80;

/// The holders in `409 environment_locked`, by name or by label.
pub fn locked_in_words(problem: &Map<String, Value>) -> Option<String> {
    let now = Timestamp::now();
    let queue = match problem.get("queueLength").and_then(Value::as_u64) {
        Some(0) | None => String::new(),
        Some(1) => "; 1 session waits".to_owned(),
        Some(length) => format!("; {length} sessions wait"),
    };
    if let Some(holder) = problem.get("holder").filter(|holder| !holder.is_null()) {
        return Some(format!("locked: {}{queue}", holder_in_words(holder, now)?));
    }
    let holders = problem.get("holders")?.as_array()?;
    let mut words = format!("all environments with these labels are locked{queue}");
    for holder in holders {
        let name = harmless(holder.get("envName")?.as_str()?);
        words.push_str(&format!("\n  {name}: {}", holder_in_words(holder, now)?));
    }
    Some(words)
}

/// `ana has held it for 3 min ("PR 412"), expires in 9 min`.
pub fn holder_in_words(holder: &Value, now: Timestamp) -> Option<String> {
    let name = harmless(holder.get("user")?.get("name")?.as_str()?);
    let held = times::since(holder.get("claimedAt")?.as_str()?, now)?;
    let expires = match holder.get("expiresAt").and_then(Value::as_str).and_then(|at| times::until(at, now)) {
        Some(left) => format!("expires in {left} unless extended"),
        None => "never expires by itself".to_owned(),
    };
    Some(format!("{name} has held it for {held}{}, {expires}", context_in_words(holder)))
}

fn context_in_words(holder: &Value) -> String {
    match holder.get("context").and_then(Value::as_str) {
        None | Some("") => String::new(),
        Some(context) => {
            let context = harmless(context);
            match context.char_indices().nth(CONTEXT_SHOWN_MAX) {
                Some((cut, _)) => format!(" ({}…)", &context[..cut]),
                None => format!(" ({context})"),
            }
        }
    }
}

/// Who ended a session that no longer holds the lock, and when. The fields are the same in a session and in problems
/// such as `session_overridden`.
pub fn lost_in_words(ended: &Map<String, Value>) -> Option<String> {
    let at = ended.get("endedAt")?.as_str()?;
    let ago = times::since(at, Timestamp::now())?;
    let by = ended.get("endedBy").and_then(|by| by.get("name")).and_then(Value::as_str).map(harmless);
    let status = ended.get("code").or_else(|| ended.get("lockStatus")).and_then(Value::as_str)?;
    let how = match (status.trim_start_matches("session_"), by) {
        ("overridden", Some(by)) => format!("{by} force-claimed the environment"),
        ("overridden", None) => "somebody force-claimed the environment".to_owned(),
        ("released", Some(by)) => format!("{by} released the session"),
        ("expired", _) => "the session expired".to_owned(),
        (_, _) => "the session was released".to_owned(),
    };
    Some(format!("the lock is lost: {how} {ago} ago, at {}", harmless(at)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_holder_is_described_by_name_time_and_reason() {
        let now = at("2026-11-15T10:03:00Z");
        let mut holder = json!({
            "user": { "name": "ana" }, "context": "PR 412", "claimedAt": "2026-11-15T10:00:00.000Z", "expiresAt": "2026-11-15T10:12:30.000Z",
        });
        assert_eq!(
            holder_in_words(&holder, now).unwrap(),
            "ana has held it for 3 min (PR 412), expires in 9 min unless extended"
        );
        (holder["context"], holder["expiresAt"]) = (json!(null), json!(null));
        assert_eq!(holder_in_words(&holder, now).unwrap(), "ana has held it for 3 min, never expires by itself");
    }

    #[test]
    fn of_a_pool_each_holder_is_named() {
        let holder = json!({ "envName": "review-3", "user": { "name": "ben" }, "claimedAt": "2026-11-15T10:00:00Z" });
        let problem = json!({ "holder": null, "holders": [holder], "queueLength": 2 });
        let words = locked_in_words(problem.as_object().unwrap()).unwrap();
        assert!(
            words.starts_with("all environments with these labels are locked; 2 sessions wait\n  review-3: ben"),
            "{words}"
        );
    }

    #[test]
    fn a_lost_lock_names_its_taker() {
        let problem = json!({ "code": "session_overridden", "endedAt": "2026-11-15T10:00:00.000Z", "endedBy": { "name": "ben" } });
        let words = lost_in_words(problem.as_object().unwrap()).unwrap();
        assert!(words.starts_with("the lock is lost: ben force-claimed the environment "), "{words}");
        assert!(words.ends_with(" ago, at 2026-11-15T10:00:00.000Z"), "{words}");
    }
}
