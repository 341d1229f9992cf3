//! Tests of the logged store on a real disk: conformance, torn and damaged logs, crashes, a full disk, many threads.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::conformance::{self, Harness, commit_durably, put, wait_for};
use super::log::format::PAGE;
use super::log::segments::MIN_SEGMENT_BYTES;
use super::{Batch, LoggedStore, OpenError, Options, Sequence, Store, StoreError, end_of_prefix};

fn options() -> Options {
    let fatal = Arc::new(|sentence: &str| panic!("{sentence}"));
    Options { segment_bytes: MIN_SEGMENT_BYTES, min_free_bytes: 0, fatal, ..Options::default() }
}

fn open(dir: &Path) -> LoggedStore {
    LoggedStore::open(dir, options()).unwrap()
}

struct OnDisk(TempDir);

impl OnDisk {
    fn new() -> OnDisk {
        OnDisk(tempfile::tempdir().unwrap())
    }
}

impl Harness for OnDisk {
    type Store = LoggedStore;

    fn open(&mut self) -> LoggedStore {
        open(self.0.path())
    }

    fn reopen(&mut self, store: LoggedStore) -> LoggedStore {
        store.close();
        drop(store);
        open(self.0.path())
    }

    fn crash(&mut self, store: LoggedStore) -> LoggedStore {
        store.abandon();
        open(self.0.path())
    }
}

conformance::conformance_tests!(OnDisk::new());

/// Commits `count` batches one after another, so that each is a separate group in a separate page, and crashes.
fn a_log_of(dir: &Path, count: u64) -> PathBuf {
    let store = open(dir);
    for n in 0..count {
        commit_durably(&store, put(n.to_be_bytes(), "value"));
    }
    store.abandon();
    dir.join("log/00000000000000000001.log")
}

fn count(store: &LoggedStore) -> usize {
    store.scan(b"", &end_of_prefix(b""), usize::MAX).unwrap().len()
}

fn write_at(file: &Path, offset: usize, bytes: &[u8]) {
    std::fs::File::options().write(true).open(file).unwrap().write_all_at(bytes, offset as u64).unwrap();
}

/// The start of the page with the last group of a log that was not closed.
fn last_page(file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let written = &bytes[..bytes.len() - PAGE];
    written.iter().rposition(|byte| *byte != 0).unwrap() / PAGE * PAGE
}

#[test]
fn a_torn_tail_is_cut_and_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = a_log_of(dir.path(), 3);
    let last = last_page(&file);
    let group = std::fs::read(&file).unwrap()[last..last + PAGE].to_vec();
    write_at(&file, last + PAGE, &group[..300]);
    let store = open(dir.path());
    assert_eq!(*store.durable().borrow(), Sequence(3));
    assert_eq!(commit_durably(&store, put("more", "1")), Sequence(4));
    store.abandon();
    assert_eq!(count(&open(dir.path())), 4);
}

/// A log whose records are not yet in the database: a copy of a running store's directory, as after a crash.
fn unapplied_log(count: u64) -> (TempDir, PathBuf) {
    let (running, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(open(copy.path()));
    let store = open(running.path());
    for n in 0..count {
        commit_durably(&store, put(n.to_be_bytes(), "value"));
    }
    let name = "log/00000000000000000001.log";
    let file = copy.path().join(name);
    std::fs::copy(running.path().join(name), &file).unwrap();
    (copy, file)
}

#[test]
fn a_bad_record_in_the_middle_refuses_the_start() {
    let (dir, file) = unapplied_log(5);
    write_at(&file, 2 * PAGE + 40, b"?");
    let refused = LoggedStore::open(dir.path(), options()).err().unwrap();
    assert!(matches!(&refused, OpenError::DamagedLog { offset, .. } if *offset == 2 * PAGE as u64), "{refused}");
    assert!(refused.to_string().contains("--discard-damaged-log"), "{refused}");
    // A second attempt is refused too, because a refusal changes nothing.
    assert!(LoggedStore::open(dir.path(), options()).is_err());
}

#[test]
fn a_damaged_log_can_be_set_aside() {
    let (dir, file) = unapplied_log(5);
    write_at(&file, 2 * PAGE + 40, b"?");
    let store = LoggedStore::open(dir.path(), Options { discard_damaged_log: true, ..options() }).unwrap();
    assert_eq!((count(&store), *store.durable().borrow()), (2, Sequence(2)));
    assert_eq!(commit_durably(&store, put("more", "1")), Sequence(3));
    store.abandon();
    let kept = std::fs::metadata(dir.path().join("log/damaged-00000000000000000001-8192")).unwrap();
    assert_eq!(kept.len() as usize, MIN_SEGMENT_BYTES - 2 * PAGE);
    assert_eq!(count(&open(dir.path())), 3);
}

#[test]
fn a_missing_log_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit_durably(&store, put("a", "1"));
    drop(store);
    std::fs::remove_file(dir.path().join("log/00000000000000000001.log")).unwrap();
    assert!(matches!(LoggedStore::open(dir.path(), options()), Err(OpenError::DamagedLog { .. })));
    let store = LoggedStore::open(dir.path(), Options { discard_damaged_log: true, ..options() }).unwrap();
    assert_eq!((count(&store), commit_durably(&store, put("b", "1"))), (1, Sequence(2)));
    drop(store);
    assert_eq!(count(&open(dir.path())), 2);
}

#[test]
fn a_database_that_lacks_what_the_log_builds_on_is_not_taken_for_a_damaged_log() {
    let (dir, file) = unapplied_log(3);
    std::fs::rename(&file, file.with_file_name("00000000000000000005.log")).unwrap();
    for discard_damaged_log in [false, true] {
        let refused = LoggedStore::open(dir.path(), Options { discard_damaged_log, ..options() });
        assert!(matches!(refused, Err(OpenError::Database { .. })), "setting the log aside would lose more");
    }
}

#[test]
fn a_segment_that_lost_its_end_refuses_the_start() {
    let (dir, file) = unapplied_log(3);
    std::fs::File::options().write(true).open(&file).unwrap().set_len(2 * PAGE as u64).unwrap();
    assert!(matches!(LoggedStore::open(dir.path(), options()), Err(OpenError::DamagedLog { .. })));
}

#[test]
fn an_unfinished_snapshot_of_sled_does_not_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit_durably(&store, put("a", "1"));
    drop(store);
    let torn = dir.path().join("sled/snap.FFFFFFFFFFFFFFFF.generating");
    std::fs::write(&torn, b"torn").unwrap();
    assert_eq!(count(&open(dir.path())), 1);
    assert!(!torn.exists());
}

#[test]
fn a_broken_database_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit_durably(&store, put("a", "1"));
    drop(store);
    for entry in std::fs::read_dir(dir.path().join("sled")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().unwrap() != "db" {
            std::fs::write(path, b"not what sled wrote, at all").unwrap();
        }
    }
    let refused = LoggedStore::open(dir.path(), options()).err().unwrap();
    assert!(matches!(refused, OpenError::Database { .. }), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 1, "{refused}");
}

#[test]
fn a_database_half_made_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    std::fs::rename(dir.path().join("sled"), dir.path().join("sled.new")).unwrap();
    std::fs::write(dir.path().join("sled.new/conf"), b"half a conf").unwrap();
    commit_durably(&open(dir.path()), put("a", "1"));
}

#[test]
fn the_directory_is_held_until_the_store_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.close();
    assert!(matches!(LoggedStore::open(dir.path(), options()), Err(OpenError::InUse { .. })));
    drop(store);
    open(dir.path());
}

#[test]
fn a_closed_store_refuses_writes_and_still_reads() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let sequence = store.commit(put("a", "1")).unwrap();
    store.close();
    store.close();
    assert_eq!(*store.durable().borrow(), sequence);
    assert!(matches!(store.commit(put("b", "1")), Err(StoreError::Closed)));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
}

#[test]
fn a_disk_below_its_reserve_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = LoggedStore::open(dir.path(), Options { min_free_bytes: u64::MAX, ..options() }).unwrap();
    let refused = store.commit(put("a", "1")).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert!(store.refusing_writes().is_some());
    assert_eq!(store.handed_in(), Sequence(0));
}

#[test]
fn a_full_disk_takes_ends_and_deletions_and_what_a_start_writes() {
    let dir = tempfile::tempdir().unwrap();
    let full = |starting| Options { min_free_bytes: u64::MAX, starting, ..options() };
    let store = LoggedStore::open(dir.path(), full(true)).unwrap();
    while !store.segments.takes_ends() {
        std::thread::yield_now();
    }
    commit_durably(&store, put("a", "1"));
    store.started();
    assert!(matches!(store.commit(put("a", "2")), Err(StoreError::Full { .. })));
    let mut end = put("b", "1");
    end.mark_as_end();
    commit_durably(&store, end);
    let mut deletion = Batch::default();
    deletion.delete("a");
    commit_durably(&store, deletion);
    assert_eq!((store.get(b"a").unwrap(), store.get(b"b").unwrap()), (None, Some(b"1".to_vec())));
    assert!(matches!(store.commit(Batch::default()), Err(StoreError::Full { .. })));
}

#[test]
fn old_segments_go_once_the_database_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut last = Sequence(0);
    for n in 0..60u64 {
        last = commit_durably(&store, put((n % 3).to_be_bytes(), vec![n as u8; 400 * 1024]));
    }
    store.close();
    let names = || std::fs::read_dir(dir.path().join("log")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names().filter(|name| name.to_str().unwrap().ends_with(".log")).count(), 1);
    drop(store);
    let store = open(dir.path());
    assert_eq!((count(&store), *store.durable().borrow()), (3, last));
}

#[test]
fn threads_read_what_they_were_told_is_durable_also_after_a_crash() {
    const THREADS: u64 = 6;
    const EACH: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (store, acknowledged) = (&store, &acknowledged);
            threads.spawn(move || {
                for n in 0..EACH {
                    let key = [thread.to_be_bytes(), (n % 50).to_be_bytes()].concat();
                    let value = [n.to_be_bytes().as_slice(), &vec![0; (n * 7 % 2000) as usize]].concat();
                    let sequence = store.commit(put(&key, &value)).unwrap();
                    wait_for(store, sequence);
                    assert_eq!(store.get(&key).unwrap().unwrap(), value);
                    acknowledged.lock().push((sequence, key, value));
                }
            });
        }
    });
    store.abandon();
    let store = open(dir.path());
    let mut acknowledged = acknowledged.into_inner();
    acknowledged.sort();
    assert!(acknowledged.iter().map(|(sequence, ..)| sequence.0).eq(1..=THREADS * EACH));
    let model: std::collections::BTreeMap<_, _> =
        acknowledged.into_iter().map(|(_, key, value)| (key, value)).collect();
    let found = store.scan(b"", &end_of_prefix(b""), usize::MAX).unwrap();
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
}
