//! The table of routes: paths, methods, handlers, and their descriptions in the OpenAPI document.

use std::future::Future;

use actix_web::http::Method;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::answer::Answered;
use super::call::Call;
use super::openapi::{self, Operation};
use super::resources::{
    analyses, approvals, deployments, environment_list, environments, events, logs, members, operator, pipelines,
    secrets, sessions, step_registries, tokens, webhooks,
};

/// Also served without `/api/v1`, since clients of both forms exist.
pub const ENVIRONMENTS: &str = "/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments";
pub const ORGANIZATION: &str = "/organizations/{orgId}";
pub const API: &str = "/api/v1";

/// The endpoints of one path.
pub struct Routes {
    /// Below the place the table is for, as the document has it.
    pub path: &'static str,
    pub endpoints: Vec<Endpoint>,
    /// What the router matches; the same but where paths would clash.
    pub pattern: &'static str,
    /// The same with a name for each segment that a handler asks for.
    pub named: &'static str,
    /// Answered here too, although they are not allowed.
    pub refused: Vec<Endpoint>,
}

pub struct Endpoint {
    pub method: Method,
    /// `None` if it is not part of the API.
    pub operation: Option<Operation>,
    pub handler: Handler,
}

pub type Handler = Box<dyn Fn(Call) -> LocalBoxFuture<'static, Answered>>;

pub fn environment_routes() -> Vec<Routes> {
    vec![
        at(
            "/sessions/{sessionId}",
            [
                on(Method::GET, sessions::view_any, openapi::get_any_session()),
                on(Method::DELETE, sessions::release_any, openapi::release_any_session()),
            ],
        )
        .matching("/sessions/ses_{sessionId}"),
        // No environment is called `sessions`: who makes one learns why, and one of an older version can be deleted.
        at("/sessions", [on(Method::POST, sessions::claim_any, openapi::claim_any())]).named("/{envName}").refusing([
            unlisted(Method::PUT, environments::put),
            unlisted(Method::DELETE, environments::delete_reserved),
        ]),
        at("/{envName}/sessions", [on(Method::POST, sessions::claim, openapi::claim_session())]),
        at(
            "/{envName}/sessions/{sessionId}",
            [
                on(Method::GET, sessions::view, openapi::get_session()),
                on(Method::DELETE, sessions::release, openapi::release_session()),
            ],
        ),
        at(
            "/{envName}",
            [
                on(Method::GET, environments::view, openapi::get_environment()),
                on(Method::PUT, environments::put, openapi::put_environment()),
                on(Method::DELETE, environments::delete, openapi::delete_environment()),
            ],
        ),
        at("/{envName}/sessions/{sessionId}/deploy", [on(Method::POST, sessions::deploy, openapi::deploy_commit())]),
        at("/{envName}/sessions/{sessionId}/heartbeat", [on(Method::POST, sessions::heartbeat, openapi::heartbeat())]),
        at("/{envName}/force-claim", [on(Method::POST, sessions::force_claim, openapi::force_claim())]),
        at("/{envName}/history", [on(Method::GET, environments::history, openapi::get_history())]),
        at("/{envName}/queue", [on(Method::GET, environments::queue, openapi::get_queue())]),
        at("", [on(Method::GET, environment_list::list, openapi::list_environments())]),
    ]
}

pub fn organization_routes() -> Vec<Routes> {
    let routes = vec![
        at("/pipelines", [on(Method::GET, pipelines::list, openapi::list_pipelines())]),
        at(
            "/pipelines/{pipelineId}",
            [
                on(Method::GET, pipelines::view, openapi::get_pipeline()),
                on(Method::PUT, pipelines::put, openapi::put_pipeline()),
                on(Method::DELETE, pipelines::delete, openapi::delete_pipeline()),
            ],
        ),
        at("/pipelines/{pipelineId}/stop", [on(Method::POST, pipelines::stop, openapi::stop_pipeline())]),
        at("/pipelines/{pipelineId}/resume", [on(Method::POST, pipelines::resume, openapi::resume_pipeline())]),
        at("/deployments", [on(Method::GET, deployments::list, openapi::list_deployments())]),
        at("/deployments/{deploymentId}", [on(Method::GET, deployments::view, openapi::get_deployment())]),
        at("/deployments/{deploymentId}/logs", [on(Method::GET, logs::view, openapi::get_logs())]),
        at(
            "/deployments/{deploymentId}/stages/{stage}/cancel",
            [on(Method::POST, deployments::cancel_stage, openapi::cancel_stage())],
        ),
        at(
            "/deployments/{deploymentId}/stages/{stage}/retry",
            [on(Method::POST, deployments::retry_stage, openapi::retry_stage())],
        ),
        at(
            "/deployments/{deploymentId}/analyses",
            [
                on(Method::GET, analyses::list_of_deployment, openapi::list_deployment_analyses()),
                on(Method::POST, analyses::create, openapi::create_analysis()),
            ],
        ),
        at("/analyses", [on(Method::GET, analyses::list, openapi::list_analyses())]),
        at("/analyses/{analysisId}", [on(Method::GET, analyses::view, openapi::get_analysis())]),
        at(
            "/analyses/{analysisId}/fix-pull-request",
            [on(Method::POST, analyses::propose_fix, openapi::create_fix_pull_request())],
        ),
        at("/approvals", [on(Method::GET, approvals::list, openapi::list_approvals())]),
        at("/approvals/{approvalId}", [on(Method::GET, approvals::view, openapi::get_approval())]),
        at("/approvals/{approvalId}/approve", [on(Method::POST, approvals::approve, openapi::approve())]),
        at("/approvals/{approvalId}/reject", [on(Method::POST, approvals::reject, openapi::reject())]),
        at("/events", [on(Method::GET, events::list, openapi::list_events())]),
        at("/events/stream", [on(Method::GET, events::stream, openapi::stream_events())]),
        at("/events/{eventId}", [on(Method::GET, events::view, openapi::get_event())]),
        at(
            "/secrets",
            [
                on(Method::GET, secrets::list, openapi::list_secrets()),
                on(Method::POST, secrets::create, openapi::create_secret()),
            ],
        ),
        at(
            "/secrets/{name}",
            [
                on(Method::GET, secrets::view, openapi::get_secret()),
                on(Method::PUT, secrets::update, openapi::update_secret()),
                on(Method::DELETE, secrets::delete, openapi::delete_secret()),
            ],
        ),
        at(
            "/step-registries",
            [
                on(Method::GET, step_registries::list, openapi::list_registries()),
                on(Method::POST, step_registries::create, openapi::create_registry()),
            ],
        ),
        at(
            "/step-registries/{registryId}",
            [
                on(Method::GET, step_registries::view, openapi::get_registry()),
                on(Method::PUT, step_registries::update, openapi::update_registry()),
                on(Method::DELETE, step_registries::delete, openapi::delete_registry()),
            ],
        ),
        at("/step-registries/{registryId}/sync", [on(Method::POST, step_registries::sync, openapi::sync_registry())]),
        at(
            "/step-registries/{registryId}/steps",
            [on(Method::GET, step_registries::steps, openapi::list_registry_steps())],
        ),
        at(
            "/tokens",
            [
                on(Method::GET, tokens::list, openapi::list_tokens()),
                on(Method::POST, tokens::create, openapi::create_token()),
            ],
        ),
        at("/tokens/{tokenId}", [on(Method::DELETE, tokens::revoke, openapi::revoke_token())]),
        at(
            "/members",
            [
                on(Method::GET, members::list, openapi::list_members()),
                on(Method::POST, members::add, openapi::add_member()),
            ],
        ),
        at(
            "/members/{userId}",
            [
                on(Method::GET, members::view, openapi::get_member()),
                on(Method::PATCH, members::change, openapi::change_member()),
                on(Method::DELETE, members::remove, openapi::remove_member()),
            ],
        ),
    ];
    routes.into_iter().chain(webhook_routes()).collect()
}

fn webhook_routes() -> Vec<Routes> {
    vec![
        at(
            "/webhooks",
            [
                on(Method::GET, webhooks::list, openapi::list_webhooks()),
                on(Method::POST, webhooks::create, openapi::create_webhook()),
            ],
        ),
        at(
            "/webhooks/{webhookId}",
            [
                on(Method::GET, webhooks::view, openapi::get_webhook()),
                on(Method::PATCH, webhooks::update, openapi::update_webhook()),
                on(Method::DELETE, webhooks::delete, openapi::delete_webhook()),
            ],
        ),
        at(
            "/webhooks/{webhookId}/rotate-secret",
            [on(Method::POST, webhooks::rotate_secret, openapi::rotate_webhook_secret())],
        ),
        at("/webhooks/{webhookId}/test", [on(Method::POST, webhooks::test, openapi::test_webhook())]),
        at("/webhooks/{webhookId}/deliveries", [on(Method::GET, webhooks::deliveries, openapi::list_deliveries())]),
        at(
            "/webhooks/{webhookId}/deliveries/{deliveryId}",
            [on(Method::GET, webhooks::delivery, openapi::get_delivery())],
        ),
        at(
            "/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
            [on(Method::POST, webhooks::redeliver, openapi::redeliver())],
        ),
    ]
}

pub fn operator_routes() -> Vec<Routes> {
    vec![
        at("/healthz", [on(Method::GET, operator::healthz, openapi::healthz())]),
        at("/readyz", [on(Method::GET, operator::readyz, openapi::readyz())]),
        at("/metrics", [on(Method::GET, operator::metrics, openapi::metrics())]),
        at("/api/v1/openapi.json", [on(Method::GET, operator::description, openapi::description())]),
        at("/problems/{code}", [on(Method::GET, operator::problem, openapi::problem())]),
    ]
}

/// The API explorer, for browsers.
pub fn explorer_routes() -> Vec<Routes> {
    let [root, docs] = ["/", "/docs"].map(|path| at(path, [unlisted(Method::GET, operator::root)]));
    let files = ["/docs/", "/docs/{*file}"].map(|path| at(path, [unlisted(Method::GET, operator::explorer)]));
    [root, docs].into_iter().chain(files).collect()
}

/// The OpenAPI document of the whole table.
pub fn openapi_document() -> String {
    let tables = [
        (format!("{API}{ENVIRONMENTS}"), environment_routes()),
        (format!("{API}{ORGANIZATION}"), organization_routes()),
        (String::new(), operator_routes()),
    ];
    let paths = tables.into_iter().flat_map(|(base, table)| {
        table.into_iter().map(move |routes| (format!("{base}{}", routes.path), routes.operations()))
    });
    openapi::document(paths).to_string()
}

fn at<const N: usize>(path: &'static str, endpoints: [Endpoint; N]) -> Routes {
    Routes { path, endpoints: endpoints.into(), pattern: path, named: path, refused: Vec::new() }
}

impl Routes {
    fn operations(self) -> Vec<(Method, Operation)> {
        let described = self.endpoints.into_iter();
        described.filter_map(|endpoint| Some((endpoint.method, endpoint.operation?))).collect()
    }

    fn matching(self, pattern: &'static str) -> Self {
        Self { pattern, ..self }
    }

    fn named(self, named: &'static str) -> Self {
        Self { named, ..self }
    }

    fn refusing<const N: usize>(self, refused: [Endpoint; N]) -> Self {
        Self { refused: refused.into(), ..self }
    }
}

fn on<F: Future<Output = Answered> + 'static>(
    method: Method,
    handler: fn(Call) -> F,
    operation: Operation,
) -> Endpoint {
    Endpoint { operation: Some(operation), ..unlisted(method, handler) }
}

fn unlisted<F: Future<Output = Answered> + 'static>(method: Method, handler: fn(Call) -> F) -> Endpoint {
    Endpoint { method, operation: None, handler: Box::new(move |call| handler(call).boxed_local()) }
}
