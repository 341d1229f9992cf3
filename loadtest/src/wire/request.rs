//! Builds the bytes of every request. Parts common to all environments are built once; an environment's request is
//! assembled from them in a reused buffer, because a million prebuilt ones would not fit in memory.

use std::fmt;
use std::io::Write;

use crate::wire::token::Token;

/// The location of a run's environments in the API.
#[derive(Clone, Debug)]
pub struct Scope {
    pub authority: String,
    pub organization: String,
    pub pipeline: String,
    /// The prefix of the environments' names, followed by a number.
    pub prefix: String,
    pub token: Token,
}

impl Scope {
    pub fn environment_name(&self, number: u32) -> String {
        format!("{}{number:06}", self.prefix)
    }

    pub fn environment_number(&self, name: &str) -> Option<u32> {
        name.strip_prefix(&self.prefix)?.parse().ok()
    }
}

/// The headers of every request to one server, for callers that build each request separately.
#[derive(Clone, Debug)]
pub struct Api {
    headers: String,
}

impl Api {
    pub fn new(authority: &impl fmt::Display, token: &Token) -> Self {
        Self { headers: format!("Host: {authority}\r\nAuthorization: Bearer {}\r\n", token.reveal()) }
    }

    /// `path` is relative to the API, `extra` are further headers, each with its line end; reads and deletions have no
    /// body.
    pub fn request(&self, method: &str, path: &str, extra: &str, body: &str) -> Vec<u8> {
        let (headers, length) = (&self.headers, body.len());
        let content = match method {
            "GET" | "DELETE" => String::new(),
            _ => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        format!("{method} /api/v1{path} HTTP/1.1\r\n{headers}{extra}{content}\r\n{body}").into_bytes()
    }
}

/// The server's limit for waiting.
pub const LONGEST_WAIT_SECONDS: u32 = 300;

#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub wait_seconds: u32,
    pub ttl_seconds: Option<u32>,
    /// Claims any environment with this value of the label `pool`, instead of one by name.
    pub pool: Option<String>,
}

impl Terms {
    pub fn waiting(wait_seconds: u32) -> Self {
        Self { wait_seconds, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub struct ClaimTemplate {
    pub template: Template,
    pub terms: Terms,
}

/// A prebuilt request that lacks only the environment's number and the session's id.
#[derive(Clone, Debug)]
pub struct Template {
    /// The request up to and including the environment's prefix.
    head: Vec<u8>,
    numbered: bool,
    /// The part between the environment's number and the session id, or up to the end.
    middle: Vec<u8>,
    tail: Vec<u8>,
}

/// Placeholders in a template's path: the environment's number, and the session's id.
const NUMBER: &str = "{number}";
const SESSION: &str = "{session}";

impl Template {
    fn of(request: Vec<u8>) -> Self {
        let text = String::from_utf8(request).expect("requests are put together from text");
        let (head, numbered, rest) = match text.split_once(NUMBER) {
            Some((head, rest)) => (head, true, rest),
            None => (text.as_str(), false, ""),
        };
        let (middle, tail) = rest.split_once(SESSION).unwrap_or((rest, ""));
        Self { head: head.into(), numbered, middle: middle.into(), tail: tail.into() }
    }

    /// Replaces the buffer with the whole request.
    pub fn write(&self, environment: u32, session_id: &str, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.head);
        if self.numbered {
            write!(into, "{environment:06}").expect("writing to a Vec never fails");
        }
        into.extend_from_slice(&self.middle);
        into.extend_from_slice(session_id.as_bytes());
        into.extend_from_slice(&self.tail);
    }
}

/// The requests common to all workloads, prebuilt, and constructors for the others.
#[derive(Clone, Debug)]
pub struct Requests {
    pub health: Template,
    pub release: Template,
    pub read: Template,
    pub read_session: Template,
    pub deploy: Template,
    pub heartbeat: Template,
    pub force_claim: Template,
    pub list: Template,
    api: Api,
    /// The path of the pipeline's environments.
    environments: String,
    /// The path of one environment.
    environment: String,
}

impl Requests {
    pub fn new(scope: &Scope) -> Self {
        let Scope { authority, organization, pipeline, prefix, token } = scope;
        let api = Api::new(authority, token);
        let environments = format!("/organizations/{organization}/pipelines/{pipeline}/ephemeral-environments");
        let environment = format!("{environments}/{prefix}{NUMBER}");
        let session = format!("{environment}/sessions/{SESSION}");
        let build = |method, path: &str, body| Template::of(api.request(method, path, "", body));
        Self {
            health: Template::of(format!("GET /healthz HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes()),
            release: build("DELETE", &session, ""),
            read: build("GET", &environment, ""),
            read_session: build("GET", &session, ""),
            deploy: build("POST", &format!("{session}/deploy"), r#"{"commitId":"c0ffee1"}"#),
            heartbeat: build("POST", &format!("{session}/heartbeat"), "{}"),
            list: build("GET", &format!("{environments}?limit=50"), ""),
            force_claim: build("POST", &format!("{environment}/force-claim"), "{}"),
            api,
            environments,
            environment,
        }
    }

    pub fn put(&self, configuration: &str) -> Template {
        Template::of(self.api.request("PUT", &self.environment, "", configuration))
    }

    pub fn claim(&self, terms: Terms) -> ClaimTemplate {
        let mut members = Vec::new();
        if let Some(pool) = &terms.pool {
            members.push(format!(r#""labels":{{"pool":"{pool}"}}"#));
        }
        if terms.wait_seconds > 0 {
            members.push(format!(r#""waitSeconds":{}"#, terms.wait_seconds));
        }
        if let Some(ttl_seconds) = terms.ttl_seconds {
            members.push(format!(r#""ttlSeconds":{ttl_seconds}"#));
        }
        let of = if terms.pool.is_some() { &self.environments } else { &self.environment };
        let body = format!("{{{}}}", members.join(","));
        let template = Template::of(self.api.request("POST", &format!("{of}/sessions"), "", &body));
        ClaimTemplate { template, terms }
    }

    /// A claim that only joins the end of the queue, behind all waiters.
    pub fn queue_last(&self) -> Template {
        let path = format!("{}/sessions", self.environment);
        Template::of(self.api.request("POST", &path, "", r#"{"queue":true,"priority":-1}"#))
    }

    pub fn history_page(&self, page: u64, limit: u32) -> Template {
        let path = format!("{}/history?page={page}&limit={limit}", self.environment);
        Template::of(self.api.request("GET", &path, "", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            authority: "127.0.0.1:8080".to_owned(),
            organization: "acme".to_owned(),
            pipeline: "web".to_owned(),
            prefix: "load-".to_owned(),
            token: Token::parse("lk_x").expect("usable"),
        }
    }

    fn written(template: &Template, environment: u32, session: &str) -> String {
        let mut bytes = b"left over".to_vec();
        template.write(environment, session, &mut bytes);
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_claim_names_its_environment_and_carries_token_and_body() {
        let claim = Requests::new(&scope()).claim(Terms { wait_seconds: 5, ttl_seconds: Some(9), pool: None });
        assert_eq!(
            written(&claim.template, 7, ""),
            "POST /api/v1/organizations/acme/pipelines/web/ephemeral-environments/load-000007/sessions HTTP/1.1\r\n\
             Host: 127.0.0.1:8080\r\nAuthorization: Bearer lk_x\r\nContent-Type: application/json\r\n\
             Content-Length: 32\r\n\r\n{\"waitSeconds\":5,\"ttlSeconds\":9}"
        );
    }

    #[test]
    fn a_claim_of_any_names_a_pool_and_no_environment() {
        let terms = Terms { pool: Some("a".to_owned()), ..Terms::default() };
        let claim = written(&Requests::new(&scope()).claim(terms).template, 7, "");
        assert!(claim.contains("/ephemeral-environments/sessions HTTP/1.1"), "{claim}");
        assert!(claim.ends_with("\r\n\r\n{\"labels\":{\"pool\":\"a\"}}"), "{claim}");
    }

    #[test]
    fn a_release_names_its_session_and_has_no_body() {
        assert_eq!(
            written(&Requests::new(&scope()).release, 1_000_000, "ses_1"),
            "DELETE /api/v1/organizations/acme/pipelines/web/ephemeral-environments/load-1000000/sessions/ses_1 \
             HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer lk_x\r\n\r\n"
        );
    }

    #[test]
    fn an_environment_is_known_by_its_name() {
        for number in [1, 999_999, 1_000_000] {
            assert_eq!(scope().environment_number(&scope().environment_name(number)), Some(number));
        }
        assert_eq!(scope().environment_number("review-1"), None);
    }
}
