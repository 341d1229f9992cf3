//! The engine of the settings.

use std::path::Path;

use zeroize::Zeroizing;

use crate::app::error::ServeError;
use crate::config::{EngineCertificates, EtcdEngine, PostgresEngine};
use store::engine::etcd::{Credentials, Etcd, EtcdSettings};
use store::engine::postgres::{Postgres, PostgresSettings};
use store::engine::{EngineError, EngineTls};

pub fn etcd(settings: &EtcdEngine, quota_bytes: u64) -> Result<Etcd, ServeError> {
    let credentials = settings.credentials.as_ref().map(|(user, password)| Credentials {
        user: user.clone(),
        password: Zeroizing::new(password.reveal().to_owned()),
    });
    let settings = EtcdSettings {
        members: settings.members.clone(),
        prefix: format!("{}/", settings.prefix.trim_end_matches('/')),
        tls: tls(&settings.certificates)?,
        credentials,
        quota_bytes,
    };
    Etcd::new(settings).map_err(refused)
}

pub fn postgres(settings: &PostgresEngine, quota_bytes: u64) -> Result<Postgres, ServeError> {
    let (url, tls) = (settings.url.reveal().to_owned(), tls(&settings.certificates)?);
    Postgres::new(&PostgresSettings { url, tls, quota_bytes }).map_err(refused)
}

fn tls(files: &EngineCertificates) -> Result<Option<EngineTls>, ServeError> {
    let Some(authority) = &files.authority else { return Ok(None) };
    let identity = match &files.identity {
        Some((certificate, key)) => Some((read(certificate)?, Zeroizing::new(read(key)?))),
        None => None,
    };
    Ok(Some(EngineTls { authority: read(authority)?, identity }))
}

pub fn refused(error: EngineError) -> ServeError {
    ServeError::Engine(error)
}

pub fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::EngineFile { path: path.to_owned(), source })
}
