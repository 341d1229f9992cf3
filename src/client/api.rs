//! The server's API for one caller: paths below the organization, tokens, retries with an idempotency key, and paged
//! lists.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::arguments::{EnvironmentName, identifier};
use super::connection::identity::IdentitySource;
use super::connection::link::{Link, RawAnswer};
use super::connection::options::{Options, Settings, variable};
use super::connection::tokens::{Exchange, TokenSource};
use super::failure::{CallError, Failure};
use super::output::text::harmless;
use super::output::{Out, items_of, text_of};
use super::retry::{Attempts, Retrying};

/// The limit for requests that do not wait for a change. Durable answers take milliseconds; this is for a server in
/// trouble.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The limit if the caller repeats the request itself, and reports early that the server does not answer.
pub const SINGLE_ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The path of the owner of the token.
pub const CALLER: &str = "/api/v1/whoami";
/// How many pipelines a hint lists.
const PIPELINES_SHOWN: usize = 20;
/// The server writes to a live stream at least every 15 s.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(60);

/// The arguments of a command that talks to the server.
#[derive(clap::Args)]
pub struct Connected<A: clap::Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    pub options: Options,
}

/// The arguments of a command without any of its own.
#[derive(clap::Args)]
pub struct NoArgs {}

impl<A: clap::Args> Connected<A> {
    pub async fn run(
        self,
        command: impl AsyncFnOnce(A, &Api, &Out) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let api = Api::connect(&self.options).await?;
        command(self.args, &api, &self.options.out()).await.map(|()| ExitCode::SUCCESS)
    }
}

/// A caller of the API.
#[derive(Debug)]
pub struct Api {
    link: Link,
    tokens: TokenSource,
    pub organization: String,
    /// The given pipeline, or the one found on first use.
    pipeline: OnceCell<String>,
    /// How long requests are repeated: `--retry`.
    pub patience: Duration,
}

/// One request; retries within its patience count as the same request.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// The full path, like `/api/v1/organizations/acme/tokens`.
    pub path: String,
    pub body: Option<Value>,
    /// With a key, the server executes the request only once, however often it is sent.
    pub key: Option<String>,
    pub headers: Vec<(&'static str, String)>,
    /// How long the request is repeated if there is no answer or the server refuses temporarily. Zero: it is sent once.
    pub patience: Duration,
    /// How long one attempt may take.
    pub timeout: Duration,
}

/// A 2xx, or a 304.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Null if the answer has none.
    pub data: Value,
    pub pagination: Value,
    pub etag: Option<String>,
    /// The time of the server's clock.
    pub date: Option<String>,
}

impl Api {
    pub async fn connect(options: &Options) -> Result<Self, Failure> {
        let settings = options.resolve()?;
        let offered = || IdentitySource::of_ci(&variable, &settings.url);
        let identity = IdentitySource::chosen(&variable).or_else(offered);
        Self::connect_as(settings, identity).await
    }

    /// Connects with the token in the settings, or else with this identity.
    pub async fn connect_as(settings: Settings, identity: Option<IdentitySource>) -> Result<Self, Failure> {
        let link = Link::new(&settings)?;
        let checked = |what: &str, name: Option<String>| match name {
            Some(name) => identifier(&name).map(Some).map_err(|rule| Failure::Usage(format!("{what} `{name}` {rule}"))),
            None => Ok(None),
        };
        let organization = checked("the organization", settings.organization)?;
        let pipeline = checked("the pipeline", settings.pipeline)?;
        let tokens = match (settings.token, identity, organization.clone()) {
            (Some(token), ..) => TokenSource::Fixed(token),
            (None, Some(identity), Some(organization)) => {
                TokenSource::Exchanged(Box::new(Exchange::new(identity, organization, link.clone(), settings.patience)))
            }
            (None, Some(_), None) => return Err(Failure::Usage(
                "the identity token of a job does not say the organization; set LOCKKEEPER_ORGANIZATION, or give --org"
                    .to_owned(),
            )),
            (None, None, _) => {
                return Err(Failure::Denied(format!(
                    "no token for {}; run `lockkeeper login`, or set LOCKKEEPER_TOKEN, or LOCKKEEPER_IDENTITY_TOKEN in a job of a CI",
                    link.base()
                )));
            }
        };
        let mut api = Self {
            tokens,
            link,
            organization: organization.clone().unwrap_or_default(),
            pipeline: OnceCell::new_with(pipeline),
            patience: settings.patience,
        };
        if organization.is_none() {
            let caller = api.get(CALLER).await?.data;
            api.organization = identifier(text_of(&caller["organization"], "id"))
                .map_err(|_| Failure::Unreachable("the server does not say whose token it is".to_owned()))?;
        }
        Ok(api)
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        self.link.base()
    }

    /// The pipeline from a flag, a variable or the profile, without asking the server.
    pub fn given_pipeline(&self) -> Option<&str> {
        self.pipeline.get().map(String::as_str)
    }

    /// The given pipeline, or else the organization's only one.
    pub async fn pipeline(&self) -> Result<&str, Failure> {
        let found = self.pipeline.get_or_try_init(|| async {
            let listed = self.get("/pipelines?limit=100").await?;
            let ids: Vec<&str> = items_of(&listed.data).iter().filter_map(|pipeline| pipeline["id"].as_str()).collect();
            match ids[..] {
                [only] => Ok(only.to_owned()),
                [] => Err(Failure::NotFound(format!("the organization {} has no pipelines", self.organization))),
                _ => {
                    let mut shown = ids[..ids.len().min(PIPELINES_SHOWN)].join(", ");
                    if ids.len() > PIPELINES_SHOWN {
                        shown.push_str(", …");
                    }
                    Err(Failure::Usage(format!(
                        "there are several pipelines; choose one with --pipeline, LOCKKEEPER_PIPELINE, or as PIPELINE/ENV: {shown}"
                    )))
                }
            }
        });
        found.await.map(String::as_str)
    }

    /// The pipeline of an environment: its own, or that of the options.
    pub async fn pipeline_of<'a>(&'a self, environment: &'a EnvironmentName) -> Result<&'a str, Failure> {
        match &environment.pipeline {
            Some(pipeline) => Ok(pipeline),
            None => self.pipeline().await,
        }
    }

    /// `/pipelines/web/ephemeral-environments/review-1`.
    pub async fn environment_path(&self, environment: &EnvironmentName) -> Result<String, Failure> {
        Ok(format!("/pipelines/{}/ephemeral-environments/{}", self.pipeline_of(environment).await?, environment.name))
    }

    pub async fn get(&self, path: &str) -> Result<Answer, Failure> {
        Ok(self.send(self.call(Method::GET, path)).await?)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        Ok(self.send(Call { body: Some(body.clone()), key: Some(new_key()), ..self.call(Method::POST, path) }).await?)
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        Ok(self.send(Call { body: Some(body.clone()), ..self.call(Method::PUT, path) }).await?)
    }

    pub async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        Ok(self.send(self.call(Method::DELETE, path)).await?)
    }

    /// Asks again for a resource whose last answer had this ETag. The answer comes after the next change, or after this
    /// many seconds. Without an ETag it comes immediately: otherwise an earlier change could be missed.
    pub async fn poll(
        &self,
        path: &str,
        etag: Option<&str>,
        seconds: u64,
        patience: Duration,
    ) -> Result<Answer, CallError> {
        let seconds = if etag.is_some() { seconds } else { 0 };
        let within = if patience.is_zero() { SINGLE_ANSWER_WITHIN } else { ANSWER_WITHIN };
        let call = self.call(Method::GET, &format!("{path}?waitSeconds={seconds}"));
        let headers = etag.map(|etag| ("If-None-Match", etag.to_owned())).into_iter().collect();
        self.send(Call { headers, patience, timeout: within + Duration::from_secs(seconds), ..call }).await
    }

    /// A request with the given options. The path is below the organization, or complete, like [`CALLER`].
    pub fn call(&self, method: Method, path: &str) -> Call {
        let root = path.starts_with("/api/");
        Call {
            method,
            path: if root { path.to_owned() } else { format!("/api/v1/organizations/{}{path}", self.organization) },
            body: None,
            key: None,
            headers: Vec::new(),
            patience: self.patience,
            timeout: ANSWER_WITHIN,
        }
    }

    /// Sends the request until there is a final answer, or patience is over.
    pub async fn send(&self, call: Call) -> Result<Answer, CallError> {
        // A long poll shows nothing as long as nothing fails.
        let asked_to_wait = call.path.contains("waitSeconds=");
        let waits = if asked_to_wait { String::new() } else { format!("waiting for an answer of {}", self.url()) };
        let retrying = Retrying::new(call.patience, waits);
        retrying.during(self.insist(&call, &retrying)).await
    }

    /// The retry display for a stream, which the caller reopens itself.
    pub fn retrying(&self) -> Retrying {
        Retrying::new(self.patience, format!("waiting for an answer of {}", self.url()))
    }

    async fn insist(&self, call: &Call, retrying: &Retrying) -> Result<Answer, CallError> {
        // Another PATCH could undo a change made in between; the other methods describe the final state.
        let repeatable = call.key.is_some() || !matches!(call.method, Method::POST | Method::PATCH);
        let mut attempts = Attempts::new(call.patience);
        // The error of an attempt that may have been executed.
        let mut unsure = None;
        loop {
            let error = match self.send_once(call, retrying).await {
                Ok(answer) => return Ok(answer),
                Err(CallError::Failure(failure)) => return Err(unsure.unwrap_or(CallError::Failure(failure))),
                Err(error) => error,
            };
            let pause = attempts.pause(error.retry_after()).filter(|_| error.is_passing(repeatable));
            let Some(pause) = pause else { return Err(error) };
            retrying.failed(error.to_string());
            if !matches!(error, CallError::NoConnection(_)) {
                unsure = Some(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, call: &Call, retrying: &Retrying) -> Result<Answer, CallError> {
        let token = self.tokens.token(retrying).await.map_err(CallError::Failure)?;
        let mut raw = self.link.send(self.request(call, token.reveal())).await?;
        if raw.status == 401 && self.tokens.renew(&token, retrying).await.map_err(CallError::Failure)? {
            let token = self.tokens.token(retrying).await.map_err(CallError::Failure)?;
            raw = self.link.send(self.request(call, token.reveal())).await?;
        }
        read(raw)
    }

    fn request(&self, call: &Call, token: &str) -> RequestBuilder {
        let mut request = self.link.request(call.method.clone(), &call.path).bearer_auth(token).timeout(call.timeout);
        if let Some(key) = &call.key {
            request = request.header("Idempotency-Key", key);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        request
    }

    /// Opens a stream of events or of a log, once. The caller reopens it at its position, and reports the reason to
    /// `retrying`.
    pub async fn stream(
        &self,
        path: &str,
        last_event_id: Option<&str>,
        retrying: &Retrying,
    ) -> Result<Stream, CallError> {
        let token = self.tokens.token(retrying).await.map_err(CallError::Failure)?;
        let path = self.call(Method::GET, path).path;
        let mut request = self.link.request(Method::GET, &path).bearer_auth(token.reveal());
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        let opened = tokio::time::timeout(ANSWER_WITHIN, self.link.open(request)).await;
        let response = opened.map_err(|_| self.link.late())??;
        if response.status().is_success() {
            return Ok(Stream { response, link: self.link.clone() });
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.map(|bytes| bytes.to_vec()).unwrap_or_default();
        Err(read(RawAnswer { status, headers, body }).err().unwrap_or_else(|| self.link.late()))
    }
}

/// The body of an answer, read in pieces.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    link: Link,
}

impl Stream {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece; None at the end of the body.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        match tokio::time::timeout(STREAM_SILENCE_MAX, self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece.map(|bytes| bytes.to_vec())),
            Ok(Err(error)) => Err(self.link.no_answer(&error)),
            Err(_) => Err(CallError::NoAnswer(format!("{} has gone silent", self.link.base()))),
        }
    }
}

/// A new idempotency key, for a request that must be executed only once, however often it is sent.
pub fn new_key() -> String {
    format!("cli-{:032x}", rand::random::<u128>())
}

fn read(raw: RawAnswer) -> Result<Answer, CallError> {
    let text = |name: &str| raw.header(name).map(str::to_owned);
    let mut answer = Answer {
        status: raw.status,
        data: Value::Null,
        pagination: Value::Null,
        etag: text("etag"),
        date: text("date"),
    };
    let problem = || CallError::Problem(Box::new(raw.problem()));
    match raw.status {
        204 | 304 => Ok(answer),
        200..=299 => {
            // A proxy's page is not an answer, whatever its status.
            let Ok(Value::Object(mut body)) = serde_json::from_slice(&raw.body) else { return Err(problem()) };
            let Some(data) = body.remove("data") else { return Err(problem()) };
            answer.data = data;
            answer.pagination = body.remove("pagination").unwrap_or_default();
            Ok(answer)
        }
        300..=399 => {
            let to = text("location").unwrap_or_default();
            let words = format!("the server answers with a redirect to {to}; use the address that it leads to");
            Err(CallError::Failure(Failure::Unreachable(harmless(&words))))
        }
        _ => Err(problem()),
    }
}

/// The object without members that are null, which were not given.
pub fn given(mut body: Value) -> Value {
    if let Value::Object(members) = &mut body {
        members.retain(|_, value| !value.is_null());
    }
    body
}

/// `?name=value&…`
pub fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    format!("?{}", form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// The server's maximum.
const PAGE: usize = 100;
/// Enough for people; scripts that need more filter through the API.
pub const ITEMS_MAX: usize = 10_000;

/// The whole list, up to [`ITEMS_MAX`].
pub async fn list_all(api: &Api, path: &str, filter: &[(&str, String)]) -> Result<Value, Failure> {
    list_first(api, path, filter, ITEMS_MAX).await
}

/// The first `count` items of a list. If the beginning of the list changes meanwhile, its pages shift: an item may then
/// come twice, and the second one is dropped; but no item that exists all the time is missed.
pub async fn list_first(api: &Api, path: &str, filter: &[(&str, String)], count: usize) -> Result<Value, Failure> {
    let mut items: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    let mut offset = 0;
    while items.len() < count {
        let limit = PAGE.min(count - items.len());
        let page = [("limit", limit.to_string()), ("offset", offset.to_string())];
        let path = format!("{path}{}", query(filter.iter().cloned().chain(page)));
        let Value::Array(page) = api.get(&path).await?.data else { break };
        let got = page.len();
        offset += got;
        items.extend(page.into_iter().filter(|item| seen.insert(item.to_string())));
        if got < limit {
            break;
        }
    }
    Ok(Value::Array(items))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::header::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &str) -> Result<Answer, Failure> {
        read(RawAnswer { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }).map_err(Failure::from)
    }

    #[test]
    fn only_an_answer_of_the_api_counts() {
        assert_eq!(answer(200, r#"{"data": [1], "pagination": {"total": 1}}"#).unwrap().data[0], 1);
        assert_eq!(answer(204, "").unwrap().data, Value::Null);
        for (status, body) in [(200, "<html>sign in</html>"), (200, "{}"), (200, "[]"), (302, ""), (502, "nginx")] {
            assert_eq!(answer(status, body).unwrap_err().code(), 69, "{status} {body}");
        }
    }

    #[test]
    fn keys_differ() {
        assert_ne!(new_key(), new_key());
    }
}
