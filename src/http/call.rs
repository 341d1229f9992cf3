//! A request on its way to its handler.

use std::ops::Range;
use std::rc::Rc;

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header::HeaderValue;

use super::state::App;

pub struct Call {
    pub app: App,
    pub request: HttpRequest,
    pub payload: Payload,
    /// As it stands in the answer.
    pub id: HeaderValue,
    places: Rc<Places>,
    /// Where in the path what the places name is, in their order.
    segments: [Range<usize>; NAMES_MAX],
}

/// The names in a route, each with the number of its segment in the path, ascending.
pub type Places = [(String, usize)];

/// The most names that a route has.
pub const NAMES_MAX: usize = 4;

impl Call {
    pub fn new(app: App, request: HttpRequest, payload: Payload, id: HeaderValue, places: Rc<Places>) -> Self {
        let segments = find(path_of(&request), &places);
        Self { app, request, payload, id, places, segments }
    }

    /// What stands in the path where the route has this name.
    pub fn segment(&self, name: &str) -> &str {
        let place = self.places.iter().position(|(known, _)| known == name);
        let segment = place.and_then(|place| self.segments.get(place)).cloned();
        segment.and_then(|segment| path_of(&self.request).get(segment)).unwrap_or_default()
    }
}

/// In one pass, since every handler asks for most of them.
fn find(path: &str, places: &Places) -> [Range<usize>; NAMES_MAX] {
    let mut found = [const { 0..0 }; NAMES_MAX];
    let mut wanted = places.iter().zip(&mut found).peekable();
    let mut start = 0;
    for (number, segment) in path.split('/').enumerate() {
        let end = start + segment.len();
        match wanted.peek() {
            Some(((_, place), _)) if *place != number => {}
            Some(_) => wanted.by_ref().take(1).for_each(|(_, found)| *found = start..end),
            None => break,
        }
        start = end + 1;
    }
    found
}

/// The path, decoded but for slashes, which would change its segments.
pub fn path_of(request: &HttpRequest) -> &str {
    request.match_info().as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_the_route_has_them_and_nowhere_else() {
        let places = [("orgId".to_owned(), 2), ("envName".to_owned(), 4)];
        for (path, expected) in [
            ("/organizations/acme/environments/review-1", ["acme", "review-1"]),
            ("/organizations/acme/environments/review-1/sessions/", ["acme", "review-1"]),
            ("/organizations//environments/", ["", ""]),
            ("/organizations/acme", ["acme", ""]),
        ] {
            let found = find(path, &places);
            assert_eq!([&path[found[0].clone()], &path[found[1].clone()]], expected, "{path}");
        }
    }
}
