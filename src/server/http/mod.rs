//! The HTTP front: authorises, parses, asks, renders. Wire types live here and are not the domain's.
//!
//! Each line may use those above it, and none below:
//!
//! - the wire: `codes`, `spare_buffer`, `response`, `problem`, `json`, `answer`, `protection` (headers of every answer), `dto`, `refusals` (failures as
//!   problems), `paging` (queries and pages)
//! - connections and limits: `head` and `incoming` (what a client sends), `path`, `request`, `request_id`, `reply` (what it gets), `wire`
//!   (the loop of a connection), `socket`, `connection`, `transport` (plain or TLS), `connections`, `handshake`, `streaming`,
//!   `scans`, `rate_limit`, `refusal_log`, `event_hubs`
//! - `state`: the parts of the process (`Node`) and of a store (`Realm`); `overview`, `shards`: the nodes and the realms of a cluster; `front`: the handles that a
//!   request gets
//! - the request: `call`, `authorization`, `own_page` (who made it), `cookies`, `access`, `body`, `idempotent`, `outcome`, `clients` (those who wait), `hints`
//!   (what was probably meant)
//! - `resources`: the handlers
//! - `openapi`: descriptions of the operations
//! - `routes`: the table of paths, handlers and descriptions; `patterns`: such paths in a tree; `router` finds a request's handler with it
//! - `handling`: a request and its handler; `forwarding`: its way to another node; `owned_stream`; `routing`: which node answers it, in a
//!   cluster
//! - `dispatch`: gives a request to its handler, with its realm
//! - `observe`: wraps every request: id, metrics, problems
//! - `server`: listens, and drains when it stops; `operator_socket`: a file for the operator's commands

mod access;
mod answer;
mod authorization;
mod body;
mod call;
mod clients;
mod codes;
mod connection;
mod connections;
mod cookies;
mod dispatch;
mod dto;
mod event_hubs;
mod forwarding;
mod front;
#[cfg(test)]
mod fuzz;
mod handling;
mod handshake;
mod head;
mod hints;
mod idempotent;
mod incoming;
mod json;
mod meter;
mod observe;
mod openapi;
mod operator_socket;
mod outcome;
mod overview;
mod own_page;
mod owned_stream;
mod paging;
mod path;
mod patterns;
mod problem;
mod protection;
mod rate_limit;
mod refusal_log;
mod refusals;
mod reply;
mod request;
mod request_id;
mod resources;
mod response;
mod router;
mod routes;
mod routing;
mod scans;
mod server;
mod shards;
mod socket;
mod spare_buffer;
mod state;
mod streaming;
mod transport;
mod wire;

pub use connection::Patience;
pub use connections::Connections;
pub use event_hubs::{EventHubs, StreamTiming};
pub use front::Cluster;
pub use handshake::Handshakes;
pub use operator_socket::{OPERATOR_KEY, OPERATOR_SOCKET, OperatorSocket};
pub use overview::{NodeSeen, Overview, ShardSeen, Surveyed};
pub use rate_limit::RateLimits;
pub use resources::audit::AuditView;
pub use resources::webhooks::webhook_body;
pub use routes::openapi_document;
pub use scans::Scans;
pub use server::{Encryption, ListenOptions, Listeners, RunningServer, Served, reserve, start};
pub use shards::{Peer, Shards, Whereabouts};
pub use state::{Node, Realm, Replaceable, WallClock};
