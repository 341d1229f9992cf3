//! Uploads the output of stages, from a queue, without ever delaying a stage: a log that does not fit into the queue,
//! or whose upload failed, is found again by its mark, also after a restart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::object::{ObjectError, Uploaded};
use super::store::LogStore;
use crate::blocking;
use crate::logs::{LogFile, Logs};
use ambient::backoff::Backoff;

/// The interval of the search for marks.
const LOOKED_EVERY: Duration = Duration::from_secs(60);

pub struct Uploads {
    logs: Logs,
    store: LogStore,
    ended: mpsc::Receiver<LogFile>,
    progress: watch::Sender<UploadProgress>,
    finish: watch::Receiver<bool>,
    line: UploadQueue,
    look_at: Instant,
}

/// Watches the uploads, and requests their end.
pub struct UploadControl {
    progress: watch::Receiver<UploadProgress>,
    finish: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadProgress {
    pub waiting: usize,
    pub running: usize,
    pub fails: bool,
    /// Set after a request to finish, once no further upload will be tried.
    pub has_finished: bool,
}

impl UploadControl {
    pub fn progress(&self) -> watch::Receiver<UploadProgress> {
        self.progress.clone()
    }

    /// The known number of logs that are not in the store yet.
    pub fn left(&self) -> usize {
        let now = self.progress.borrow();
        now.waiting + now.running
    }

    /// Tries to upload everything on this node that is not in the store. Returns when every upload has succeeded or
    /// failed, or when the store fails.
    pub async fn finish(&self) {
        self.finish.send_replace(true);
        self.progress().wait_for(|now| now.has_finished).await.ok();
    }
}

impl Uploads {
    /// Uploads the logs that arrive through `ended`, and those with a mark.
    pub fn new(logs: Logs, store: LogStore, ended: mpsc::Receiver<LogFile>) -> (Self, UploadControl) {
        let (progress, seen) = watch::channel(UploadProgress::default());
        let (asks, finish) = watch::channel(false);
        let (line, look_at) = (UploadQueue::default(), Instant::now());
        let control = UploadControl { progress: seen, finish: asks };
        (Self { logs, store, ended, progress, finish, line, look_at }, control)
    }

    /// Runs until there are no more stages.
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
            let is_finishing = self.line.is_finishing;
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

    /// Includes the logs of stages that have just ended.
    async fn finish(&mut self) {
        while let Ok(file) = self.ended.try_recv() {
            self.line.add(file);
        }
        self.look().await;
        self.line.finish();
    }

    fn note(&mut self, file: &LogFile, outcome: Result<(), ObjectError>) {
        let result = if outcome.is_ok() { "succeeded" } else { "failed" };
        metrics::counter!("lockkeeper_log_uploads_total", "outcome" => result).increment(1);
        match outcome {
            Ok(()) if self.line.succeeded(file) => tracing::info!("logs are uploaded again"),
            Err(error) if self.line.failed(file, Instant::now()) => {
                let deployment = file.deployment;
                tracing::warn!(%deployment, %error, "cannot upload a log; it stays on this node and is tried again");
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn publish(&self) {
        let (waiting, running) = (self.line.waiting(), self.line.running());
        metrics::gauge!("lockkeeper_log_uploads_waiting").set((waiting + running) as f64);
        let (fails, has_finished) = (self.line.fails(), self.line.has_finished());
        self.progress.send_replace(UploadProgress { waiting, running, fails, has_finished });
    }
}

/// Resolves on a request to finish; never, once no caller is left that could send one.
async fn asked(finish: &mut watch::Receiver<bool>) {
    if finish.wait_for(|asked| *asked).await.is_err() {
        std::future::pending().await
    }
}

async fn upload(logs: Logs, store: LogStore, file: LogFile) -> (LogFile, Result<(), ObjectError>) {
    let (of, settling) = (file.clone(), logs.clone());
    let uploaded = async {
        let settled = blocking(move || settling.settled(&of)).await?;
        // A removed or empty log has nothing to upload.
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

/// Logs in memory that wait for their upload; the others are found on disk by their marks. The same number of failed
/// uploads may wait in memory too.
pub const UPLOADS_WAITING_MAX: usize = 1_024;
/// Concurrent uploads: each holds a piece of its log in memory, and a connection.
const AT_ONCE: usize = 4;
/// The maximum number of retries among them: an upload may take a quarter of an hour to fail.
const RETRIED_AT_ONCE: usize = 2;
/// The pauses after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE);

/// The logs that wait for their upload; pure. A failed upload waits longer after each failure, and goes to the end of
/// the queue.
#[derive(Debug, Default)]
struct UploadQueue {
    /// In upload order.
    ready: VecDeque<Waiting>,
    /// Logs whose upload failed, with the times at which they become ready again.
    delayed: Vec<(Instant, Waiting)>,
    /// All logs of both lists.
    known: BTreeSet<LogFile>,
    /// The running uploads with their earlier failures. At most one per log: an older upload that ends later would undo
    /// the newer one.
    running: BTreeMap<LogFile, u32>,
    first_tries: Lane,
    retries: Lane,
    is_finishing: bool,
}

#[derive(Debug)]
struct Waiting {
    file: LogFile,
    /// The consecutive failures of the upload.
    failures: u32,
}

/// Separate pauses for first tries and retries: while the store fails, few of either are tried, and logs that always
/// fail do not delay others.
#[derive(Debug, Default)]
struct Lane {
    /// Failures since the last success.
    failures: u32,
    paused_until: Option<Instant>,
}

impl UploadQueue {
    /// Queues a log that a stage has written, even if it is being uploaded now.
    pub fn add(&mut self, file: LogFile) {
        if self.ready.len() < UPLOADS_WAITING_MAX && self.known.insert(file.clone()) {
            self.ready.push_back(Waiting { file, failures: 0 });
        }
    }

    /// Queues a log with a mark, which stays until its upload has ended.
    pub fn add_marked(&mut self, file: LogFile) {
        if !self.running.contains_key(&file) {
            self.add(file);
        }
    }

    /// The next upload, if one may start at this time.
    pub fn next(&mut self, now: Instant) -> Option<LogFile> {
        self.admit_delayed(now);
        if self.running.len() >= AT_ONCE || self.has_given_up() {
            return None;
        }
        let retried = self.running.values().filter(|failures| **failures > 0).count();
        let may_run = |waiting: &Waiting| {
            !self.running.contains_key(&waiting.file)
                && match waiting.failures {
                    _ if self.is_finishing => true,
                    0 => self.first_tries.is_open(now),
                    1.. => self.retries.is_open(now) && retried < RETRIED_AT_ONCE,
                }
        };
        let Waiting { file, failures } = self.ready.remove(self.ready.iter().position(may_run)?)?;
        self.known.remove(&file);
        self.running.insert(file.clone(), failures);
        Some(file)
    }

    /// When [`UploadQueue::next`] may return an upload without any other event.
    pub fn next_at(&self, now: Instant) -> Option<Instant> {
        let delayed = self.delayed.iter().map(|(at, _)| *at);
        let pauses = [&self.first_tries, &self.retries].into_iter().filter_map(|lane| lane.paused_until);
        pauses.chain(delayed).filter(|at| *at > now).min()
    }

    /// Returns whether uploads had been failing.
    pub fn succeeded(&mut self, file: &LogFile) -> bool {
        self.running.remove(file);
        let had_failed = self.first_tries.failures > 0;
        self.forget_failures();
        had_failed
    }

    /// Returns whether uploads begin to fail with this one. A retry that fails says nothing about the others.
    pub fn failed(&mut self, file: &LogFile, now: Instant) -> bool {
        let failures = self.running.remove(file).unwrap_or_default();
        let lane = if failures == 0 { &mut self.first_tries } else { &mut self.retries };
        let begins = failures == 0 && lane.failures == 0;
        lane.paused_until = Some(now + pause(lane.failures));
        lane.failures = lane.failures.saturating_add(1);
        self.ready.retain(|waiting| waiting.file != *file);
        self.known.remove(file);
        // Logs that do not fit are found by their marks.
        if self.delayed.len() < UPLOADS_WAITING_MAX {
            let waiting = Waiting { file: file.clone(), failures: failures.saturating_add(1) };
            self.delayed.push((now + pause(failures), waiting));
            self.known.insert(file.clone());
        }
        begins
    }

    /// From now on everything is tried once more, without pauses, failed uploads last.
    pub fn finish(&mut self) {
        self.forget_failures();
        self.delayed.sort_by_key(|(at, _)| *at);
        self.ready.extend(self.delayed.drain(..).map(|(_, waiting)| waiting));
        self.is_finishing = true;
    }

    /// Whether everything was tried since [`UploadQueue::finish`], or so many uploads failed in a row that the store must be
    /// down.
    pub fn has_finished(&self) -> bool {
        self.is_finishing && self.running.is_empty() && (self.ready.is_empty() || self.has_given_up())
    }

    pub fn waiting(&self) -> usize {
        self.ready.len() + self.delayed.len()
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether the newest uploads failed.
    pub fn fails(&self) -> bool {
        self.failures() > 0
    }

    fn failures(&self) -> u32 {
        self.first_tries.failures.saturating_add(self.retries.failures)
    }

    fn has_given_up(&self) -> bool {
        self.is_finishing && self.failures() as usize >= AT_ONCE
    }

    fn forget_failures(&mut self) {
        (self.first_tries, self.retries) = (Lane::default(), Lane::default());
    }

    fn admit_delayed(&mut self, now: Instant) {
        if self.is_finishing {
            return;
        }
        let mut due: Vec<_> = self.delayed.extract_if(.., |(at, _)| *at <= now).collect();
        due.sort_by_key(|(at, _)| *at);
        self.ready.extend(due.into_iter().map(|(_, waiting)| waiting));
    }
}

impl Lane {
    fn is_open(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| until <= now)
    }
}

/// The pause after this many consecutive earlier failures.
fn pause(failures: u32) -> Duration {
    BACKOFF.pause(failures.saturating_add(1), rand::random())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{DeploymentId, IdSeed};

    fn file(seed: u8) -> LogFile {
        LogFile { deployment: DeploymentId(IdSeed([seed; 12])), number: 0, organization: None }
    }

    fn line(seeds: impl IntoIterator<Item = u8>) -> UploadQueue {
        let mut line = UploadQueue::default();
        seeds.into_iter().for_each(|seed| line.add(file(seed)));
        line
    }

    fn started(line: &mut UploadQueue, now: Instant) -> Vec<LogFile> {
        std::iter::from_fn(|| line.next(now)).collect()
    }

    #[test]
    fn pauses_grow_up_to_a_minute() {
        for (failures, longest) in [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (40, 60), (u32::MAX, 60)] {
            let longest = Duration::from_secs(longest);
            assert!((longest / 2..=longest).contains(&pause(failures)), "{failures}");
        }
    }

    /// The oldest four always fail, and their marks are found each time.
    #[test]
    fn four_uploads_that_always_fail_hold_up_no_others() {
        let (mut line, mut now) = (line(0..4), Instant::now());
        let mut uploaded = Vec::new();
        for newer in 4..200 {
            line.add(file(newer));
            (0..4).for_each(|bad| line.add_marked(file(bad)));
            for started in started(&mut line, now) {
                if started < file(4) {
                    line.failed(&started, now);
                } else {
                    line.succeeded(&started);
                    uploaded.push(started);
                }
            }
            now += Duration::from_secs(10);
        }
        assert_eq!(uploaded, (4..200).map(file).collect::<Vec<_>>(), "in their order, each in its turn");
        assert_eq!((line.waiting(), line.running()), (4, 0));
    }

    #[test]
    fn uploads_that_failed_before_leave_places_to_others_however_long_they_take() {
        let (mut line, now) = (line(0..4), Instant::now());
        for started in started(&mut line, now) {
            line.failed(&started, now);
        }
        let later = now + LONGEST_PAUSE;
        // In any order: each pause has a random part.
        let again = started(&mut line, later);
        assert_eq!(again.len(), 2);
        (4..8).for_each(|newer| line.add(file(newer)));
        assert_eq!(started(&mut line, later), [file(4), file(5)]);
        line.succeeded(&again[0]);
        let next = started(&mut line, later);
        assert!(
            matches!(&next[..], [next] if (0..4).map(file).any(|old| old == *next) && !again.contains(next)),
            "{next:?}"
        );
    }

    #[test]
    fn while_everything_fails_few_are_tried_and_later_all() {
        let (mut line, mut now) = (line(0..100), Instant::now());
        let (hour, mut tries) = (now + Duration::from_secs(3_600), 0);
        while now < hour {
            for started in started(&mut line, now) {
                tries += 1;
                line.failed(&started, now);
            }
            now = line.next_at(now).unwrap();
        }
        assert!((60..400).contains(&tries), "{tries}");
        let mut uploaded = 0;
        let end = now + Duration::from_secs(180);
        while line.waiting() > 0 && now < end {
            while let Some(started) = line.next(now) {
                line.succeeded(&started);
                uploaded += 1;
            }
            now = line.next_at(now).unwrap_or(end);
        }
        assert_eq!((uploaded, line.waiting()), (100, 0));
    }

    #[test]
    fn a_log_is_uploaded_once_at_a_time_and_again_if_it_was_written_meanwhile() {
        let (mut line, now) = (line([1, 1]), Instant::now());
        assert_eq!(started(&mut line, now), [file(1)]);
        line.add_marked(file(1));
        assert_eq!(line.waiting(), 0, "its upload removes the mark");
        line.add(file(1));
        assert_eq!(started(&mut line, now), []);
        line.succeeded(&file(1));
        assert_eq!(started(&mut line, now), [file(1)]);
        line.add(file(1));
        line.failed(&file(1), now);
        assert_eq!((started(&mut line, now), line.waiting()), (vec![], 1), "not at once");
    }

    #[test]
    fn the_first_failure_and_the_first_success_after_it_are_told() {
        let (mut line, now) = (line([1, 2]), Instant::now());
        started(&mut line, now);
        assert_eq!([line.failed(&file(1), now), line.failed(&file(2), now)], [true, false]);
        let later = now + LONGEST_PAUSE;
        started(&mut line, later);
        assert_eq!([line.succeeded(&file(1)), line.failed(&file(2), later)], [true, false]);
        line.add(file(3));
        started(&mut line, later);
        assert!(!line.succeeded(&file(3)), "nothing but the same failed in between");
    }

    #[test]
    fn at_the_end_everything_is_tried_once_more_and_those_that_failed_last() {
        let (mut line, now) = (line(0..2), Instant::now());
        for started in started(&mut line, now) {
            line.failed(&started, now);
        }
        (2..5).for_each(|newer| line.add(file(newer)));
        assert_eq!(started(&mut line, now), [], "paused");
        assert!(!line.has_finished());
        line.finish();
        let first = started(&mut line, now);
        // The order of the two depends on their pauses.
        let (again, last) = if first[3] == file(0) { (file(0), file(1)) } else { (file(1), file(0)) };
        assert_eq!(first, [file(2), file(3), file(4), again.clone()]);
        for file in &first[..3] {
            line.succeeded(file);
        }
        line.failed(&again, now);
        assert!(!line.has_finished());
        assert_eq!(started(&mut line, now), std::slice::from_ref(&last));
        assert!(!line.has_finished());
        line.failed(&last, now);
        assert!(line.has_finished());
        assert_eq!(started(&mut line, now + LONGEST_PAUSE), []);
    }

    #[test]
    fn at_the_end_a_store_that_fails_is_not_tried_for_everything() {
        let (mut line, now) = (line(0..100), Instant::now());
        line.finish();
        let first = started(&mut line, now);
        assert_eq!(first.len(), AT_ONCE);
        for file in &first {
            line.failed(file, now);
        }
        assert_eq!(started(&mut line, now), []);
        assert!(line.has_finished());
    }
}
