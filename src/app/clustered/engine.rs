//! The engine of the settings.

use std::path::Path;

use zeroize::Zeroizing;

use crate::app::error::ServeError;
use crate::config::EtcdEngine;
use crate::secrets::SecretValue;
use crate::store::engine::EngineError;
use crate::store::engine::etcd::{Credentials, Etcd, EtcdSettings, EtcdTls};
use crate::store::engine::postgres::{Postgres, PostgresSettings};

pub fn etcd(settings: &EtcdEngine, quota_bytes: u64) -> Result<Etcd, ServeError> {
    let identity = match &settings.identity {
        Some((certificate, key)) => Some((read(certificate)?, Zeroizing::new(read(key)?))),
        None => None,
    };
    let tls = match &settings.authority {
        Some(authority) => Some(EtcdTls { authority: read(authority)?, identity }),
        None => None,
    };
    let credentials = settings.credentials.as_ref().map(|(user, password)| Credentials {
        user: user.clone(),
        password: Zeroizing::new(password.reveal().to_owned()),
    });
    let settings = EtcdSettings {
        members: settings.members.clone(),
        prefix: format!("{}/", settings.prefix.trim_end_matches('/')),
        tls,
        credentials,
        quota_bytes,
    };
    Etcd::new(settings).map_err(refused)
}

pub fn postgres(url: &SecretValue, quota_bytes: u64) -> Result<Postgres, ServeError> {
    Postgres::new(&PostgresSettings { url: url.reveal().to_owned(), quota_bytes }).map_err(refused)
}

pub fn refused(error: EngineError) -> ServeError {
    ServeError::Engine(error)
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::EngineFile { path: path.to_owned(), source })
}
