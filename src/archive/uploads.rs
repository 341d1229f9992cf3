//! Uploads what stages have written. It never holds up a stage: a log that finds no room in the queue, or that could not be
//! uploaded, is found again by its mark, also after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::error::StoreFailure;
use super::object::Uploaded;
use super::store::LogStore;
use crate::logs::{LogFile, Logs};

/// Logs that wait to be uploaded, in memory; the others wait on the disk.
pub const UPLOADS_WAITING_MAX: usize = 1_024;
/// Uploads at once: each holds a piece of its log in memory, and a connection.
const AT_ONCE: usize = 4;
/// How often marks are looked for.
const LOOKED_EVERY: Duration = Duration::from_secs(60);
/// The first and the longest pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub struct Uploads {
    logs: Logs,
    store: LogStore,
    ended: mpsc::Receiver<LogFile>,
    progress: watch::Sender<UploadProgress>,
    waiting: BTreeSet<LogFile>,
    /// One at a time of each log: an older upload that ends later would undo the newer one.
    running: BTreeSet<LogFile>,
    /// In a row.
    failures: u32,
    paused_until: Instant,
    look_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadProgress {
    pub waiting: usize,
    pub running: usize,
    pub fails: bool,
}

impl Uploads {
    /// Uploads what comes through `ended`, and what has a mark.
    pub fn new(logs: Logs, store: LogStore, ended: mpsc::Receiver<LogFile>) -> (Self, watch::Receiver<UploadProgress>) {
        let (progress, seen) = watch::channel(UploadProgress::default());
        let now = Instant::now();
        let (waiting, running) = (BTreeSet::new(), BTreeSet::new());
        (Self { logs, store, ended, progress, waiting, running, failures: 0, paused_until: now, look_at: now }, seen)
    }

    /// Until there are no more stages.
    pub async fn run(mut self) {
        if let Err(error) = self.store.check().await {
            tracing::warn!(%error, "the store of logs does not work; logs stay on this node until it does");
        }
        let mut uploading = FuturesUnordered::new();
        loop {
            while let Some(file) = self.next() {
                uploading.push(upload(self.logs.clone(), self.store.clone(), file));
            }
            self.publish();
            let is_paused = !self.waiting.is_empty() && self.paused_until > Instant::now();
            tokio::select! {
                ended = self.ended.recv() => match ended {
                    Some(file) => self.add(file),
                    None => return,
                },
                Some((file, outcome)) = uploading.next() => self.note(&file, outcome),
                () = tokio::time::sleep_until(self.look_at) => self.look().await,
                () = tokio::time::sleep_until(self.paused_until), if is_paused => {}
            }
        }
    }

    fn next(&mut self) -> Option<LogFile> {
        if self.running.len() >= AT_ONCE || self.paused_until > Instant::now() {
            return None;
        }
        let file = self.waiting.iter().find(|file| !self.running.contains(file))?.clone();
        self.waiting.remove(&file);
        self.running.insert(file.clone());
        Some(file)
    }

    fn add(&mut self, file: LogFile) {
        if self.waiting.len() < UPLOADS_WAITING_MAX {
            self.waiting.insert(file);
        }
    }

    async fn look(&mut self) {
        self.look_at = Instant::now() + LOOKED_EVERY;
        let logs = self.logs.clone();
        let found = tokio::task::spawn_blocking(move || logs.pending()).await.unwrap_or_default();
        found.into_iter().for_each(|file| self.add(file));
    }

    fn note(&mut self, file: &LogFile, outcome: Result<(), StoreFailure>) {
        self.running.remove(file);
        let result = if outcome.is_ok() { "succeeded" } else { "failed" };
        metrics::counter!("lockkeeper_log_uploads_total", "outcome" => result).increment(1);
        match outcome {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::info!("logs are uploaded again");
                }
                self.failures = 0;
            }
            Err(error) => {
                if self.failures == 0 {
                    let deployment = file.deployment;
                    tracing::warn!(%deployment, %error, "cannot upload a log; it stays on this node and is tried again");
                }
                self.paused_until = Instant::now() + pause(self.failures);
                self.failures = self.failures.saturating_add(1);
                // By its mark: others go first.
                self.look_at = self.look_at.min(self.paused_until);
            }
        }
    }

    fn publish(&self) {
        let (waiting, running) = (self.waiting.len(), self.running.len());
        metrics::gauge!("lockkeeper_log_uploads_waiting").set((waiting + running) as f64);
        self.progress.send_replace(UploadProgress { waiting, running, fails: self.failures > 0 });
    }
}

/// After so many failures in a row before this one.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE)
}

async fn upload(logs: Logs, store: LogStore, file: LogFile) -> (LogFile, Result<(), StoreFailure>) {
    let (of, settling) = (file.clone(), logs.clone());
    let uploaded = async {
        let settled =
            tokio::task::spawn_blocking(move || settling.settled(&of)).await.map_err(std::io::Error::other)??;
        // A log that was removed, or in which nothing was ever written, has nothing to upload.
        if let Some(settled) = settled.filter(|settled| settled.length > 0) {
            store.put(&file, Uploaded::new(logs.clone(), file.clone(), settled)).await?;
        }
        let (of, marking) = (file.clone(), logs.clone());
        tokio::task::spawn_blocking(move || marking.uploaded(&of, settled)).await.map_err(std::io::Error::other)?;
        Ok(())
    };
    let outcome = uploaded.await;
    (file, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        assert_eq!([0, 1, 2, 5, 6, 40, u32::MAX].map(|n| pause(n).as_secs()), [1, 2, 4, 32, 60, 60, 60]);
    }
}
