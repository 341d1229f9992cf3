//! Why a command failed: words for people, and an exit code for scripts that is the same for all commands. Derived from
//! an error answer of the server, or of a proxy in between.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::holders;
use super::output::text::{after_colon, harmless, items_of, shown_of, text_of};

/// The end of every command's help: examples, and the exit codes.
macro_rules! client_help {
    ($examples:literal) => {
        concat!(
            $examples,
            "\n\nExit codes: 0 done, 1 failed, 2 invalid usage, 66 not found, 69 server out of reach, 75 locked or refused \
             for now, 77 denied, 79 lock lost, 124 not granted in time."
        )
    };
}
pub(crate) use client_help;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A wrong argument, or a value that the server does not accept.
    Usage(String),
    NotFound(String),
    /// The server, or a proxy in front of it, did not answer as Lockkeeper does.
    Unreachable(String),
    /// Taken by somebody else, or temporarily refused: a later attempt may succeed.
    Locked(String),
    Denied(String),
    /// The session no longer holds the lock.
    LockLost(String),
    NotGrantedInTime(String),
    Failed(String),
    /// The reader of our output has gone, as in `| head -1`. Not reported.
    OutputClosed,
    /// The code of a command that ran, or of a signal, without a message.
    Exit(u8),
}

impl Failure {
    /// Documented in docs/command-line.md and in every `--help`. Codes of `sysexits.h` where possible; 124 as in
    /// `timeout`.
    pub fn code(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Exit(code) => *code,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotFound(_) => 66,
            Failure::Unreachable(_) => 69,
            Failure::Locked(_) => 75,
            Failure::Denied(_) => 77,
            Failure::LockLost(_) => 79,
            Failure::NotGrantedInTime(_) => 124,
        }
    }

    /// The exit code of shells after a signal.
    pub fn of_signal(signal: i32) -> Self {
        Failure::Exit(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }
}

/// The result of a deployment; none while it is unfinished.
pub fn deployment_result(deployment: &Value) -> Option<Result<(), Failure>> {
    let how = match text_of(deployment, "status") {
        "succeeded" => return Some(Ok(())),
        "failed" => "failed",
        "cancelled" => "was cancelled",
        _ => return None,
    };
    let (commit, why) = (shown_of(deployment, "commitId"), after_colon(deployment, "error"));
    Some(Err(Failure::Failed(format!("the deployment of {commit} {how}{why}"))))
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(words)
            | Failure::NotFound(words)
            | Failure::Unreachable(words)
            | Failure::Locked(words)
            | Failure::Denied(words)
            | Failure::LockLost(words)
            | Failure::NotGrantedInTime(words)
            | Failure::Failed(words) => formatter.write_str(words),
            Failure::OutputClosed | Failure::Exit(_) => Ok(()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        if !problem.is_ours() {
            return Failure::Unreachable(problem.to_string());
        }
        let words = problem.to_string();
        if let Some(words) = problem.lost_lock() {
            return Failure::LockLost(words);
        }
        match (problem.status, problem.code.as_str()) {
            (409, "environment_locked") => Failure::Locked(holders::locked_in_words(&problem.body).unwrap_or(words)),
            (409, "environment_resetting") => Failure::Locked(words),
            (400 | 422, _) => Failure::Usage(words),
            (401 | 403, _) => Failure::Denied(words),
            (404, _) => Failure::NotFound(words),
            // Not a temporary refusal: somebody must act, or the server is restarting.
            (503, "shutting_down" | "storage_full" | "outcome_unknown") => Failure::Unreachable(words),
            (429 | 503, _) => Failure::Locked(format!("refused for now: {words}")),
            (500..=599, _) => Failure::Unreachable(words),
            (_, _) => Failure::Failed(words),
        }
    }
}

/// Why a request brought no result.
#[derive(Debug, Clone)]
pub enum CallError {
    /// The server refused.
    Problem(Box<Problem>),
    /// There was no connection, so nothing was sent.
    NoConnection(String),
    /// Unknown whether the request was executed.
    NoAnswer(String),
    /// The request could not be attempted, and another attempt would fail too.
    Failure(Failure),
}

impl CallError {
    /// Whether the same request may succeed later. `repeatable`: sending it again is harmless.
    pub fn is_passing(&self, repeatable: bool) -> bool {
        match self {
            CallError::Problem(problem) => match (problem.status, problem.code.as_str()) {
                (409, "idempotency_key_in_flight") | (429, _) => true,
                // From a proxy, or from a server that is stopping: it may have been executed.
                (502..=504, _) => repeatable,
                (_, _) => false,
            },
            CallError::NoConnection(_) => true,
            CallError::NoAnswer(_) => repeatable,
            CallError::Failure(_) => false,
        }
    }

    /// How long the server asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Problem(problem) => problem.retry_after,
            CallError::NoConnection(_) | CallError::NoAnswer(_) | CallError::Failure(_) => None,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Problem(problem) => write!(formatter, "{problem}"),
            CallError::NoConnection(words) | CallError::NoAnswer(words) => formatter.write_str(words),
            CallError::Failure(failure) => write!(formatter, "{failure}"),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Problem(problem) => (*problem).into(),
            CallError::NoConnection(words) | CallError::NoAnswer(words) => Failure::Unreachable(words),
            CallError::Failure(failure) => failure,
        }
    }
}

/// The maximum length of a quoted page: enough to recognise one that is not Lockkeeper's.
const FOREIGN_TEXT_MAX: usize = 200;

#[derive(Debug, Clone)]
pub struct Problem {
    pub status: u16,
    /// A stable code, like `environment_locked`; empty if the answer is not Lockkeeper's.
    pub code: String,
    /// The reason, and what to do next, in words for people.
    pub detail: String,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The whole answer, with members such as `holder`.
    pub body: Value,
}

impl fmt::Display for Problem {
    /// The detail, which says what to do, and each invalid field on a separate line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = items_of(&self.body["errors"]).iter();
        let errors = listed.filter_map(|error| Some((error["field"].as_str()?, error["message"].as_str()?)));
        let errors: Vec<(&str, &str)> = errors.collect();
        if errors.len() < 2 {
            return formatter.write_str(&harmless(&self.detail));
        }
        formatter.write_str("the server does not accept this:")?;
        errors
            .iter()
            .try_for_each(|(field, message)| write!(formatter, "\n  {} {}", harmless(field), harmless(message)))
    }
}

impl Problem {
    pub fn read(status: u16, content_type: &str, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let fields: Value = serde_json::from_slice(body).unwrap_or_default();
        if let (Some(code), Some(detail)) = (fields["code"].as_str(), fields["detail"].as_str()) {
            let (code, detail) = (code.to_owned(), detail.to_owned());
            let seconds = fields["retryAfterSeconds"].as_u64().map(Duration::from_secs);
            return Self { status, code, detail, retry_after: retry_after.or(seconds), body: fields };
        }
        let shown = visible_text(&String::from_utf8_lossy(body));
        let shown = if shown.is_empty() { content_type.to_owned() } else { shown };
        let detail = format!(
            "the answer with status {status} is not Lockkeeper's: {shown}; check the address, and what stands between here \
             and the server"
        );
        Self { status, code: String::new(), detail, retry_after, body: Value::Null }
    }

    /// Whether the answer is from Lockkeeper itself.
    pub fn is_ours(&self) -> bool {
        !self.code.is_empty()
    }

    /// The words for a session that has ended and no longer holds the lock, if that is the reason.
    pub fn lost_lock(&self) -> Option<String> {
        let is_lost = matches!(self.code.as_str(), "session_overridden" | "session_expired" | "session_released");
        let words = || holders::lost_in_words(&self.body).unwrap_or_else(|| self.to_string());
        (self.status == 409 && is_lost).then(words)
    }
}

/// The text of a page without its tags, shortened.
fn visible_text(page: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for character in page.chars() {
        match character {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(character),
            _ => {}
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(FOREIGN_TEXT_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(status: u16, body: Value) -> Failure {
        Problem::read(status, "application/problem+json", None, body.to_string().as_bytes()).into()
    }

    #[test]
    fn every_problem_has_its_exit_code() {
        for (status, code, exit) in [
            (400, "invalid_parameter", 2),
            (422, "invalid_request", 2),
            (401, "invalid_token", 77),
            (403, "permission_denied", 77),
            (404, "environment_not_found", 66),
            (409, "environment_locked", 75),
            (409, "environment_resetting", 75),
            (409, "environment_disabled", 1),
            (409, "session_overridden", 79),
            (409, "session_expired", 79),
            (409, "session_released", 79),
            (412, "precondition_failed", 1),
            (429, "rate_limited", 75),
            (503, "overloaded", 75),
            (503, "shutting_down", 69),
            (500, "internal_error", 69),
        ] {
            let failure = failure(status, json!({ "status": status, "code": code, "detail": "why" }));
            assert_eq!(failure.code(), exit, "{code}: {failure:?}");
        }
    }

    #[test]
    fn the_answer_of_something_else_means_that_the_server_is_out_of_reach() {
        for status in [200, 401, 403, 404, 502] {
            let failure: Failure =
                Problem::read(status, "text/html", None, b"<html><h1>Sign in</h1> to our proxy</html>").into();
            assert_eq!(failure.code(), 69, "{failure:?}");
            assert!(failure.to_string().contains("Sign in to our proxy"), "{failure}");
        }
    }

    #[test]
    fn all_faults_of_a_request_are_listed() {
        let errors =
            json!([{ "field": "ttlSeconds", "message": "must be at most 5" }, { "field": "context", "message": "x" }]);
        let body = json!({ "status": 422, "code": "invalid_request", "detail": "two", "errors": errors });
        assert_eq!(
            failure(422, body),
            Failure::Usage("the server does not accept this:\n  ttlSeconds must be at most 5\n  context x".to_owned())
        );
    }

    #[test]
    fn control_characters_of_an_answer_do_not_reach_the_terminal() {
        let body = json!({ "status": 404, "code": "environment_not_found", "detail": "no \u{1b}[2Jsuch" });
        assert_eq!(failure(404, body).to_string(), "no \u{fffd}[2Jsuch");
    }

    #[test]
    fn a_page_is_shown_by_its_words() {
        let page = "<!doctype html><html><head><title>502 Bad Gateway</title></head>\n<body>nginx</body></html>";
        assert_eq!(visible_text(page), "502 Bad Gateway nginx");
    }

    fn refused(status: u16, code: &str) -> CallError {
        let body = json!({ "status": status, "code": code, "detail": "why" }).to_string();
        CallError::Problem(Box::new(Problem::read(status, "application/problem+json", None, body.as_bytes())))
    }

    #[test]
    fn nothing_is_sent_twice_that_could_be_executed_twice() {
        for error in [CallError::NoAnswer(String::new()), refused(503, ""), refused(504, "")] {
            assert!(error.is_passing(true) && !error.is_passing(false), "{error:?}");
        }
        assert!(CallError::NoConnection(String::new()).is_passing(false));
        assert!(refused(429, "rate_limited").is_passing(false));
    }

    #[test]
    fn a_refusal_that_stays_is_not_repeated() {
        for (status, code) in
            [(400, "invalid_parameter"), (404, "x"), (409, "environment_locked"), (500, "internal_error")]
        {
            assert!(!refused(status, code).is_passing(true), "{code}");
        }
    }

    #[test]
    fn whatever_comes_is_a_problem() {
        for body in [&b""[..], b"null", b"[]", b"{}", b"\xff\xfe", b"{\"code\": 1}", b"<", b">"] {
            let problem = Problem::read(502, "text/plain", None, body);
            assert!(!problem.is_ours() && problem.detail.contains("502"), "{problem:?}");
        }
    }
}
