//! Owns the bytes of every request. What is the same for all environments is built once; an environment's request is
//! put together from those parts in a reused buffer, since a million prebuilt ones would not fit in memory.

use std::fmt;
use std::io::Write;

use crate::wire::token::Token;

/// Where in the API the environments of a run are.
#[derive(Clone, Debug)]
pub struct Place {
    pub authority: String,
    pub organization: String,
    pub pipeline: String,
    /// Environments are named by it and their number.
    pub prefix: String,
    pub token: Token,
}

impl Place {
    pub fn environment_name(&self, number: u32) -> String {
        format!("{}{number:06}", self.prefix)
    }

    /// The number of an environment of ours.
    pub fn environment_number(&self, name: &str) -> Option<u32> {
        name.strip_prefix(&self.prefix)?.parse().ok()
    }
}

/// Host and token of every request to one server, for those who put each request together anew.
#[derive(Clone, Debug)]
pub struct Api {
    headers: String,
}

impl Api {
    pub fn new(authority: &impl fmt::Display, token: &Token) -> Self {
        Self { headers: format!("Host: {authority}\r\nAuthorization: Bearer {}\r\n", token.reveal()) }
    }

    /// `path` is within the API, `extra` are further headers, each with its line end; reads and deletions have no body.
    pub fn request(&self, method: &str, path: &str, extra: &str, body: &str) -> Vec<u8> {
        let (headers, length) = (&self.headers, body.len());
        let content = match method {
            "GET" | "DELETE" => String::new(),
            _ => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        format!("{method} /api/v1{path} HTTP/1.1\r\n{headers}{extra}{content}\r\n{body}").into_bytes()
    }
}

/// As long as the server lets anybody wait.
pub const LONGEST_WAIT_SECONDS: u32 = 300;

/// How a lock is asked for.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub wait_seconds: u32,
    pub ttl_seconds: Option<u32>,
    /// Any environment with this value of the label `pool`, instead of one by its name.
    pub pool: Option<String>,
}

impl Terms {
    pub fn waiting(wait_seconds: u32) -> Self {
        Self { wait_seconds, ..Self::default() }
    }
}

/// A claim, ready to be sent.
#[derive(Clone, Debug)]
pub struct ClaimTemplate {
    pub template: Template,
    pub terms: Terms,
}

/// A request but for the environment's number and the session's id.
#[derive(Clone, Debug)]
pub struct Template {
    /// Up to and with the environment's prefix.
    head: Vec<u8>,
    numbered: bool,
    /// Between the environment's number and the session id, or to the end.
    middle: Vec<u8>,
    tail: Vec<u8>,
}

/// Those that every workload uses, prebuilt, and the means to build the others.
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
    base: String,
    prefix: String,
    authorized: String,
}

impl Requests {
    pub fn new(place: &Place) -> Self {
        let host = format!(" HTTP/1.1\r\nHost: {}\r\n", place.authority);
        let authorized = format!("{host}Authorization: Bearer {}\r\n", place.token.reveal());
        let base = format!(
            "/api/v1/organizations/{}/pipelines/{}/ephemeral-environments/",
            place.organization, place.pipeline
        );
        let build = Builder { base: &base, prefix: &place.prefix, authorized: &authorized };
        Self {
            health: Template {
                head: format!("GET /healthz{host}\r\n").into_bytes(),
                numbered: false,
                middle: Vec::new(),
                tail: Vec::new(),
            },
            release: build.without_body("DELETE", "/sessions/", ""),
            read: build.without_body("GET", "", ""),
            read_session: build.without_body("GET", "/sessions/", ""),
            deploy: build.with_body("POST", "/sessions/", "/deploy", r#"{"commitId":"c0ffee1"}"#),
            heartbeat: build.with_body("POST", "/sessions/", "/heartbeat", "{}"),
            list: build.list(),
            force_claim: build.with_body("POST", "/force-claim", "", "{}"),
            prefix: place.prefix.clone(),
            base,
            authorized,
        }
    }

    /// `configuration` is the JSON that the environment gets.
    pub fn put(&self, configuration: &str) -> Template {
        self.builder().with_body("PUT", "", "", configuration)
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
        let body = format!("{{{}}}", members.join(","));
        let template = match &terms.pool {
            Some(_) => self.builder().of_no_environment("POST", "sessions", &body),
            None => self.builder().with_body("POST", "/sessions", "", &body),
        };
        ClaimTemplate { template, terms }
    }

    /// A claim that only takes a place at the end of the queue, behind all who wait.
    pub fn queue_last(&self) -> Template {
        self.builder().with_body("POST", "/sessions", "", r#"{"queue":true,"priority":-1}"#)
    }

    pub fn history_page(&self, page: u64, limit: u32) -> Template {
        self.builder().without_body("GET", &format!("/history?page={page}&limit={limit}"), "")
    }

    fn builder(&self) -> Builder<'_> {
        Builder { base: &self.base, prefix: &self.prefix, authorized: &self.authorized }
    }
}

struct Builder<'a> {
    base: &'a str,
    prefix: &'a str,
    authorized: &'a str,
}

impl Builder<'_> {
    fn without_body(&self, method: &str, middle: &str, after_session: &str) -> Template {
        self.template(method, middle, &format!("{after_session}{}\r\n", self.authorized))
    }

    fn with_body(&self, method: &str, middle: &str, after_session: &str, body: &str) -> Template {
        self.template(method, middle, &format!("{after_session}{}", self.body(body)))
    }

    fn of_no_environment(&self, method: &str, path: &str, body: &str) -> Template {
        let head = format!("{method} {}{path}{}", self.base, self.body(body)).into_bytes();
        Template { head, numbered: false, middle: Vec::new(), tail: Vec::new() }
    }

    /// A page of the pipeline's environments.
    fn list(&self) -> Template {
        // The path without the slash that an environment's name would follow.
        let base = self.base.trim_end_matches('/');
        let head = format!("GET {base}?limit=50{}\r\n", self.authorized).into_bytes();
        Template { head, numbered: false, middle: Vec::new(), tail: Vec::new() }
    }

    fn body(&self, body: &str) -> String {
        let (authorized, length) = (self.authorized, body.len());
        format!("{authorized}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    fn template(&self, method: &str, middle: &str, tail: &str) -> Template {
        Template {
            head: format!("{method} {}{}", self.base, self.prefix).into_bytes(),
            numbered: true,
            middle: middle.as_bytes().to_vec(),
            tail: tail.as_bytes().to_vec(),
        }
    }
}

impl Template {
    /// The whole request, in place of what was in the buffer.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
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
        let claim = Requests::new(&place()).claim(Terms { wait_seconds: 5, ttl_seconds: Some(9), pool: None });
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
        let claim = written(&Requests::new(&place()).claim(terms).template, 7, "");
        assert!(claim.contains("/ephemeral-environments/sessions HTTP/1.1"), "{claim}");
        assert!(claim.ends_with("\r\n\r\n{\"labels\":{\"pool\":\"a\"}}"), "{claim}");
    }

    #[test]
    fn a_release_names_its_session_and_has_no_body() {
        assert_eq!(
            written(&Requests::new(&place()).release, 1_000_000, "ses_1"),
            "DELETE /api/v1/organizations/acme/pipelines/web/ephemeral-environments/load-1000000/sessions/ses_1 \
             HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer lk_x\r\n\r\n"
        );
    }

    #[test]
    fn an_environment_is_known_by_its_name() {
        for number in [1, 999_999, 1_000_000] {
            assert_eq!(place().environment_number(&place().environment_name(number)), Some(number));
        }
        assert_eq!(place().environment_number("review-1"), None);
    }
}
