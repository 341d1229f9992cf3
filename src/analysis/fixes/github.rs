//! Pull requests on a GitHub server through its REST API: created, or found if one exists already.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, Request, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use accounts::secrets::SecretValue;
use outbound::{GuardedClient, NoResponse, Policy, error_chain};

/// The time limit for one request and its response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A pull request is about 30 KB.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// The part of the server's message that is shown.
const MESSAGE_CHARACTERS_MAX: usize = 300;
const URL_BYTES_MAX: usize = 2048;
/// The version of GitHub's API used here.
const VERSION: &str = "2022-11-28";

/// A repository on a GitHub server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The URL of the API, without a trailing slash.
    pub api: String,
    pub owner: String,
    pub name: String,
}

/// A pull request to be created.
#[derive(Debug, Serialize)]
pub struct NewPull<'a> {
    pub title: &'a str,
    pub head: &'a str,
    pub base: &'a str,
    pub body: &'a str,
    pub draft: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pull {
    #[serde(rename = "html_url")]
    pub url: String,
    pub number: u64,
}

/// Why there is no pull request. None of these texts contains the token, or more than one line of a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    #[error("the credential cannot be sent: it contains characters that are not allowed in a header")]
    Credential,
    /// One text for all causes: a caller chooses the address, and must not learn what else is in the server's network.
    /// The reason is only in the operator's log.
    #[error(
        "the API cannot be reached, or did not answer within {} s; check the repository's URL; private addresses need an \
         operator's outbound.allow; the server's log has the reason", TIMEOUT.as_secs()
    )]
    Unreachable(String),
    #[error("the API rejected the credential (401); put a valid token into the secret")]
    Authentication,
    #[error("the credential is not allowed to do that (403): {0}; it needs write access to contents and pull requests")]
    Forbidden(String),
    #[error("the repository does not exist or the credential cannot see it (404); check the repository's URL")]
    NotFound,
    #[error("the repository has moved (status {0}); give the pipeline its new URL")]
    Moved(u16),
    #[error("the API's rate limit is exceeded")]
    RateLimited { retry_after_seconds: Option<u64> },
    #[error("the API refused it ({status}): {message}")]
    Refused { status: u16, message: String },
    #[error("the API failed with status {0}; try again later")]
    Failed(u16),
    #[error("the API's response is not that of a GitHub server: {0}")]
    Response(&'static str),
}

pub struct GitHub(GuardedClient);

impl GitHub {
    /// `policy`: the permitted destinations of requests.
    pub fn new(policy: Policy) -> Self {
        Self(GuardedClient::new(policy))
    }

    /// The open pull request of the branch: a new one, or the existing one.
    pub async fn pull_request(
        &self,
        of: &Repository,
        token: &SecretValue,
        pull: &NewPull<'_>,
    ) -> Result<Pull, GitHubError> {
        let body =
            serde_json::to_vec(pull).map_err(|_| GitHubError::Response("the request cannot be written as JSON"))?;
        let response = self.send(Method::POST, &pulls(of), token, Some(body)).await?;
        match response.status {
            201 => response.read::<Pull>()?.checked(),
            422 if response.says("pull request already exists") => {
                tracing::info!(
                    owner = of.owner,
                    repository = of.name,
                    head = pull.head,
                    "the pull request already exists"
                );
                self.existing(of, token, pull.head).await
            }
            _ => Err(response.error()),
        }
    }

    async fn existing(&self, of: &Repository, token: &SecretValue, head: &str) -> Result<Pull, GitHubError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("head", &format!("{}:{head}", of.owner)).append_pair("state", "open");
        let response = self.send(Method::GET, &format!("{}?{}", pulls(of), query.finish()), token, None).await?;
        if response.status != 200 {
            return Err(response.error());
        }
        let found = response.read::<Vec<Pull>>()?.into_iter().next();
        found.ok_or(GitHubError::Response("an existing pull request is not listed"))?.checked()
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        token: &SecretValue,
        body: Option<Vec<u8>>,
    ) -> Result<ApiResponse, GitHubError> {
        let url = Url::parse(url).map_err(|error| GitHubError::Unreachable(error.to_string()))?;
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers(token)?;
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.into());
        }
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let exchanged = tokio::time::timeout(TIMEOUT, exchange(&self.0, request)).await;
        let exchanged =
            exchanged.unwrap_or_else(|_| Err(GitHubError::Unreachable("it did not answer in time".to_owned())));
        if let Err(GitHubError::Unreachable(reason)) = &exchanged {
            tracing::warn!(host, reason, "the API of a repository cannot be reached");
        }
        exchanged
    }
}

fn pulls(of: &Repository) -> String {
    format!("{}/repos/{}/{}/pulls", of.api, of.owner, of.name)
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

struct ApiResponse {
    status: u16,
    is_limited: bool,
    retry_after_seconds: Option<u64>,
    body: Vec<u8>,
}

async fn exchange(client: &GuardedClient, request: Request) -> Result<ApiResponse, GitHubError> {
    let sent = client.execute(request, None).await;
    let mut response =
        sent.map_err(|(NoResponse::Public(reason) | NoResponse::Hidden(reason))| GitHubError::Unreachable(reason))?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after_seconds = header("retry-after").and_then(|seconds| seconds.parse().ok());
    let is_limited = retry_after_seconds.is_some() || header("x-ratelimit-remaining") == Some("0");
    let status = response.status().as_u16();
    let unreachable = |error: reqwest::Error| GitHubError::Unreachable(error_chain(&error.without_url()));
    let body = outbound::read_body(&mut response, RESPONSE_BYTES_MAX).await.map_err(unreachable)?;
    let body = body.ok_or(GitHubError::Response("it is too large"))?;
    Ok(ApiResponse { status, is_limited, retry_after_seconds, body })
}

impl Pull {
    /// Checks the URL, which people see as a link.
    fn checked(self) -> Result<Self, GitHubError> {
        let Self { url, .. } = &self;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let sane = url.len() <= URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic());
        (is_web && sane).then_some(self).ok_or(GitHubError::Response("the URL of the pull request is not valid"))
    }
}

impl ApiResponse {
    fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, GitHubError> {
        serde_json::from_slice(&self.body)
            .map_err(|_| GitHubError::Response("it does not have the form of a pull request"))
    }

    /// All messages of an error, the most specific last.
    fn messages(&self) -> Vec<String> {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        // A detail is an object with a message, or a string.
        let details = body["errors"].as_array().into_iter().flatten();
        let messages = details.map(|detail| detail["message"].as_str().or(detail.as_str()));
        let messages = std::iter::once(body["message"].as_str()).chain(messages).flatten();
        messages.filter(|message| !message.is_empty()).map(str::to_owned).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.messages().iter().any(|message| message.to_ascii_lowercase().contains(words))
    }

    fn message(&self) -> String {
        let messages = self.messages();
        let text = if messages.is_empty() { "it gave no reason".to_owned() } else { messages.join(": ") };
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_CHARACTERS_MAX).collect()
    }

    fn error(&self) -> GitHubError {
        match self.status {
            401 => GitHubError::Authentication,
            429 => GitHubError::RateLimited { retry_after_seconds: self.retry_after_seconds },
            403 if self.is_limited => GitHubError::RateLimited { retry_after_seconds: self.retry_after_seconds },
            403 => GitHubError::Forbidden(self.message()),
            404 | 410 => GitHubError::NotFound,
            status @ 300..400 => GitHubError::Moved(status),
            status @ 400..500 => GitHubError::Refused { status, message: self.message() },
            status @ 500.. => GitHubError::Failed(status),
            _ => GitHubError::Response("unexpected status"),
        }
    }
}
