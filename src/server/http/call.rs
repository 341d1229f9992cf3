//! The input of a handler: a request, and the handles of its worker thread and, once known, of its realm.

use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use super::codes::Code;
use super::problem::Problem;
use super::request::RequestId;
use super::state::{Node, Realm, Shards};
use cluster::peers::PeerClient;
use http1::{Incoming, Request};

/// Most handlers need a realm; handlers with a [`Front`](super::state::Front) do not.
pub struct Call<A = App> {
    pub app: A,
    pub request: Request,
    pub incoming: Incoming,
    /// The request id, as in the response.
    pub id: RequestId,
    pub parameters: Rc<PathParameters>,
}

/// The parameters of a route with the numbers of their segments in the path.
pub type PathParameters = [(String, usize)];

impl<A> Call<A> {
    pub fn segment(&self, name: &str) -> &str {
        segment(&self.request, &self.parameters, name).unwrap_or_default()
    }

    /// The id in the path. Text that is not an id counts as a missing record.
    pub fn id<T: FromStr>(&self, name: &str, missing: Code) -> Result<T, Problem> {
        self.segment(name).parse().map_err(|_| missing.into())
    }
}

/// The value of a path parameter, if the route has it.
pub fn segment<'r>(request: &'r Request, parameters: &PathParameters, name: &str) -> Option<&'r str> {
    let (_, number) = parameters.iter().find(|(known, _)| known == name)?;
    request.segments().segment(*number)
}

/// A separate handle per worker thread, so that requests of different threads do not contend on one reference count.
pub type PerThread<T> = Rc<Arc<T>>;

/// A worker thread's handles for requests that need no store.
#[derive(Clone)]
pub struct Front {
    pub node: PerThread<Node>,
    pub realms: Realms,
    /// Whether the requests came over TLS.
    pub encrypted: bool,
}

/// The stores of this process.
#[derive(Clone)]
pub enum Realms {
    /// The whole data directory.
    Only(PerThread<Realm>),
    /// The shards that this node owns. Requests for other shards are forwarded to their owners.
    Shards(PerThread<Cluster>),
}

/// The other nodes, and the client for them.
pub struct Cluster {
    pub shards: Arc<dyn Shards>,
    pub client: PeerClient,
}

/// A request's handles, once its realm is known.
#[derive(Clone)]
pub struct App {
    pub node: PerThread<Node>,
    pub realm: PerThread<Realm>,
    /// Whether the request came over TLS.
    pub encrypted: bool,
}

impl Front {
    pub fn with(&self, realm: &PerThread<Realm>) -> App {
        App { node: self.node.clone(), realm: realm.clone(), encrypted: self.encrypted }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parameters_are_found_where_the_route_has_them_and_nowhere_else() {
        let parameters = [("orgId".to_owned(), 2), ("envName".to_owned(), 4)];
        for (path, expected) in [
            ("/organizations/acme/environments/review-1", [Some("acme"), Some("review-1"), None]),
            ("/organizations/acme/environments/review-1/sessions/", [Some("acme"), Some("review-1"), None]),
            ("/organizations//environments/", [Some(""), Some(""), None]),
            ("/organizations/%61cme", [Some("acme"), None, None]),
        ] {
            let request = Request::get(path).unwrap();
            let found = ["orgId", "envName", "other"].map(|name| segment(&request, &parameters, name));
            assert_eq!(found, expected, "{path}");
        }
    }
}
