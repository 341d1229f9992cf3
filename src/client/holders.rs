//! The holder of an environment in words, with time and reason: for refusals, tables and progress.

use jiff::Timestamp;
use serde_json::Value;

use super::output::text::harmless;
use super::output::{text_of, times};

/// The context of a holder in one line of text.
const CONTEXT_SHOWN_MAX: usize = 80;

/// The holders in `409 environment_locked`, by name or by label.
pub fn locked_in_words(problem: &Value) -> Option<String> {
    let now = Timestamp::now();
    let queue = match problem["queueLength"].as_u64() {
        Some(0) | None => String::new(),
        Some(1) => "; 1 session waits".to_owned(),
        Some(length) => format!("; {length} sessions wait"),
    };
    if !problem["holder"].is_null() {
        return Some(format!("locked: {}{queue}", holder_in_words(&problem["holder"], now)?));
    }
    let holders = problem["holders"].as_array()?;
    let mut words = format!("all environments with these labels are locked{queue}");
    for holder in holders {
        let name = harmless(holder["envName"].as_str()?);
        words.push_str(&format!("\n  {name}: {}", holder_in_words(holder, now)?));
    }
    Some(words)
}

/// For example `ana has held it for 3 min ("PR 412"), expires in 9 min`.
pub fn holder_in_words(holder: &Value, now: Timestamp) -> Option<String> {
    let name = harmless(holder["user"]["name"].as_str()?);
    let held = times::since(text_of(holder, "claimedAt"), now)?;
    let expires = match times::until(text_of(holder, "expiresAt"), now) {
        Some(left) => format!("expires in {left} unless extended"),
        None => "never expires on its own".to_owned(),
    };
    let context = harmless(text_of(holder, "context"));
    let context = match context.char_indices().nth(CONTEXT_SHOWN_MAX) {
        Some((cut, _)) => format!(" ({}…)", &context[..cut]),
        None if context.is_empty() => String::new(),
        None => format!(" ({context})"),
    };
    Some(format!("{name} has held it for {held}{context}, {expires}"))
}

/// Who ended a session that no longer holds the lock, and when. The fields are the same in a session and in problems
/// such as `session_overridden`.
pub fn lost_in_words(ended: &Value) -> Option<String> {
    let at = ended["endedAt"].as_str()?;
    let ago = times::since(at, Timestamp::now())?;
    let by = ended["endedBy"]["name"].as_str().map(harmless);
    let status = ended.get("code").or_else(|| ended.get("lockStatus"))?.as_str()?;
    let how = match (status.trim_start_matches("session_"), by) {
        ("overridden", Some(by)) => format!("{by} force-claimed the environment"),
        ("overridden", None) => "somebody force-claimed the environment".to_owned(),
        ("released", Some(by)) => format!("{by} released the session"),
        ("expired", _) => "the session expired".to_owned(),
        (_, _) => "the session was released".to_owned(),
    };
    Some(format!("the lock is lost: {how} {ago} ago, at {}", harmless(at)))
}

/// Like [`lost_in_words`], with a general text if who and when are not known.
pub fn end_in_words(session: &Value) -> String {
    lost_in_words(session).unwrap_or_else(|| "the session has ended".to_owned())
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
        assert_eq!(holder_in_words(&holder, now).unwrap(), "ana has held it for 3 min, never expires on its own");
    }

    #[test]
    fn of_a_pool_each_holder_is_named() {
        let holder = json!({ "envName": "review-3", "user": { "name": "ben" }, "claimedAt": "2026-11-15T10:00:00Z" });
        let problem = json!({ "holder": null, "holders": [holder], "queueLength": 2 });
        let words = locked_in_words(&problem).unwrap();
        assert!(
            words.starts_with("all environments with these labels are locked; 2 sessions wait\n  review-3: ben"),
            "{words}"
        );
    }

    #[test]
    fn a_lost_lock_names_its_taker() {
        let problem = json!({ "code": "session_overridden", "endedAt": "2026-11-15T10:00:00.000Z", "endedBy": { "name": "ben" } });
        let words = lost_in_words(&problem).unwrap();
        assert!(words.starts_with("the lock is lost: ben force-claimed the environment "), "{words}");
        assert!(words.ends_with(" ago, at 2026-11-15T10:00:00.000Z"), "{words}");
    }
}
