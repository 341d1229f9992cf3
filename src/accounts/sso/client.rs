//! The HTTP client for providers. The operator's file names them, so they may have private addresses; but they are other
//! programs all the same: no redirects, and answers bounded in size and time.

use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, Response};

use super::failure::Failure;
use outbound::{LazyClient, error_chain, read_body};

/// For the whole answer. A person waits for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Key sets and tokens of large providers have a few ten kilobytes.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

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
        // Without the address: a code or a token may stand in it.
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
