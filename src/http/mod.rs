//! The HTTP front: authorises, parses, asks, renders. Wire types live here and are not the domain's.

mod access;
mod analyses;
mod answer;
mod approvals;
mod body;
mod call;
mod clients;
mod codes;
mod connections;
mod definition;
mod deployments;
mod dto;
mod environment_list;
mod environments;
mod events;
mod idempotent;
mod logs;
mod members;
mod observe;
pub mod openapi;
mod operations;
mod outcome;
mod paging;
mod pipelines;
mod problem;
mod rate_limit;
mod refusals;
mod routes;
mod scans;
mod secrets;
mod server;
mod sessions;
mod step_body;
mod step_registries;
mod stream;
mod streaming;
mod tokens;
mod webhooks;

pub use connections::Connections;
pub use dto::webhook_body;
pub use events::{Hubs, Pace};
pub use logs::Followers;
pub use rate_limit::RateLimits;
pub use scans::Scans;
pub use server::{Front, Running, reserve, start};

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crate::actors::Environments;
use crate::analysis::service::Analyses;
use crate::auth::Accounts;
use crate::domain::Timestamp;
use crate::events::Events;
use crate::fixes::Fixes;
use crate::idempotency::Keys;
use crate::logs::Logs;
use crate::pipelines::Pipelines;
use crate::registries::Registries;
use crate::secrets::Vault;
use crate::store::Store;
use crate::webhooks::Webhooks;

/// Reads the time for what people see, and for what expires on a date.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What the handlers work with.
pub struct State {
    pub environments: Environments,
    pub accounts: Accounts,
    pub idempotency: Keys,
    pub pipelines: Pipelines,
    pub registries: Registries,
    pub vault: Arc<Vault>,
    pub webhooks: Webhooks,
    pub analyses: Analyses,
    pub fixes: Fixes,
    pub logs: Logs,
    pub followers: Followers,
    pub events: Events,
    pub event_hubs: Arc<Hubs>,
    pub store: Arc<dyn Store>,
    pub clock: WallClock,
    pub rate_limits: Option<RateLimits>,
    pub body_timeout: Duration,
    pub answer_timeout: Duration,
    /// Renders the metrics in Prometheus' text format.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    pub scans: Scans,
    pub connections: Arc<Connections>,
    pub draining: AtomicBool,
    /// Requests that have been read and not yet answered.
    pub underway: AtomicUsize,
}

/// A thread's own handle on the state: what every request counts several times over is not counted by all threads in the
/// same place.
pub type App = Rc<Arc<State>>;
