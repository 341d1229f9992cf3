//! The engine that asks a model: any server with the chat completions of OpenAI's API.
//!
//! Nothing leaves that was not masked and scrubbed, and nothing that comes back is believed unchecked: an answer that is
//! not exactly what was asked for is an error, for which there is the builtin engine.

mod answer;
mod prompt;
mod scrub;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url, redirect};
use serde_json::json;
use zeroize::Zeroizing;

use super::{Case, Engine, EngineError, Finding};

pub const NAME: &str = "llm";
/// Room for the largest patch, with each of its characters escaped, and what a server adds.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// What a model's server knows its caller by. Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    fn header(&self) -> Result<HeaderValue, EngineError> {
        let text = Zeroizing::new(format!("Bearer {}", *self.0));
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| EngineError::Unprepared("the key has characters that a header cannot have".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[derive(Debug, Clone)]
pub struct LlmSettings {
    /// What `/chat/completions` is appended to, such as `https://models.example/v1`.
    pub url: String,
    pub model: String,
    pub key: Option<ApiKey>,
    /// For the whole exchange.
    pub timeout: Duration,
    /// How much of the log is sent.
    pub max_log_bytes: usize,
}

type Mask = Box<dyn Fn(&str) -> String + Send + Sync>;

/// Cheap to make, so that each analysis has one that masks the secrets of its own pipeline: all share one client.
pub struct Llm {
    url: Url,
    settings: LlmSettings,
    mask: Mask,
}

impl Llm {
    /// `mask` is applied to everything that is sent.
    pub fn new(
        settings: LlmSettings,
        mask: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let url = completions_url(&settings.url)?;
        Ok(Self { url, settings, mask: Box::new(mask) })
    }

    async fn ask(&self, case: &Case) -> Result<Finding, EngineError> {
        let prompt = prompt::prompt(case, &self.mask, self.settings.max_log_bytes);
        let body = json!({
            "model": self.settings.model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "response_format": {"type": "json_object"},
            "stream": false,
        });
        let limit = self.settings.timeout;
        let exchange = tokio::time::timeout(limit, self.exchange(body.to_string()));
        let answer = exchange.await.map_err(|_| EngineError::TimedOut(limit.as_secs()))??;
        answer::finding(&answer, &prompt.sent)
    }

    async fn exchange(&self, body: String) -> Result<Vec<u8>, EngineError> {
        let mut request = client()?.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = &self.settings.key {
            request = request.header(AUTHORIZATION, key.header()?);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(EngineError::Status(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            if answer.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(EngineError::TooLarge(ANSWER_BYTES_MAX));
            }
            answer.extend_from_slice(&piece);
        }
        Ok(answer)
    }
}

impl Engine for Llm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>> {
        Box::pin(self.ask(case))
    }
}

fn completions_url(base: &str) -> Result<Url, EngineError> {
    let unprepared = |reason: &str| EngineError::Unprepared(reason.to_owned());
    let url = Url::parse(&format!("{}/chat/completions", base.trim_end_matches('/')));
    let url = url.map_err(|_| unprepared("the URL of the model's server is not valid"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unprepared("the URL of the model's server is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unprepared("the URL of the model's server has credentials; give them as the key"));
    }
    Ok(url)
}

/// One for all: it goes where the operator's URL says and nowhere else.
fn client() -> Result<&'static Client, EngineError> {
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        // Fails only if one is installed already, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0).build();
        client.map_err(|error| causes(&error))
    });
    made.as_ref().map_err(|reason| EngineError::Unprepared(reason.clone()))
}

fn unreachable(error: reqwest::Error) -> EngineError {
    EngineError::Unreachable(causes(&error.without_url()))
}

/// An error with what is behind it: the outermost rarely says why.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
