//! A request and its handler, before its realm is known.

use super::answer::{Answered, EarlyReturn};
use super::call::Call;
use super::front::{App, Front};
use super::hints;
use super::incoming::Incoming;
use super::request::Request;
use super::request_id::RequestId;
use super::router::Resource;
use super::routes::RealmHandler;

pub struct Handling<'a> {
    pub front: &'a Front,
    pub resource: &'a Resource,
    pub handler: &'a RealmHandler,
    pub request: &'a Request,
    pub id: &'a RequestId,
}

impl Handling<'_> {
    /// Answers it from this realm.
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
            EarlyReturn::Problem(problem) => hints::with_hint(problem, app, request, parameters).into(),
            replay @ EarlyReturn::Replay(_) => replay,
        })
    }
}
