//! Uploads what stages have written. It never holds up a stage: a log that finds no room in the queue, or that could not be
//! uploaded, is found again by its mark, also after a restart.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::error::StoreFailure;
use super::line::Line;
use super::object::Uploaded;
use super::store::LogStore;
use crate::logs::{LogFile, Logs};

/// How often marks are looked for.
const LOOKED_EVERY: Duration = Duration::from_secs(60);

pub struct Uploads {
    logs: Logs,
    store: LogStore,
    ended: mpsc::Receiver<LogFile>,
    progress: watch::Sender<UploadProgress>,
    finish: watch::Receiver<bool>,
    line: Line,
    look_at: Instant,
}

/// Watches the uploads, and asks for their end.
pub struct UploadControl {
    progress: watch::Receiver<UploadProgress>,
    finish: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadProgress {
    pub waiting: usize,
    pub running: usize,
    pub fails: bool,
    /// After a request for the end: nothing more is tried.
    pub has_finished: bool,
}

impl UploadControl {
    pub fn progress(&self) -> watch::Receiver<UploadProgress> {
        self.progress.clone()
    }

    /// How many are not in the store yet, as far as they are known.
    pub fn left(&self) -> usize {
        let now = self.progress.borrow();
        now.waiting + now.running
    }

    /// Everything that is on this node and not in the store is tried now; returns when each was uploaded or has failed, or when
    /// the store fails.
    pub async fn finish(&self) {
        self.finish.send_replace(true);
        self.progress().wait_for(|now| now.has_finished).await.ok();
    }
}

impl Uploads {
    /// Uploads what comes through `ended`, and what has a mark.
    pub fn new(logs: Logs, store: LogStore, ended: mpsc::Receiver<LogFile>) -> (Self, UploadControl) {
        let (progress, seen) = watch::channel(UploadProgress::default());
        let (asks, finish) = watch::channel(false);
        let (line, look_at) = (Line::default(), Instant::now());
        let control = UploadControl { progress: seen, finish: asks };
        (Self { logs, store, ended, progress, finish, line, look_at }, control)
    }

    /// Until there are no more stages.
    pub async fn run(self) {
        let store = self.store.clone();
        let check = async {
            if let Err(error) = store.check().await {
                tracing::warn!(%error, "the store of logs does not work; logs stay on this node until it does");
            }
        };
        tokio::join!(check, self.upload_all());
    }

    async fn upload_all(mut self) {
        let mut uploading = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            while let Some(file) = self.line.next(now) {
                uploading.push(upload(self.logs.clone(), self.store.clone(), file));
            }
            self.publish();
            let next_at = self.line.next_at(now).map_or(self.look_at, |at| at.min(self.look_at));
            let is_finishing = self.line.is_finishing();
            tokio::select! {
                ended = self.ended.recv() => match ended {
                    Some(file) => self.line.add(file),
                    None => return,
                },
                Some((file, outcome)) = uploading.next() => self.note(&file, outcome),
                () = asked(&mut self.finish), if !is_finishing => self.finish().await,
                () = tokio::time::sleep_until(next_at) => if self.look_at <= Instant::now() {
                    self.look().await;
                },
            }
        }
    }

    async fn look(&mut self) {
        self.look_at = Instant::now() + LOOKED_EVERY;
        let logs = self.logs.clone();
        let found = tokio::task::spawn_blocking(move || logs.pending()).await.unwrap_or_default();
        found.into_iter().for_each(|file| self.line.add_marked(file));
    }

    /// With those that stages have ended a moment ago.
    async fn finish(&mut self) {
        while let Ok(file) = self.ended.try_recv() {
            self.line.add(file);
        }
        self.look().await;
        self.line.finish();
    }

    fn note(&mut self, file: &LogFile, outcome: Result<(), StoreFailure>) {
        let result = if outcome.is_ok() { "succeeded" } else { "failed" };
        metrics::counter!("lockkeeper_log_uploads_total", "outcome" => result).increment(1);
        match outcome {
            Ok(()) => {
                if self.line.succeeded(file) {
                    tracing::info!("logs are uploaded again");
                }
            }
            Err(error) => {
                if self.line.failed(file, Instant::now()) {
                    let deployment = file.deployment;
                    tracing::warn!(%deployment, %error, "cannot upload a log; it stays on this node and is tried again");
                }
            }
        }
    }

    fn publish(&self) {
        let (waiting, running) = (self.line.waiting(), self.line.running());
        metrics::gauge!("lockkeeper_log_uploads_waiting").set((waiting + running) as f64);
        let (fails, has_finished) = (self.line.fails(), self.line.has_finished());
        self.progress.send_replace(UploadProgress { waiting, running, fails, has_finished });
    }
}

/// Never, if there is nobody left who could ask.
async fn asked(finish: &mut watch::Receiver<bool>) {
    if finish.wait_for(|asked| *asked).await.is_err() {
        std::future::pending().await
    }
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
