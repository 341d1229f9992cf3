//! Successful responses, `{"data": …}`, and conditional requests.

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use serde::Serialize;

use super::problem::Problem;
use domain::Expected;
use http1::{Headers, Response, json, spare_buffer};
use locks::idempotency::StoredAnswer;

/// A handler's outcome.
pub type Answered = Result<Response, EarlyReturn>;

/// Why a handler ends without executing the request completely.
pub enum EarlyReturn {
    Problem(Problem),
    /// The request was executed earlier, under the same `Idempotency-Key`.
    Replay(Box<StoredAnswer>),
}

impl<E> From<E> for EarlyReturn
where
    Problem: From<E>,
{
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

/// The media type of responses other than problems.
pub const JSON: &str = "application/json";

#[derive(Serialize, utoipa::ToSchema)]
pub struct One<T> {
    pub data: T,
}

pub fn ok<T: Serialize>(data: T) -> Response {
    one(StatusCode::OK, data)
}

pub fn one<T: Serialize>(status: StatusCode, data: T) -> Response {
    json(status, &One { data })
}

pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    Response::new(status).of_type(JSON).rendered(rendered(body))
}

/// JSON for a response, in this thread's spare buffer.
pub fn rendered<T: Serialize>(body: &T) -> Vec<u8> {
    write(body, spare_buffer::take())
}

/// JSON for other purposes, in a new buffer.
pub fn written<T: Serialize>(body: &T) -> Vec<u8> {
    write(body, Vec::with_capacity(spare_buffer::USUAL_BYTES))
}

fn write<T: Serialize>(body: &T, mut bytes: Vec<u8>) -> Vec<u8> {
    json::write(body, &mut bytes).expect("our views can be serialised: all their keys are strings");
    bytes
}

/// 304 if the client already has this state, otherwise the rendered response; both with the `ETag`.
pub fn tagged(headers: &Headers, etag: &str, render: impl FnOnce() -> Answered) -> Answered {
    let response = if is_known(headers, etag) { Response::new(StatusCode::NOT_MODIFIED) } else { render()? };
    Ok(response.with(ETAG, etag))
}

/// Whether the client already has the state with this tag.
pub fn is_known(headers: &Headers, etag: &str) -> bool {
    let mut known = tags(headers, IF_NONE_MATCH);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

/// The condition of `If-Match` or `If-None-Match: *`. Tags are `"{configuration}.{environment}.{queue}"` or
/// `"{pipeline}.{environments}"`. Only the first part counts here, so that a change of the lock does not block a change
/// of the configuration.
pub fn expected(headers: &Headers) -> Option<Expected> {
    if !headers.contains(&IF_MATCH) {
        return tags(headers, IF_NONE_MATCH).any(|tag| tag == "*").then_some(Expected::Absent);
    }
    if tags(headers, IF_MATCH).any(|tag| tag == "*") {
        return Some(Expected::Existing);
    }
    // Unknown tags match nothing.
    let revision = |tag: &str| tag.strip_prefix('"')?.strip_suffix('"')?.split_once('.')?.0.parse().ok();
    Some(Expected::Revisions(tags(headers, IF_MATCH).filter_map(revision).collect()))
}

/// The versions that `If-Match` allows, for records whose tag is just a version; `None` if any version is allowed.
pub fn expected_versions(headers: &Headers) -> Option<Vec<u64>> {
    if !headers.contains(&IF_MATCH) || tags(headers, IF_MATCH).any(|tag| tag == "*") {
        return None;
    }
    let version = |tag: &str| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    Some(tags(headers, IF_MATCH).filter_map(version).collect())
}

/// The tags of all lines of a header. Our tags contain no comma.
fn tags(headers: &Headers, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.texts(name).flat_map(|line| line.split(',')).map(str::trim)
}
