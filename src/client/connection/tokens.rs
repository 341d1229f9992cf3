//! The token of each request: a fixed one, or one that the server issues in exchange for the identity token of this
//! job, renewed before it expires.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::sync::Mutex;

use super::identity::IdentitySource;
use super::link::Link;
use super::secret::Secret;
use crate::failure::{CallError, Failure};
use crate::retry::{self, Retrying};
use crate::steady::Moment;

/// The source of the token for each request; asked every time, since the token may have to be renewed.
#[derive(Debug)]
pub enum TokenSource {
    /// A token from a variable, a file or a profile.
    Fixed(Secret),
    /// A token in exchange for the identity token of this job.
    Exchanged(Box<Exchange>),
}

impl TokenSource {
    /// `retrying` shows the reason for a delay.
    pub async fn token(&self, retrying: &Retrying) -> Result<Secret, Failure> {
        match self {
            TokenSource::Fixed(token) => Ok(token.clone()),
            TokenSource::Exchanged(exchange) => exchange.token(retrying).await,
        }
    }

    /// Called after the server has refused the token. Returns whether another attempt makes sense.
    pub async fn renew(&self, refused: &Secret, retrying: &Retrying) -> Result<bool, Failure> {
        match self {
            TokenSource::Fixed(_) => Ok(false),
            TokenSource::Exchanged(exchange) => exchange.renew(refused, retrying).await.map(|()| true),
        }
    }
}

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// A server that waits for the issuer's keys answers within ten seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// The delay after a failed renewal while the token still works, so that not every request waits for another attempt.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Exchange {
    source: IdentitySource,
    organization: String,
    link: Link,
    /// How long a renewal is attempted without a working token.
    patience: Duration,
    /// Locked during a renewal, so that concurrent requests share one exchange.
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    token: Secret,
    renew_at: Moment,
    expires_at: Moment,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Fresh,
    /// The token still works, but should be renewed.
    Aging,
    Expired,
}

impl Current {
    fn state(&self, now: Moment) -> State {
        if now >= self.expires_at {
            State::Expired
        } else if now >= self.renew_at {
            State::Aging
        } else {
            State::Fresh
        }
    }
}

impl Exchange {
    pub fn new(source: IdentitySource, organization: String, link: Link, patience: Duration) -> Self {
        Self { source, organization, link, patience, current: Mutex::new(None) }
    }

    pub async fn token(&self, retrying: &Retrying) -> Result<Secret, Failure> {
        let mut current = self.current.lock().await;
        let now = Moment::now();
        if let Some(known) = current.as_mut() {
            match known.state(now) {
                State::Fresh => return Ok(known.token.clone()),
                State::Aging => {
                    match self.attempt().await {
                        Ok(renewed) => *known = renewed,
                        // The old token still works.
                        Err(_) => known.renew_at = now.plus(TRIED_AGAIN_AFTER),
                    }
                    return Ok(known.token.clone());
                }
                State::Expired => {}
            }
        }
        let new = self.exchange(retrying).await?;
        Ok(current.insert(new).token.clone())
    }

    /// Replaces a token that the server has refused, unless another task already has.
    pub async fn renew(&self, refused: &Secret, retrying: &Retrying) -> Result<(), Failure> {
        let mut current = self.current.lock().await;
        if current.as_ref().is_none_or(|known| known.token == *refused) {
            *current = None;
            *current = Some(self.exchange(retrying).await?);
        }
        Ok(())
    }

    /// Tries until it succeeds or patience is over. Each exchange creates a token; one more is harmless.
    async fn exchange(&self, retrying: &Retrying) -> Result<Current, Failure> {
        retry::insist(self.patience, retrying, || self.attempt()).await.map_err(|error| match error {
            CallError::Problem(problem) if problem.code == "invalid_grant" => {
                Failure::Denied(format!("the server does not accept the identity token of this job: {problem}"))
            }
            CallError::Problem(problem) if problem.code == "issuer_unavailable" => {
                Failure::Unreachable(problem.to_string())
            }
            error => error.into(),
        })
    }

    async fn attempt(&self) -> Result<Current, CallError> {
        let identity = self.source.identity_token().await.map_err(|failure| match failure {
            // An unreadable file will stay unreadable; a CI may answer later.
            Failure::Unreachable(words) => CallError::NoConnection(words),
            failure => CallError::Failure(failure),
        })?;
        // The time before the request: the token may be that old when the answer arrives.
        let asked_at = Moment::now();
        let form = [("grant_type", GRANT_TYPE), ("subject_token_type", ID_TOKEN), ("subject_token", identity.reveal())];
        let path = format!("/api/v1/organizations/{}/tokens/exchange", self.organization);
        let request = self.link.request(Method::POST, &path).timeout(ANSWER_WITHIN);
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        let raw = self.link.send(request).await?;
        if raw.status != 200 {
            return Err(CallError::Problem(Box::new(raw.problem())));
        }
        granted(&raw.body, asked_at).ok_or_else(|| {
            let words = "the server has answered without a token; is this its address?";
            CallError::Failure(Failure::Unreachable(words.to_owned()))
        })
    }
}

/// Sets the renewal after three quarters of the lifetime, which leaves time to retry.
fn granted(body: &[u8], asked_at: Moment) -> Option<Current> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let token = Secret::new(answer["access_token"].as_str()?);
    let lives = Duration::from_secs(answer["expires_in"].as_u64()?);
    Some(Current { token, renew_at: asked_at.plus(lives * 3 / 4), expires_at: asked_at.plus(lives) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let now = Moment::now();
        let mut current = granted(br#"{"access_token": "lk_x", "expires_in": 60}"#, now).unwrap();
        for (seconds, state) in
            [(0, State::Fresh), (44, State::Fresh), (45, State::Aging), (59, State::Aging), (60, State::Expired)]
        {
            assert_eq!(current.state(now.plus(Duration::from_secs(seconds))), state, "{seconds}");
        }
        current.renew_at = now.plus(Duration::from_secs(75));
        assert_eq!(
            current.state(now.plus(Duration::from_secs(60))),
            State::Expired,
            "a failed renewal makes it no younger"
        );
        for nothing in
            [&b""[..], b"<html>", b"{}", br#"{"access_token": 1, "expires_in": 60}"#, br#"{"access_token": "x"}"#]
        {
            assert!(granted(nothing, now).is_none());
        }
    }
}
