//! The parts that handlers use: those of the process in `Node`, those of a store in `Realm`. A process has one realm,
//! or, in a cluster, one for each shard that it owns; `Shards` finds them, and the nodes that own the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;

use super::event_hubs::EventHubs;
use super::limits::{RateLimits, Scans};
use super::refusal_log::RefusalLog;
use crate::backup::Backups;
use crate::tls::ServerTls;
use accounts::auth::Accounts;
use accounts::identities::Identities;
use accounts::secrets::Vault;
use accounts::sso::SingleSignOn;
use analysis::fixes::Fixes;
use analysis::service::Analyses;
use delivery::archive::Archive;
use delivery::git::Git;
use delivery::logs::Logs;
use delivery::registries::Registries;
use domain::{Identifier, Timestamp};
use events::Events;
use http1::Connections;
use locks::Environments;
use locks::idempotency::Keys;
use locks::pipelines::Pipelines;
use shares::{Capacity, Disk, Limited, Permits};
use store::Store;
use webhooks::Webhooks;

/// Reads the wall clock: for timestamps that people see, and for expiry dates.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The parts of the process, shared by all realms.
pub struct Node {
    pub connections: Arc<Connections>,
    /// Refused requests without a token.
    pub refusals: RefusalLog,
    pub scans: Scans,
    pub log_reads: Scans,
    /// Running audits: one per organization, because an audit reads all events of the organization.
    pub audits: Limited<Identifier>,
    pub git: Git,
    /// The disk of the data directory.
    pub disk: Disk,
    pub logs: Logs,
    /// Finds parts of logs that other nodes wrote.
    pub archive: Archive,
    /// Permits for following logs.
    pub log_followers: Permits,
    /// Permits for requests that wait or stream, and hold a connection meanwhile; set when the server listens.
    pub held_connections: OnceLock<Permits>,
    /// Only in a cluster; set when the server listens.
    pub cluster: OnceLock<Arc<dyn Shards>>,
    /// How many organizations share this process.
    pub organizations: usize,
    /// The OpenAPI document, generated on first use.
    pub openapi: LazyLock<Bytes>,
    pub body_timeout: Duration,
    pub answer_timeout: Duration,
    /// The URL for browsers if a TLS proxy is in front of the server: `https://host`.
    pub public_url: Option<String>,
    /// Set when the server listens, if it has TLS itself.
    pub tls: OnceLock<Arc<ServerTls>>,
    /// Renders the metrics in Prometheus' text format.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    pub draining: AtomicBool,
    /// The number of requests that have been read and not yet answered.
    pub underway: AtomicUsize,
}

impl Node {
    /// Called when the server listens, with its number of connections: requests that hold a connection for long get a
    /// share of them.
    pub fn share_connections(&self, connections: usize) {
        let capacity = Capacity::seats(connections).among(self.organizations);
        self.held_connections.get_or_init(|| Permits::without_queue("held_connections", capacity));
    }
}

/// A store and all parts that use it.
pub struct Realm {
    pub store: Arc<dyn Store>,
    pub clock: WallClock,
    pub environments: Environments,
    pub accounts: Accounts,
    /// The display names of declared organizations.
    pub organization_names: Replaceable<HashMap<Identifier, String>>,
    pub idempotency: Keys,
    pub pipelines: Pipelines,
    pub registries: Registries,
    pub vault: Arc<Vault>,
    pub webhooks: Webhooks,
    pub analyses: Analyses,
    pub fixes: Fixes,
    pub events: Events,
    pub event_hubs: Arc<EventHubs>,
    pub rate_limits: Option<RateLimits>,
    pub sso: Replaceable<SingleSignOn>,
    pub identities: Replaceable<Identities>,
    /// `None` without a data directory.
    pub backups: Option<Backups>,
}

impl Realm {
    /// The display name; the id if the file gives none.
    pub fn organization_name(&self, id: &Identifier) -> String {
        self.organization_names.get().get(id).map_or_else(|| id.to_string(), String::clone)
    }
}

/// Configuration from the operator's files, which may be replaced while the server runs. A request continues with the
/// version that it began with.
pub struct Replaceable<T>(RwLock<Arc<T>>);

impl<T> Replaceable<T> {
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub fn get(&self) -> Arc<T> {
        self.0.read().clone()
    }

    pub fn replace(&self, value: T) {
        *self.0.write() = Arc::new(value);
    }
}

/// The nodes of a cluster and their shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    pub nodes: Vec<NodeSeen>,
    /// The shards, by number.
    pub shards: Vec<ShardSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub node: String,
    /// The version of the node's program.
    pub version: String,
    pub lives: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSeen {
    /// `None` while the shard is being taken over.
    pub owner: Option<String>,
    pub epoch: u64,
}

pub trait Shards: Send + Sync {
    /// The cluster as this node sees it.
    fn overview(&self) -> Overview;

    fn number_of(&self, organization: &str) -> u16;

    fn of(&self, organization: &str) -> Whereabouts;

    /// The locations of all shards, for a request that names no organization. Each other node appears once.
    fn everywhere(&self) -> Vec<Whereabouts>;

    /// Resolves when any shard has got another owner since this was called.
    fn moved(&self) -> BoxFuture<'static, ()>;

    /// Why some organizations' requests cannot be answered at the moment; `None` if all can.
    fn unready(&self) -> Option<String>;
}

/// Where the requests of a shard are answered.
#[derive(Clone)]
pub enum Whereabouts {
    Here(Arc<Realm>),
    At(Peer),
    /// The shard is being taken over.
    Nowhere,
}

/// Another node, which owns a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: String,
    pub url: String,
    /// Identifies this ownership: if the node loses the shard and takes it again, the number differs.
    pub epoch: u64,
}
