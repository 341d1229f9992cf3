//! One request to a receiver: signed, with a time limit, to an address that the policy permits. Never follows
//! redirects, and never uses a proxy from the server's environment.

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use reqwest::{Request, Response, StatusCode};

use super::delivery::{Attempt, parse_retry_after};
use super::signature::{WebhookSecret, signature};
use super::webhook::Target;
use domain::Timestamp;
use outbound::{GuardedClient, NoResponse, Policy, PolicyError, error_chain};

const AGENT: &str = concat!("lockkeeper/", env!("CARGO_PKG_VERSION"));
/// The maximum wait for the body once the status is known. The body does not change the outcome.
const BODY_WITHIN: Duration = Duration::from_secs(2);
/// An answer is read up to this length, so that most receivers are not cut off while they answer.
const BODY_READ: usize = 4 * 1024;
/// The number of bytes of the body that are kept.
const EXCERPT: usize = 1024;

pub struct Client {
    http: GuardedClient,
    timeout: Duration,
}

pub struct Message<'a> {
    pub target: &'a Target,
    /// The id for the receiver, the same for every attempt.
    pub id: &'a str,
    pub body: Vec<u8>,
    pub secrets: &'a [WebhookSecret],
    pub now: Timestamp,
}

pub struct Sent {
    pub attempt: Attempt,
    pub outcome: Outcome,
    /// Why there was no answer; only for the operator's log.
    pub reason: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
struct NoAnswer {
    /// The text for the webhook's owner.
    told: String,
    /// The text for the operator's log.
    reason: String,
    /// Whether the owner may know how long the attempt took.
    is_timed: bool,
}

impl NoAnswer {
    fn plain(told: String) -> Self {
        Self { reason: told.clone(), told, is_timed: true }
    }

    /// A webhook's owner learns more than that there was no answer only for public addresses. They must not find out
    /// whether another host in the server's network refuses connections, hangs or does not exist.
    fn from(why: NoResponse, host: &str) -> Self {
        match why {
            NoResponse::Public(reason) => Self::plain(format!("there was no answer: {reason}")),
            NoResponse::Hidden(reason) => {
                Self { told: format!("{host} {}", PolicyError::ADVICE), reason, is_timed: false }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Delivered,
    /// The receiver wants no more deliveries.
    Gone,
    Failed {
        retry_after: Option<Duration>,
    },
}

impl Client {
    pub fn new(policy: Policy, timeout: Duration) -> Self {
        Self { http: GuardedClient::new(policy), timeout }
    }

    pub async fn send(&self, message: Message<'_>) -> Sent {
        let (at, began) = (message.now, Instant::now());
        let answered = self.exchange(message).await;
        let millis = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let attempt = |millis, code, error, excerpt| Attempt { at, millis, code, error, excerpt };
        match answered {
            Ok(answer) => {
                let (outcome, error) = judge(&answer);
                let attempt = attempt(millis, Some(answer.status.as_u16()), error, answer.excerpt);
                Sent { attempt, outcome, reason: None }
            }
            Err(NoAnswer { told, reason, is_timed }) => Sent {
                attempt: attempt(if is_timed { millis } else { 0 }, None, Some(told), String::new()),
                outcome: Outcome::Failed { retry_after: None },
                reason: Some(reason),
            },
        }
    }

    async fn exchange(&self, message: Message<'_>) -> Result<Answer, NoAnswer> {
        let (target, now) = (message.target, message.now);
        let request = self.request(message).map_err(NoAnswer::plain)?;
        let answered = self.http.execute(request, Some(self.timeout)).await;
        let response = answered.map_err(|why| NoAnswer::from(why, &target.host()))?;
        Ok(Answer::read(response, now).await)
    }

    fn request(&self, message: Message<'_>) -> Result<Request, String> {
        let seconds = message.now.as_millis().div_euclid(1_000);
        let signature = signature(message.secrets, message.id, seconds, &message.body);
        let unprepared = |error: String| format!("the request could not be prepared: {error}");
        let request = self.http.get().map_err(unprepared)?.post(message.target.url().clone());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT)
            .header("webhook-id", message.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(message.body);
        request.build().map_err(|error| unprepared(error_chain(&error.without_url())))
    }
}

struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    excerpt: String,
}

impl Answer {
    async fn read(mut response: Response, now: Timestamp) -> Self {
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| parse_retry_after(text, now.as_millis()));
        let status = response.status();
        let mut body = Vec::new();
        // If the body breaks off or takes too long, the status is already known.
        tokio::time::timeout(BODY_WITHIN, read_body(&mut response, &mut body)).await.ok();
        Self { status, retry_after, excerpt: excerpt(&body) }
    }
}

async fn read_body(response: &mut Response, body: &mut Vec<u8>) {
    while body.len() < BODY_READ
        && let Ok(Some(piece)) = response.chunk().await
    {
        let room = BODY_READ - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

/// The outcome of an answer, and the reason if it counts as a failure.
fn judge(answer: &Answer) -> (Outcome, Option<String>) {
    let status = answer.status;
    if status.is_success() {
        return (Outcome::Delivered, None);
    }
    let code = status.as_u16();
    if status.is_redirection() {
        let error = format!("it was answered with a redirect ({code}), which is not followed; set the URL it leads to");
        return (Outcome::Failed { retry_after: None }, Some(error));
    }
    let error = Some(format!("it was answered with status {code}"));
    match status {
        StatusCode::GONE => (Outcome::Gone, error),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            (Outcome::Failed { retry_after: answer.retry_after }, error)
        }
        _ => (Outcome::Failed { retry_after: None }, error),
    }
}

/// The beginning of an answer as text that can be shown anywhere.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    let cleaned: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    // Removes a character that was cut in half.
    let whole = if body.len() > EXCERPT { cleaned.trim_end_matches('\u{fffd}') } else { &cleaned };
    whole.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> Answer {
        let status = StatusCode::from_u16(code).unwrap_or_default();
        Answer { status, retry_after: Some(Duration::from_secs(7)), excerpt: String::new() }
    }

    #[test]
    fn only_a_success_counts_as_arrived() {
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(judge(&answer(code)), (Outcome::Delivered, None), "{code}");
        }
        for code in [300, 301, 302, 307, 308, 400, 401, 404, 500, 502, 504] {
            let (outcome, error) = judge(&answer(code));
            assert_eq!(outcome, Outcome::Failed { retry_after: None }, "{code}");
            assert!(error.is_some_and(|error| error.contains(&code.to_string())), "{code}");
        }
        assert_eq!(judge(&answer(410)).0, Outcome::Gone);
        for code in [429, 503] {
            let asked_for = Some(Duration::from_secs(7));
            assert_eq!(judge(&answer(code)).0, Outcome::Failed { retry_after: asked_for }, "{code}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_harmless() {
        assert_eq!(excerpt(b"no\r\nway\x1b[31m\0\n"), "no \nway [31m");
        assert_eq!(excerpt(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(excerpt("ä".repeat(4_000).as_bytes()), "ä".repeat(EXCERPT / 2));
        let odd = format!("x{}", "ä".repeat(4_000));
        assert_eq!(excerpt(odd.as_bytes()), format!("x{}", "ä".repeat(EXCERPT / 2 - 1)));
    }
}
