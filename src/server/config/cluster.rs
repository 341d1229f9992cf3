//! The settings of a node of a cluster, and their dependencies.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Kind, choice, file, mebibytes, name, number, seconds, secret_text, url, urls};
use super::layers::{Layers, section};
use super::log_store::{LogStore, LogStoreSettings};
use super::value::ValueError;
use accounts::secrets::SecretValue;
use domain::named::named_enum;

/// An engine has three or five members.
const ENGINE_MEMBERS_MAX: usize = 16;

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub engine: Engine,
    /// The name of this node.
    pub node: String,
    /// The URL of this node for other nodes; `None` for the address it listens on.
    pub advertise: Option<String>,
    /// Authorities for the other nodes' certificates, instead of the system's.
    pub nodes_ca: Option<PathBuf>,
    /// The number of shards among which a new cluster divides its organizations.
    pub shards: NonZeroU16,
    /// The maximum size of the engine's data.
    pub quota_bytes: u64,
    /// A node's steps end after it has been unable to confirm its ownership for this long.
    pub step_lease: Duration,
    /// The store of logs, in which logs outlive their node.
    pub logs: Option<LogStore>,
    /// The maximum size of a node's copies of logs of shards that it does not own.
    pub foreign_log_bytes: u64,
}

/// The database of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    Etcd(EtcdEngine),
    Postgres(PostgresEngine),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEngine {
    /// The URL of each member.
    pub members: Vec<String>,
    /// The prefix of all keys.
    pub prefix: String,
    pub certificates: EngineCertificates,
    /// User and password.
    pub credentials: Option<(String, SecretValue)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresEngine {
    /// May contain a password.
    pub url: SecretValue,
    pub certificates: EngineCertificates,
}

/// The TLS files for connections to an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineCertificates {
    pub authority: Option<PathBuf>,
    /// The certificate and key of this node.
    pub identity: Option<(PathBuf, PathBuf)>,
}

named_enum! {
    pub enum EngineChoice {
        Off = "off",
        Etcd = "etcd",
        Postgres = "postgres",
    }
}

impl Cluster {
    /// `None` on one machine.
    pub(super) fn read(layers: &mut Layers<'_>, listen: SocketAddr, has_master_key: bool) -> Option<Self> {
        let engine = EngineSettings::read(layers);
        let NodeSettings { node, advertise, nodes_ca, shards, step_lease } = NodeSettings::read(layers);
        let logs = LogStoreSettings::read(layers);
        let foreign_log_bytes = layers.get("cluster.foreign_log_mb", mebibytes(1, 1_048_576));
        let quota_bytes = layers.get("cluster.quota_mb", mebibytes(64, 1_048_576));
        let is_node = engine.choice != EngineChoice::Off;
        if is_node && !has_master_key {
            let why = ": all nodes of a cluster need the same master key; make one with `openssl rand -hex 32`";
            layers.missing("LOCKKEEPER_MASTER_KEY", why);
        }
        if is_node && advertise.is_empty() && listen.ip().is_unspecified() {
            let why =
                ": the other nodes need an address of this one, such as http://10.0.0.1:8080, and `listen` names none";
            layers.missing("LOCKKEEPER_CLUSTER_ADVERTISE", why);
        }
        let engine = engine.engine(layers)?;
        Some(Self {
            engine,
            node: if node.is_empty() { host_name() } else { node },
            advertise: Some(advertise).filter(|url| !url.is_empty()),
            nodes_ca,
            shards,
            quota_bytes,
            step_lease,
            logs: logs.store(layers),
            foreign_log_bytes,
        })
    }
}

fn shards() -> Kind<NonZeroU16> {
    number(1, 1_024).map(|shards| NonZeroU16::new(shards as u16).unwrap_or(NonZeroU16::MIN))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

section! {
    /// The settings of all engines, of which one is chosen.
    struct EngineSettings {
        choice: EngineChoice = get("cluster.engine", choice(EngineChoice::ALL, EngineChoice::as_str)),
        etcd: Vec<String> = get("cluster.etcd", urls(ENGINE_MEMBERS_MAX)),
        etcd_prefix: String = get("cluster.etcd_prefix", name(64)),
        etcd_user: String = get("cluster.etcd_user", name(256)),
        etcd_password: Option<SecretValue> = secret("cluster.etcd_password", secret_text()),
        postgres: Option<SecretValue> = get("cluster.postgres", database_url()),
        ca: Option<PathBuf> = get("cluster.engine_ca", file()),
        certificate: Option<PathBuf> = get("cluster.engine_certificate", file()),
        key: Option<PathBuf> = get("cluster.engine_key", file()),
    }
}

section! {
    /// The settings of a node; an empty text is none.
    struct NodeSettings {
        node: String = get("cluster.node", name(64)),
        advertise: String = get("cluster.advertise", url().map(|url| url.trim_end_matches('/').to_owned())),
        nodes_ca: Option<PathBuf> = get("cluster.nodes_ca", file()),
        shards: NonZeroU16 = get("cluster.shards", shards()),
        step_lease: Duration = get("cluster.step_lease_seconds", seconds(5, 600)),
    }
}

impl EngineSettings {
    fn engine(self, layers: &mut Layers<'_>) -> Option<Engine> {
        if self.certificate.is_some() != self.key.is_some() {
            let variable = if self.key.is_none() { "KEY" } else { "CERTIFICATE" };
            let why = ": cluster.engine_certificate and cluster.engine_key go together";
            layers.missing(&format!("LOCKKEEPER_CLUSTER_ENGINE_{variable}"), why);
        }
        let certificates = EngineCertificates { authority: self.ca, identity: self.certificate.zip(self.key) };
        match self.choice {
            EngineChoice::Off => None,
            EngineChoice::Etcd => {
                if self.etcd.is_empty() {
                    let why = ": cluster.engine is \"etcd\", which takes the URLs of its members";
                    layers.missing("LOCKKEEPER_CLUSTER_ETCD", why);
                }
                if !self.etcd_user.is_empty() && self.etcd_password.is_none() {
                    layers.missing("LOCKKEEPER_CLUSTER_ETCD_PASSWORD", ": cluster.etcd_user has one");
                }
                let password = self.etcd_password.filter(|_| !self.etcd_user.is_empty());
                let credentials = password.map(|password| (self.etcd_user, password));
                Some(Engine::Etcd(EtcdEngine {
                    members: self.etcd,
                    prefix: self.etcd_prefix,
                    certificates,
                    credentials,
                }))
            }
            EngineChoice::Postgres => {
                if self.postgres.is_none() {
                    let why = ": cluster.engine is \"postgres\", which takes its URL, such as \
                               postgresql://user:password@host/name";
                    layers.missing("LOCKKEEPER_CLUSTER_POSTGRES", why);
                }
                self.postgres.map(|url| Engine::Postgres(PostgresEngine { url, certificates }))
            }
        }
    }
}

/// A URL with a password is not accepted from a file.
fn database_url() -> Kind<Option<SecretValue>> {
    let allowed = "a URL such as \"postgresql://user@host/name\", or \"\"; one with a password is taken from \
                   LOCKKEEPER_CLUSTER_POSTGRES alone";
    Kind::new(allowed, |value| {
        let text = value.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        let rest = ["postgresql://", "postgres://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let (before_host, _) = rest.ok_or(ValueError::Mismatch)?.rsplit_once('@').unwrap_or_default();
        let has_password = before_host.contains(':') || text.contains("password=");
        if has_password && value.is_in_file() {
            return Err(ValueError::got("one with a password"));
        }
        SecretValue::parse(text).map(Some).map_err(|_| ValueError::Mismatch)
    })
}
