//! Finds a request's handler by its path and method, with path patterns in a tree of segments. Existing crates for such
//! trees find parameter values by name, with an allocation for every path with several parameters; our handlers find
//! them by their position.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use actix_web::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

use super::call::PathParameters;
use super::content::Content;
use super::problem::Problem;
use super::refusals;
use super::resources::dashboard;
use super::routes::{self, API, ENVIRONMENTS, Endpoint, ORGANIZATION, Routes};
use http1::{Path, Request, SEGMENTS_MAX};

/// Finds the resource of a request. One per worker thread.
pub struct Router {
    routes: Patterns<Rc<Resource>>,
    /// The first segments of all routes.
    taken: BTreeSet<String>,
    dashboard: Resource,
}

/// One path with its methods; `GET` includes `HEAD`.
pub struct Resource {
    pub meter: Meter,
    pub parameters: Rc<PathParameters>,
    pub content: Content,
    /// Whether it is also answered if there are too many connections.
    pub is_probe: bool,
    endpoints: Vec<Endpoint>,
    allowed: String,
}

impl Router {
    pub fn new() -> Self {
        let dashboard = Resource::new("", routes::dashboard_page());
        let mut router = Self { routes: Patterns::new(), taken: BTreeSet::new(), dashboard };
        for base in [API, ""] {
            router.add(&format!("{base}{ENVIRONMENTS}"), routes::environment_routes());
        }
        router.add(&format!("{API}{ORGANIZATION}"), routes::organization_routes());
        router.add(API, routes::caller_routes());
        router.add("", routes::operator_routes());
        router.add("", routes::sign_in_routes());
        for routes in routes::explorer_routes().into_iter().chain([routes::dashboard_files()]) {
            router.insert(routes.pattern, Rc::new(Resource::new("", routes)));
        }
        router
    }

    /// Adds routes. A trailing slash is accepted.
    fn add(&mut self, base: &str, table: Vec<Routes>) {
        for routes in table {
            let pattern = format!("{base}{}", routes.pattern);
            let resource = Rc::new(Resource::new(base, routes));
            self.insert(&format!("{pattern}/"), resource.clone());
            self.insert(&pattern, resource);
        }
    }

    fn insert(&mut self, pattern: &str, resource: Rc<Resource>) {
        self.taken.extend(pattern.split('/').nth(1).map(str::to_owned));
        self.routes.insert(pattern, resource);
    }

    pub fn find(&self, request: &Request) -> Result<&Resource, Problem> {
        if let Some(found) = self.routes.find(request.segments()) {
            return Ok(found);
        }
        let (method, path, headers) = (request.method(), request.decoded_path(), request.headers());
        let is_page = dashboard::is_page(method, path, headers, |first| self.taken.contains(first));
        if is_page { Ok(&self.dashboard) } else { Err(refusals::route_not_found(request.path())) }
    }
}

impl Resource {
    fn new(base: &str, routes: Routes) -> Self {
        let mut allowed: Vec<_> = routes.endpoints.iter().map(|endpoint| endpoint.method.to_string()).collect();
        if routes.endpoints.iter().any(|endpoint| endpoint.method == Method::GET) {
            allowed.push("HEAD".to_owned());
        }
        let endpoints: Vec<_> = routes.endpoints.into_iter().chain(routes.refused).collect();
        let methods: Vec<_> = endpoints.iter().map(|endpoint| endpoint.method.clone()).collect();
        Self {
            allowed: allowed.join(", "),
            parameters: parameters(&format!("{base}{}", routes.named)),
            content: routes.content,
            is_probe: routes.is_probe,
            meter: Meter::new(routes.path, methods),
            endpoints,
        }
    }

    pub fn endpoint(&self, method: &Method) -> Result<&Endpoint, Problem> {
        let listed = if method == Method::HEAD { &Method::GET } else { method };
        let found = self.endpoints.iter().find(|endpoint| endpoint.method == *listed);
        found.ok_or_else(|| Problem::method_not_allowed(method.as_str(), &self.allowed))
    }
}

/// The metrics of one route, looked up once instead of per request, and only on first use, because most servers never
/// use most routes.
pub struct Meter {
    route: &'static str,
    methods: Vec<OfMethod>,
}

struct OfMethod {
    method: Method,
    seconds: OnceCell<Histogram>,
    /// The counters by status class.
    answers: [OnceCell<Counter>; CLASSES.len()],
}

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Meter {
    pub fn new(route: &'static str, methods: impl IntoIterator<Item = Method>) -> Self {
        let of_method = |method| OfMethod { method, seconds: OnceCell::new(), answers: Default::default() };
        Self { route, methods: methods.into_iter().map(of_method).collect() }
    }

    pub fn record(&self, method: &Method, status: StatusCode, seconds: f64) {
        let (route, method) = (self.route, if method == Method::HEAD { &Method::GET } else { method });
        let Some(found) = self.methods.iter().find(|known| known.method == *method) else { return };
        let histogram =
            || metrics::histogram!("lockkeeper_http_request_seconds", "route" => route, "method" => method.to_string());
        found.seconds.get_or_init(histogram).record(seconds);
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        let Some((answers, class)) = found.answers.get(class).zip(CLASSES.get(class)) else { return };
        let counter = || {
            metrics::counter!(
                "lockkeeper_http_requests_total", "route" => route, "method" => method.to_string(), "status" => *class
            )
        };
        answers.get_or_init(counter).increment(1);
    }
}

fn parameters(path: &str) -> Rc<PathParameters> {
    let name = |segment: &str| Some(segment.strip_prefix('{')?.strip_suffix('}')?.to_owned());
    path.split('/').enumerate().filter_map(|(number, segment)| Some((name(segment)?, number))).collect()
}

/// A segment of a pattern is literal text; `{name}`: any non-empty segment; `text{name}`: any longer segment that
/// begins with the text; or, only as the last one, `{*name}`: the non-empty rest of the path. If several patterns match
/// a path, the first segment in which they differ decides, with this precedence: text, `text{name}`, `{name}`,
/// `{*name}`. All `text{name}` at the same place in the tree must have the same text.
pub struct Patterns<T> {
    /// The value of the pattern that ends here.
    value: Option<T>,
    texts: Vec<(String, Patterns<T>)>,
    beginning: Option<Box<(String, Patterns<T>)>>,
    any: Option<Box<Patterns<T>>>,
    /// The value of the pattern that matches the rest of the path.
    rest: Option<T>,
}

impl<T> Patterns<T> {
    pub fn new() -> Self {
        Self { value: None, texts: Vec::new(), beginning: None, any: None, rest: None }
    }

    /// Panics if the pattern has already been inserted.
    pub fn insert(&mut self, pattern: &str, value: T) {
        assert!(pattern.split('/').count() < SEGMENTS_MAX, "{pattern} has too many segments");
        let mut node = self;
        for segment in pattern.split('/') {
            node = match segment.split_once('{') {
                None => child(&mut node.texts, segment),
                Some(("", name)) if name.starts_with('*') => {
                    assert!(node.rest.replace(value).is_none(), "{pattern} is there twice");
                    return;
                }
                Some(("", _)) => node.any.get_or_insert_with(|| Box::new(Self::new())),
                Some((text, _)) => {
                    let new = || Box::new((text.to_owned(), Self::new()));
                    let (known, below) = &mut **node.beginning.get_or_insert_with(new);
                    assert!(known == text, "{pattern} begins a segment with another text than {known}");
                    below
                }
            };
        }
        assert!(node.value.replace(value).is_none(), "{pattern} is there twice");
    }

    pub fn find(&self, path: Path<'_>) -> Option<&T> {
        self.find_from(path.text.as_bytes(), 0, path.ends)
    }

    /// Matches the remaining segments: `start` is the start of the first one, `ends` are their ends.
    fn find_from<'s>(&'s self, path: &[u8], start: usize, ends: &[usize]) -> Option<&'s T> {
        let Some((&end, ends)) = ends.split_first() else { return self.value.as_ref() };
        let segment = &path[start..end];
        let goes_on = |beginning: &str| segment.len() > beginning.len() && segment.starts_with(beginning.as_bytes());
        let below = |node: &'s Self| node.find_from(path, end + 1, ends);
        if let Some((_, node)) = self.texts.iter().find(|(text, _)| text.as_bytes() == segment)
            && let Some(found) = below(node)
        {
            return Some(found);
        }
        if let Some((_, node)) = self.beginning.as_deref().filter(|(beginning, _)| goes_on(beginning))
            && let Some(found) = below(node)
        {
            return Some(found);
        }
        if let Some(node) = self.any.as_deref().filter(|_| !segment.is_empty())
            && let Some(found) = below(node)
        {
            return Some(found);
        }
        self.rest.as_ref().filter(|_| start < path.len())
    }
}

fn child<'n, T>(nodes: &'n mut Vec<(String, Patterns<T>)>, text: &str) -> &'n mut Patterns<T> {
    let known = nodes.iter().position(|(known, _)| known == text);
    let place = known.unwrap_or_else(|| {
        nodes.push((text.to_owned(), Patterns::new()));
        nodes.len() - 1
    });
    &mut nodes[place].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::Segments;

    #[test]
    fn a_path_leads_to_the_most_exact_pattern() {
        let mut patterns = Patterns::new();
        for pattern in [
            "/{env}",
            "/{env}/",
            "/sessions",
            "/sessions/ses_{id}",
            "/{env}/sessions",
            "/{env}/sessions/{id}/deploy",
            "/docs/",
            "/docs/{*file}",
            "/assets/{version}/{*file}",
        ] {
            patterns.insert(pattern, pattern);
        }
        for (path, expected) in [
            ("/a", Some("/{env}")),
            ("/a/", Some("/{env}/")),
            ("/a//", None),
            ("/", None),
            ("", None),
            ("*", None),
            ("a", None),
            ("/sessions", Some("/sessions")),
            ("/Sessions", Some("/{env}")),
            ("/sessions/", Some("/{env}/")),
            ("/sessions/ses_1", Some("/sessions/ses_{id}")),
            ("/sessions/ses_", None),
            ("/sessions/ses_1/", None),
            ("/sessions/sessions", Some("/{env}/sessions")),
            ("/sessions/sessions/ses_1/deploy", Some("/{env}/sessions/{id}/deploy")),
            ("/a/sessions//deploy", None),
            ("//sessions", None),
            ("/docs", Some("/{env}")),
            ("/docs/", Some("/docs/")),
            ("/docs//", Some("/docs/{*file}")),
            ("/docs/a/b", Some("/docs/{*file}")),
            ("/docs/sessions", Some("/docs/{*file}")),
            ("/assets/1/", None),
            ("/assets/1/a/", Some("/assets/{version}/{*file}")),
            ("/assets//a", None),
        ] {
            let segments = Segments::of(path);
            assert_eq!(patterns.find(Path::new(path, &segments)).copied(), expected, "{path}");
        }
        let deep = format!("/docs{}", "/a".repeat(2 * SEGMENTS_MAX));
        let segments = Segments::of(&deep);
        assert_eq!(patterns.find(Path::new(&deep, &segments)).copied(), Some("/docs/{*file}"));
    }

    #[test]
    #[should_panic(expected = "/a/{c} is there twice")]
    fn no_pattern_is_there_twice() {
        let mut patterns = Patterns::new();
        patterns.insert("/a/{b}", ());
        patterns.insert("/a/{c}", ());
    }
}
