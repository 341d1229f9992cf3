//! From a request's path and method to its handler.

use std::collections::BTreeSet;
use std::rc::Rc;

use actix_web::http::Method;

use super::call::PathParameters;
use super::meter::Meter;
use super::patterns::Patterns;
use super::problem::Problem;
use super::protection::Content;
use super::refusals;
use super::request::Request;
use super::resources::dashboard;
use super::routes::{self, API, ENVIRONMENTS, Endpoint, Handler, ORGANIZATION, Routes};

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
    /// Answered also where there are too many connections.
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

    /// A trailing slash is accepted.
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

    pub fn handler(&self, method: &Method) -> Result<&Handler, Problem> {
        let listed = if method == Method::HEAD { &Method::GET } else { method };
        match self.endpoints.iter().find(|endpoint| endpoint.method == *listed) {
            Some(endpoint) => Ok(&endpoint.handler),
            None => Err(Problem::method_not_allowed(method.as_str(), &self.allowed)),
        }
    }
}

fn parameters(path: &str) -> Rc<PathParameters> {
    let name = |segment: &str| Some(segment.strip_prefix('{')?.strip_suffix('}')?.to_owned());
    path.split('/').enumerate().filter_map(|(number, segment)| Some((name(segment)?, number))).collect()
}
