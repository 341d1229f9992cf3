//! The table of routes: paths, methods, handlers, and their descriptions in the OpenAPI document.

use std::future::Future;

use actix_web::http::Method;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::answer::Answered;
use super::call::{Call, Front};
use super::content::Content;
use super::openapi::{self, Operation};
use super::resources::{
    analyses, approvals, audit, dashboard, deployments, environments, events, explorer, logs, members, operator,
    pipelines, secrets, sessions, sign_in, single_sign_on, step_registries, token_exchange, tokens, utilisation,
    webhooks,
};

/// Also served without `/api/v1`, because clients use both forms.
pub const ENVIRONMENTS: &str = "/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments";
pub const ORGANIZATION: &str = "/organizations/{orgId}";
pub const API: &str = "/api/v1";

/// The endpoints of one path.
pub struct Routes {
    /// The path below the table's base, as in the document.
    pub path: &'static str,
    pub endpoints: Vec<Endpoint>,
    /// The path for the router. Differs from `path` only where two paths would clash.
    pub pattern: &'static str,
    /// The pattern, with a name for each segment that a handler uses.
    pub named: &'static str,
    /// Endpoints that are also answered here, but not listed in `Allow`.
    pub refused: Vec<Endpoint>,
    pub content: Content,
    /// Whether the path is for monitoring.
    pub is_probe: bool,
}

pub struct Endpoint {
    pub method: Method,
    /// `None` if it is not part of the API.
    pub operation: Option<Operation>,
    pub handler: Handler,
    /// Only for requests that other nodes make themselves. Such requests of clients are refused and never forwarded.
    pub from_nodes: bool,
}

pub enum Handler {
    OfRealm(RealmHandler),
    /// A handler that needs no store.
    OfNode(NodeHandler),
}

pub type RealmHandler = Box<dyn Fn(Call) -> LocalBoxFuture<'static, Answered>>;
pub type NodeHandler = Box<dyn Fn(Call<Front>) -> LocalBoxFuture<'static, Answered>>;

pub fn environment_routes() -> Vec<Routes> {
    vec![
        at("").get(environments::list, openapi::list_environments()),
        at("/{envName}")
            .get(environments::view, openapi::get_environment())
            .put(environments::put, openapi::put_environment())
            .delete(environments::delete, openapi::delete_environment()),
        at("/{envName}/sessions").post(sessions::claim, openapi::claim_session()),
        // No environment may be called `sessions`: creating one is refused with the reason, and one from an older
        // version can be deleted.
        at("/sessions").post(sessions::claim_any, openapi::claim_any()).named("/{envName}").refusing([
            unlisted(Method::PUT, environments::put),
            unlisted(Method::DELETE, environments::delete_reserved),
        ]),
        at("/{envName}/force-claim").post(sessions::force_claim, openapi::force_claim()),
        at("/{envName}/sessions/{sessionId}")
            .get(sessions::view, openapi::get_session())
            .delete(sessions::release, openapi::release_session()),
        at("/{envName}/sessions/{sessionId}/deploy").post(sessions::deploy, openapi::deploy_commit()),
        at("/{envName}/sessions/{sessionId}/heartbeat").post(sessions::heartbeat, openapi::heartbeat()),
        at("/{envName}/sessions/{sessionId}/undelivered")
            .unlisted([unlisted(Method::POST, sessions::undelivered).for_nodes()]),
        at("/{envName}/lock").delete(sessions::release_lock, openapi::release_lock()),
        at("/{envName}/queue").get(environments::queue, openapi::get_queue()),
        at("/{envName}/history").get(environments::history, openapi::get_history()),
        // The same path as below the pipeline, under another prefix. Only the other one is in the document, since this
        // one looks like `/{envName}/sessions`.
        at("/sessions/{sessionId}")
            .unlisted([unlisted(Method::GET, sessions::view_any), unlisted(Method::DELETE, sessions::release_any)])
            .matching("/sessions/ses_{sessionId}"),
    ]
}

pub fn organization_routes() -> Vec<Routes> {
    let routes = vec![
        at("/pipelines").get(pipelines::list, openapi::list_pipelines()),
        at("/pipelines/{pipelineId}")
            .get(pipelines::view, openapi::get_pipeline())
            .put(pipelines::put, openapi::put_pipeline())
            .delete(pipelines::delete, openapi::delete_pipeline()),
        at("/pipelines/{pipelineId}/stop").post(pipelines::stop, openapi::stop_pipeline()),
        at("/pipelines/{pipelineId}/resume").post(pipelines::resume, openapi::resume_pipeline()),
        at("/pipelines/{pipelineId}/sessions/{sessionId}")
            .get(sessions::view_any, openapi::get_any_session())
            .delete(sessions::release_any, openapi::release_any_session()),
        at("/sessions").get(sessions::list, openapi::list_sessions()),
        at("/utilisation").get(utilisation::view, openapi::get_utilisation()),
        at("/deployments").get(deployments::list, openapi::list_deployments()),
        at("/deployments/{deploymentId}").get(deployments::view, openapi::get_deployment()),
        at("/deployments/{deploymentId}/logs").get(logs::view, openapi::get_logs()),
        at("/deployments/{deploymentId}/stages/{stage}/cancel")
            .post(deployments::cancel_stage, openapi::cancel_stage()),
        at("/deployments/{deploymentId}/stages/{stage}/retry").post(deployments::retry_stage, openapi::retry_stage()),
        at("/deployments/{deploymentId}/analyses")
            .get(analyses::list_of_deployment, openapi::list_deployment_analyses())
            .post(analyses::create, openapi::create_analysis()),
        at("/analyses").get(analyses::list, openapi::list_analyses()),
        at("/analyses/{analysisId}").get(analyses::view, openapi::get_analysis()),
        at("/analyses/{analysisId}/fix-pull-request").post(analyses::propose_fix, openapi::create_fix_pull_request()),
        at("/approvals").get(approvals::list, openapi::list_approvals()),
        at("/approvals/{approvalId}").get(approvals::view, openapi::get_approval()),
        at("/approvals/{approvalId}/approve").post(approvals::approve, openapi::approve()),
        at("/approvals/{approvalId}/reject").post(approvals::reject, openapi::reject()),
        at("/events").get(events::list, openapi::list_events()),
        at("/events/stream").get(events::stream, openapi::stream_events()),
        at("/events/{eventId}").get(events::view, openapi::get_event()),
        at("/audit").get(audit::verify, openapi::verify_events()),
        at("/cluster").get(operator::cluster, openapi::get_cluster()),
        at("/secrets").get(secrets::list, openapi::list_secrets()).post(secrets::create, openapi::create_secret()),
        at("/secrets/{name}")
            .get(secrets::view, openapi::get_secret())
            .put(secrets::update, openapi::update_secret())
            .delete(secrets::delete, openapi::delete_secret()),
        at("/step-registries")
            .get(step_registries::list, openapi::list_registries())
            .post(step_registries::create, openapi::create_registry()),
        at("/step-registries/{registryId}")
            .get(step_registries::view, openapi::get_registry())
            .put(step_registries::update, openapi::update_registry())
            .delete(step_registries::delete, openapi::delete_registry()),
        at("/step-registries/{registryId}/sync").post(step_registries::sync, openapi::sync_registry()),
        at("/step-registries/{registryId}/steps").get(step_registries::steps, openapi::list_registry_steps()),
        at("/tokens").get(tokens::list, openapi::list_tokens()).post(tokens::create, openapi::create_token()),
        at("/tokens/exchange").post(token_exchange::exchange, openapi::exchange_token()),
        at("/tokens/{tokenId}").delete(tokens::revoke, openapi::revoke_token()),
        at("/members").get(members::list, openapi::list_members()).post(members::add, openapi::add_member()),
        at("/members/{userId}")
            .get(members::view, openapi::get_member())
            .patch(members::change, openapi::change_member())
            .delete(members::remove, openapi::remove_member()),
        at("/members/{userId}/invitation").post(members::invite, openapi::invite_member()),
    ];
    routes.into_iter().chain(webhook_routes()).collect()
}

fn webhook_routes() -> Vec<Routes> {
    vec![
        at("/webhooks").get(webhooks::list, openapi::list_webhooks()).post(webhooks::create, openapi::create_webhook()),
        at("/webhooks/{webhookId}")
            .get(webhooks::view, openapi::get_webhook())
            .patch(webhooks::update, openapi::update_webhook())
            .delete(webhooks::delete, openapi::delete_webhook()),
        at("/webhooks/{webhookId}/rotate-secret").post(webhooks::rotate_secret, openapi::rotate_webhook_secret()),
        at("/webhooks/{webhookId}/test").post(webhooks::test, openapi::test_webhook()),
        at("/webhooks/{webhookId}/deliveries").get(webhooks::deliveries, openapi::list_deliveries()),
        at("/webhooks/{webhookId}/deliveries/{deliveryId}").get(webhooks::delivery, openapi::get_delivery()),
        at("/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver").post(webhooks::redeliver, openapi::redeliver()),
    ]
}

/// The routes below `/api/v1` without an organization in the path.
pub fn caller_routes() -> Vec<Routes> {
    vec![
        at("/whoami").get(members::who_am_i, openapi::who_am_i()),
        at("/backup").get(operator::backup, openapi::backup()),
    ]
}

pub fn operator_routes() -> Vec<Routes> {
    vec![
        at("/healthz").on(of_node(operator::healthz), openapi::healthz()).probe(),
        at("/readyz").on(of_node(operator::readyz), openapi::readyz()).probe(),
        at("/metrics").on(of_node(operator::metrics), openapi::metrics()).probe(),
        at("/api/v1/openapi.json")
            .on(of_node(operator::description), openapi::description())
            .content(Content::Document),
        at("/cluster/logs/{organization}/{deployment}/{part}").unlisted([of_node(logs::part).for_nodes()]),
        at("/problems/{code}").on(of_node(operator::problem), openapi::problem()),
    ]
}

/// Sign-in for our own pages; programs use tokens.
pub fn sign_in_routes() -> Vec<Routes> {
    let page = |path, endpoint| at(path).unlisted([endpoint]);
    vec![
        page("/auth/methods", unlisted(Method::GET, sign_in::methods)),
        page("/auth/oidc/{provider}", unlisted(Method::GET, single_sign_on::begin)),
        page("/auth/oidc/{provider}/callback", unlisted(Method::GET, single_sign_on::finish)),
        page("/auth/sign-in", unlisted(Method::POST, sign_in::sign_in)),
        page("/auth/sign-out", unlisted(Method::POST, sign_in::sign_out)),
        page("/auth/password", unlisted(Method::POST, sign_in::change_password)),
        page("/auth/sign-ins", unlisted(Method::GET, sign_in::list)),
        page("/auth/sign-ins/{signInId}", unlisted(Method::DELETE, sign_in::end)),
        at("/auth/invitations/{invitation}").unlisted([
            unlisted(Method::GET, sign_in::view_invitation),
            unlisted(Method::POST, sign_in::accept_invitation),
        ]),
    ]
}

/// The API explorer, for browsers.
pub fn explorer_routes() -> Vec<Routes> {
    let page = |path, endpoint| at(path).unlisted([endpoint]).content(Content::Page);
    let files = ["/docs/", "/docs/{*file}"].map(|path| page(path, of_node(explorer::file)));
    [page("/docs", of_node(operator::explorer))].into_iter().chain(files).collect()
}

/// The files of the dashboard.
pub fn dashboard_files() -> Routes {
    let served = at("/assets/{version}/{*file}").unlisted([of_node(dashboard::asset)]);
    served.content(Content::Dashboard)
}

/// The dashboard's page, at every address for which `dashboard::is_page` returns true.
pub fn dashboard_page() -> Routes {
    at("/{page}").named("/").unlisted([of_node(dashboard::page)]).content(Content::Dashboard)
}

/// The OpenAPI document of the whole table.
pub fn openapi_document() -> String {
    let tables = [
        (format!("{API}{ENVIRONMENTS}"), environment_routes()),
        (format!("{API}{ORGANIZATION}"), organization_routes()),
        (API.to_owned(), caller_routes()),
        (String::new(), operator_routes()),
    ];
    let paths = tables.into_iter().flat_map(|(base, table)| {
        table.into_iter().map(move |routes| (format!("{base}{}", routes.path), routes.operations()))
    });
    openapi::document(paths.filter(|(_, operations)| !operations.is_empty()))
}

fn at(path: &'static str) -> Routes {
    Routes {
        path,
        endpoints: Vec::new(),
        pattern: path,
        named: path,
        refused: Vec::new(),
        content: Content::Data,
        is_probe: false,
    }
}

impl Routes {
    fn operations(self) -> Vec<(Method, Operation)> {
        let described = self.endpoints.into_iter();
        described.filter_map(|endpoint| Some((endpoint.method, endpoint.operation?))).collect()
    }

    fn get<F: Future<Output = Answered> + 'static>(self, handler: fn(Call) -> F, operation: Operation) -> Self {
        self.on(unlisted(Method::GET, handler), operation)
    }

    fn post<F: Future<Output = Answered> + 'static>(self, handler: fn(Call) -> F, operation: Operation) -> Self {
        self.on(unlisted(Method::POST, handler), operation)
    }

    fn put<F: Future<Output = Answered> + 'static>(self, handler: fn(Call) -> F, operation: Operation) -> Self {
        self.on(unlisted(Method::PUT, handler), operation)
    }

    fn patch<F: Future<Output = Answered> + 'static>(self, handler: fn(Call) -> F, operation: Operation) -> Self {
        self.on(unlisted(Method::PATCH, handler), operation)
    }

    fn delete<F: Future<Output = Answered> + 'static>(self, handler: fn(Call) -> F, operation: Operation) -> Self {
        self.on(unlisted(Method::DELETE, handler), operation)
    }

    fn on(mut self, endpoint: Endpoint, operation: Operation) -> Self {
        self.endpoints.push(Endpoint { operation: Some(operation), ..endpoint });
        self
    }

    /// Adds endpoints that are not part of the API's description.
    fn unlisted<const N: usize>(self, endpoints: [Endpoint; N]) -> Self {
        Self { endpoints: endpoints.into(), ..self }
    }

    fn matching(self, pattern: &'static str) -> Self {
        Self { pattern, ..self }
    }

    fn named(self, named: &'static str) -> Self {
        Self { named, ..self }
    }

    fn content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    fn probe(self) -> Self {
        Self { is_probe: true, ..self }
    }

    fn refusing<const N: usize>(self, refused: [Endpoint; N]) -> Self {
        Self { refused: refused.into(), ..self }
    }
}

fn unlisted<F: Future<Output = Answered> + 'static>(method: Method, handler: fn(Call) -> F) -> Endpoint {
    let handler = Handler::OfRealm(Box::new(move |call| handler(call).boxed_local()));
    Endpoint { method, operation: None, handler, from_nodes: false }
}

/// A `GET` that needs no store.
fn of_node<F: Future<Output = Answered> + 'static>(handler: fn(Call<Front>) -> F) -> Endpoint {
    let handler = Handler::OfNode(Box::new(move |call| handler(call).boxed_local()));
    Endpoint { method: Method::GET, operation: None, handler, from_nodes: false }
}

impl Endpoint {
    fn for_nodes(self) -> Self {
        Self { from_nodes: true, ..self }
    }
}
