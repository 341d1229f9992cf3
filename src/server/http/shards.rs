//! The shards of a cluster as requests see them: the realms of this node, and the nodes that have the others.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::overview::Surveyed;
use super::state::Realm;

pub trait Shards: Surveyed {
    fn of(&self, organization: &str) -> Whereabouts;

    /// All shards, for a request that names no organization. Each other node once.
    fn everywhere(&self) -> Vec<Whereabouts>;

    /// Resolves when a shard has got another owner since this was called.
    fn moved(&self) -> BoxFuture<'static, ()>;

    /// Why requests of some organizations cannot be answered at the moment, if so.
    fn unready(&self) -> Option<String>;
}

/// Where the requests of a shard are answered.
#[derive(Clone)]
pub enum Whereabouts {
    Here(Arc<Realm>),
    At(Peer),
    /// It is being taken over.
    Nowhere,
}

/// Another node, which owns a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: String,
    pub url: String,
    /// It owns the shard once: if it loses it and takes it again, this is another number.
    pub epoch: u64,
}
