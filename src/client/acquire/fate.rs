//! Decides from a failed request whether a session still exists. Pure.

use crate::api::CallError;
use crate::failure::Failure;
use crate::holders;
use crate::problem::Problem;

#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has ended: in words, why.
    Lost(String),
    /// Nothing is known: the server is out of reach, or refuses for now.
    Unclear(String),
    /// The server refuses for good. That says nothing about the session.
    Refused(Failure),
}

pub fn fate(error: CallError) -> Fate {
    match error {
        CallError::NoAnswer(no_answer) => Fate::Unclear(no_answer.words),
        CallError::Failure(Failure::Unreachable(words) | Failure::Locked(words)) => Fate::Unclear(words),
        CallError::Failure(failure) => Fate::Refused(failure),
        CallError::Problem(problem) => fate_of(*problem),
    }
}

fn fate_of(problem: Problem) -> Fate {
    if !problem.is_ours() {
        return Fate::Unclear(problem.to_string());
    }
    match (problem.status, problem.code.as_str()) {
        (409, "session_overridden" | "session_expired" | "session_released") => {
            Fate::Lost(holders::lost_in_words(&problem.body).unwrap_or_else(|| problem.to_string()))
        }
        (409, "stale_fencing_token") => Fate::Lost(format!("the lock is lost: {problem}")),
        // Deleted, with everything in it.
        (404, "session_not_found" | "environment_not_found" | "pipeline_not_found" | "organization_not_found") => {
            Fate::Lost(format!("the lock is lost: {problem}"))
        }
        (409, "idempotency_key_in_flight") | (429 | 500..=599, _) => Fate::Unclear(problem.to_string()),
        (_, _) => Fate::Refused(problem.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::connection::link::NoAnswer;

    fn of(status: u16, code: &str) -> Fate {
        let body = json!({ "status": status, "code": code, "detail": "why" }).to_string();
        let problem = Problem::read(status, "application/problem+json", None, body.as_bytes());
        fate(CallError::Problem(Box::new(problem)))
    }

    #[test]
    fn only_the_server_itself_can_say_that_a_lock_is_lost() {
        for (status, code) in [(409, "session_overridden"), (409, "stale_fencing_token"), (404, "session_not_found")] {
            assert!(matches!(of(status, code), Fate::Lost(_)), "{code}");
        }
        let page = Problem::read(404, "text/html", None, b"<h1>Not found</h1>");
        assert!(matches!(fate(CallError::Problem(Box::new(page))), Fate::Unclear(_)));
    }

    #[test]
    fn trouble_with_the_server_says_nothing_about_the_lock() {
        for (status, code) in [(429, "rate_limited"), (500, "internal_error"), (503, "shutting_down")] {
            assert!(matches!(of(status, code), Fate::Unclear(_)), "{code}");
        }
        let silence = NoAnswer::lost("no answer".to_owned());
        assert_eq!(fate(CallError::NoAnswer(silence)), Fate::Unclear("no answer".to_owned()));
    }

    #[test]
    fn a_token_that_is_refused_does_not_take_the_lock() {
        assert!(matches!(of(401, "invalid_token"), Fate::Refused(Failure::Denied(_))));
        assert!(matches!(of(422, "invalid_request"), Fate::Refused(Failure::Usage(_))));
    }
}
