//! The engine that asks a model, on any server with OpenAI's chat completions API.
//!
//! Everything sent is masked and scrubbed, and every answer is checked: an answer that does not exactly have the
//! requested form is an error, and the builtin engine is used instead.

mod prompt;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use self::prompt::{Mask, SentLine};
use super::builtin::Builtin;
use super::engine::{Case, EngineError, EngineName, Finding};
use super::{Category, EVIDENCE_MAX, Evidence, SUMMARY_CHARACTERS_MAX, SuggestedFix, patch};
use outbound::{LazyClient, error_chain};

/// Enough for the largest patch with every character escaped, and the server's own fields.
const RESPONSE_BYTES_MAX: usize = 512 * 1024;

/// The largest request without the log: the instructions, the stages and steps with their actions, the error.
pub const BESIDES_LOG_BYTES_MAX: usize = 64 * 1024;

/// Shared by all analyses.
static CLIENT: LazyClient = LazyClient::new();

/// The API key for the model's server. Wiped when dropped; `Debug` does not show it.
#[derive(Clone)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    fn header(&self) -> Result<HeaderValue, EngineError> {
        let text = Zeroizing::new(format!("Bearer {}", *self.0));
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            EngineError::Unprepared("the key contains characters that are not allowed in a header".to_owned())
        })?;
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
    /// The base URL, such as `https://models.example/v1`; `/chat/completions` is appended.
    pub url: String,
    pub model: String,
    pub key: Option<ApiKey>,
    /// The time limit for the whole exchange.
    pub timeout: Duration,
    /// The maximum size of the log in a request, as encoded.
    pub max_log_bytes: usize,
}

/// Cheap to create, so that each analysis has its own, which masks the secrets of its pipeline.
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

    /// The finding of the model, or of the builtin engine if the model fails. The finding names the engine.
    pub async fn analyse_or_fall_back(&self, case: &Case) -> Finding {
        match self.analyse(case).await {
            Ok(finding) => finding,
            Err(error) => {
                let (engine, instead) = (EngineName::Llm.as_str(), EngineName::Builtin.as_str());
                tracing::warn!(deployment = %case.deployment, engine, instead, %error, "the engine of an analysis failed; using the other one");
                Builtin.analyse(case).await
            }
        }
    }

    pub async fn analyse(&self, case: &Case) -> Result<Finding, EngineError> {
        let prompt = prompt::prompt(case, &self.mask, self.settings.max_log_bytes);
        let body = json!({
            "model": self.settings.model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "response_format": {"type": "json_object"},
            "stream": false,
        });
        let (body, limit) = (body.to_string(), self.settings.timeout);
        debug_assert!(body.len() <= self.settings.max_log_bytes + BESIDES_LOG_BYTES_MAX, "{} bytes", body.len());
        let exchange = tokio::time::timeout(limit, self.exchange(body));
        let answer = exchange.await.map_err(|_| EngineError::TimedOut(limit.as_secs()))??;
        finding(&answer, &prompt.sent)
    }

    async fn exchange(&self, body: String) -> Result<Vec<u8>, EngineError> {
        let client = CLIENT.get().map_err(EngineError::Unprepared)?;
        let mut request = client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = &self.settings.key {
            request = request.header(AUTHORIZATION, key.header()?);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(EngineError::Status(response.status().as_u16()));
        }
        let body = outbound::read_body(&mut response, RESPONSE_BYTES_MAX).await.map_err(unreachable)?;
        body.ok_or(EngineError::TooLarge(RESPONSE_BYTES_MAX))
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
        return Err(unprepared("the URL of the model's server contains credentials; pass them as the key"));
    }
    Ok(url)
}

fn unreachable(error: reqwest::Error) -> EngineError {
    let reason = error_chain(&error.without_url());
    tracing::warn!(reason, "the model of analyses cannot be reached");
    EngineError::Unreachable(reason)
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelAnswer {
    category: String,
    summary: String,
    evidence: Vec<LineReference>,
    confidence: f64,
    fix: Option<SuggestedFix>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineReference {
    stage: String,
    step: String,
    line: u32,
}

/// Parses a finding from the body of a response; `sent` are the lines it may refer to.
fn finding(body: &[u8], sent: &[SentLine<'_>]) -> Result<Finding, EngineError> {
    let completion: Completion =
        serde_json::from_slice(body).map_err(|_| EngineError::Answer("it is not a chat completion"))?;
    let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
    let content = content.ok_or(EngineError::Answer("it has no text"))?;
    let answer: ModelAnswer =
        serde_json::from_str(&content).map_err(|_| EngineError::Answer("its text is not the requested JSON"))?;
    let category = Category::parse(&answer.category).map_err(|_| EngineError::Answer("its category is unknown"))?;
    if !(0.0..=1.0).contains(&answer.confidence) {
        return Err(EngineError::Answer("its confidence is not between 0 and 1"));
    }
    Ok(Finding {
        engine: EngineName::Llm,
        category,
        summary: sentence(&answer.summary)?,
        evidence: evidence(&answer.evidence, sent)?,
        confidence: answer.confidence,
        fix: answer.fix.map(suggested).transpose()?,
        compared_with: None,
        alternatives: Vec::new(),
    })
}

/// Each reference must be to a line that was sent; the text is taken from that line.
fn evidence(references: &[LineReference], sent: &[SentLine<'_>]) -> Result<Vec<Evidence>, EngineError> {
    if references.len() > EVIDENCE_MAX {
        return Err(EngineError::Answer("it names too many lines"));
    }
    if references.is_empty() && !sent.is_empty() {
        return Err(EngineError::Answer("it names no line"));
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    for reference in references {
        let is_referenced = |line: &&SentLine<'_>| {
            line.line.number == reference.line && line.stage == reference.stage && line.step == reference.step
        };
        let line = sent.iter().find(is_referenced).ok_or(EngineError::Answer("it names a line that does not exist"))?;
        let named = Evidence::from(line.line);
        if !evidence.contains(&named) {
            evidence.push(named);
        }
    }
    Ok(evidence)
}

fn suggested(fix: SuggestedFix) -> Result<SuggestedFix, EngineError> {
    if let Some(patch) = &fix.patch {
        patch::check(patch).map_err(EngineError::Answer)?;
    }
    Ok(SuggestedFix { summary: sentence(&fix.summary)?, patch: fix.patch })
}

/// One line within the size limit.
fn sentence(text: &str) -> Result<String, EngineError> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_valid = (1..=SUMMARY_CHARACTERS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_valid.then_some(text).ok_or(EngineError::Answer("it has a sentence that is empty, too long or not text"))
}
