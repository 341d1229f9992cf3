//! The HTTP front end: authorises requests, parses them, calls the domain's parts and renders responses. The types of
//! requests and responses live here, apart from the domain's. Connections are served by the crate `http1`.
//!
//! Each line may use those above it:
//!
//! - the wire: `codes`, `content` (headers of every response), `request` (its id and origin), `problem`, `answer`,
//!   `dto` (views that several resources have), `paging` (queries and pages)
//! - limits: `limits`, `refusal_log`, `event_hubs`
//! - `state`: the parts of the process (`Node`) and of a store (`Realm`), the nodes and realms of a cluster
//! - the request: `call` (with its handles), `refusals` (failures as problems), `own_page` (its sender), `cookies`,
//!   `outcome`, `access`, `body`, `idempotent`, `clients` (waiting ones)
//! - `resources`: the handlers, each with its own views
//! - `openapi`: descriptions of the operations
//! - `routes`: the table of paths, handlers and descriptions; `router` finds a request's handler and its metrics
//! - `forwarding`: sends a request to another node; `routing`: passes a request to its handler, here or, in a cluster,
//!   on another node
//! - `observe`: wraps every request: id, metrics, problems
//! - `server`: listens, and drains when it stops; `operator_socket`: a socket in the data directory for the operator's
//!   commands

mod access;
mod answer;
mod body;
mod call;
mod clients;
mod codes;
mod content;
mod cookies;
mod dto;
mod event_hubs;
mod forwarding;
#[cfg(test)]
mod fuzz;
mod idempotent;
mod limits;
mod observe;
mod openapi;
mod operator_socket;
mod outcome;
mod own_page;
mod paging;
mod problem;
mod refusal_log;
mod refusals;
mod request;
mod resources;
mod router;
mod routes;
mod routing;
mod server;
mod state;

pub use call::Cluster;
pub use event_hubs::{EventHubs, StreamTiming};
pub use limits::{RateLimits, Scans};
pub use operator_socket::{OPERATOR_KEY, OPERATOR_SOCKET, OperatorSocket};
pub use resources::audit::AuditView;
pub use resources::webhooks::webhook_body;
pub use routes::openapi_document;
pub use server::{Encryption, ListenOptions, Listeners, RunningServer, Served, reserve, start};
pub use state::{Node, NodeSeen, Overview, Peer, Realm, Replaceable, ShardSeen, Shards, WallClock, Whereabouts};
