//! The HTTP client for providers. The operator's file names them, so they may have private addresses; but they are other
//! programs all the same: no redirects, and answers bounded in size and time.

use std::pin::Pin;
use std::time::Duration;

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse, http};

use crate::outbound::{LazyClient, error_chain, read_body};

/// For the whole answer. A person waits for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Key sets and tokens of large providers have a few ten kilobytes.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

#[derive(Default)]
pub struct ProviderClient(LazyClient);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

impl ProviderClient {
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoAnswer> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let told = |why: String| NoAnswer(format!("{host}: {why}"));
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.exchange(request)).await;
        answer.unwrap_or_else(|_| Err(format!("it took longer than {} s", ANSWER_WITHIN.as_secs()))).map_err(told)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, String> {
        let request = reqwest::Request::try_from(request).map_err(|error| error_chain(&error))?;
        // Without the address: a code or a token may stand in it.
        let why = |error: reqwest::Error| error_chain(&error.without_url());
        let mut answer = self.0.get()?.execute(request).await.map_err(why)?;
        let body = read_body(&mut answer, ANSWER_BYTES_MAX).await.map_err(why)?;
        let body = body.ok_or_else(|| format!("its answer has more than {} KiB", ANSWER_BYTES_MAX / 1024))?;
        let mut built = http::Response::new(body);
        *built.status_mut() = answer.status();
        *built.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(built)
    }
}

impl<'c> AsyncHttpClient<'c> for ProviderClient {
    type Error = NoAnswer;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NoAnswer>> + Send + Sync + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}
