//! The current writer and the watchers of each log.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{mpsc, watch};

use super::file::LogFile;
use domain::DeploymentId;

#[derive(Default)]
pub(super) struct Registry {
    entries: Mutex<HashMap<DeploymentId, Entry>>,
    writer_left: Condvar,
    /// Held while a log is synced: syncs are sequential.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct Entry {
    length: watch::Sender<u64>,
    is_written: bool,
}

impl Registry {
    /// Waits until this log has no other writer: two would overwrite each other.
    pub fn register(self: &Arc<Self>, file: LogFile, dir: &Path, ended: Option<mpsc::Sender<LogFile>>) -> Registration {
        let deployment = file.deployment;
        let mut entries = self.entries.lock();
        while entries.get(&deployment).is_some_and(|entry| entry.is_written) {
            self.writer_left.wait(&mut entries);
        }
        entries.entry(deployment).or_default().is_written = true;
        Registration { registry: self.clone(), file, dir: dir.to_owned(), ended }
    }

    pub fn watch(&self, deployment: DeploymentId) -> watch::Receiver<u64> {
        self.entries.lock().entry(deployment).or_default().length.subscribe()
    }

    /// Runs the action unless the log is being written; no writer can start meanwhile.
    pub fn unless_written<T>(&self, deployment: DeploymentId, action: impl FnOnce() -> T) -> Option<T> {
        let entries = self.entries.lock();
        let is_written = entries.get(&deployment).is_some_and(|entry| entry.is_written);
        (!is_written).then(action)
    }

    /// Drops the entries without a writer and without watchers.
    pub fn remove_unused(&self) {
        self.entries.lock().retain(|_, entry| entry.is_in_use());
    }
}

impl Entry {
    fn is_in_use(&self) -> bool {
        self.is_written || self.length.receiver_count() > 0
    }
}

/// The exclusive right to write one log, until dropped.
pub(super) struct Registration {
    registry: Arc<Registry>,
    pub file: LogFile,
    dir: PathBuf,
    /// Notified when a stage has ended.
    ended: Option<mpsc::Sender<LogFile>>,
}

impl Registration {
    pub fn appended(&self, length: u64) {
        if let Some(entry) = self.registry.entries.lock().get(&self.file.deployment) {
            entry.length.send_replace(length);
        }
    }

    /// Never waits: a log that does not fit into the queue is found by its mark.
    pub fn stage_ended(&self) {
        if let Some(ended) = &self.ended {
            ended.try_send(self.file.clone()).ok();
        }
    }

    pub fn sync(&self, file: &File) -> io::Result<()> {
        let _turn = self.registry.syncing.lock();
        file.sync_data()
    }

    /// The name of a new file is in its directory, which needs its own sync.
    pub fn sync_dir(&self) -> io::Result<()> {
        let _turn = self.registry.syncing.lock();
        File::open(&self.dir)?.sync_all()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.registry.entries.lock();
        if let Some(entry) = entries.get_mut(&self.file.deployment) {
            entry.is_written = false;
            if !entry.is_in_use() {
                entries.remove(&self.file.deployment);
            }
        }
        self.registry.writer_left.notify_all();
    }
}
