//! The HTTP front: authorises, parses, asks, renders. Wire types live here and are not the domain's.
//!
//! Each line may use those above it, and none below:
//!
//! - the wire: `codes`, `spare_buffer`, `response`, `problem`, `json`, `answer`, `dto` (views that several resources have),
//!   `paging` (queries and pages)
//! - connections and limits: `head` and `incoming` (what a client sends), `request`, `reply` (what it gets, with the headers of every
//!   answer), `wire` (the loop of a connection), `socket`, `connection`, `transport` (plain or TLS), `connections`, `limits`,
//!   `refusal_log`, `event_hubs`
//! - `state`: the parts of the process (`Node`) and of a store (`Realm`), the nodes and the realms of a cluster
//! - the request: `call` (with its handles), `refusals` (failures as problems), `own_page` (who made it), `cookies`,
//!   `outcome`, `access`, `body`, `idempotent`, `clients` (those who wait)
//! - `resources`: the handlers, each with the views that only it has
//! - `openapi`: descriptions of the operations
//! - `routes`: the table of paths, handlers and descriptions; `meter`: metrics per route; `router` finds a request's handler
//! - `forwarding`: a request's way to another node; `routing`: gives it to its handler, here or, in a cluster, on another node
//! - `observe`: wraps every request: id, metrics, problems
//! - `server`: listens, and drains when it stops; `operator_socket`: a file for the operator's commands

mod access;
mod answer;
mod body;
mod call;
mod clients;
mod codes;
mod connection;
mod connections;
mod cookies;
mod dto;
mod event_hubs;
mod forwarding;
#[cfg(test)]
mod fuzz;
mod head;
mod idempotent;
mod incoming;
mod json;
mod limits;
mod meter;
mod observe;
mod openapi;
mod operator_socket;
mod outcome;
mod own_page;
mod paging;
mod problem;
mod refusal_log;
mod refusals;
mod reply;
mod request;
mod resources;
mod response;
mod router;
mod routes;
mod routing;
mod server;
mod socket;
mod spare_buffer;
mod state;
mod transport;
mod wire;

pub use call::Cluster;
pub use connection::Patience;
pub use connections::Connections;
pub use event_hubs::{EventHubs, StreamTiming};
pub use limits::{RateLimits, Scans};
pub use operator_socket::{OPERATOR_KEY, OPERATOR_SOCKET, OperatorSocket};
pub use resources::audit::AuditView;
pub use resources::webhooks::webhook_body;
pub use routes::openapi_document;
pub use server::{Encryption, ListenOptions, Listeners, RunningServer, Served, reserve, start};
pub use state::{
    Node, NodeSeen, Overview, Peer, Realm, Replaceable, ShardSeen, Shards, Surveyed, WallClock, Whereabouts,
};
pub use transport::Handshakes;
