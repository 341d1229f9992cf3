//! The settings of a node of a cluster: which of them need each other.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::{Fault, Place};
use super::log_store::LogStoreDraft;
use super::settings::{Cluster, Engine, EngineCertificates, EngineChoice, EtcdEngine, PostgresEngine, Settings};
use accounts::secrets::SecretValue;

/// The settings while the layers are laid over each other.
pub(super) struct ClusterDraft {
    pub(super) engine: EngineChoice,
    pub(super) etcd: Vec<String>,
    pub(super) etcd_prefix: String,
    /// Each with the place that names it.
    pub(super) engine_ca: Option<(PathBuf, Place)>,
    pub(super) engine_certificate: Option<(PathBuf, Place)>,
    pub(super) engine_key: Option<(PathBuf, Place)>,
    pub(super) nodes_ca: Option<(PathBuf, Place)>,
    pub(super) etcd_user: String,
    pub(super) etcd_password: Option<SecretValue>,
    pub(super) postgres: Option<SecretValue>,
    pub(super) node: String,
    pub(super) advertise: String,
    pub(super) shards: NonZeroU16,
    pub(super) quota_bytes: u64,
    pub(super) step_lease: Duration,
    pub(super) logs: LogStoreDraft,
    pub(super) foreign_log_bytes: u64,
}

impl Default for ClusterDraft {
    fn default() -> Self {
        Self {
            engine: EngineChoice::Off,
            etcd: Vec::new(),
            etcd_prefix: String::new(),
            engine_ca: None,
            engine_certificate: None,
            engine_key: None,
            nodes_ca: None,
            etcd_user: String::new(),
            etcd_password: None,
            postgres: None,
            node: String::new(),
            advertise: String::new(),
            shards: NonZeroU16::MIN,
            quota_bytes: 0,
            step_lease: Duration::ZERO,
            logs: LogStoreDraft::default(),
            foreign_log_bytes: 0,
        }
    }
}

impl ClusterDraft {
    /// The settings if there is a cluster.
    pub(super) fn settle(self, settings: &Settings, faults: &mut Vec<Fault>) -> Option<Cluster> {
        let mut missing = |variable: &str, why: &str| {
            faults.push(Fault::new(Place::Variable(variable.to_owned()), format!("is not set: {why}")));
        };
        if self.engine != EngineChoice::Off && settings.master_key.is_none() {
            missing(
                "LOCKKEEPER_MASTER_KEY",
                "all nodes of a cluster need the same master key; make one with `openssl rand -hex 32`",
            );
        }
        let advertise = Some(self.advertise.trim_end_matches('/').to_owned()).filter(|url| !url.is_empty());
        if self.engine != EngineChoice::Off && advertise.is_none() && settings.listen.ip().is_unspecified() {
            let why =
                "the other nodes need an address of this one, such as http://10.0.0.1:8080, and `listen` names none";
            missing("LOCKKEEPER_CLUSTER_ADVERTISE", why);
        }
        if self.engine_certificate.is_some() != self.engine_key.is_some() {
            let variable = if self.engine_key.is_none() { "KEY" } else { "CERTIFICATE" };
            let why = "cluster.engine_certificate and cluster.engine_key go together";
            missing(&format!("LOCKKEEPER_CLUSTER_ENGINE_{variable}"), why);
        }
        let certificates = EngineCertificates {
            authority: path(self.engine_ca),
            identity: path(self.engine_certificate).zip(path(self.engine_key)),
        };
        let engine = match self.engine {
            EngineChoice::Off => return None,
            EngineChoice::Etcd => {
                if self.etcd.is_empty() {
                    missing(
                        "LOCKKEEPER_CLUSTER_ETCD",
                        "cluster.engine is \"etcd\", which takes the URLs of its members",
                    );
                }
                if !self.etcd_user.is_empty() && self.etcd_password.is_none() {
                    missing("LOCKKEEPER_CLUSTER_ETCD_PASSWORD", "cluster.etcd_user has one");
                }
                Engine::Etcd(EtcdEngine {
                    members: self.etcd,
                    prefix: self.etcd_prefix,
                    certificates,
                    credentials: self.etcd_password.filter(|_| !self.etcd_user.is_empty()).map(|p| (self.etcd_user, p)),
                })
            }
            EngineChoice::Postgres => match self.postgres {
                Some(url) => Engine::Postgres(PostgresEngine { url, certificates }),
                None => {
                    let why = "cluster.engine is \"postgres\", which takes its URL, such as postgresql://user:password@host/name";
                    missing("LOCKKEEPER_CLUSTER_POSTGRES", why);
                    return None;
                }
            },
        };
        let logs = self.logs.settle(faults);
        let node = if self.node.is_empty() { host_name() } else { self.node };
        Some(Cluster {
            engine,
            node,
            advertise,
            nodes_ca: path(self.nodes_ca),
            shards: self.shards,
            quota_bytes: self.quota_bytes,
            step_lease: self.step_lease,
            logs,
            foreign_log_bytes: self.foreign_log_bytes,
        })
    }
}

fn path(file: Option<(PathBuf, Place)>) -> Option<PathBuf> {
    file.map(|(path, _)| path)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
