//! What new connections use, replaced when the files have changed. A connection keeps what it began with.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;

use super::certificate::Certificate;
use super::files::{Files, Fingerprint, Unfit};
use super::identity::Identity;

pub struct ServerTls {
    files: Files,
    identity: RwLock<Identity>,
    /// Of the files when they were last read, good or not, so that each change is reported once.
    seen: Mutex<Fingerprint>,
}

/// What a look at the files has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Refreshed {
    Unchanged,
    /// New connections use the new ones.
    Replaced(Certificate),
    /// They are not used; new connections go on with the old ones.
    Refused(Vec<Unfit>),
}

impl ServerTls {
    pub fn open(files: Files) -> Result<Self, Vec<Unfit>> {
        let contents = files.read();
        let identity = Identity::new(&files, &contents)?;
        Ok(Self { files, identity: RwLock::new(identity), seen: Mutex::new(contents.fingerprint()) })
    }

    /// For a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.identity.read().config.clone()
    }

    pub fn certificate(&self) -> Certificate {
        self.identity.read().certificate.clone()
    }

    /// Whether clients that ask for this name or address find it in the certificate.
    pub fn is_for(&self, host: &str) -> bool {
        self.identity.read().certificate.is_for(host)
    }

    /// A warning if every user of this machine may read the key.
    pub fn exposure(&self) -> Option<String> {
        self.files.exposure()
    }

    /// Reads the files, and uses them from now on if they have changed and are good.
    pub fn refresh(&self) -> Refreshed {
        let mut seen = self.seen.lock();
        let contents = self.files.read();
        let fingerprint = contents.fingerprint();
        if *seen == fingerprint {
            return Refreshed::Unchanged;
        }
        *seen = fingerprint;
        match Identity::new(&self.files, &contents) {
            Ok(identity) => {
                let certificate = identity.certificate.clone();
                *self.identity.write() = identity;
                Refreshed::Replaced(certificate)
            }
            Err(unfit) => Refreshed::Refused(unfit),
        }
    }
}
