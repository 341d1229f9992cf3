//! A session as the client knows it, the heartbeat that proves that the session holds the lock, and whether the session
//! still exists after a failed request.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Answer, Api, Call};
use crate::failure::{CallError, Failure};
use crate::output::text_of;
use crate::steady::Moment;

/// One session, created from the answer to a claim.
#[derive(Debug, Clone)]
pub struct Session {
    pub pipeline: String,
    /// The session in the server's last answer.
    pub data: Value,
}

/// A session that holds the lock, as a heartbeat has just confirmed.
#[derive(Debug, Clone)]
pub struct Acquired {
    pub session: Session,
    pub beat: Beat,
}

/// A heartbeat that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// The time before the request: the lease lasts at least its TTL from here.
    pub sent: Moment,
    /// The remaining time of the lease by the server's clock, to the second.
    pub left: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    Queued { place: Option<u64> },
    Active,
    Ended,
}

impl Session {
    pub fn id(&self) -> &str {
        text_of(&self.data, "sessionId")
    }

    /// Empty while the session waits for any environment.
    pub fn environment(&self) -> &str {
        text_of(&self.data, "envName")
    }

    pub fn fencing_token(&self) -> Option<u64> {
        self.data["fencingToken"].as_u64()
    }

    /// The path below the organization. Without an environment, the session is addressed through the pipeline.
    pub fn path(&self) -> String {
        let of_pipeline = format!("/pipelines/{}/ephemeral-environments", self.pipeline);
        match self.environment() {
            "" => format!("{of_pipeline}/sessions/{}", self.id()),
            environment => format!("{of_pipeline}/{environment}/sessions/{}", self.id()),
        }
    }

    /// Releases the lock, or leaves the queue.
    pub async fn release(&self, api: &Api, patience: Duration, timeout: Duration) -> Result<(), CallError> {
        let call = api.call(Method::DELETE, &self.path());
        api.send(Call { patience, timeout, ..call }).await.map(drop)
    }

    pub fn standing(&self) -> Standing {
        match text_of(&self.data, "lockStatus") {
            "queued" => Standing::Queued { place: self.data["queuePosition"].as_u64() },
            "active" => Standing::Active,
            _ => Standing::Ended,
        }
    }
}

/// Renews the lease, once. Without an idempotency key, since a repeated answer would renew nothing. Sends the fencing
/// token, so that a session restored from a backup is not mistaken for this one.
pub async fn heartbeat(api: &Api, session: &mut Session, timeout: Duration) -> Result<Beat, CallError> {
    let path = format!("{}/heartbeat", session.path());
    let body = json!({ "fencingToken": session.fencing_token() });
    let call = Call { body: Some(body), patience: Duration::ZERO, timeout, ..api.call(Method::POST, &path) };
    let sent = Moment::now();
    let answer = api.send(call).await?;
    let left = left(&answer);
    session.data = answer.data;
    Ok(Beat { sent, left })
}

fn left(answer: &Answer) -> Option<Duration> {
    let expires: Timestamp = answer.data["expiresAt"].as_str()?.parse().ok()?;
    let now = rfc2822::parse(answer.date.as_deref()?).ok()?.timestamp();
    Some(expires.duration_since(now).try_into().unwrap_or_default())
}

#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// The session has ended, for this reason in words.
    Lost(String),
    /// Unknown: the server is unreachable, or refuses temporarily.
    Unclear(String),
    /// The server refuses permanently, which says nothing about the session.
    Refused(Failure),
}

pub fn fate(error: CallError) -> Fate {
    let problem = match error {
        CallError::NoConnection(words) | CallError::NoAnswer(words) => return Fate::Unclear(words),
        CallError::Failure(Failure::Unreachable(words) | Failure::Locked(words)) => return Fate::Unclear(words),
        CallError::Failure(failure) => return Fate::Refused(failure),
        CallError::Problem(problem) => problem,
    };
    if !problem.is_ours() {
        return Fate::Unclear(problem.to_string());
    }
    if let Some(words) = problem.lost_lock() {
        return Fate::Lost(words);
    }
    match (problem.status, problem.code.as_str()) {
        (409, "stale_fencing_token") => Fate::Lost(format!("the lock is lost: {problem}")),
        // The resource was deleted, with everything in it.
        (404, "session_not_found" | "environment_not_found" | "pipeline_not_found" | "organization_not_found") => {
            Fate::Lost(format!("the lock is lost: {problem}"))
        }
        (409, "idempotency_key_in_flight") | (429 | 500..=599, _) => Fate::Unclear(problem.to_string()),
        (_, _) => Fate::Refused((*problem).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::failure::Problem;

    #[test]
    fn the_rest_of_a_lease_is_told_by_the_clock_of_the_server_alone() {
        let answer = Answer {
            status: 200,
            data: json!({ "expiresAt": "2026-11-15T10:01:00.500Z" }),
            pagination: Value::Null,
            etag: None,
            date: Some("Sun, 15 Nov 2026 10:00:00 GMT".to_owned()),
        };
        assert_eq!(left(&answer), Some(Duration::from_millis(60_500)));
        let unlimited = Answer { data: json!({ "expiresAt": null }), ..answer.clone() };
        assert_eq!(left(&unlimited), None);
        assert_eq!(left(&Answer { date: None, ..answer }), None);
    }

    #[test]
    fn a_session_is_found_below_its_environment_or_else_below_its_pipeline() {
        let mut session =
            Session { pipeline: "web".to_owned(), data: json!({ "sessionId": "ses_1", "envName": null }) };
        assert_eq!(session.path(), "/pipelines/web/ephemeral-environments/sessions/ses_1");
        session.data["envName"] = json!("review-1");
        assert_eq!(session.path(), "/pipelines/web/ephemeral-environments/review-1/sessions/ses_1");
    }

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
        let silence = CallError::NoAnswer("no answer".to_owned());
        assert_eq!(fate(silence), Fate::Unclear("no answer".to_owned()));
    }

    #[test]
    fn a_token_that_is_refused_does_not_take_the_lock() {
        assert!(matches!(of(401, "invalid_token"), Fate::Refused(Failure::Denied(_))));
        assert!(matches!(of(422, "invalid_request"), Fate::Refused(Failure::Usage(_))));
    }
}
