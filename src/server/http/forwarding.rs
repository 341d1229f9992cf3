//! Forwards a request to another node and returns its response.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use actix_web::body::SizedStream;
use actix_web::http::header::HeaderName;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;
use futures_util::stream;

use super::codes::Code;
use super::idempotent;
use super::request::{RequestId, RequestOrigin};
use super::state::Peer;
use cluster::peers::{Forward, Forwarded, NotForwarded, PeerClient};
use http1::{Request, Response, Socket};

/// Responses up to this size are forwarded in one piece.
const WHOLE_MAX: u64 = 64 * 1024;

/// How long to wait for the response to a claim after its client has disconnected. The claim's place in a queue is held
/// equally long.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// Why there is no response from another node.
#[derive(Debug)]
pub enum Unanswered {
    /// The other node did not execute the request.
    NotExecuted(String),
    Unknown(String),
    /// The other node refused the request, and refuses all from this one.
    Refused(String),
    ClientGone,
}

/// Forwards a request. Gives up when the client disconnects, which the other node then notices.
pub async fn forward(
    client: &PeerClient,
    peer: &Peer,
    request: &Request,
    (body, id, encrypted): (&Bytes, &RequestId, bool),
) -> Result<Response, Unanswered> {
    let forward = Forward {
        method: request.method().as_str(),
        target: request.path_and_query(),
        headers: request.headers().iter().collect(),
        body: body.clone(),
        request_id: id,
        client: request.client_address(),
        encrypted,
    };
    let is_claim = is_claim(request.method(), request.decoded_path());
    let mut exchange = pin!(exchange(client, peer, forward, request.method()));
    let socket = request.connection().map(|connection| &connection.socket);
    let while_there = poll_fn(|context| match exchange.as_mut().poll(context) {
        Poll::Pending if socket.is_some_and(Socket::is_known_gone) => Poll::Ready(Err(Unanswered::ClientGone)),
        polled => polled,
    });
    let answered = match while_there.await {
        // The lock may already be granted, and the owner regards a sent response as delivered.
        Err(Unanswered::ClientGone) if is_claim => {
            tokio::time::timeout(ON_ITS_WAY, exchange).await.unwrap_or(Err(Unanswered::ClientGone))
        }
        answered => answered,
    };
    let (response, location) = answered?;
    if response.status == StatusCode::CREATED && socket.is_some_and(Socket::is_gone) {
        if let Some(session) = location.filter(|_| is_claim) {
            take_back(client.clone(), peer.clone(), session, request.headers().contains(&idempotent::KEY));
        }
        return Err(Unanswered::ClientGone);
    }
    Ok(response)
}

/// Whether the request is a claim. Routes also match with a trailing slash.
fn is_claim(method: &Method, decoded_path: &str) -> bool {
    *method == Method::POST && decoded_path.trim_end_matches('/').ends_with("/sessions")
}

/// Takes a lock back that the owner believes to be delivered, although its client has disconnected.
fn take_back(client: PeerClient, peer: Peer, session: String, keyed: bool) {
    actix_web::rt::spawn(async move {
        let target = format!("{session}/undelivered?keyed={keyed}");
        let (headers, body, request_id) = (Vec::new(), Bytes::new(), "undelivered");
        let forward =
            Forward { method: "POST", target: &target, headers, body, request_id, client: None, encrypted: false };
        if let Err(error) = client.send((&peer.node, &peer.url), forward).await {
            tracing::warn!(session, %error, "a client went away before it got its lock, which stays until its TTL ends");
        }
    });
}

async fn exchange(
    client: &PeerClient,
    peer: &Peer,
    forward: Forward<'_>,
    method: &Method,
) -> Result<(Response, Option<String>), Unanswered> {
    let answer = client.send((&peer.node, &peer.url), forward).await.map_err(|error| match error {
        NotForwarded::Unreached { .. } => Unanswered::NotExecuted(error.to_string()),
        NotForwarded::Lost { .. } => Unanswered::Unknown(error.to_string()),
        NotForwarded::Refused { .. } => Unanswered::Refused(error.to_string()),
    })?;
    if answer.status == Code::NotTheOwner.status().as_u16() {
        return Err(Unanswered::NotExecuted(format!("{} does not own the shard", peer.node)));
    }
    let status = StatusCode::from_u16(answer.status).map_err(|error| Unanswered::Unknown(error.to_string()))?;
    let mut response = Response::new(status);
    response.is_passed_on = true;
    for (name, value) in answer.headers() {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            response = response.with(name, value);
        }
    }
    let location = answer.text("location").map(str::to_owned);
    Ok((with_body(response, answer, method).await?, location))
}

async fn with_body(response: Response, answer: Forwarded, method: &Method) -> Result<Response, Unanswered> {
    match answer.length() {
        // The response to `HEAD` has a length, but no body.
        Some(length) if *method == Method::HEAD => {
            Ok(response.body(SizedStream::new(length, stream::empty::<Result<Bytes, std::io::Error>>())))
        }
        Some(length) if length <= WHOLE_MAX => Ok(response.body(answer.whole().await.map_err(Unanswered::Unknown)?)),
        Some(length) => Ok(response.body(SizedStream::new(length, answer.pieces()))),
        None if answer.is_empty() => Ok(response),
        None => Ok(response.streaming(answer.pieces())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_known_by_its_path_however_that_ends() {
        for path in ["/organizations/acme/e/review-1/sessions", "/organizations/acme/e/review-1/sessions/"] {
            assert!(is_claim(&Method::POST, path), "{path}");
            assert!(!is_claim(&Method::GET, path), "{path}");
        }
        assert!(!is_claim(&Method::POST, "/organizations/acme/e/review-1/sessions/ses_1/deploy"));
    }
}
