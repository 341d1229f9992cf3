//! The settings of a node of a cluster, and which of them need each other. What its store of logs needs for S3 and is not set comes
//! from the variables that all S3 clients know.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::{Fault, Place};
use super::settings::{
    Cluster, Engine, EngineCertificates, EngineChoice, EtcdEngine, LogStore, PostgresEngine, S3Store, Settings,
};
use accounts::secrets::SecretValue;
use domain::pipeline::check_url;

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

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
/// The first that is set counts.
const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
/// The region that servers without regions expect.
const USUAL_REGION: &str = "us-east-1";
const TEXT_MAX: usize = 2_048;

/// The variables among these that other programs use for S3, too.
pub(super) const VARIABLES: [&str; 7] =
    [KEY_ID, SECRET, SESSION_TOKEN, REGIONS[0], REGIONS[1], ENDPOINTS[0], ENDPOINTS[1]];

pub(super) fn is_secret_variable(name: &OsStr) -> bool {
    [SECRET, SESSION_TOKEN].iter().any(|secret| name == OsStr::new(secret))
}

/// The place that a URL of logs names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogsUrl {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl LogsUrl {
    /// `file:///path` or `s3://bucket/prefix`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        if let Some(path) = text.strip_prefix("file://") {
            let path = path.trim_end_matches('/');
            let is_plain = path.starts_with('/') && !path.contains(['%', '?', '#']);
            return is_plain.then(|| Self::Directory(PathBuf::from(path)));
        }
        let (bucket, prefix) = text.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
        let is_edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let in_bucket = |byte: u8| is_edge(byte) || b".-".contains(&byte);
        let is_bucket = (3..=63).contains(&bucket.len())
            && bucket.bytes().all(in_bucket)
            && [bucket.as_bytes().first(), bucket.as_bytes().last()].into_iter().flatten().all(|byte| is_edge(*byte));
        let prefix = prefix.trim_end_matches('/');
        let in_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-=".contains(&byte);
        let is_word = |word: &str| !matches!(word, "" | "." | "..") && word.bytes().all(in_word);
        let is_prefix = prefix.is_empty() || prefix.split('/').all(is_word);
        (is_bucket && is_prefix).then(|| Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

#[derive(Default)]
pub(super) struct LogStoreDraft {
    pub(super) url: Option<LogsUrl>,
    pub(super) endpoint: String,
    pub(super) region: String,
    pub(super) key_id: String,
    pub(super) secret: Option<SecretValue>,
    /// The variables of other clients of S3.
    pub(super) variables: BTreeMap<OsString, OsString>,
}

impl LogStoreDraft {
    pub(super) fn settle(self, faults: &mut Vec<Fault>) -> Option<LogStore> {
        let (bucket, prefix) = match self.url.clone()? {
            LogsUrl::Directory(path) => return Some(LogStore::Directory(path)),
            LogsUrl::Bucket { bucket, prefix } => (bucket, prefix),
        };
        let (key_id, secret, session_token) = self.credentials(faults)?;
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let region = match &*self.region {
            "" => self.variable(&REGIONS, "a region such as eu-central-1", is_name, faults),
            region => Some(region.to_owned()),
        };
        let is_url = |text: &str| !text.contains(['?', '#', '@']) && check_url(text).is_ok();
        let endpoint = match &*self.endpoint {
            "" => self.variable(&ENDPOINTS, "an http or https URL without credentials", is_url, faults),
            endpoint => Some(endpoint.to_owned()),
        };
        let region = region.unwrap_or_else(|| USUAL_REGION.to_owned());
        Some(LogStore::S3(S3Store { bucket, prefix, endpoint, region, key_id, secret, session_token }))
    }

    /// Both from the settings, or both from the variables.
    fn credentials(&self, faults: &mut Vec<Fault>) -> Option<(String, SecretValue, Option<SecretValue>)> {
        let mut missing = |variable: &str, why: &str| {
            faults.push(Fault::new(Place::Variable(variable.to_owned()), format!("is not set: {why}")));
        };
        match (&*self.key_id, &self.secret) {
            ("", None) => {}
            ("", Some(_)) => {
                missing("LOCKKEEPER_CLUSTER_LOGS_KEY_ID", "cluster.logs_secret is, and they go together");
                return None;
            }
            (_, None) => {
                missing("LOCKKEEPER_CLUSTER_LOGS_SECRET", "cluster.logs_key_id is, and they go together");
                return None;
            }
            (key_id, Some(secret)) => return Some((key_id.to_owned(), secret.clone(), None)),
        }
        let why = "cluster.logs is on S3, which takes credentials: here, or as cluster.logs_key_id and \
                   LOCKKEEPER_CLUSTER_LOGS_SECRET";
        if self.given(KEY_ID).is_none() || self.given(SECRET).is_none() {
            missing(if self.given(KEY_ID).is_none() { KEY_ID } else { SECRET }, why);
            return None;
        }
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let key_id = self.variable(&[KEY_ID], "visible ASCII characters without spaces", is_name, faults)?;
        let is_secret = |text: &str| SecretValue::parse(text).is_ok();
        let rule = "1 to 2048 bytes, without NUL";
        let secret = self.variable(&[SECRET], rule, is_secret, faults)?;
        let session_token = self.variable(&[SESSION_TOKEN], rule, is_secret, faults);
        let session_token = session_token.and_then(|token| SecretValue::parse(&token).ok());
        Some((key_id, SecretValue::parse(&secret).ok()?, session_token))
    }

    fn given(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The first that is set, if it fits the rule.
    fn variable(
        &self,
        names: &[&str],
        rule: &str,
        fits: impl Fn(&str) -> bool,
        faults: &mut Vec<Fault>,
    ) -> Option<String> {
        let (name, value) = names.iter().find_map(|name| Some((name, self.given(name)?)))?;
        match value.to_str().filter(|text| text.len() <= TEXT_MAX && fits(text)) {
            Some(text) => Some(text.to_owned()),
            None => {
                faults.push(Fault::new(Place::Variable((*name).to_owned()), format!("must be {rule}")));
                None
            }
        }
    }
}
