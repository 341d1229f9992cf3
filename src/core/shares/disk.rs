//! The disk of the data directory, as far as it is used for organizations: the directories of deployments and of fetched
//! repositories. One thread measures those that are being written to, and ends their writers before the disk is full.
//!
//! File systems with quotas for directories are rare, so the directories are measured again and again. What is written between two
//! looks comes on top of every limit here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use crate::domain::Identifier;
use crate::store::space::{MEASURED_ENTRIES_MAX, free_bytes, used_bytes};

const MIB: u64 = 1024 * 1024;
/// The pauses between two looks at the free space: short enough for the fastest writer, long enough to cost nothing.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// What the fastest disks write.
const BYTES_PER_SECOND: u64 = 4 * 1024 * MIB;
/// A directory is measured again after this long, and after this many times the time that measuring it took.
const MEASURED_EVERY: Duration = Duration::from_millis(500);
const MEASURED_PART: u32 = 10;
/// How long a writer that was ended has to be gone before the next is ended, too.
const GONE_WITHIN: Duration = Duration::from_secs(3);

const ORGANIZATION_SETTING: &str = "runner.max_disk_per_organization_mb";

/// `None`: no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskLimits {
    /// Below this, writers are ended and none is started.
    pub min_free_bytes: Option<u64>,
    /// For all directories of an organization.
    pub organization_bytes: Option<u64>,
}

/// Cheap to clone; clones share what they know.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    limits: DiskLimits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    writers: HashMap<u64, Writer>,
    /// Directories that nobody writes to at the moment, with their last known size.
    kept: HashMap<PathBuf, (Identifier, u64)>,
}

struct Writer {
    organization: Identifier,
    /// The first one names them all.
    directories: Vec<PathBuf>,
    bytes_max: Option<u64>,
    /// The setting that `bytes_max` comes from.
    setting: &'static str,
    used: u64,
    measure_at: Instant,
    ended: Option<Instant>,
    over: watch::Sender<Option<Arc<str>>>,
}

/// A writer to some directories, while it is there.
pub struct DiskWriter {
    inner: Weak<Inner>,
    id: u64,
    over: watch::Receiver<Option<Arc<str>>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// The disk that holds this path.
    pub fn new(path: &Path, limits: DiskLimits) -> Self {
        let inner = Inner { path: path.to_owned(), limits, state: Mutex::default(), changed: Condvar::new() };
        let disk = Self { inner: Arc::new(inner) };
        let watched = Arc::downgrade(&disk.inner);
        let started = std::thread::Builder::new().name("disk-watch".to_owned()).spawn(move || run(&watched));
        if let Err(error) = started {
            tracing::error!(%error, "cannot watch the disk: limits on its use are not enforced");
        }
        disk
    }

    /// Whether writers are ended and none may begin, for all organizations.
    pub fn is_low(&self) -> bool {
        self.inner.limits.min_free_bytes.is_some_and(|min_free| self.inner.free() < min_free)
    }

    /// Why nothing may begin to write for the organization, as the end of a sentence.
    pub fn refusal(&self, organization: &Identifier) -> Option<String> {
        if let Some(min_free) = self.inner.limits.min_free_bytes.filter(|_| self.is_low()) {
            return Some(format!("the server's disk has less than {} MiB free (runner.min_free_mb)", min_free / MIB));
        }
        let most = self.inner.limits.organization_bytes?;
        let mut state = self.inner.state.lock();
        state.kept.retain(|directory, _| directory.exists());
        let most_mb = most / MIB;
        let reason = || format!("the organization uses more than {most_mb} MiB of disk ({ORGANIZATION_SETTING})");
        (state.used_by(organization) > most).then(reason)
    }

    /// Watches what is written to these directories for an organization, until the writer is dropped.
    pub fn watch(
        &self,
        organization: &Identifier,
        directories: Vec<PathBuf>,
        bytes_max: Option<u64>,
        setting: &'static str,
    ) -> DiskWriter {
        let (sender, over) = watch::channel(None);
        let mut state = self.inner.state.lock();
        let id = state.next;
        state.next += 1;
        let known = directories.first().and_then(|first| state.kept.remove(first));
        let writer = Writer {
            organization: organization.clone(),
            directories,
            bytes_max,
            setting,
            used: known.map_or(0, |(_, bytes)| bytes),
            measure_at: Instant::now(),
            ended: None,
            over: sender,
        };
        state.writers.insert(id, writer);
        drop(state);
        self.inner.changed.notify_all();
        DiskWriter { inner: Arc::downgrade(&self.inner), id, over }
    }
}

impl DiskWriter {
    /// Resolves when the writer must end, with the reason as the end of a sentence.
    pub async fn over(&self) -> Arc<str> {
        let mut over = self.over.clone();
        if let Ok(reason) = over.wait_for(Option::is_some).await
            && let Some(reason) = &*reason
        {
            return reason.clone();
        }
        std::future::pending().await
    }

    /// Whether it had to end.
    pub fn was_ended(&self) -> bool {
        self.over.borrow().is_some()
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut state = inner.state.lock();
        if let Some(Writer { organization, directories, used, .. }) = state.writers.remove(&self.id)
            && let Some(first) = directories.into_iter().next()
        {
            state.kept.insert(first, (organization, used));
            state.kept.retain(|directory, _| directory.exists());
        }
        drop(state);
        inner.changed.notify_all();
    }
}

/// Until the disk is dropped.
fn run(disk: &Weak<Inner>) {
    while let Some(inner) = disk.upgrade() {
        let mut pause = LONGEST_PAUSE;
        if !inner.state.lock().writers.is_empty() {
            inner.measure(Instant::now());
            let free = inner.free();
            inner.judge(free, Instant::now());
            pause = pause_at(free, inner.limits.min_free_bytes.unwrap_or_default());
        }
        let mut state = inner.state.lock();
        inner.changed.wait_for(&mut state, pause);
    }
}

/// The fastest writer does not reach the limit before the next look.
fn pause_at(free: u64, min_free: u64) -> Duration {
    let left = free.saturating_sub(min_free);
    Duration::from_millis(left.saturating_mul(1_000) / BYTES_PER_SECOND).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

fn of_organization(most: u64) -> String {
    let most = most / MIB;
    format!(
        "the deployments of the organization use more than {most} MiB of disk (runner.max_disk_per_organization_mb)"
    )
}

impl Inner {
    fn free(&self) -> u64 {
        // Unknown is not full.
        free_bytes(&self.path).unwrap_or(u64::MAX)
    }

    /// Measures the directories that are due, without holding up those who begin and end meanwhile.
    fn measure(&self, now: Instant) {
        let is_low = self.limits.min_free_bytes.is_some_and(|min_free| self.free() < min_free);
        let due: Vec<_> = {
            let state = self.state.lock();
            let due = state.writers.iter().filter(|(_, writer)| is_low || writer.measure_at <= now);
            due.map(|(id, writer)| (*id, writer.directories.clone())).collect()
        };
        for (id, directories) in due {
            let began = Instant::now();
            let used = directories.iter().try_fold(0, |all: u64, directory| Some(all + used_bytes(directory)?));
            let took = began.elapsed();
            let mut state = self.state.lock();
            let Some(writer) = state.writers.get_mut(&id) else { continue };
            writer.measure_at = Instant::now() + MEASURED_EVERY.max(took * MEASURED_PART);
            match used {
                Some(used) => writer.used = used,
                None => writer.end(&format!("made more than {MEASURED_ENTRIES_MAX} files"), now),
            }
        }
    }

    /// Ends the writers that are over a limit.
    fn judge(&self, free: u64, now: Instant) {
        let state = &mut *self.state.lock();
        for writer in state.writers.values_mut() {
            if let Some(most) = writer.bytes_max.filter(|most| writer.used > *most) {
                writer.end(&format!("used more than {} MiB of disk ({})", most / MIB, writer.setting), now);
            }
        }
        if let Some(most) = self.limits.organization_bytes {
            let over: Vec<_> = {
                let all = state.writers.values().map(|writer| &writer.organization);
                all.filter(|organization| state.used_by(organization) > most).cloned().collect()
            };
            over.iter().for_each(|organization| {
                state.end_largest(|writer| writer.organization == *organization, &of_organization(most), now);
            });
        }
        if let Some(min_free) = self.limits.min_free_bytes.filter(|min_free| free < *min_free) {
            let reason = format!(
                "used the most when the server's disk had less than {} MiB free (runner.min_free_mb)",
                min_free / MIB
            );
            state.end_largest(|_| true, &reason, now);
        }
    }
}

impl State {
    fn used_by(&self, organization: &Identifier) -> u64 {
        let kept = self.kept.values().filter(|(of, _)| of == organization).map(|(_, bytes)| *bytes);
        let written = self.writers.values().filter(|writer| writer.organization == *organization);
        kept.chain(written.map(|writer| writer.used)).sum()
    }

    /// Ends the largest of these writers, unless one that was ended is still about to free its space.
    fn end_largest(&mut self, of: impl Fn(&Writer) -> bool, reason: &str, now: Instant) {
        let is_going = |writer: &Writer| writer.ended.is_some_and(|at| now.duration_since(at) < GONE_WITHIN);
        let mut writers: Vec<_> = self.writers.values_mut().filter(|writer| of(writer)).collect();
        if writers.iter().any(|writer| is_going(writer)) {
            return;
        }
        // Also one that seems to use nothing: what it has deleted and still writes to is not found.
        writers.retain(|writer| writer.ended.is_none());
        if let Some(largest) = writers.into_iter().max_by_key(|writer| writer.used) {
            largest.end(reason, now);
        }
    }
}

impl Writer {
    fn end(&mut self, reason: &str, now: Instant) {
        if self.ended.is_none() {
            self.ended = Some(now);
            self.over.send_replace(Some(Arc::from(reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Place {
        disk: Disk,
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new(min_free_bytes: Option<u64>, organization_bytes: Option<u64>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { disk: Disk::new(dir.path(), DiskLimits { min_free_bytes, organization_bytes }), dir }
        }

        /// A writer that has written so much.
        fn writer(&self, organization: &str, name: &str, mebibytes: u64, most: Option<u64>) -> DiskWriter {
            let directory = self.dir.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("file"), vec![7; (mebibytes * MIB) as usize]).unwrap();
            let organization = Identifier::parse(organization).unwrap();
            self.disk.watch(&organization, vec![directory], most.map(|most| most * MIB), "a.setting")
        }
    }

    #[tokio::test]
    async fn who_is_over_its_own_limit_is_ended_and_others_go_on() {
        let place = Place::new(None, None);
        let other = place.writer("acme", "other", 3, Some(4));
        let over = place.writer("acme", "over", 3, Some(2));
        assert_eq!(&*over.over().await, "used more than 2 MiB of disk (a.setting)");
        assert!(over.was_ended() && !other.was_ended());
    }

    #[tokio::test]
    async fn the_largest_of_an_organization_that_uses_too_much_is_ended_and_it_begins_nothing_more() {
        let place = Place::new(None, Some(6 * MIB));
        let (acme, zeta) = (Identifier::parse("acme").unwrap(), Identifier::parse("zeta").unwrap());
        let (small, other) = (place.writer("acme", "small", 3, None), place.writer("zeta", "other", 5, None));
        let large = place.writer("acme", "large", 4, None);
        assert!(large.over().await.contains("runner.max_disk_per_organization_mb"));
        assert!(!small.was_ended() && !other.was_ended());
        // What it leaves still counts, until it is removed.
        drop(large);
        assert!(place.disk.refusal(&acme).is_some() && place.disk.refusal(&zeta).is_none());
        std::fs::remove_dir_all(place.dir.path().join("large")).unwrap();
        assert_eq!(place.disk.refusal(&acme), None);
    }

    #[tokio::test]
    async fn on_a_disk_that_is_nearly_full_the_largest_is_ended_first() {
        let place = Place::new(Some(u64::MAX), None);
        // The watch has seen both before it judges, or has ended the only one that it knew.
        let (small, large) = (place.writer("acme", "small", 2, None), place.writer("zeta", "large", 4, None));
        tokio::select! {
            reason = large.over() => assert!(reason.contains("runner.min_free_mb"), "{reason}"),
            _ = small.over() => {}
        }
        assert!(place.disk.refusal(&Identifier::parse("acme").unwrap()).unwrap().contains("runner.min_free_mb"));
        let mut state = State::default();
        let now = Instant::now();
        for (id, used) in [(1, 5 * MIB), (2, 9 * MIB), (3, 7 * MIB), (4, 10)] {
            let (over, _) = watch::channel(None);
            let writer = Writer {
                organization: Identifier::parse("acme").unwrap(),
                directories: Vec::new(),
                bytes_max: None,
                setting: "",
                used,
                measure_at: now,
                ended: None,
                over,
            };
            state.writers.insert(id, writer);
        }
        let ended = |state: &State| {
            let mut ended: Vec<_> =
                state.writers.iter().filter(|(_, writer)| writer.ended.is_some()).map(|(id, _)| *id).collect();
            ended.sort_unstable();
            ended
        };
        state.end_largest(|_| true, "reason", now);
        state.end_largest(|_| true, "reason", now + GONE_WITHIN / 2);
        assert_eq!(ended(&state), [2], "it is about to free its space");
        state.end_largest(|_| true, "reason", now + GONE_WITHIN);
        assert_eq!(ended(&state), [2, 3]);
        state.writers.retain(|_, writer| writer.ended.is_none());
        state.end_largest(|_| true, "reason", now);
        assert_eq!(ended(&state), [1], "the one before it is gone");
    }

    #[test]
    fn the_nearer_the_limit_the_shorter_the_pause() {
        let pauses = [0, 100, 228, 1_000, 100_000].map(|free| pause_at(free * MIB, 100 * MIB).as_millis());
        assert_eq!(pauses, [10, 10, 31, 219, 500]);
    }
}
