//! The engine over etcd's own protocol: gRPC of version 3, of which a dozen messages are declared here by hand.
//!
//! Each line may use those above it, and none below:
//!
//! - `messages`: what is sent and received; `keys`: where a shard lies; `status`: what an error of etcd means; all pure
//! - `members`: the members of the cluster, one connection each, with TLS and a token
//! - `engine`: the engine itself; `probe`: whether its members are set up for us

mod engine;
mod keys;
mod members;
mod messages;
mod probe;
mod status;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use engine::{Etcd, EtcdSettings};
pub use members::Credentials;
