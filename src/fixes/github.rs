//! Pull requests of a GitHub server, by its REST API: made, or found where there is one already.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, Request, Url, redirect};
use serde::{Deserialize, Serialize};

use crate::secrets::SecretValue;

/// For one request and its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A pull request is some 30 KB.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// What is shown of what the server said.
const SAID_CHARACTERS_MAX: usize = 300;
const URL_BYTES_MAX: usize = 2048;
/// The version of the API that the requests here are of.
const VERSION: &str = "2022-11-28";

/// A repository of a GitHub server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Without a slash at its end.
    pub api: String,
    pub owner: String,
    pub name: String,
}

/// A pull request to be made.
#[derive(Debug, Serialize)]
pub struct NewPull<'a> {
    pub title: &'a str,
    pub head: &'a str,
    pub base: &'a str,
    pub body: &'a str,
    pub draft: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    pub url: String,
    pub number: u64,
}

/// Why there is no pull request. None of these has the token, or more of an answer than one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    #[error("the credential cannot be sent: it has characters that a header cannot have")]
    Credential,
    #[error("the API cannot be reached: {0}")]
    Unreachable(String),
    #[error("the API did not answer within {} s", TIMEOUT.as_secs())]
    TimedOut,
    #[error("the API does not know the credential (401); give the secret a valid token")]
    Authentication,
    #[error("the credential may not do that (403): {0}; it needs to write contents and pull requests")]
    Forbidden(String),
    #[error("the API has no such repository, or the credential may not see it (404); check the repository's URL")]
    NotFound,
    #[error("the repository has moved (status {0}); give the pipeline its new URL")]
    Moved(u16),
    #[error("the API takes no more requests for now")]
    RateLimited { retry_after_seconds: Option<u64> },
    #[error("the API refused it ({status}): {said}")]
    Refused { status: u16, said: String },
    #[error("the API failed with status {0}; try again later")]
    Failed(u16),
    #[error("the API's answer is not that of a GitHub server: {0}")]
    Answer(&'static str),
}

/// Made when the first request is sent.
#[derive(Default)]
pub struct GitHub(OnceLock<Result<Client, String>>);

impl GitHub {
    /// The open pull request of the branch: a new one, or the one there is.
    pub async fn pull_request(
        &self,
        of: &Repository,
        token: &SecretValue,
        pull: &NewPull<'_>,
    ) -> Result<Pull, GitHubError> {
        let body = serde_json::to_vec(pull).map_err(|_| GitHubError::Answer("the request has no form in JSON"))?;
        let answer = self.ask(Method::POST, &pulls(of), token, Some(body)).await?;
        match answer.status {
            201 => answer.read::<PullForm>()?.checked(),
            422 if answer.says("pull request already exists") => {
                tracing::info!(owner = of.owner, repository = of.name, head = pull.head, "its pull request is there");
                self.existing(of, token, pull.head).await
            }
            _ => Err(answer.fault()),
        }
    }

    async fn existing(&self, of: &Repository, token: &SecretValue, head: &str) -> Result<Pull, GitHubError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("head", &format!("{}:{head}", of.owner)).append_pair("state", "open");
        let answer = self.ask(Method::GET, &format!("{}?{}", pulls(of), query.finish()), token, None).await?;
        if answer.status != 200 {
            return Err(answer.fault());
        }
        let found = answer.read::<Vec<PullForm>>()?.into_iter().next();
        found.ok_or(GitHubError::Answer("a pull request that exists is not listed"))?.checked()
    }

    async fn ask(
        &self,
        method: Method,
        url: &str,
        token: &SecretValue,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, GitHubError> {
        let client =
            self.0.get_or_init(make_client).as_ref().map_err(|error| GitHubError::Unreachable(error.clone()))?;
        let url = Url::parse(url).map_err(|error| GitHubError::Unreachable(error.to_string()))?;
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers(token)?;
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.into());
        }
        let exchanged = tokio::time::timeout(TIMEOUT, exchange(client, request)).await;
        exchanged.unwrap_or(Err(GitHubError::TimedOut))
    }
}

fn pulls(of: &Repository) -> String {
    format!("{}/repos/{}/{}/pulls", of.api, of.owner, of.name)
}

fn make_client() -> Result<Client, String> {
    // Fails only if one is installed already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    // A credential goes where the pipeline says and nowhere else: no redirects, no proxy of the server's environment.
    let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0).build();
    client.map_err(|error| causes(&error))
}

fn headers(token: &SecretValue) -> Result<HeaderMap, GitHubError> {
    let bearer = format!("Bearer {}", token.reveal().trim());
    let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| GitHubError::Credential)?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
    headers.insert("x-github-api-version", HeaderValue::from_static(VERSION));
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("lockkeeper/", env!("CARGO_PKG_VERSION"))));
    Ok(headers)
}

struct Answer {
    status: u16,
    is_limited: bool,
    retry_after_seconds: Option<u64>,
    body: Vec<u8>,
}

async fn exchange(client: &Client, request: Request) -> Result<Answer, GitHubError> {
    let unreachable = |error: reqwest::Error| GitHubError::Unreachable(causes(&error.without_url()));
    let mut response = client.execute(request).await.map_err(unreachable)?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after_seconds = header("retry-after").and_then(|seconds| seconds.parse().ok());
    let is_limited = retry_after_seconds.is_some() || header("x-ratelimit-remaining") == Some("0");
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(GitHubError::Answer("it is larger than one of a pull request can be"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Answer { status, is_limited, retry_after_seconds, body })
}

#[derive(Deserialize)]
struct PullForm {
    html_url: String,
    number: u64,
}

impl PullForm {
    /// It is shown to people as a link.
    fn checked(self) -> Result<Pull, GitHubError> {
        let Self { html_url: url, number } = self;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let sane = url.len() <= URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic());
        if is_web && sane { Ok(Pull { url, number }) } else { Err(GitHubError::Answer("its URL is none")) }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FaultForm {
    message: String,
    errors: Vec<FaultDetail>,
}

/// An object with a message, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum FaultDetail {
    Object { message: Option<String> },
    Text(String),
}

impl Answer {
    fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, GitHubError> {
        serde_json::from_slice(&self.body).map_err(|_| GitHubError::Answer("it has not the form of a pull request"))
    }

    /// All messages of a refusal, the most telling last.
    fn messages(&self) -> Vec<String> {
        let FaultForm { message, errors } = serde_json::from_slice(&self.body).unwrap_or_default();
        let details = errors.into_iter().filter_map(|detail| match detail {
            FaultDetail::Object { message } => message,
            FaultDetail::Text(text) => Some(text),
        });
        std::iter::once(message).chain(details).filter(|message| !message.is_empty()).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.messages().iter().any(|message| message.to_ascii_lowercase().contains(words))
    }

    fn said(&self) -> String {
        let messages = self.messages();
        let said = if messages.is_empty() { "it did not say why".to_owned() } else { messages.join(": ") };
        said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID_CHARACTERS_MAX).collect()
    }

    fn fault(&self) -> GitHubError {
        match self.status {
            401 => GitHubError::Authentication,
            429 => GitHubError::RateLimited { retry_after_seconds: self.retry_after_seconds },
            403 if self.is_limited => GitHubError::RateLimited { retry_after_seconds: self.retry_after_seconds },
            403 => GitHubError::Forbidden(self.said()),
            404 | 410 => GitHubError::NotFound,
            status @ 300..400 => GitHubError::Moved(status),
            status @ 400..500 => GitHubError::Refused { status, said: self.said() },
            status @ 500.. => GitHubError::Failed(status),
            _ => GitHubError::Answer("its status is another than that of a pull request"),
        }
    }
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
