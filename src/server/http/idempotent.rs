//! Retries: checks the `Idempotency-Key` of a `POST` before it is executed, and renders responses that are stored.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderName;
use serde::Serialize;

use super::access::{self, Access};
use super::answer::{EarlyReturn, JSON, One, rendered};
use super::body::{Body, read_body};
use super::call::Call;
use super::codes::Code;
use super::paging::Query;
use super::problem::Problem;
use crate::forms::Form;
use domain::{Malformed, Timestamp};
use http1::{Headers, Request, Response, ascii};
use locks::Keyed;
use locks::idempotency::{Fingerprint, IdempotencyKey, KeyState, Pending, StoredAnswer, Subject};
use store::Batch;

/// The header's name in problems and in the OpenAPI document.
pub const HEADER: &str = "Idempotency-Key";
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The retry delay while the first request is in progress: most requests are answered within milliseconds.
const IN_FLIGHT_RETRY_SECONDS: u64 = 1;
/// The retry delay while there are too many stored responses: old ones are dropped every few seconds.
const NO_ROOM_RETRY_SECONDS: u64 = 15;

/// Begins a `POST` without query parameters that has not been executed before. Returns its form and, if it has a key,
/// the pending entry that will store its response.
pub async fn begin<T: Form>(call: &mut Call, access: &mut Access) -> Result<(T, Option<Pending>), EarlyReturn> {
    let (body, pending) = begin_body(call, access).await?;
    Ok((body.form()?, pending))
}

/// Like [`begin`], for a handler that checks something else before the form.
pub async fn begin_body(call: &mut Call, access: &mut Access) -> Result<(Body, Option<Pending>), EarlyReturn> {
    Query::of(&call.request).finish()?;
    let body = read_body(call, access).await?;
    let pending = check_key(&call.request, access, body.bytes())?;
    Ok((body, pending))
}

/// Like [`begin`], for a body that contains a secret. The stored fingerprint, which recognises a retry, cannot be used
/// to test guesses of the secret: it includes the caller's token or sign-in, and the disk has only a hash of that.
pub async fn begin_secret<T: Form>(call: &mut Call, access: &mut Access) -> Result<(T, Option<Pending>), EarlyReturn> {
    Query::of(&call.request).finish()?;
    let body = read_body(call, access).await?;
    let secret = access::credential(call).as_bytes();
    let salted = |method: &str, path: &str| Fingerprint::salted(secret, method, path, body.bytes());
    let pending = check_key_as(&call.request, access, salted)?;
    Ok((body.form()?, pending))
}

/// Must be called before the fields of the body are checked, so that a retry gets its response again even if the
/// request would be invalid by now.
pub fn check_key(request: &Request, access: &Access, body: &[u8]) -> Result<Option<Pending>, EarlyReturn> {
    check_key_as(request, access, |method, path| Fingerprint::of(method, path, body))
}

fn check_key_as(
    request: &Request,
    access: &Access,
    fingerprint: impl FnOnce(&str, &str) -> Fingerprint,
) -> Result<Option<Pending>, EarlyReturn> {
    let key = key_of(request.headers()).map_err(|malformed| Problem::invalid_field(HEADER, malformed.to_string()))?;
    let Some(key) = key else {
        return Ok(None);
    };
    let path = request.path_and_query();
    let fingerprint = fingerprint(request.method().as_str(), path);
    match access.realm.idempotency.begin(&access.caller.organization, access.caller.retry_scope(), &key, fingerprint)? {
        KeyState::Unused(pending) => Ok(Some(pending)),
        KeyState::Executed(answer) => Err(EarlyReturn::Replay(Box::new(answer))),
        KeyState::Reused => Err(Problem::new(
            Code::IdempotencyKeyReused,
            "another request was executed under this `Idempotency-Key`; use a new key for every request, and send a \
             retry exactly as the first time",
        )
        .into()),
        KeyState::InFlight => {
            Err(Problem::from(Code::IdempotencyKeyInFlight).retry_after(IN_FLIGHT_RETRY_SECONDS).into())
        }
        KeyState::NoRoom => Err(Problem::new(
            Code::Overloaded,
            "your organization has used its share of this server's idempotency keys within the last minutes; nothing was \
             changed, send the request again after `Retry-After`, and leave the key out where a repetition does no harm, \
             such as with a heartbeat",
        )
        .retry_after(NO_ROOM_RETRY_SECONDS)
        .into()),
    }
}

/// Passes the key to an environment's actor, which stores the response together with the effect.
pub fn keyed<R>(pending: Option<Pending>, render: impl Fn(&R) -> StoredAnswer + Send + 'static) -> Option<Keyed<R>> {
    pending.map(|pending| Keyed { pending, render: Box::new(render) })
}

/// Passes the key to a registry, which stores the response in the batch of the change.
pub fn keep<R: ?Sized>(
    pending: Option<Pending>,
    clock: impl FnOnce() -> Timestamp,
    render: impl FnOnce(&R) -> StoredAnswer,
) -> impl FnOnce(&R, &mut Batch) -> Option<Pending> {
    move |result, batch| pending.map(|pending| pending.keep(batch, &render(result), clock()))
}

/// A response to be sent, and stored if the request has a key.
pub fn answer<T: Serialize>(status: StatusCode, location: Option<String>, data: T) -> StoredAnswer {
    StoredAnswer { status: status.as_u16(), location, body: rendered(&One { data }), subject: None }
}

/// Like [`answer`], for a response whose retry needs the subject.
pub fn answer_about<T: Serialize>(subject: Subject, status: StatusCode, location: String, data: T) -> StoredAnswer {
    StoredAnswer { subject: Some(subject), ..answer(status, Some(location), data) }
}

pub fn response(answer: StoredAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let response = Response::new(status).of_type(JSON).rendered(answer.body);
    match answer.location {
        Some(location) => response.at(location),
        None => response,
    }
}

/// A stored response, marked as replayed.
pub fn replayed(answer: StoredAnswer) -> Response {
    response(answer).with(REPLAYED, "true")
}

fn key_of(headers: &Headers) -> Result<Option<IdempotencyKey>, Malformed> {
    let mut given = headers.get_all(KEY);
    let Some(first) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        return Err(Malformed("must not be repeated"));
    }
    // A value that is not ASCII becomes empty, which is malformed, too.
    IdempotencyKey::parse(ascii(first).unwrap_or_default()).map(Some)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use actix_web::body::to_bytes;

    use super::*;

    fn headers(values: &[&'static str]) -> Headers {
        values.iter().map(|value| (KEY, *value)).collect()
    }

    #[test]
    fn a_request_has_at_most_one_key() {
        assert_eq!(key_of(&headers(&[])), Ok(None));
        assert_eq!(key_of(&headers(&["once"])), IdempotencyKey::parse("once").map(Some));
        for malformed in [&[""][..], &["a b"], &["é"], &["once", "once"]] {
            assert!(key_of(&headers(malformed)).is_err(), "{malformed:?}");
        }
    }

    #[actix::test]
    async fn a_response_has_all_of_its_answer() {
        let answer = answer(StatusCode::ACCEPTED, Some("/there".to_owned()), "x");
        let response = response(answer.clone());
        assert_eq!(response.status, StatusCode::ACCEPTED);
        assert_eq!((response.content_type, response.location.as_deref()), (Some(JSON), Some("/there")));
        assert_eq!(to_bytes(response.body.boxed()).await.unwrap(), answer.body);
        assert_eq!(answer.body, br#"{"data":"x"}"#);
    }
}
