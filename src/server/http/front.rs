//! The handles that a request gets: of its worker thread, and of its realm once that is known.

use std::rc::Rc;
use std::sync::Arc;

use super::shards::Shards;
use super::state::{Node, Realm};
use cluster::peers::PeerClient;

/// A worker thread's own handle: requests of different threads do not contend on one reference count.
pub type PerThread<T> = Rc<Arc<T>>;

/// A worker thread's handles: all that a request needs which concerns no store.
#[derive(Clone)]
pub struct Front {
    pub node: PerThread<Node>,
    pub realms: Realms,
    /// Whether its requests came by TLS.
    pub encrypted: bool,
}

/// The stores of this process.
#[derive(Clone)]
pub enum Realms {
    /// The whole data directory.
    Only(PerThread<Realm>),
    /// Those of the shards that this node owns; it passes requests on to the owners of the others.
    Shards(PerThread<Cluster>),
}

/// The other nodes, and how they are reached.
pub struct Cluster {
    pub shards: Arc<dyn Shards>,
    pub client: PeerClient,
}

/// A request's handles, once its realm is known.
#[derive(Clone)]
pub struct App {
    pub node: PerThread<Node>,
    pub realm: PerThread<Realm>,
    /// Whether the request came by TLS.
    pub encrypted: bool,
}

impl Front {
    pub fn with(&self, realm: &PerThread<Realm>) -> App {
        App { node: self.node.clone(), realm: realm.clone(), encrypted: self.encrypted }
    }
}
