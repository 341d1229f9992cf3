//! A request on its way to its handler.

use std::ops::Range;
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
    parameters: Rc<PathParameters>,
    /// The byte ranges of the parameters in the path, in their order.
    segments: [Range<usize>; PARAMETERS_MAX],
}

/// The parameters of a route, each with the number of its segment in the path, ascending.
pub type PathParameters = [(String, usize)];

/// The largest number of parameters in a route.
pub const PARAMETERS_MAX: usize = 4;

impl<A> Call<A> {
    pub fn new(app: A, request: Request, incoming: Incoming, id: RequestId, parameters: Rc<PathParameters>) -> Self {
        let segments = find(request.decoded_path(), &parameters);
        Self { app, request, incoming, id, parameters, segments }
    }

    /// The value of a path parameter.
    pub fn segment(&self, name: &str) -> &str {
        value(&self.request, &self.parameters, &self.segments, name).unwrap_or_default()
    }
}

/// The value of a path parameter, if the route has it.
pub fn segment<'r>(request: &'r Request, parameters: &PathParameters, name: &str) -> Option<&'r str> {
    value(request, parameters, &find(request.decoded_path(), parameters), name)
}

fn value<'r>(
    request: &'r Request,
    parameters: &PathParameters,
    segments: &[Range<usize>; PARAMETERS_MAX],
    name: &str,
) -> Option<&'r str> {
    let index = parameters.iter().position(|(known, _)| known == name)?;
    request.decoded_path().get(segments.get(index)?.clone())
}

/// In one pass, since every handler needs most of them.
fn find(path: &str, parameters: &PathParameters) -> [Range<usize>; PARAMETERS_MAX] {
    let mut found = [const { 0..0 }; PARAMETERS_MAX];
    let (mut start, mut number) = (0, 0);
    let ends = memchr::memchr_iter(b'/', path.as_bytes()).chain([path.len()]);
    let mut segments = ends.map(|end| std::mem::replace(&mut start, end + 1)..end);
    for ((_, position), found) in parameters.iter().zip(&mut found) {
        *found = segments.nth(position - number).unwrap_or_default();
        number = position + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_where_the_route_has_them_and_nowhere_else() {
        let parameters = [("orgId".to_owned(), 2), ("envName".to_owned(), 4)];
        for (path, expected) in [
            ("/organizations/acme/environments/review-1", ["acme", "review-1"]),
            ("/organizations/acme/environments/review-1/sessions/", ["acme", "review-1"]),
            ("/organizations//environments/", ["", ""]),
            ("/organizations/acme", ["acme", ""]),
        ] {
            let found = find(path, &parameters);
            assert_eq!([&path[found[0].clone()], &path[found[1].clone()]], expected, "{path}");
        }
    }
}
