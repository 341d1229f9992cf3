//! The one table of routes: what is served where, by which handler, and how the OpenAPI document describes it.

use actix_web::http::Method;
use actix_web::{Handler, HttpRequest, HttpResponse, Resource, Responder, guard, web};

use super::codes::Code;
use super::observe::Meter;
use super::openapi::{self, Operation};
use super::problem::Problem;
use super::{environment_list, environments, operations, pipelines, sessions, tokens};

/// Where ephemeral environments live; also answered without `/api/v1`, since clients exist for both readings.
pub const ENVIRONMENTS: &str = "/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments";
pub const ORGANIZATION: &str = "/organizations/{orgId}";
pub const API: &str = "/api/v1";

/// Everything served under one path.
pub struct Routes {
    /// Below the place the table is for, as the document has it.
    pub path: &'static str,
    pub endpoints: Vec<Endpoint>,
    /// What the web server matches; the same but where paths would clash.
    pattern: &'static str,
    /// Served here too, and described under another path.
    others: Vec<Endpoint>,
}

pub struct Endpoint {
    pub method: Method,
    pub operation: Operation,
    route: actix_web::Route,
}

pub fn environment_routes() -> Vec<Routes> {
    vec![
        at(
            "/sessions/{sessionId}",
            [
                on(Method::GET, sessions::view_any, openapi::get_any_session()),
                on(Method::DELETE, sessions::release_any, openapi::release_any_session()),
            ],
        )
        .matching("/sessions/{sessionId:ses_[^/]*}"),
        // An environment may be called `sessions` too.
        at("/sessions", [on(Method::POST, sessions::claim_any, openapi::claim_any())])
            .matching("/{envName:sessions}")
            .and(environment()),
        at("/{envName}/sessions", [on(Method::POST, sessions::claim, openapi::claim_session())]),
        at(
            "/{envName}/sessions/{sessionId}",
            [
                on(Method::GET, sessions::view, openapi::get_session()),
                on(Method::DELETE, sessions::release, openapi::release_session()),
            ],
        ),
        at("/{envName}", environment()),
        at("/{envName}/sessions/{sessionId}/deploy", [on(Method::POST, sessions::deploy, openapi::deploy_commit())]),
        at("/{envName}/sessions/{sessionId}/heartbeat", [on(Method::POST, sessions::heartbeat, openapi::heartbeat())]),
        at("/{envName}/force-claim", [on(Method::POST, sessions::force_claim, openapi::force_claim())]),
        at("/{envName}/history", [on(Method::GET, environments::history, openapi::get_history())]),
        at("/{envName}/queue", [on(Method::GET, environments::queue, openapi::get_queue())]),
        at("", [on(Method::GET, environment_list::list, openapi::list_environments())]),
    ]
}

fn environment() -> [Endpoint; 3] {
    [
        on(Method::GET, environments::view, openapi::get_environment()),
        on(Method::PUT, environments::put, openapi::put_environment()),
        on(Method::DELETE, environments::delete, openapi::delete_environment()),
    ]
}

pub fn organization_routes() -> Vec<Routes> {
    vec![
        at("/pipelines", [on(Method::GET, pipelines::list, openapi::list_pipelines())]),
        at("/pipelines/{pipelineId}", [on(Method::GET, pipelines::view, openapi::get_pipeline())]),
        at(
            "/tokens",
            [
                on(Method::GET, tokens::list, openapi::list_tokens()),
                on(Method::POST, tokens::create, openapi::create_token()),
            ],
        ),
        at("/tokens/{tokenId}", [on(Method::DELETE, tokens::revoke, openapi::revoke_token())]),
    ]
}

pub fn operator_routes() -> Vec<Routes> {
    vec![
        at("/healthz", [on(Method::GET, operations::healthz, openapi::healthz())]),
        at("/readyz", [on(Method::GET, operations::readyz, openapi::readyz())]),
        at("/metrics", [on(Method::GET, operations::metrics, openapi::metrics())]),
        at("/api/v1/openapi.json", [on(Method::GET, operations::description, openapi::description())]),
        at("/problems/{code}", [on(Method::GET, operations::problem, openapi::problem())]),
    ]
}

pub fn configure(config: &mut web::ServiceConfig) {
    for base in [API, ""] {
        config.service(scope(&format!("{base}{ENVIRONMENTS}"), environment_routes()));
    }
    config.service(scope(&format!("{API}{ORGANIZATION}"), organization_routes()));
    for routes in operator_routes() {
        config.service(resource(routes));
    }
    for path in ["/", "/docs"] {
        let resource = web::resource(path).route(get_or_head().to(operations::root));
        config.service(resource.default_service(refuse("GET, HEAD".to_owned())));
    }
    config.service(openapi::explorer());
    config.service(web::resource("/docs/{_:.*}").default_service(refuse("GET".to_owned())));
}

pub async fn not_found(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let detail = format!("nothing is served under {}; {API}/openapi.json lists what is", request.path());
    Err(Problem::new(Code::RouteNotFound, detail))
}

fn scope(path: &str, table: Vec<Routes>) -> actix_web::Scope {
    table.into_iter().fold(web::scope(path), |scope, routes| scope.service(resource(routes)))
}

/// One path with its methods, `HEAD` with every `GET`, and 405 for the others. A trailing slash is accepted.
fn resource(routes: Routes) -> Resource {
    let endpoints: Vec<_> = routes.endpoints.into_iter().chain(routes.others).collect();
    let methods: Vec<_> = endpoints.iter().map(|endpoint| endpoint.method.clone()).collect();
    let mut allowed: Vec<_> = methods.iter().map(Method::as_str).collect();
    if methods.contains(&Method::GET) {
        allowed.push("HEAD");
    }
    let refuse = refuse(allowed.join(", "));
    let slashed = format!("{}/", routes.pattern);
    let resource = web::resource([routes.pattern, slashed.as_str()])
        .app_data(Meter::new(routes.path, methods))
        .default_service(refuse);
    endpoints.into_iter().fold(resource, |resource, endpoint| resource.route(endpoint.route))
}

/// What every method gets that a path does not have.
fn refuse(allowed: String) -> actix_web::Route {
    web::to(move |request: HttpRequest| {
        let problem = Problem::method_not_allowed(request.method().as_str(), &allowed);
        async move { Err::<HttpResponse, _>(problem) }
    })
}

fn get_or_head() -> actix_web::Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn at<const N: usize>(path: &'static str, endpoints: [Endpoint; N]) -> Routes {
    Routes { path, endpoints: endpoints.into(), pattern: path, others: Vec::new() }
}

impl Routes {
    fn matching(self, pattern: &'static str) -> Self {
        Self { pattern, ..self }
    }

    fn and<const N: usize>(self, others: [Endpoint; N]) -> Self {
        Self { others: others.into(), ..self }
    }
}

fn on<F, Args>(method: Method, handler: F, operation: Operation) -> Endpoint
where
    F: Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let route = if method == Method::GET { get_or_head() } else { web::method(method.clone()) };
    Endpoint { method, operation, route: route.to(handler) }
}
