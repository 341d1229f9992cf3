//! Gives a request to its handler, with the realm that it concerns.

use super::answer::Answered;
use super::call::Call;
use super::front::{Front, Realms};
use super::handling::Handling;
use super::incoming::Incoming;
use super::request::Request;
use super::request_id::RequestId;
use super::router::Resource;
use super::routes::Handler;
use super::{refusals, routing};

pub async fn dispatch(
    front: &Front,
    resource: &Resource,
    request: &Request,
    incoming: Incoming,
    id: &RequestId,
) -> Answered {
    let handler = match resource.handler(request.method())? {
        Handler::OfRealm(handler) => handler,
        Handler::FromNodes(handler) if request.via().is_some() => handler,
        Handler::OfNode(handler) => return handler(of_node(front, resource, request, incoming, id)).await,
        Handler::OfNodeFromNodes(handler) if request.via().is_some() => {
            return handler(of_node(front, resource, request, incoming, id)).await;
        }
        Handler::FromNodes(_) | Handler::OfNodeFromNodes(_) => {
            return Err(refusals::route_not_found(request.path()).into());
        }
    };
    let handling = Handling { front, resource, handler, request, id };
    match &front.realms {
        Realms::Only(realm) => handling.answer(&front.with(realm), incoming).await,
        // Boxed, since requests on one machine need no room for it.
        Realms::Shards(cluster) => Box::pin(routing::route(cluster, &handling, incoming)).await,
    }
}

fn of_node(front: &Front, resource: &Resource, request: &Request, incoming: Incoming, id: &RequestId) -> Call<Front> {
    let (app, request, id, parameters) = (front.clone(), request.clone(), id.clone(), resource.parameters.clone());
    Call { app, request, incoming, id, parameters }
}
