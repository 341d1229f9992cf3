//! Backups of a running server: one at a time, since each keeps a part of the log.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::form::{About, Totals};
use super::making::{MakeError, make};
use delivery::logs::Logs;
use store::LoggedStore;

/// Another one is being taken.
#[derive(Debug)]
pub struct InProgress;

pub struct Backups {
    store: Arc<LoggedStore>,
    logs: Logs,
    master_key: Option<String>,
    running: Arc<AtomicBool>,
}

/// The right to take one, until dropped.
pub struct Taking {
    store: Arc<LoggedStore>,
    logs: Logs,
    about: About,
    running: Arc<AtomicBool>,
}

impl Backups {
    /// `master_key` is its fingerprint.
    pub fn new(store: Arc<LoggedStore>, logs: Logs, master_key: Option<String>) -> Self {
        Self { store, logs, master_key, running: Arc::default() }
    }

    pub fn begin(&self, created_at: String, organizations: Vec<String>) -> Result<Taking, InProgress> {
        if self.running.swap(true, Ordering::AcqRel) {
            return Err(InProgress);
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let about = About { version, created_at, organizations, master_key: self.master_key.clone() };
        let (store, logs, running) = (self.store.clone(), self.logs.clone(), self.running.clone());
        Ok(Taking { store, logs, about, running })
    }
}

impl Taking {
    /// Blocks until everything is written.
    pub fn write_to(self, out: impl Write) -> Result<Totals, MakeError> {
        make(&self.store, &self.logs, self.about.clone(), out)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Release);
    }
}
