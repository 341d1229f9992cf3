//! A client with a token, and the answers it receives.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::secrecy;

fn http() -> reqwest::Client {
    http_builder().build().unwrap()
}

pub fn http_builder() -> reqwest::ClientBuilder {
    // reqwest is built without a TLS provider; it may already have been installed.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder().timeout(Duration::from_secs(60))
}

/// Sends requests with one token. Paths are below the organization unless stated otherwise.
#[derive(Clone)]
pub struct Client {
    base: String,
    token: Option<String>,
    organization: String,
    http: reqwest::Client,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub fn data(&self) -> Value {
        self.json()["data"].clone()
    }

    /// Status and code of a problem.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status.as_u16());
        assert_eq!(body["requestId"], self.header("x-request-id"));
        assert!(!body["detail"].as_str().unwrap().is_empty() && !body["title"].as_str().unwrap().is_empty());
        (self.status.as_u16(), body["code"].as_str().unwrap().to_owned())
    }

    /// The fields that a problem names.
    pub fn faulty_fields(&self) -> Vec<String> {
        let body = self.json();
        let errors = body["errors"].as_array().unwrap_or_else(|| panic!("no errors in {self:?}"));
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The session id of a session's answer.
    pub fn session(&self) -> String {
        self.data()["sessionId"].as_str().unwrap_or_else(|| panic!("no session in {self:?}")).to_owned()
    }

    pub fn created(self) -> Self {
        assert_eq!(self.status, StatusCode::CREATED, "{self:?}");
        self
    }

    pub fn ok(self) -> Self {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self
    }

    /// A problem with this status and code.
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!(self.problem(), (status, code.to_owned()), "{self:?}");
        self
    }

    pub fn has_status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }

    /// The target of `Link` for a relation, if present.
    pub fn link(&self, relation: &str) -> Option<String> {
        let wanted = format!("rel=\"{relation}\"");
        let links = self.header("link").split(", ");
        let found = links.filter_map(|link| link.split_once("; ")).find(|(_, rel)| *rel == wanted);
        found.map(|(target, _)| target.trim_matches(['<', '>']).to_owned())
    }
}

impl Client {
    pub fn anonymous(address: &str) -> Self {
        Self { base: address.to_owned(), token: None, organization: "acme".to_owned(), http: http() }
    }

    pub fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// The same client with other connections.
    pub fn over(self, http: reqwest::Client) -> Self {
        Self { http, ..self }
    }

    pub fn in_organization(mut self, organization: &str) -> Self {
        organization.clone_into(&mut self.organization);
        self
    }

    /// The same client for another address of the server, like `http://127.0.0.1:port`.
    pub fn at_address(mut self, address: &str) -> Self {
        address.clone_into(&mut self.base);
        self
    }

    /// Any request, by its path from the root.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    /// For servers that may be killed during the request.
    pub async fn try_send(&self, request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
        let (http, request) = request.build_split();
        let request = request?;
        secrecy::note_request(&request);
        let response = http.execute(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        secrecy::note_answer(&headers, &text);
        Ok(Answer { status, headers, text })
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/api/v1/organizations/{}{rest}", self.organization)
    }

    pub async fn get(&self, rest: &str) -> Answer {
        self.send(self.request(Method::GET, &self.path(rest))).await
    }

    pub async fn delete(&self, rest: &str) -> Answer {
        self.send(self.request(Method::DELETE, &self.path(rest))).await
    }

    pub async fn post(&self, rest: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, &self.path(rest)).json(&body)).await
    }

    /// A request that may be repeated.
    pub async fn post_with_key(&self, rest: &str, key: &str, body: Value) -> Answer {
        let request = self.request(Method::POST, &self.path(rest)).json(&body);
        self.send(request.header("Idempotency-Key", key)).await
    }

    pub async fn put(&self, rest: &str, body: Value) -> Answer {
        self.send(self.request(Method::PUT, &self.path(rest)).json(&body)).await
    }

    pub async fn claim(&self, environment: &str, body: Value) -> Answer {
        self.post(&format!("{}/sessions", at(environment)), body).await
    }

    pub async fn force_claim(&self, environment: &str, body: Value) -> Answer {
        self.post(&format!("{}/force-claim", at(environment)), body).await
    }

    pub async fn session(&self, environment: &str, session: &str) -> Answer {
        self.get(&format!("{}/sessions/{session}", at(environment))).await
    }

    pub async fn release(&self, environment: &str, session: &str) -> Answer {
        self.delete(&format!("{}/sessions/{session}", at(environment))).await
    }

    pub async fn deploy(&self, environment: &str, session: &str, body: Value) -> Answer {
        self.post(&format!("{}/sessions/{session}/deploy", at(environment)), body).await
    }

    pub async fn environment(&self, environment: &str) -> Answer {
        self.get(&at(environment)).await
    }
}

/// The path of an environment of the pipeline `web`, below the organization.
pub fn at(environment: &str) -> String {
    format!("/pipelines/web/ephemeral-environments/{environment}")
}
