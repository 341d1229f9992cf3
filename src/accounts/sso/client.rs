//! The HTTP client for providers, its failures, and the cache of answers. The operator's file names the providers, so
//! they may have private addresses; but since they are other programs, redirects are refused, and answers are bounded
//! in size and time. Concurrent callers share one request, and a failing provider is not asked again by each of them.

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::jwt::Unverified;
use ambient::backoff::{Backoff, Retries};
use outbound::{LazyClient, error_chain, read_body};

/// The time limit for the whole answer. A person is waiting for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Key sets and tokens of large providers have some ten kilobytes.
const ANSWER_BYTES_MAX: usize = 512 * 1024;
/// Characters of a provider's text that are logged.
pub const SAID_LENGTH_MAX: usize = 200;

#[derive(Default)]
pub struct ProviderClient(LazyClient);

impl ProviderClient {
    /// Requests JSON.
    pub async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, Failure> {
        let request = Request::get(url).header(ACCEPT, "application/json").body(Vec::new());
        self.send(request.map_err(|error| Failure::Invalid(error.to_string()))?).await
    }

    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, Failure> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let told = |why: String| Failure::Unavailable(format!("{host}: {why}"));
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.exchange(request)).await;
        answer.unwrap_or_else(|_| Err(format!("it took longer than {} s", ANSWER_WITHIN.as_secs()))).map_err(told)
    }

    async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        let request = reqwest::Request::try_from(request).map_err(|error| error_chain(&error))?;
        // Without the address, which may contain a code or a token.
        let why = |error: reqwest::Error| error_chain(&error.without_url());
        let mut answer = self.0.get()?.execute(request).await.map_err(why)?;
        let body = read_body(&mut answer, ANSWER_BYTES_MAX).await.map_err(why)?;
        let body = body.ok_or_else(|| format!("its answer has more than {} KiB", ANSWER_BYTES_MAX / 1024))?;
        let mut built = Response::new(body);
        *built.status_mut() = answer.status();
        *built.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(built)
    }
}

/// The texts are for the operator's log: they may name addresses, but never contain a token or a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the organization has no such provider")]
    UnknownProvider,
    /// The sign-in took too long, was started in another browser, or is already finished.
    #[error("there is no such sign-in under way in this browser")]
    NotUnderWay,
    /// The provider refused, or the person did.
    #[error("the provider refused: {0}")]
    Denied(String),
    #[error("the provider cannot be reached: {0}")]
    Unavailable(String),
    /// The provider's answer cannot be trusted.
    #[error("the answer of the provider is invalid: {0}")]
    Invalid(String),
    #[error("no group of the person has a role")]
    NoRole,
    #[error("the provider names no name or e-mail that can be the name of a member")]
    NoName,
    #[error("too many sign-ins are being finished")]
    Overloaded,
}

impl Failure {
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

impl From<Unverified> for Failure {
    fn from(unverified: Unverified) -> Self {
        match unverified {
            Unverified::UnknownKey => {
                Self::invalid("the ID token is signed with a key that the provider does not publish")
            }
            Unverified::Invalid(why) => Self::Invalid(said(&why)),
        }
    }
}

/// A part of a text of a provider or a token, escaped for one line of a log.
pub fn said(text: &str) -> String {
    text.chars().take(SAID_LENGTH_MAX).collect::<String>().escape_debug().to_string()
}

/// The longest pause before a failing provider is asked again, as a multiple of the first pause.
const LONGEST: u32 = 10;

/// How long answers are cached.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    /// A provider may withdraw a key: while the provider answers, the key works here for at most this time.
    pub fresh_for: Duration,
    /// The maximum age of a copy that is used while the provider does not answer.
    pub stale_for: Duration,
    /// Tokens with unknown keys cannot make the server ask more often than this. Also the first pause after a failure,
    /// if there is an old copy.
    pub asked_again_after: Duration,
    /// The first pause after a failure, without any copy.
    pub failed_for: Duration,
}

pub struct Kept<T> {
    keeping: Keeping,
    /// Locked during a request to the provider.
    found: Mutex<LookupState<T>>,
}

struct LookupState<T> {
    last: Option<(Instant, Arc<T>)>,
    /// The failure since the last answer, and the time of the next request.
    failed: Option<(Instant, Failure)>,
    /// The retries with an old copy, and those without.
    retries: [Retries; 2],
    /// The last request because of a missing key.
    asked_for_key: Option<Instant>,
}

impl<T> Kept<T> {
    pub fn new(keeping: Keeping) -> Self {
        let retries = [keeping.asked_again_after, keeping.failed_for];
        let retries = retries.map(|first| Retries::new(Backoff::new(first, first.saturating_mul(LONGEST))));
        Self { keeping, found: Mutex::new(LookupState { last: None, failed: None, retries, asked_for_key: None }) }
    }

    pub async fn get(&self, ask: impl AsyncFnOnce() -> Result<T, Failure>) -> Result<Arc<T>, Failure> {
        let mut found = self.found.lock().await;
        if let Some(fresh) = found.younger_than(self.keeping.fresh_for) {
            return Ok(fresh);
        }
        let stale = found.younger_than(self.keeping.stale_for);
        let failed = found.failed.as_ref().filter(|(again_at, _)| Instant::now() < *again_at);
        let failed = failed.map(|(_, failure)| failure.clone());
        let failure = match failed {
            Some(failure) => failure,
            None => match ask().await {
                Ok(answer) => return Ok(found.keep(answer)),
                Err(failure) => {
                    let pause = found.retries[usize::from(stale.is_none())].failed();
                    found.failed = Some((Instant::now() + pause, failure.clone()));
                    if stale.is_some() {
                        tracing::warn!(reason = %failure, "using what was read from the provider before");
                    }
                    failure
                }
            },
        };
        stale.ok_or(failure)
    }

    /// Checks a token with a copy, and if that lacks the token's key, with a newer one.
    pub async fn check<C>(
        &self,
        known: &Arc<T>,
        ask: impl AsyncFnOnce() -> Result<T, Failure>,
        check: impl Fn(&T) -> Result<C, Unverified>,
    ) -> Result<Result<C, Unverified>, Failure> {
        match check(known) {
            Err(Unverified::UnknownKey) => {}
            checked => return Ok(checked),
        }
        let newer = self.newer_than(known, ask).await?;
        Ok(newer.map_or(Err(Unverified::UnknownKey), |newer| check(&newer)))
    }

    /// A copy newer than `known`, which lacked a key. None if the provider was asked for one just now.
    async fn newer_than(
        &self,
        known: &Arc<T>,
        ask: impl AsyncFnOnce() -> Result<T, Failure>,
    ) -> Result<Option<Arc<T>>, Failure> {
        let mut found = self.found.lock().await;
        if let Some((_, last)) = &found.last
            && !Arc::ptr_eq(last, known)
        {
            return Ok(Some(last.clone()));
        }
        if found.asked_for_key.is_some_and(|at| at.elapsed() < self.keeping.asked_again_after) {
            return Ok(None);
        }
        found.asked_for_key = Some(Instant::now());
        let answer = ask().await?;
        Ok(Some(found.keep(answer)))
    }
}

impl<T> LookupState<T> {
    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        self.last.as_ref().filter(|(at, _)| at.elapsed() < age).map(|(_, last)| last.clone())
    }

    fn keep(&mut self, answer: T) -> Arc<T> {
        let answer = Arc::new(answer);
        self.last = Some((Instant::now(), answer.clone()));
        self.failed = None;
        self.retries.iter_mut().for_each(Retries::worked);
        answer
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use super::*;

    const KEEPING: Keeping = Keeping {
        fresh_for: Duration::from_secs(600),
        stale_for: Duration::from_secs(86_400),
        asked_again_after: Duration::from_secs(30),
        failed_for: Duration::from_secs(3),
    };

    /// Answers with the number of the request while it is up.
    #[derive(Default)]
    struct Provider {
        asked: Cell<u32>,
        is_out: Cell<bool>,
    }

    impl Provider {
        async fn ask(&self) -> Result<u32, Failure> {
            self.asked.set(self.asked.get() + 1);
            if self.is_out.get() { Err(Failure::Unavailable("out".to_owned())) } else { Ok(self.asked.get()) }
        }

        async fn get(&self, kept: &Kept<u32>) -> Result<u32, Failure> {
            kept.get(async || self.ask().await).await.map(|found| *found)
        }
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_answer_is_used_while_the_provider_is_out_and_not_for_ever() {
        let (provider, kept) = (Provider::default(), Kept::new(KEEPING));
        assert_eq!((provider.get(&kept).await, provider.get(&kept).await), (Ok(1), Ok(1)));
        pass(600).await;
        provider.is_out.set(true);
        assert_eq!((provider.get(&kept).await, provider.asked.get()), (Ok(1), 2));
        pass(14).await;
        assert_eq!((provider.get(&kept).await, provider.asked.get()), (Ok(1), 2), "not asked again at once");
        pass(16).await;
        assert_eq!((provider.get(&kept).await, provider.asked.get()), (Ok(1), 3));
        pass(29).await;
        assert_eq!((provider.get(&kept).await, provider.asked.get()), (Ok(1), 3), "the pause does not grow");
        pass(86_400).await;
        assert!(provider.get(&kept).await.is_err());
        provider.is_out.set(false);
        assert!(provider.get(&kept).await.is_err(), "it has just failed");
        pass(3).await;
        assert_eq!(provider.get(&kept).await, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_key_makes_the_server_ask_again_but_not_at_will() {
        let (provider, kept) = (Provider::default(), Kept::new(KEEPING));
        let first = kept.get(async || provider.ask().await).await.unwrap();
        let newer = async |known: &Arc<u32>| kept.newer_than(known, async || provider.ask().await).await;
        let second = newer(&first).await.unwrap().unwrap();
        assert_eq!(*second, 2);
        assert_eq!(newer(&first).await.unwrap().as_deref(), Some(&2), "somebody else has asked");
        assert_eq!(newer(&second).await, Ok(None));
        pass(30).await;
        assert_eq!(newer(&second).await.unwrap().as_deref(), Some(&3));
    }
}
