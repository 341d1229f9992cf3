//! Passes a request to its handler with its realm. In a cluster, the realm is here or on another node, and the request
//! is retried while the shard is being taken over.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::time::Instant;

use super::answer::{Answered, EarlyReturn};
use super::body::read_whole;
use super::call::{App, Call, Cluster, Front, PerThread, Realms, segment};
use super::codes::Code;
use super::forwarding::{Unanswered, forward};
use super::idempotent;
use super::problem::Problem;
use super::refusals;
use super::request::{RequestId, RequestOrigin};
use super::router::Resource;
use super::routes::{Handler, RealmHandler};
use super::state::{Peer, Realm, Whereabouts};
use accounts::sso;
use ambient::backoff::{Backoff, Retries};
use cluster::peers::{BodyHash, HeadersHash, REFUSED, VIA, ViaError};
use http1::{Body, Incoming, Request, Response};

pub async fn dispatch(
    front: &Front,
    resource: &Resource,
    request: &Request,
    incoming: Incoming,
    id: &RequestId,
) -> Answered {
    let endpoint = resource.endpoint(request.method())?;
    if endpoint.from_nodes && request.via().is_none() {
        return Err(refusals::route_not_found(request.path()).into());
    }
    let handler = match &endpoint.handler {
        Handler::OfRealm(handler) => handler,
        Handler::OfNode(handler) => {
            let (app, request, id, parameters) =
                (front.clone(), request.clone(), id.clone(), resource.parameters.clone());
            return handler(Call { app, request, incoming, id, parameters }).await;
        }
    };
    let handling = Handling { front, resource, handler, request, id };
    match &front.realms {
        Realms::Only(realm) => handling.answer(&front.with(realm), incoming).await,
        // Boxed, so that requests on a single machine do not reserve room for it.
        Realms::Shards(cluster) => Box::pin(route(cluster, &handling, incoming)).await,
    }
}

pub struct Handling<'a> {
    pub front: &'a Front,
    pub resource: &'a Resource,
    pub handler: &'a RealmHandler,
    pub request: &'a Request,
    pub id: &'a RequestId,
}

impl Handling<'_> {
    /// Answers the request from this realm.
    pub async fn answer(&self, app: &App, incoming: Incoming) -> Answered {
        let (request, parameters) = (self.request, &self.resource.parameters);
        let call = Call {
            app: app.clone(),
            request: request.clone(),
            incoming,
            id: self.id.clone(),
            parameters: parameters.clone(),
        };
        (self.handler)(call).await.map_err(|early| match early {
            EarlyReturn::Problem(problem) => refusals::with_hint(problem, app, request, parameters).into(),
            replay @ EarlyReturn::Replay(_) => replay,
        })
    }
}

/// How long a request is retried while its shard has no owner: longer than a take-over usually takes.
const TRIED_FOR: Duration = Duration::from_secs(15);
/// A new owner becomes visible a moment after it has taken a shard. Pauses double from the first to the longest, so a
/// request is forwarded at most about twenty times.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// The retry delay after a refusal by another node: nobody fixes a node's settings sooner.
const REFUSED_RETRY_SECONDS: u64 = 30;
const WAY: HeaderName = HeaderName::from_static(VIA);
const WAY_REFUSED: HeaderName = HeaderName::from_static(REFUSED);

/// Checks the mark of a forwarded request. Returns the request with its origin, or why the mark is not believed.
pub fn arrived(cluster: &Cluster, request: Request) -> (Request, Option<ViaError>) {
    if !request.headers().contains(&WAY) {
        return (request, None);
    }
    let header = request.headers().text(&WAY).unwrap_or_default();
    let signed = (request.method().as_str(), request.path_and_query());
    let headers = HeadersHash::of(request.headers().iter());
    match cluster.client.admit(header, signed, &headers, request.client_address()) {
        Ok(way) => (request.passed_on(way), None),
        Err(refusal) => (request, Some(refusal)),
    }
}

pub fn not_believed(refusal: &ViaError) -> Problem {
    let detail =
        format!("the header Lockkeeper-Via does not show that a node of this cluster sent this: {}", refusal.why());
    Problem::new(Code::NotTheOwner, detail).with_header(WAY_REFUSED, &refusal.header())
}

pub async fn route(cluster: &Cluster, handling: &Handling<'_>, mut incoming: Incoming) -> Answered {
    let request = handling.request;
    if let Some(via) = request.via() {
        let body = read_whole(request, &mut incoming, handling.front.node.body_timeout).await?;
        if via.body != BodyHash::of(&body) {
            tracing::warn!(node = via.node, "refused a request of another node: its body was changed on its way");
            let detail = "the body was changed on its way between two nodes of the cluster; nothing was done, resend the request";
            return Err(Problem::new(Code::BadRequest, detail).into());
        }
        incoming = Incoming::Whole(body);
    }
    let route = Route { cluster, handling };
    let organization = segment(request, &handling.resource.parameters, "orgId");
    // Does not read the body; the handler does that once it has authenticated the client.
    if let Some(organization) = organization
        && let Whereabouts::Here(realm) = cluster.shards.of(organization)
    {
        return route.answer(realm, incoming).await;
    }
    let body = read_whole(request, &mut incoming, handling.front.node.body_timeout).await?;
    match organization.map(str::to_owned).or_else(|| named_otherwise(request, &body)) {
        Some(organization) => route.ask_owner(&organization, &body).await,
        None => route.ask_everywhere(&body).await,
    }
}

struct Route<'a> {
    cluster: &'a Cluster,
    handling: &'a Handling<'a>,
}

impl Route<'_> {
    /// Answers the request here, unless this node may have lost the shard by then.
    async fn answer(&self, realm: Arc<Realm>, incoming: Incoming) -> Answered {
        let (front, request) = (self.handling.front, self.handling.request);
        if !realm.store.is_current() {
            // Nothing has been executed, so another node may look for the new owner.
            return Err(if request.via().is_some() { Code::NotTheOwner.into() } else { not_current() }.into());
        }
        let encrypted = request.via().map_or(front.encrypted, |via| via.encrypted);
        let app = App { realm: Rc::new(realm), encrypted, node: front.node.clone() };
        let answered = self.handling.answer(&app, incoming).await;
        if !app.realm.store.is_current() {
            // The engine may or may not have executed the change; this node can no longer tell.
            let lost = || Unanswered::Unknown("this node has lost the organization's shard meanwhile".to_owned());
            return Err(if is_read(request) { not_current() } else { problem(lost()) }.into());
        }
        answered.map(|response| owned_stream(response, app.realm))
    }

    async fn ask_owner(&self, organization: &str, body: &Bytes) -> Answered {
        let (request, deadline) = (self.handling.request, Instant::now() + TRIED_FOR);
        let mut retries = Retries::new(BACKOFF);
        loop {
            let moved = self.cluster.shards.moved();
            let unanswered = match self.cluster.shards.of(organization) {
                Whereabouts::Here(realm) => return self.answer(realm, Incoming::Whole(body.clone())).await,
                // The node that forwarded it looks for the owner again.
                Whereabouts::At(_) | Whereabouts::Nowhere if request.via().is_some() => {
                    return Err(Code::NotTheOwner.into());
                }
                Whereabouts::At(peer) => match self.forward(&peer, organization, body).await {
                    Ok(response) => return Ok(response),
                    Err(unanswered) => unanswered,
                },
                Whereabouts::Nowhere => Unanswered::NotExecuted("its shard has no owner".to_owned()),
            };
            let is_gone = request.connection().is_some_and(|connection| connection.socket.is_known_gone());
            if is_gone || Instant::now() >= deadline || !self.may_be_sent_again(&unanswered) {
                return Err(problem(unanswered).into());
            }
            tokio::time::timeout(retries.failed(), moved).await.ok();
        }
    }

    /// Forwards the request. Gives up when the shard gets another owner, since the response may never come then.
    async fn forward(&self, peer: &Peer, organization: &str, body: &Bytes) -> Result<Response, Unanswered> {
        let Handling { front, request, id, .. } = self.handling;
        let replaced = async {
            loop {
                let moved = self.cluster.shards.moved();
                match self.cluster.shards.of(organization) {
                    Whereabouts::At(now) if now == *peer => moved.await,
                    _ => return,
                }
            }
        };
        tokio::select! {
            answer = forward(&self.cluster.client, peer, request, (body, id, front.encrypted)) => answer,
            () = replaced => Err(Unanswered::Unknown(format!("{} has lost the shard", peer.node))),
        }
    }

    /// For a request without an organization: the first realm that knows its token, sign-in or invitation answers.
    async fn ask_everywhere(&self, body: &Bytes) -> Answered {
        let mut last = Err(Problem::engine_unavailable("no shard has an owner").into());
        for place in self.cluster.shards.everywhere() {
            let answered = match place {
                Whereabouts::Here(realm) => self.answer(realm, Incoming::Whole(body.clone())).await,
                Whereabouts::At(_) if self.handling.request.via().is_some() => continue,
                Whereabouts::At(peer) => {
                    let Handling { front, request, id, .. } = self.handling;
                    let sent = (body, *id, front.encrypted);
                    forward(&self.cluster.client, &peer, request, sent).await.map_err(|why| problem(why).into())
                }
                Whereabouts::Nowhere => Err(Problem::engine_unavailable("a shard has no owner").into()),
            };
            if !is_unknown(&answered) {
                return answered;
            }
            last = answered;
        }
        last
    }

    /// Whether sending the request twice is harmless.
    fn may_be_sent_again(&self, unanswered: &Unanswered) -> bool {
        let request = self.handling.request;
        match unanswered {
            Unanswered::NotExecuted(_) => true,
            Unanswered::Unknown(_) => is_read(request) || request.headers().contains(&idempotent::KEY),
            Unanswered::Refused(_) | Unanswered::ClientGone => false,
        }
    }
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// The organization of a request, from its body or query if it is not in the path.
fn named_otherwise(request: &Request, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        organization: String,
    }
    let of_query = |wanted: &str| {
        let mut parameters = form_urlencoded::parse(request.query_string().as_bytes());
        parameters.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let of_body = || Some(serde_json::from_slice::<Named>(body).ok()?.organization);
    // The state of a browser that comes back from its provider.
    let of_state = || sso::organization_of(&of_query("state")?).map(str::to_owned);
    of_query("organization").or_else(of_body).or_else(of_state)
}

/// Whether another realm may know the record.
fn is_unknown(answered: &Answered) -> bool {
    match answered {
        Ok(response) => matches!(response.status.as_u16(), 401 | 404 | 503),
        Err(EarlyReturn::Problem(problem)) => {
            matches!(
                problem.code(),
                Code::InvalidToken
                    | Code::InvalidCredentials
                    | Code::InvitationNotFound
                    | Code::SsoNotUnderWay
                    | Code::EngineUnavailable
            )
        }
        Err(EarlyReturn::Replay(_)) => false,
    }
}

fn not_current() -> Problem {
    Problem::engine_unavailable(
        "this node cannot reach the engine, so another one may have taken over the organization's shard",
    )
}

fn problem(unanswered: Unanswered) -> Problem {
    match unanswered {
        Unanswered::NotExecuted(why) => Problem::engine_unavailable(why),
        Unanswered::Unknown(why) => {
            let detail = format!("{why}; whether the request took effect is not known, so check before you try again");
            Problem::new(Code::OutcomeUnknown, detail).retry_after(1).because(why)
        }
        // An operator must act, and the log says more.
        Unanswered::Refused(why) => {
            let detail =
                "a node does not take requests of another one; an operator must act, the log of both nodes says why";
            Problem::new(Code::EngineUnavailable, detail).retry_after(REFUSED_RETRY_SECONDS).because(why)
        }
        Unanswered::ClientGone => Code::ClientGone.into(),
    }
}

/// Cuts a stream off when this node may have lost the shard. Responses of known length are complete already.
fn owned_stream(mut response: Response, realm: PerThread<Realm>) -> Response {
    if response.body.size() != BodySize::Stream {
        return response;
    }
    let mut body = std::mem::replace(&mut response.body, Body::Rendered(Vec::new())).boxed();
    response.streaming(stream::poll_fn(move |context| match Pin::new(&mut body).poll_next(context) {
        Poll::Ready(Some(_)) if !realm.store.is_current() => {
            Poll::Ready(Some(Err("another node may have taken over".into())))
        }
        polled => polled,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::{any, proptest};

    use super::*;
    use cluster::peers;

    #[test]
    fn pauses_grow_and_a_request_is_passed_on_about_twenty_times() {
        for chance in [0.0, 0.5, 1.0] {
            let pauses: Vec<_> = (1..100).map(|tried| BACKOFF.pause(tried, chance)).collect();
            assert!(pauses.is_sorted());
            let mut passed = Duration::ZERO;
            let tried = pauses
                .iter()
                .take_while(|pause| {
                    passed += **pause;
                    passed < TRIED_FOR
                })
                .count();
            assert!(tried <= 32, "{tried}");
        }
    }

    proptest! {
        /// Every target that is accepted here reaches the owner unchanged.
        #[test]
        fn every_target_that_is_accepted_is_sent_on_as_it_is(
            target in r#"/[!-~äß☃]{0,20}(\?[!-~äß☃]{0,20})?"#, any_text in any::<String>()
        ) {
            for target in [target, any_text.clone(), format!("/{any_text}"), format!("http://host/{any_text}")] {
                let Some(request) = Request::get(&target) else { continue };
                let accepted = request.path_and_query();
                let sent = peers::uri("http://10.0.0.1:8080", accepted);
                let sent = sent.as_ref().and_then(|uri| uri.path_and_query()).map(|sent| sent.as_str());
                if accepted.starts_with('/') {
                    proptest::prop_assert_eq!(sent, Some(accepted));
                    let arrived = Request::get(accepted).unwrap();
                    proptest::prop_assert_eq!(arrived.path_and_query(), accepted);
                }
            }
        }
    }
}
