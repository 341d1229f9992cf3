//! The disk of the data directory, as used by organizations: the directories of deployments and of fetched
//! repositories. One thread measures the directories being written to, and ends their writers before the disk is full.
//!
//! File systems with quotas for directories are rare, so the directories are measured repeatedly. Data written between
//! two checks can exceed every limit here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use domain::Identifier;
use store::space::{Free, MEASURED_DEPTH_MAX, MEASURED_ENTRIES_MAX, Unmeasured, Usage, measure};

const MIB: u64 = 1024 * 1024;
/// The pauses between two checks of the free space: short enough for the fastest writer, long enough to cost almost
/// nothing.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The speed of the fastest disks, and the rate at which the fastest file systems create files.
const BYTES_PER_SECOND: u64 = 4 * 1024 * MIB;
const ENTRIES_PER_SECOND: u64 = 500_000;
/// Below this many free files (inodes), or an eighth of all, writers are ended, as below the minimum of free bytes.
const MIN_FREE_ENTRIES: u64 = 20_000;
/// A directory is measured again after this time, but not before this multiple of the time that measuring it took.
const MEASURED_EVERY: Duration = Duration::from_millis(500);
const MEASURED_PART: u32 = 10;
/// How long an ended writer may take to disappear before the next one is ended too.
const GONE_WITHIN: Duration = Duration::from_secs(3);
/// The free space counts as falling if it shrinks by more than `min_free` divided by this, since logs and the store
/// write too.
const FALLS_BY_PART: u64 = 64;
const FALLS_BY_BYTES: u64 = MIB;
const FALLS_BY_ENTRIES: u64 = 500;

/// The limits; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskLimits {
    /// Below this, writers are ended and none may begin.
    pub min_free_bytes: Option<u64>,
    /// The limit for all directories of an organization together.
    pub organization_bytes: Option<u64>,
    /// The number of organizations. If there are several, none may use more than half of the space.
    pub organizations: usize,
}

/// The disk use of a writer that is not visible in its directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unlisted {
    /// Bytes of files that are removed but still open.
    pub removed_bytes: u64,
    /// All bytes that the writer's processes have written to disks.
    pub written_bytes: u64,
}

/// Finds the unlisted disk use of a writer. Blocks for some milliseconds.
pub type Look = Arc<dyn Fn() -> Unlisted + Send + Sync>;

/// Cheap to clone; clones share their state.
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
    /// Directories without a current writer, with their last known size.
    kept: HashMap<PathBuf, (Identifier, u64)>,
    /// Kept directories whose writer may have ended before its last bytes were measured.
    unmeasured: Vec<Vec<PathBuf>>,
    /// The largest space that writers ever had, so that space filled by others later does not reduce their shares.
    room_max: u64,
    low: Option<Low>,
}

/// What was done since the disk became low.
struct Low {
    /// The free space when the last writer was ended, or was seen to be gone.
    left: Free,
    is_seen_gone: bool,
    /// Whether all other writers of its organization were ended too.
    is_whole: bool,
}

struct Writer {
    organization: Identifier,
    /// The first directory identifies the writer.
    directories: Vec<PathBuf>,
    bytes_max: Option<u64>,
    /// The name of the setting that `bytes_max` comes from.
    setting: &'static str,
    usage: Usage,
    unlisted: Unlisted,
    look: Option<Look>,
    measure_at: Instant,
    ended: Option<Instant>,
    over: watch::Sender<Option<Arc<str>>>,
}

/// Registers a writer to some directories, until dropped.
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
        let _ = inner.organization_max(&mut inner.state.lock(), inner.free());
        let disk = Self { inner: Arc::new(inner) };
        let watched = Arc::downgrade(&disk.inner);
        let started = std::thread::Builder::new().name("disk-watch".to_owned()).spawn(move || run(&watched));
        if let Err(error) = started {
            tracing::error!(%error, "cannot watch the disk: limits on its use are not enforced");
        }
        disk
    }

    /// Whether writers of all organizations are ended and none may begin.
    pub fn is_low(&self) -> bool {
        self.inner.is_low(self.inner.free())
    }

    /// Why the organization may not begin to write; the text completes a sentence.
    pub fn refusal(&self, organization: &Identifier) -> Option<String> {
        let free = self.inner.free();
        if let Some(min_free) = self.inner.limits.min_free_bytes.filter(|_| self.inner.is_low(free)) {
            return Some(format!("the server's disk has less than {} free (runner.min_free_mb)", few(free, min_free)));
        }
        let mut state = self.inner.state.lock();
        state.kept.retain(|directory, _| directory.exists());
        let used = state.used_by(organization);
        if let Some((most, words)) = self.inner.organization_max(&mut state, free).filter(|(most, _)| used > *most) {
            return Some(format!("the organization uses more than {} MiB of disk ({words})", most / MIB));
        }
        // The remaining space is for organizations that use less.
        let min_free = self.inner.limits.min_free_bytes?;
        let share = state.room_max / u64::try_from(self.inner.limits.organizations.max(1)).ok()?;
        let is_scarce = self.inner.limits.organizations > 1 && free.bytes / 2 < min_free;
        (is_scarce && used > share).then(|| {
            format!(
                "the server's disk is nearly full, and the organization uses more than its share of {} MiB",
                share / MIB
            )
        })
    }

    /// Whether a writer's directories, identified by the first, are counted.
    pub fn counts(&self, directories: &[PathBuf]) -> bool {
        directories.first().is_some_and(|first| self.inner.state.lock().knows(first))
    }

    /// Counts directories of an earlier run for the organization, until they are removed. Blocks.
    pub fn keep(&self, organization: &Identifier, directories: Vec<PathBuf>) {
        let Some(first) = directories.first().cloned() else { return };
        if self.inner.state.lock().knows(&first) {
            return;
        }
        let mut usage = Usage::default();
        for directory in &directories {
            // If measuring stops early, the result is a lower bound.
            let _ = measure(directory, &mut usage, |_| true);
        }
        let mut state = self.inner.state.lock();
        if !state.knows(&first) {
            state.kept.insert(first, (organization.clone(), usage.bytes));
        }
    }

    /// Watches these directories of an organization, until the writer is dropped.
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
            usage: Usage { bytes: known.map_or(0, |(_, bytes)| bytes), entries: 0 },
            unlisted: Unlisted::default(),
            look: None,
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
    /// Makes the disk use that `look` finds count too, from now on.
    pub fn look_with(&self, look: Option<Look>) {
        let Some(inner) = self.inner.upgrade() else { return };
        if let Some(writer) = inner.state.lock().writers.get_mut(&self.id) {
            writer.look = look;
        }
    }

    /// Resolves when the writer must end, with a reason that completes a sentence.
    pub async fn over(&self) -> Arc<str> {
        let mut over = self.over.clone();
        if let Ok(reason) = over.wait_for(Option::is_some).await
            && let Some(reason) = &*reason
        {
            return reason.clone();
        }
        std::future::pending().await
    }

    /// Whether the writer had to end.
    pub fn was_ended(&self) -> bool {
        self.over.borrow().is_some()
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut state = inner.state.lock();
        if let Some(Writer { organization, directories, usage, .. }) = state.writers.remove(&self.id)
            && let Some(first) = directories.first().cloned()
        {
            state.kept.insert(first, (organization, usage.bytes));
            state.unmeasured.push(directories);
            state.kept.retain(|directory, _| directory.exists());
        }
        drop(state);
        inner.changed.notify_all();
    }
}

/// Runs until the disk is dropped.
fn run(disk: &Weak<Inner>) {
    while let Some(inner) = disk.upgrade() {
        let mut pause = LONGEST_PAUSE;
        inner.measure_kept();
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

/// The pause before the next check, so short that the fastest writer cannot reach a limit before it.
fn pause_at(free: Free, min_free: u64) -> Duration {
    let until = |left: u64, per_second: u64| Duration::from_millis(left.saturating_mul(1_000) / per_second);
    let full = until(free.bytes.saturating_sub(min_free), BYTES_PER_SECOND);
    let least = MIN_FREE_ENTRIES.min(free.all_entries);
    let has_no_number = free.all_entries == 0;
    let without_entries =
        if has_no_number { full } else { until(free.entries.saturating_sub(least), ENTRIES_PER_SECOND) };
    full.min(without_entries).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// The minimum that the free space is below, in words.
fn few(free: Free, min_free: u64) -> String {
    if free.bytes < min_free { format!("{} MiB", min_free / MIB) } else { format!("{MIN_FREE_ENTRIES} files (inodes)") }
}

impl Inner {
    fn free(&self) -> Free {
        // If the free space is unknown, the disk does not count as full.
        Free::at(&self.path).unwrap_or(Free::UNKNOWN)
    }

    fn is_low(&self, free: Free) -> bool {
        let is_low = |min_free| free.bytes < min_free || free.lacks_entries(MIN_FREE_ENTRIES);
        self.limits.min_free_bytes.is_some_and(is_low)
    }

    /// Whether the disk may be full before an ended writer is gone.
    fn is_critical(&self, free: Free) -> bool {
        let is_critical = |min_free| free.bytes < min_free / 2 || free.lacks_entries(MIN_FREE_ENTRIES / 2);
        self.limits.min_free_bytes.is_some_and(is_critical)
    }

    /// The limit of an organization, and a name for it.
    fn organization_max(&self, state: &mut State, free: Free) -> Option<(u64, &'static str)> {
        let set = self.limits.organization_bytes.map(|most| (most, "runner.max_disk_per_organization_mb"));
        let is_shared = self.limits.organizations > 1;
        let min_free = self.limits.min_free_bytes.filter(|_| is_shared);
        let half = min_free.filter(|_| free != Free::UNKNOWN).map(|min_free| {
            state.room_max = state.room_max.max(state.room(free, min_free));
            (state.room_max / 2, "half of what the disk has for steps")
        });
        set.into_iter().chain(half).min_by_key(|(most, _)| *most)
    }

    /// Measures the directories that are due, without blocking writers that begin or end meanwhile.
    fn measure(&self, now: Instant) {
        let is_low = self.is_low(self.free());
        let due: Vec<_> = {
            let state = self.state.lock();
            let due = state.writers.iter().filter(|(_, writer)| is_low || writer.measure_at <= now);
            due.map(|(id, writer)| (*id, writer.directories.clone(), writer.look.clone())).collect()
        };
        for (id, directories, look) in due {
            let began = Instant::now();
            let (usage, measured) = self.usage(&directories);
            let unlisted = look.map(|look| look());
            let took = began.elapsed();
            let mut state = self.state.lock();
            let Some(writer) = state.writers.get_mut(&id) else { continue };
            writer.measure_at = Instant::now() + MEASURED_EVERY.max(took * MEASURED_PART);
            writer.unlisted = unlisted.unwrap_or_default();
            writer.note(usage, measured, now);
        }
    }

    /// Measures the directories of ended writers: a short-lived writer may never have been measured.
    fn measure_kept(&self) {
        let unmeasured = std::mem::take(&mut self.state.lock().unmeasured);
        for directories in unmeasured {
            let (usage, measured) = self.usage(&directories);
            let mut state = self.state.lock();
            if let Some((_, bytes)) = directories.first().and_then(|first| state.kept.get_mut(first)) {
                *bytes = if measured.is_ok() { usage.bytes } else { usage.bytes.max(*bytes) };
            }
        }
    }

    /// Measures directories. Abandons a large tree when the disk becomes low; the result is then a lower bound.
    fn usage(&self, directories: &[PathBuf]) -> (Usage, Result<(), Unmeasured>) {
        let mut usage = Usage::default();
        let goes_on = |_: &Usage| !self.is_low(self.free());
        let measured = directories.iter().try_for_each(|directory| measure(directory, &mut usage, goes_on));
        (usage, measured)
    }

    /// Ends the writers that exceed a limit.
    fn judge(&self, free: Free, now: Instant) {
        let state = &mut *self.state.lock();
        for writer in state.writers.values_mut() {
            if let Some(most) = writer.bytes_max.filter(|most| writer.used() > *most) {
                writer.end(&format!("used more than {} MiB of disk ({})", most / MIB, writer.setting), now);
            }
        }
        if let Some((most, words)) = self.organization_max(state, free) {
            let over: Vec<_> = {
                let all = state.writers.values().map(|writer| &writer.organization);
                all.filter(|organization| state.used_by(organization) > most).cloned().collect()
            };
            let most = most / MIB;
            let reason = format!("was the largest when the organization used more than {most} MiB of disk ({words})");
            over.iter().for_each(|organization| {
                state.end_largest(|writer| writer.organization == *organization, Writer::used, &reason, now);
            });
        }
        match self.limits.min_free_bytes.filter(|_| self.is_low(free)) {
            Some(min_free) => self.relieve(state, free, min_free, now),
            None => state.low = None,
        }
    }

    /// Ends writers on a low disk: first the writer that has written the most. If the free space falls further, or the
    /// disk is nearly full, ends all writers of the organization that has written the most. If the space does not fall,
    /// ending more writers would not help.
    fn relieve(&self, state: &mut State, free: Free, min_free: u64, now: Instant) {
        let by = |writer: &Writer| {
            if free.bytes < min_free { writer.written() } else { writer.usage.entries }
        };
        let reason = format!(
            "used the most when the server's disk had less than {} free (runner.min_free_mb)",
            few(free, min_free)
        );
        let is_critical = self.is_critical(free);
        let Some(low) = &mut state.low else {
            state.low = Some(Low { left: free, is_seen_gone: false, is_whole: is_critical });
            return if is_critical {
                state.end_organization(by, &reason, now);
            } else {
                state.end_largest(|_| true, by, &reason, now);
            };
        };
        let going =
            state.writers.values().find(|writer| writer.is_going(now)).map(|writer| writer.organization.clone());
        if let Some(organization) = going {
            if is_critical && !low.is_whole {
                low.is_whole = true;
                state.end_all_of(&organization, &reason, now);
            }
            return;
        }
        let falls_by = (min_free / FALLS_BY_PART).max(FALLS_BY_BYTES);
        let falls = free.bytes.saturating_add(falls_by) < low.left.bytes
            || free.entries.saturating_add(FALLS_BY_ENTRIES) < low.left.entries;
        if !low.is_seen_gone {
            // Before this moment, the ended writer may have continued to write.
            (low.left, low.is_seen_gone) = (free, true);
        } else if falls {
            *low = Low { left: free, is_seen_gone: false, is_whole: true };
            state.end_organization(by, &reason, now);
        }
    }
}

impl State {
    fn knows(&self, directory: &PathBuf) -> bool {
        let is_first = |writer: &Writer| writer.directories.first() == Some(directory);
        self.kept.contains_key(directory) || self.writers.values().any(is_first)
    }

    fn used_by(&self, organization: &Identifier) -> u64 {
        let kept = self.kept.values().filter(|(of, _)| of == organization).map(|(_, bytes)| *bytes);
        let written = self.writers.values().filter(|writer| writer.organization == *organization);
        kept.chain(written.map(Writer::used)).sum()
    }

    /// The space for all writers together, including the space they already use.
    fn room(&self, free: Free, min_free: u64) -> u64 {
        let kept = self.kept.values().map(|(_, bytes)| *bytes);
        let used: u64 = kept.chain(self.writers.values().map(Writer::used)).sum();
        free.bytes.saturating_add(used).saturating_sub(min_free)
    }

    /// Ends the largest of these writers, unless an ended one is still about to free its space.
    fn end_largest(&mut self, of: impl Fn(&Writer) -> bool, by: impl Fn(&Writer) -> u64, reason: &str, now: Instant) {
        let mut writers: Vec<_> = self.writers.values_mut().filter(|writer| of(writer)).collect();
        if writers.iter().any(|writer| writer.is_going(now)) {
            return;
        }
        // A writer that seems to use nothing can be ended too.
        writers.retain(|writer| writer.ended.is_none());
        if let Some(largest) = writers.into_iter().max_by_key(|writer| by(writer)) {
            largest.end(reason, now);
        }
    }

    /// Ends all writers of the organization with the largest sum.
    fn end_organization(&mut self, by: impl Fn(&Writer) -> u64, reason: &str, now: Instant) {
        let mut sums: HashMap<&Identifier, u64> = HashMap::new();
        for writer in self.writers.values().filter(|writer| writer.ended.is_none()) {
            *sums.entry(&writer.organization).or_default() += by(writer);
        }
        let most = sums.into_iter().max_by_key(|(_, sum)| *sum).map(|(organization, _)| organization.clone());
        most.into_iter().for_each(|organization| self.end_all_of(&organization, reason, now));
    }

    fn end_all_of(&mut self, organization: &Identifier, reason: &str, now: Instant) {
        let all = self.writers.values_mut().filter(|writer| writer.organization == *organization);
        all.for_each(|writer| writer.end(reason, now));
    }
}

impl Writer {
    /// The writer's known disk use.
    fn used(&self) -> u64 {
        self.usage.bytes.saturating_add(self.unlisted.removed_bytes)
    }

    /// The writer's disk use or, if larger, all bytes it has written, which may include unmeasured places.
    fn written(&self) -> u64 {
        self.used().max(self.unlisted.written_bytes)
    }

    fn is_going(&self, now: Instant) -> bool {
        self.ended.is_some_and(|at| now.duration_since(at) < GONE_WITHIN)
    }

    fn note(&mut self, usage: Usage, measured: Result<(), Unmeasured>, now: Instant) {
        let at_least =
            |known: Usage| Usage { bytes: known.bytes.max(usage.bytes), entries: known.entries.max(usage.entries) };
        self.usage = if measured.is_ok() { usage } else { at_least(self.usage) };
        match measured {
            Ok(()) | Err(Unmeasured::Stopped | Unmeasured::Shortage) => {}
            Err(Unmeasured::TooManyEntries) => self.end(&format!("made more than {MEASURED_ENTRIES_MAX} files"), now),
            Err(Unmeasured::TooDeep) => {
                let reason = format!("made more than {MEASURED_DEPTH_MAX} directories inside each other");
                self.end(&format!("{reason}, which the server does not measure"), now);
            }
            Err(Unmeasured::Unreadable(error)) => {
                let reason = "made a directory that the server cannot read, so that its use of the disk is unknown";
                self.end(&format!("{reason}: {error}"), now);
            }
        }
    }

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

    struct TestDirectory {
        disk: Disk,
        dir: tempfile::TempDir,
    }

    impl TestDirectory {
        fn new(min_free_bytes: Option<u64>, organization_bytes: Option<u64>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let limits = DiskLimits { min_free_bytes, organization_bytes, organizations: 1 };
            Self { disk: Disk::new(dir.path(), limits), dir }
        }

        /// A writer that has written this much.
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
        let place = TestDirectory::new(None, None);
        let other = place.writer("acme", "other", 3, Some(4));
        let over = place.writer("acme", "over", 3, Some(2));
        assert_eq!(&*over.over().await, "used more than 2 MiB of disk (a.setting)");
        assert!(over.was_ended() && !other.was_ended());
    }

    #[tokio::test]
    async fn the_largest_of_an_organization_that_uses_too_much_is_ended_and_it_begins_nothing_more() {
        let place = TestDirectory::new(None, Some(6 * MIB));
        let (acme, zeta) = (Identifier::parse("acme").unwrap(), Identifier::parse("zeta").unwrap());
        let (small, other) = (place.writer("acme", "small", 3, None), place.writer("zeta", "other", 5, None));
        let large = place.writer("acme", "large", 4, None);
        assert!(large.over().await.contains("runner.max_disk_per_organization_mb"));
        assert!(!small.was_ended() && !other.was_ended());
        // The directory still counts until it is removed.
        drop(large);
        assert!(place.disk.refusal(&acme).is_some() && place.disk.refusal(&zeta).is_none());
        std::fs::remove_dir_all(place.dir.path().join("large")).unwrap();
        assert_eq!(place.disk.refusal(&acme), None);
    }

    #[tokio::test]
    async fn on_a_disk_that_is_nearly_full_the_largest_is_ended_first() {
        let place = TestDirectory::new(Some(u64::MAX), None);
        // The thread sees both writers before it decides, or has ended the only one that it knew.
        let (small, large) = (place.writer("acme", "small", 2, None), place.writer("zeta", "large", 4, None));
        tokio::select! {
            reason = large.over() => assert!(reason.contains("runner.min_free_mb"), "{reason}"),
            _ = small.over() => {}
        }
        assert!(place.disk.refusal(&Identifier::parse("acme").unwrap()).unwrap().contains("runner.min_free_mb"));
    }

    /// A disk without its thread.
    fn inner(min_free_bytes: Option<u64>, organizations: usize) -> Inner {
        let limits = DiskLimits { min_free_bytes, organization_bytes: None, organizations };
        Inner { path: "/".into(), limits, state: Mutex::default(), changed: Condvar::new() }
    }

    impl Inner {
        fn add(&self, id: u64, organization: &str, usage: Usage) {
            let writer = Writer {
                organization: Identifier::parse(organization).unwrap(),
                directories: Vec::new(),
                bytes_max: None,
                setting: "",
                usage,
                unlisted: Unlisted::default(),
                look: None,
                measure_at: Instant::now(),
                ended: None,
                over: watch::channel(None).0,
            };
            self.state.lock().writers.insert(id, writer);
        }

        fn ended(&self) -> Vec<u64> {
            let state = self.state.lock();
            let mut ended: Vec<_> =
                state.writers.iter().filter(|(_, writer)| writer.ended.is_some()).map(|(id, _)| *id).collect();
            ended.sort_unstable();
            ended
        }
    }

    fn mebibytes(free: u64) -> Free {
        Free { bytes: free * MIB, entries: u64::MAX, all_entries: 0 }
    }

    fn using(mebibytes: u64) -> Usage {
        Usage { bytes: mebibytes * MIB, entries: 1 }
    }

    #[test]
    fn on_a_low_disk_the_largest_is_ended_and_the_others_only_if_it_falls_on() {
        let disk = inner(Some(512 * MIB), 1);
        for (id, organization, mebibytes) in [(1, "acme", 50), (2, "zeta", 90), (3, "acme", 70), (4, "zeta", 1)] {
            disk.add(id, organization, using(mebibytes));
        }
        let now = Instant::now();
        disk.judge(mebibytes(600), now);
        assert!(disk.ended().is_empty());
        disk.judge(mebibytes(500), now);
        assert_eq!(disk.ended(), [2]);
        disk.judge(mebibytes(400), now + GONE_WITHIN / 2);
        assert_eq!(disk.ended(), [2], "it is about to free its space");
        // The ended writer continued to write until it was gone.
        for seconds in 0..3 {
            disk.judge(mebibytes(399 - seconds), now + GONE_WITHIN + Duration::from_secs(seconds));
            assert_eq!(disk.ended(), [2]);
        }
        disk.judge(mebibytes(380), now + 2 * GONE_WITHIN);
        assert_eq!(disk.ended(), [1, 2, 3], "all of the organization with the most");
        disk.judge(mebibytes(600), now + 2 * GONE_WITHIN);
        disk.judge(mebibytes(500), now + 4 * GONE_WITHIN);
        assert_eq!(disk.ended(), [1, 2, 3, 4]);
    }

    #[test]
    fn on_a_disk_that_is_half_of_what_must_be_free_a_whole_organization_is_ended() {
        for looks in [&[500, 250][..], &[250]] {
            let disk = inner(Some(512 * MIB), 1);
            for (id, organization, mebibytes) in [(1, "acme", 50), (2, "zeta", 80), (3, "acme", 70), (4, "acme", 100)] {
                disk.add(id, organization, using(mebibytes));
            }
            looks.iter().for_each(|free| disk.judge(mebibytes(*free), Instant::now()));
            assert_eq!(disk.ended(), [1, 3, 4], "{looks:?}");
        }
    }

    #[test]
    fn whoever_has_written_what_no_directory_shows_is_ended_before_the_others() {
        for unlisted in [
            Unlisted { removed_bytes: 300 * MIB, written_bytes: 0 },
            Unlisted { removed_bytes: 0, written_bytes: 300 * MIB },
        ] {
            let disk = inner(Some(512 * MIB), 1);
            disk.add(1, "acme", using(50));
            disk.add(2, "zeta", using(0));
            disk.state.lock().writers.get_mut(&2).unwrap().unlisted = unlisted;
            disk.judge(mebibytes(500), Instant::now());
            assert_eq!(disk.ended(), [2], "{unlisted:?}");
        }
    }

    #[test]
    fn whoever_has_made_the_most_files_is_ended_when_there_are_few_left() {
        let disk = inner(Some(512 * MIB), 1);
        disk.add(1, "acme", using(900));
        disk.add(2, "zeta", Usage { bytes: MIB, entries: 100_000 });
        let few = |entries| Free { bytes: u64::MAX, entries, all_entries: 1_000_000 };
        disk.judge(few(MIN_FREE_ENTRIES), Instant::now());
        assert!(disk.ended().is_empty());
        disk.judge(few(MIN_FREE_ENTRIES - 1), Instant::now());
        assert_eq!(disk.ended(), [2]);
    }

    #[test]
    fn no_organization_may_use_more_than_half_of_a_disk_that_is_shared() {
        for (organizations, ended) in [(1, &[][..]), (2, &[1])] {
            let disk = inner(Some(100 * MIB), organizations);
            disk.add(1, "acme", using(260));
            disk.add(2, "zeta", using(200));
            // 500 MiB are available for steps.
            disk.judge(mebibytes(140), Instant::now());
            assert_eq!(disk.ended(), ended);
            // Another program takes most of the rest.
            disk.judge(mebibytes(101), Instant::now());
            assert_eq!(disk.ended(), ended);
        }
    }

    #[tokio::test]
    async fn directories_of_an_earlier_run_count_once() {
        let place = TestDirectory::new(None, Some(6 * MIB));
        let acme = Identifier::parse("acme").unwrap();
        let directory = place.dir.path().join("kept");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), vec![7; (4 * MIB) as usize]).unwrap();
        for _ in 0..2 {
            place.disk.keep(&acme, vec![directory.clone()]);
            assert_eq!(place.disk.refusal(&acme), None);
        }
        let _writer = place.writer("acme", "more", 3, None);
        until_measured(&place.disk, &acme);
        std::fs::remove_dir_all(directory).unwrap();
        assert_eq!(place.disk.refusal(&acme), None);
    }

    /// Waits until the organization is over its limit.
    fn until_measured(disk: &Disk, organization: &Identifier) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while disk.refusal(organization).is_none() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn whoever_makes_directories_that_cannot_be_measured_is_ended_with_that_reason() {
        let place = TestDirectory::new(None, None);
        let (other, deep) = (place.writer("zeta", "other", 1, None), place.writer("acme", "deep", 1, None));
        let levels = vec!["d"; MEASURED_DEPTH_MAX + 1].join("/");
        std::fs::create_dir_all(place.dir.path().join("deep").join(levels)).unwrap();
        assert!(deep.over().await.contains("inside each other"));
        assert!(!other.was_ended());
    }

    #[test]
    fn the_nearer_the_limit_the_shorter_the_pause() {
        let pauses = [0, 100, 228, 1_000, 100_000].map(|free| pause_at(mebibytes(free), 100 * MIB).as_millis());
        assert_eq!(pauses, [10, 10, 31, 219, 500]);
        let entries = |entries| Free { entries, all_entries: 1_000_000, ..mebibytes(100_000) };
        let pauses = [0, 20_000, 70_000, 900_000].map(|free| pause_at(entries(free), 100 * MIB).as_millis());
        assert_eq!(pauses, [10, 10, 100, 500]);
    }
}
