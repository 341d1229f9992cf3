//! Where the nodes of a cluster keep logs that outlive their node. For S3, the variables that all S3 clients know
//! replace omitted settings.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::kinds::{Kind, is_plain_url, name, secret_text, url};
use super::layers::{Layers, section};
use accounts::secrets::SecretValue;

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
/// The first variable that is set applies.
const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
/// The region that servers without regions expect.
const USUAL_REGION: &str = "us-east-1";
const TEXT_MAX: usize = 2_048;

/// The variables that other clients of S3 use too.
const VARIABLES: [&str; 7] = [KEY_ID, SECRET, SESSION_TOKEN, REGIONS[0], REGIONS[1], ENDPOINTS[0], ENDPOINTS[1]];

pub(super) fn is_variable(name: &OsStr) -> bool {
    VARIABLES.iter().any(|known| name == OsStr::new(known))
}

pub(super) fn is_secret_variable(name: &OsStr) -> bool {
    [SECRET, SESSION_TOKEN].iter().any(|secret| name == OsStr::new(secret))
}

/// The store for the logs of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogStore {
    /// Shared by all nodes.
    Directory(PathBuf),
    S3(S3Store),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Store {
    pub bucket: String,
    /// The prefix of all objects.
    pub prefix: String,
    /// `None` for Amazon's endpoint.
    pub endpoint: Option<String>,
    pub region: String,
    pub key_id: String,
    pub secret: SecretValue,
    /// For credentials that expire.
    pub session_token: Option<SecretValue>,
}

section! {
    /// The settings of a log store; an empty text is none.
    pub(super) struct LogStoreSettings {
        url: Option<LogsUrl> = get("cluster.logs", logs_url()),
        endpoint: String = get("cluster.logs_endpoint", url()),
        region: String = get("cluster.logs_region", name(64)),
        key_id: String = get("cluster.logs_key_id", name(256)),
        secret: Option<SecretValue> = secret("cluster.logs_secret", secret_text()),
    }
}

impl LogStoreSettings {
    /// `None` without a log store, or if a setting for S3 is missing.
    pub(super) fn store(self, layers: &mut Layers<'_>) -> Option<LogStore> {
        let (bucket, prefix) = match self.url.clone()? {
            LogsUrl::Directory(path) => return Some(LogStore::Directory(path)),
            LogsUrl::Bucket { bucket, prefix } => (bucket, prefix),
        };
        let (key_id, secret, session_token) = self.credentials(layers)?;
        let region = match &*self.region {
            "" => variable(layers, &REGIONS, "a region such as eu-central-1", is_name),
            region => Some(region.to_owned()),
        };
        let endpoint = match &*self.endpoint {
            "" => variable(layers, &ENDPOINTS, "an http or https URL without credentials", is_plain_url),
            endpoint => Some(endpoint.to_owned()),
        };
        let region = region.unwrap_or_else(|| USUAL_REGION.to_owned());
        Some(LogStore::S3(S3Store { bucket, prefix, endpoint, region, key_id, secret, session_token }))
    }

    /// The key id and the secret come either from the settings or from the variables.
    fn credentials(&self, layers: &mut Layers<'_>) -> Option<(String, SecretValue, Option<SecretValue>)> {
        let (missing, why) = match (&*self.key_id, &self.secret) {
            ("", None) => return credentials_in_variables(layers),
            (key_id, Some(secret)) if !key_id.is_empty() => return Some((key_id.to_owned(), secret.clone(), None)),
            (_, Some(_)) => ("LOCKKEEPER_CLUSTER_LOGS_KEY_ID", "cluster.logs_secret"),
            (_, None) => ("LOCKKEEPER_CLUSTER_LOGS_SECRET", "cluster.logs_key_id"),
        };
        layers.missing(missing, &format!(": {why} is, and they go together"));
        None
    }
}

fn credentials_in_variables(layers: &mut Layers<'_>) -> Option<(String, SecretValue, Option<SecretValue>)> {
    if let Some(missing) = [KEY_ID, SECRET].into_iter().find(|name| layers.variable(name).is_none()) {
        let why = ": cluster.logs is on S3, which takes credentials: here, or as cluster.logs_key_id and \
                   LOCKKEEPER_CLUSTER_LOGS_SECRET";
        layers.missing(missing, why);
        return None;
    }
    let key_id = variable(layers, &[KEY_ID], "visible ASCII characters without spaces", is_name)?;
    let mut secret = |name| {
        let text = variable(layers, &[name], "1 to 2048 bytes, without NUL", |text| SecretValue::parse(text).is_ok())?;
        SecretValue::parse(&text).ok()
    };
    let (secret, session_token) = (secret(SECRET)?, secret(SESSION_TOKEN));
    Some((key_id, secret, session_token))
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The first variable that is set, if its value is valid.
fn variable(layers: &mut Layers<'_>, names: &[&str], rule: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    let (name, value) = names.iter().find_map(|name| Some((*name, layers.variable(name)?)))?;
    let text = value.to_str().filter(|text| text.len() <= TEXT_MAX && fits(text));
    if text.is_none() {
        layers.variable_fault(name, format!("must be {rule}"));
    }
    text.map(str::to_owned)
}

fn logs_url() -> Kind<Option<LogsUrl>> {
    let allowed = "\"file:///\" with the path of a directory, \"s3://\" with a bucket and perhaps a prefix, or \"\"";
    Kind::text(allowed, |text| if text.is_empty() { Some(None) } else { LogsUrl::parse(text).map(Some) })
}

/// The parsed URL of a log store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LogsUrl {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl LogsUrl {
    fn parse(text: &str) -> Option<Self> {
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
