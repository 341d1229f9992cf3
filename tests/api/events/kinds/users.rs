//! The initiators of changes, and the expected events.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::events::text;
use crate::support::issuer::{AUDIENCE, Issuer};
use crate::support::{Answer, Client, Server, Setup, assert_is_time};

/// The sample's organization and some of its members.
pub struct Users {
    /// Stopped on drop.
    server: Server,
    /// The issuer of a CI that the organization trusts.
    pub issuer: Issuer,
    pub admin: User,
    pub mia: User,
    pub ana: User,
    pub ben: User,
}

pub struct User {
    pub client: Client,
    actor: Value,
}

/// A change made by a user.
pub struct Change {
    pub answer: Answer,
    pub request: String,
    actor: Value,
}

/// An event that must be recorded exactly once with this content.
#[derive(Debug)]
pub struct Expected {
    pub kind: &'static str,
    event: Value,
    /// Fields that its data must contain, unless all of it is given.
    having: Map<String, Value>,
}

impl Users {
    pub async fn log_in() -> Self {
        let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\ntermination_grace_seconds = 1\n\
                        [webhooks]\nallow_private = true\n[git]\nallow_file_urls = true\n";
        let issuer = Issuer::start().await;
        let sample = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/acme.toml")).unwrap();
        let trusted = format!(
            "[[identities]]\nissuer = '{}'\naudience = '{AUDIENCE}'\n\
             rules = [{{ claims = {{ repository = 'acme/*' }}, role = 'developer', name = 'ci' }}]\n",
            issuer.url()
        );
        let server = Setup::default().settings(settings).organization(&format!("{sample}\n{trusted}")).start();
        let admin = User::named(&server, "admin").await;
        let mia = User::named(&server, "mia").await;
        let ana = User::named(&server, "ana").await;
        let ben = User::named(&server, "ben").await;
        Self { server, issuer, admin, mia, ana, ben }
    }

    /// A browser without a token.
    pub fn anonymous(&self) -> Client {
        self.server.anonymous()
    }

    pub fn with_token(&self, token: &str) -> Client {
        self.server.with_token(token)
    }
}

impl User {
    async fn named(server: &Server, name: &str) -> Self {
        let made = server.admin().post("/tokens", json!({ "name": "users", "user": name })).await.created().data();
        let client = server.with_token(text(&made, "token"));
        let actor =
            json!({ "kind": "user", "userId": made["user"]["userId"], "name": name, "tokenId": made["tokenId"] });
        Self { client, actor }
    }

    /// A request with a unique id, which must succeed.
    pub async fn act(&self, method: &str, path: &str, body: Value) -> Change {
        static REQUESTS: AtomicU64 = AtomicU64::new(1);
        let id = format!("request-{}", REQUESTS.fetch_add(1, Ordering::Relaxed));
        let method: Method = method.parse().unwrap();
        let request = self.client.request(method, &self.client.path(path)).header("X-Request-Id", &id);
        let answer = self.client.send(if body.is_null() { request } else { request.json(&body) }).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        Change { answer, request: id, actor: self.actor.clone() }
    }
}

impl Change {
    /// An event of this kind, in the name of the initiator.
    pub fn by(&self, kind: &'static str) -> Expected {
        Expected::new(kind, self.actor.clone(), json!(self.request))
    }

    pub fn session(&self) -> String {
        self.answer.session()
    }

    pub fn deployment(&self) -> String {
        text(&self.answer.data(), "deploymentId").to_owned()
    }
}

/// An event of an initiator without a token.
pub fn signed_in(kind: &'static str, member: &Value, sign_in: &Value, request: &str) -> Expected {
    let actor = json!({ "kind": "user", "userId": member["userId"], "name": member["name"], "tokenId": sign_in });
    Expected::new(kind, actor, json!(request))
}

/// An event of the server itself.
pub fn system(kind: &'static str) -> Expected {
    Expected::new(kind, json!({ "kind": "system", "userId": null, "name": null, "tokenId": null }), Value::Null)
}

impl Expected {
    fn new(kind: &'static str, actor: Value, request: Value) -> Self {
        let event = json!({ "type": kind, "actor": actor, "requestId": request, "pipelineId": null, "envName": null,
                            "sessionId": null, "deploymentId": null, "data": {} });
        Self { kind, event, having: Map::new() }
    }

    pub fn at(mut self, pipeline: &str, environment: &str) -> Self {
        self.event["envName"] = json!(environment);
        self.within(pipeline)
    }

    pub fn within(mut self, pipeline: &str) -> Self {
        self.event["pipelineId"] = json!(pipeline);
        self
    }

    pub fn of_session(mut self, session: &str) -> Self {
        self.event["sessionId"] = json!(session);
        self
    }

    pub fn of_deployment(mut self, deployment: &str) -> Self {
        self.event["deploymentId"] = json!(deployment);
        self
    }

    pub fn with(mut self, data: Value) -> Self {
        self.event["data"] = data;
        self
    }

    /// Requires at least these fields.
    pub fn having(mut self, data: Value) -> Self {
        self.event["data"] = Value::Null;
        self.having = data.as_object().unwrap().clone();
        self
    }

    /// Checks that it is among the events, once.
    pub fn check(&self, events: &[Value]) {
        let shown = self.event.as_object().unwrap();
        let is_shown = |event: &Value, (field, value): (&String, &Value)| match field.as_str() {
            "data" if value.is_null() => self.having.iter().all(|(name, value)| event["data"][name] == *value),
            field => event[field] == *value,
        };
        let matching = events.iter().filter(|event| shown.iter().all(|field| is_shown(event, field)));
        let matching: Vec<_> = matching.collect();
        let near: Vec<_> = events.iter().filter(|event| event["type"] == self.kind).collect();
        assert_eq!(matching.len(), 1, "{:#} is not there once; of its kind are {near:#?}", self.event);
        assert_is_time(&matching[0]["at"]);
    }
}
