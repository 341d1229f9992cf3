//! Owns the bytes of the clients' requests.

use crate::linearizability::clients::Shared;
use crate::linearizability::history::{Claim, Moment, Request, Session};

pub fn bytes<'a>(shared: &Shared, environment: &str, request: &Request, name: impl Fn(Session) -> &'a str) -> Vec<u8> {
    let (method, path, body) = match request {
        Request::Claim(claim) => ("POST", "/sessions".to_owned(), Some(claim_body(claim))),
        Request::ForceClaim { ttl, .. } => {
            ("POST", "/force-claim".to_owned(), Some(object([member("ttlSeconds", *ttl)])))
        }
        Request::Release(session) => ("DELETE", format!("/sessions/{}", name(*session)), None),
        Request::Heartbeat(session) => {
            ("POST", format!("/sessions/{}/heartbeat", name(*session)), Some("{}".to_owned()))
        }
        Request::ReadEnvironment => ("GET", String::new(), None),
        Request::ReadSession(session) => ("GET", format!("/sessions/{}", name(*session)), None),
        Request::ReadQueue => ("GET", "/queue?limit=100".to_owned(), None),
    };
    let key = request.key().map_or_else(String::new, |key| format!("Idempotency-Key: {environment}-{key}\r\n"));
    let (base, headers) = (&shared.base, &shared.headers);
    let head = format!("{method} {base}{environment}{path} HTTP/1.1\r\n{headers}{key}");
    match body {
        Some(body) => {
            let length = body.len();
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        }
        None => format!("{head}\r\n").into_bytes(),
    }
}

pub fn put(shared: &Shared, environment: &str) -> Vec<u8> {
    let (base, headers) = (&shared.base, &shared.headers);
    format!(
        "PUT {base}{environment} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    )
    .into_bytes()
}

fn claim_body(claim: &Claim) -> String {
    let Claim { wait, queues, priority, ttl, key: _ } = claim;
    object([
        member("waitSeconds", Some(*wait).filter(|wait| *wait > 0)),
        member("ttlSeconds", *ttl),
        queues.then(|| r#""queue":true"#.to_owned()),
        (*priority != 0).then(|| format!(r#""priority":{priority}"#)),
    ])
}

fn member(name: &str, time: Option<Moment>) -> Option<String> {
    time.map(|time| format!(r#""{name}":{}"#, time / 1_000_000_000))
}

fn object(members: impl IntoIterator<Item = Option<String>>) -> String {
    format!("{{{}}}", members.into_iter().flatten().collect::<Vec<_>>().join(","))
}
