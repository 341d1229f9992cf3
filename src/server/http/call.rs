//! A request on its way to its handler.

use std::rc::Rc;

use super::front::App;
use super::incoming::Incoming;
use super::request::Request;
use super::request_id::RequestId;

/// Most handlers need a realm; those of [`Front`](super::state::Front) need none.
pub struct Call<A = App> {
    pub app: A,
    pub request: Request,
    pub incoming: Incoming,
    /// The request id, as in the answer.
    pub id: RequestId,
    pub parameters: Rc<PathParameters>,
}

/// The parameters of a route, each with the number of its segment in the path.
pub type PathParameters = [(String, usize)];

impl<A> Call<A> {
    /// The value of a path parameter.
    pub fn segment(&self, name: &str) -> &str {
        segment(&self.request, &self.parameters, name).unwrap_or_default()
    }
}

/// The value of a path parameter, if the route has it.
pub fn segment<'r>(request: &'r Request, parameters: &PathParameters, name: &str) -> Option<&'r str> {
    let (_, number) = parameters.iter().find(|(known, _)| known == name)?;
    request.segments().segment(*number)
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
