//! Connections to addresses that other people choose. Webhooks, HTTP steps, git remotes and their APIs all use this
//! crate, under one [`Policy`]. Managers of an organization must not reach, through the server, what only the server
//! should reach. So for each connection the name is resolved first, and the resulting address is checked.
//!
//! The server's own requests use [`GuardedClient`]. A program such as git has its own client, so the server starts a
//! [`Proxy`] for it alone, which ends with the program; ssh uses the proxy through [`tunnel`], a hidden command of this
//! program.
//!
//! From top to bottom: `tunnel` → `proxy`, `client` → `policy` → `address`.

mod address;
mod client;
mod policy;
mod proxy;
mod tunnel;

pub use client::{GuardedClient, LazyClient, NoResponse, error_chain, percent_encoded, read_body};
pub use policy::{DESTINATIONS_MAX, Destination, Policy, PolicyError};
pub use proxy::Proxy;
pub use tunnel::{TUNNEL_COMMAND, tunnel, tunnel_command, tunnel_variables};
