//! Finds the realm of a request in a cluster: here, or on another node, which is asked again while a shard is taken over.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web::Bytes;
use tokio::time::Instant;

use super::answer::{Answered, EarlyReturn};
use super::body::read_whole;
use super::call::segment;
use super::clients;
use super::codes::Code;
use super::forwarding::{Unanswered, forward};
use super::front::{App, Cluster};
use super::handling::Handling;
use super::idempotent;
use super::incoming::Incoming;
use super::owned_stream::owned_stream;
use super::problem::Problem;
use super::request::Request;
use super::response::Response;
use super::shards::{Peer, Whereabouts};
use super::state::Realm;
use crate::peers::VIA;
use crate::sso;

/// How long a request is tried again while its shard has no owner: longer than a take-over usually lasts.
const TRIED_FOR: Duration = Duration::from_secs(15);
/// Owners are seen a moment after they have taken a shard.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(100);
const WAY: HeaderName = HeaderName::from_static(VIA);

/// A request with its way, if another node has passed it on.
pub fn arrived(cluster: &Cluster, request: Request) -> Request {
    let Some(header) = request.headers().text(&WAY) else { return request };
    match cluster.client.way(header, (request.method().as_str(), request.path_and_query())) {
        Some(way) => request.passed_on(way),
        None => request,
    }
}

pub async fn route(cluster: &Cluster, handling: &Handling<'_>, mut incoming: Incoming) -> Answered {
    let request = handling.request;
    if request.via().is_none() && request.headers().contains(&WAY) {
        return Err(
            Problem::new(Code::NotTheOwner, "the header Lockkeeper-Via is not signed with this node's key").into()
        );
    }
    let route = Route { cluster, handling };
    let organization = segment(request, &handling.resource.parameters, "orgId");
    // Without reading its body, which its handler does when it knows the client.
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
    /// Answers it here, unless this node may have lost the shard by then.
    async fn answer(&self, realm: Arc<Realm>, incoming: Incoming) -> Answered {
        let (front, request) = (self.handling.front, self.handling.request);
        if !realm.store.is_current() {
            // Nothing is executed: another node may look for the next owner.
            return Err(if request.via().is_some() { not_the_owner() } else { not_current() }.into());
        }
        let encrypted = request.via().map_or(front.encrypted, |via| via.encrypted);
        let app = App { realm: Rc::new(realm), encrypted, node: front.node.clone() };
        let answered = self.handling.answer(&app, incoming).await;
        if !app.realm.store.is_current() {
            // The engine may or may not have the change, and this node can no longer tell.
            let lost = || Unanswered::Unknown("this node has lost the organization's shard meanwhile".to_owned());
            return Err(if is_read(request) { not_current() } else { problem(lost()) }.into());
        }
        answered.map(|response| owned_stream(response, &app.realm))
    }

    async fn ask_owner(&self, organization: &str, body: &Bytes) -> Answered {
        let (request, deadline) = (self.handling.request, Instant::now() + TRIED_FOR);
        loop {
            let moved = self.cluster.shards.moved();
            let unanswered = match self.cluster.shards.of(organization) {
                Whereabouts::Here(realm) => return self.answer(realm, Incoming::Whole(body.clone())).await,
                // The node that passed it on looks again.
                Whereabouts::At(_) | Whereabouts::Nowhere if request.via().is_some() => {
                    return Err(not_the_owner().into());
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
            tokio::time::timeout(TRIED_AGAIN_AFTER, moved).await.ok();
        }
    }

    /// Gives up when somebody else owns the shard: the answer may never come then.
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

    /// A request without an organization: the first realm that knows its token, sign-in or invitation answers.
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

    /// Whether it has no effect to be sent twice.
    fn may_be_sent_again(&self, unanswered: &Unanswered) -> bool {
        let request = self.handling.request;
        match unanswered {
            Unanswered::NotExecuted(_) => true,
            Unanswered::Unknown(_) => is_read(request) || request.headers().contains(&idempotent::KEY),
            Unanswered::ClientGone => false,
        }
    }
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// The organization of a request whose path has none.
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
    // Of a browser that comes back from its provider.
    let of_state = || sso::organization_of(&of_query("state")?).map(str::to_owned);
    of_query("organization").or_else(of_body).or_else(of_state)
}

/// Whether another realm may know what this one does not.
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

fn not_the_owner() -> Problem {
    Problem::new(Code::NotTheOwner, Code::NotTheOwner.meaning())
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
        Unanswered::ClientGone => clients::gone(),
    }
}
