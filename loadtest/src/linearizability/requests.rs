//! Owns the choice of requests, their bytes, and the parsing of the server's answers.

use serde::Deserialize;

use crate::linearizability::history::{Answer, Claim, Lock, Moment, Request, Session, Status};
use crate::random::Random;
use crate::wire::{Api, answer as wire};

/// The path of the sample organization's environments.
const BASE: &str = "/organizations/acme/pipelines/web/ephemeral-environments/";
/// Few enough that some are reused.
const KEYS: u64 = 12;
/// Offset of the keys of force-claims, so that they differ from those of claims.
const FORCE_CLAIM_KEYS: u32 = 100;

/// Chooses a request. `newest`: sessions that the client may know. `unit`: the unit of leases and waits.
pub fn next_request(random: &mut Random, newest: &[Session], unit: Moment) -> Request {
    let ttl = random.percent(40).then(|| random.within(1..3) * unit);
    let key = random.percent(20).then(|| random.below(KEYS) as u32);
    // A retry must send the same request, so the key determines the TTL.
    let ttl = key.map_or(ttl, |key| (key % 2 == 1).then_some(unit));
    let priority = i8::from(random.percent(20));
    match (random.below(100), random.one_of(newest)) {
        (0..=19, _) => Request::Claim(Claim { ttl, key, ..Claim::default() }),
        (20..=33, _) => {
            let (wait, queues) = (random.within(1..3) * unit, random.percent(15));
            // The client never learns of many of these grants, so their locks have to expire.
            Request::Claim(Claim { wait, queues, ttl: Some(random.within(1..3) * unit), priority, key: None })
        }
        (34..=42, _) => Request::Claim(Claim { queues: true, ttl, priority, ..Claim::default() }),
        (43..=48, _) => Request::ForceClaim { ttl, key: key.map(|key| key + FORCE_CLAIM_KEYS) },
        (49..=70, Some(session)) => Request::Release(session),
        (71..=77, Some(session)) => Request::Heartbeat(session),
        (78..=86, Some(session)) => Request::ReadSession(session),
        (87..=91, _) => Request::ReadQueue,
        (_, _) => Request::ReadEnvironment,
    }
}

/// The bytes of a request for an environment of the sample organization.
pub fn request_bytes<'a>(
    api: &Api,
    environment: &str,
    request: &Request,
    name: impl Fn(Session) -> &'a str,
) -> Vec<u8> {
    let (method, path, body) = match request {
        Request::Claim(claim) => ("POST", "/sessions".to_owned(), claim_body(claim)),
        Request::ForceClaim { ttl, .. } => ("POST", "/force-claim".to_owned(), object([member("ttlSeconds", *ttl)])),
        Request::Release(session) => ("DELETE", format!("/sessions/{}", name(*session)), String::new()),
        Request::Heartbeat(session) => ("POST", format!("/sessions/{}/heartbeat", name(*session)), "{}".to_owned()),
        Request::ReadEnvironment => ("GET", String::new(), String::new()),
        Request::ReadSession(session) => ("GET", format!("/sessions/{}", name(*session)), String::new()),
        Request::ReadQueue => ("GET", "/queue?limit=100".to_owned(), String::new()),
    };
    let key = request.key().map_or_else(String::new, |key| format!("Idempotency-Key: {environment}-{key}\r\n"));
    api.request(method, &format!("{BASE}{environment}{path}"), &key, &body)
}

pub fn put_environment(api: &Api, environment: &str) -> Vec<u8> {
    api.request("PUT", &format!("{BASE}{environment}"), "", "{}")
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaiterBody {
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct Problem<'a> {
    code: &'a str,
    #[serde(borrow)]
    holder: Option<wire::Lock<'a>>,
}

/// Parses an answer; `Err` is one that this request should never get.
pub fn read_answer(
    request: &Request,
    status: u16,
    body: &[u8],
    mut number: impl FnMut(&str) -> Session,
) -> Result<Answer, String> {
    let unexpected = || {
        let code = serde_json::from_slice::<Problem>(body).map_or("", |problem| problem.code);
        format!("{status} {code} to {}", kind(request))
    };
    match (request, status) {
        // 408: a server that was paused may consider a request too slow.
        (_, 408 | 500..) => Ok(Answer::Unknown),
        (_, 400..500) => {
            let Problem { code, holder } = serde_json::from_slice(body).map_err(|_| unexpected())?;
            refused(request, code, holder.map(|holder| lock(holder, &mut number))).ok_or_else(unexpected)
        }
        (Request::ReadEnvironment, 200) => {
            let read: wire::EnvironmentView = wire::data(body).ok_or_else(unexpected)?;
            let queue_length = read.queue_length as usize;
            Ok(Answer::Environment { lock: read.lock.map(|held| lock(held, &mut number)), queue_length })
        }
        (Request::ReadQueue, 200) => {
            let read: Vec<WaiterBody> = wire::data(body).ok_or_else(unexpected)?;
            Ok(Answer::Queue(read.into_iter().map(|waiter| Some(number(&waiter.session_id?))).collect()))
        }
        (
            Request::Claim(_)
            | Request::ForceClaim { .. }
            | Request::Release(_)
            | Request::Heartbeat(_)
            | Request::ReadSession(_),
            200..300,
        ) => {
            let read: wire::SessionBody = wire::data(body).ok_or_else(unexpected)?;
            session(request, status, read, &mut number).ok_or_else(unexpected)
        }
        (_, _) => Err(unexpected()),
    }
}

fn session(
    request: &Request,
    status: u16,
    body: wire::SessionBody<'_>,
    number: &mut impl FnMut(&str) -> Session,
) -> Option<Answer> {
    let wire::SessionBody { fencing_token: fencing, queue_position: position, overrode, .. } = body;
    let (session, status_shown) = (number(body.session_id), body.lock_status?);
    match (request, status) {
        (Request::Claim(_) | Request::ForceClaim { .. }, 201) => {
            let overrode = overrode.map(|overrode| lock(overrode, number));
            Some(Answer::Granted { lock: Lock { session, fencing: fencing? }, overrode })
        }
        (Request::Claim(_), 202) => Some(Answer::Queued { session, position: position? }),
        (Request::Release(asked) | Request::Heartbeat(asked) | Request::ReadSession(asked), 200)
            if *asked == session =>
        {
            Some(Answer::Session { status: status_of(status_shown)?, fencing, position })
        }
        (_, _) => None,
    }
}

fn refused(request: &Request, code: &str, holder: Option<Lock>) -> Option<Answer> {
    match (request, code) {
        (Request::Claim(_), "environment_locked") => Some(Answer::Locked { holder }),
        (Request::Claim(_) | Request::ForceClaim { .. }, "idempotency_key_in_flight") => Some(Answer::NothingDone),
        // Another request released the session that held the claim's place.
        (Request::Claim(_), "session_released") => Some(Answer::NothingDone),
        (Request::Heartbeat(_), code) if code.starts_with("session_") && code != "session_not_found" => {
            status_of(code.trim_start_matches("session_")).map(Answer::NotHolding)
        }
        (Request::Heartbeat(_) | Request::Release(_) | Request::ReadSession(_), "session_not_found") => {
            Some(Answer::NoSuchSession)
        }
        (_, _) => None,
    }
}

fn lock(body: wire::Lock<'_>, number: &mut impl FnMut(&str) -> Session) -> Lock {
    Lock { session: number(body.session_id), fencing: body.fencing_token }
}

fn status_of(word: &str) -> Option<Status> {
    match word {
        "queued" => Some(Status::Queued),
        "active" => Some(Status::Active),
        "released" => Some(Status::Released),
        "overridden" => Some(Status::Overridden),
        "expired" => Some(Status::Expired),
        _ => None,
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Claim(_) => "a claim",
        Request::ForceClaim { .. } => "a force-claim",
        Request::Release(_) => "a release",
        Request::Heartbeat(_) => "a heartbeat",
        Request::ReadEnvironment => "a read of an environment",
        Request::ReadSession(_) => "a read of a session",
        Request::ReadQueue => "a read of a queue",
    }
}
