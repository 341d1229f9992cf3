#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::restore::RestoreError;
use super::stream::{About, BackupReader, BackupWriter, Fault, Header, Kind, Part, frame};
use super::*;
use delivery::logs::Logs;
use domain::{DeploymentId, IdSeed};
use store::{
    Batch, FORMAT_NUMBER, LoggedBatches, LoggedStore, MemoryStore, OpenError, Options, Pair, Sequence, Store,
    end_of_prefix,
};

fn about() -> About {
    About {
        version: "1.2.3".to_owned(),
        created_at: "2026-11-16T12:00:00Z".to_owned(),
        organizations: vec!["acme".to_owned()],
        master_key: Some("0123456789abcdef".to_owned()),
    }
}

fn deployment(number: u8) -> DeploymentId {
    DeploymentId(IdSeed([number; 12]))
}

/// A backup with a few parts of every kind.
fn sample() -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header { about: about(), data_format: FORMAT_NUMBER, sequence: 7 };
    let mut writer = BackupWriter::begin(&mut bytes, &header).unwrap();
    for (key, value) in [("a", "one"), ("b", ""), ("c", "three")] {
        writer.pair(key.as_bytes(), value.as_bytes()).unwrap();
    }
    let payload = b"not looked at here".to_vec();
    writer.batches(&LoggedBatches { first: Sequence(8), count: 3, payload }).unwrap();
    for (number, piece) in [(1, "first "), (1, "second"), (2, "")] {
        writer.log(deployment(number), piece.as_bytes()).unwrap();
    }
    writer.finish(Sequence(10)).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<Part>, Totals), Fault> {
    let (mut reader, header) = BackupReader::open(bytes)?;
    let mut parts = Vec::new();
    loop {
        match reader.next()? {
            Ok(part) => parts.push(part),
            Err(totals) => return Ok((header, parts, totals)),
        }
    }
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_backup_reads_back_as_it_was_written() {
    let (header, parts, totals) = read(&sample()).unwrap();
    assert_eq!((header.about, header.sequence), (about(), 7));
    assert_eq!(totals, Totals { sequence: 10, pairs: 3, batches: 3, logs: 2 });
    let told: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Pair { key, value } => format!("{}={}", key.escape_ascii(), value.escape_ascii()),
            Part::Batches(batches) => format!("{} from {}", batches.count, batches.first.0),
            Part::Log { deployment, piece } => format!("{:?} {}", deployment.0.0[0], piece.escape_ascii()),
        })
        .collect();
    assert_eq!(told, ["a=one", "b=", "c=three", "3 from 8", "1 first ", "1 second", "2 "]);
}

#[test]
fn wherever_it_is_cut_off_it_is_refused() {
    let whole = sample();
    for length in 0..whole.len() {
        let refused = refusal(&whole[..length]);
        assert!(refused.contains("incomplete") || refused.contains("is not a backup"), "{length}: {refused}");
    }
    assert!(refusal(&[whole.as_slice(), b"\n"].concat()).contains("there is more after its end"));
}

#[test]
fn whichever_bit_is_flipped_it_is_refused() {
    let whole = sample();
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            assert!(read(&damaged).is_err(), "byte {place}, bit {bit}");
        }
    }
}

#[test]
fn parts_that_are_left_out_repeated_or_moved_are_noticed_although_each_is_sound() {
    let whole = sample();
    let mut frames = Vec::new();
    let start = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut at = start;
    while at < whole.len() {
        let length = u32::from_le_bytes(whole[at + 1..at + 5].try_into().unwrap()) as usize + 9;
        frames.push(&whole[at..at + length]);
        at += length;
    }
    assert_eq!(frames.len(), 7);
    let joined = |frames: &[&[u8]]| [&whole[..start], &frames.concat()].concat();
    assert!(read(&joined(&frames)).is_ok());
    for place in 0..frames.len() {
        let mut without = frames.clone();
        let frame = without.remove(place);
        assert!(read(&joined(&without)).is_err(), "without {place}");
        for to in (0..=without.len()).filter(|to| *to != place) {
            let mut moved = without.clone();
            moved.insert(to, frame);
            assert!(read(&joined(&moved)).is_err(), "{place} moved to {to}");
        }
        let mut twice = frames.clone();
        twice.insert(place, frame);
        assert!(read(&joined(&twice)).is_err(), "{place} twice");
    }
}

#[test]
fn foreign_files_and_newer_forms_are_told_apart() {
    for foreign in
        [&b""[..], b"\x1f\x8b\x08", b"SQLite format 3\0", &[0; 4096], b"lockkeeper backup", b"lockkeeper backup x\n"]
    {
        assert!(matches!(read(foreign), Err(Fault::Foreign)), "{}", foreign.escape_ascii());
    }
    let newer = refusal(b"lockkeeper backup 2\nwhatever comes then");
    assert!(newer.contains("has form 2, and this program reads form 1"), "{newer}");
    let header = Header { about: about(), data_format: FORMAT_NUMBER + 1, sequence: 7 };
    let other =
        [b"lockkeeper backup 1\n".as_slice(), &frame(Kind::Header, &serde_json::to_vec(&header).unwrap())].concat();
    let refused = refusal(&other);
    assert!(refused.contains("format 5") && refused.contains("1.2.3"), "{refused}");
}

#[test]
fn a_server_that_gives_up_says_why() {
    let mut bytes = Vec::new();
    let header = Header { about: about(), data_format: FORMAT_NUMBER, sequence: 7 };
    let mut writer = BackupWriter::begin(&mut bytes, &header).unwrap();
    writer.pair(b"a", b"1").unwrap();
    writer.fail("the disk is on fire").unwrap();
    assert_eq!(refusal(&bytes), "was not finished by the server: the disk is on fire");
}

#[test]
fn a_file_gets_its_name_only_when_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("monday");
    let whole = sample();
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    assert!(matches!(save(&whole[..whole.len() - 1], &path), Err(SaveError::Fault(Fault::Truncated { .. }))));
    assert_eq!(files(), 0);
    let saved = save(whole.as_slice(), &path).unwrap();
    assert_eq!((saved.bytes, saved.totals.pairs), (whole.len() as u64, 3));
    assert_eq!((std::fs::read(&path).unwrap() == whole, files()), (true, 1));
    assert!(matches!(save(whole.as_slice(), &path), Err(SaveError::Exists(_))));
}

fn options() -> Options {
    Options { segment_bytes: 4 << 20, cache_bytes: 1 << 20, min_free_bytes: 0, ..Options::default() }
}

fn until_durable(store: &LoggedStore) {
    while *store.durable().borrow() < store.handed_in() {
        std::thread::yield_now();
    }
}

fn all(store: &dyn Store) -> Vec<Pair> {
    store.scan(&[], &end_of_prefix(&[]), usize::MAX).unwrap()
}

fn logs(dir: &Path) -> Logs {
    Logs::open(&dir.join("logs"), u64::MAX).unwrap()
}

/// Changes one of 400 keys and appends to a journal.
fn change(number: u64) -> Batch {
    let mut batch = Batch::default();
    let key = format!("k/{:03}", number.wrapping_mul(7919) % 400).into_bytes();
    match number % 5 {
        0 => batch.delete(key),
        _ => batch.put(key, format!("{number:0>200}").into_bytes()),
    }
    batch.append(["acme", "beta"][(number % 2) as usize], number.to_le_bytes());
    batch
}

/// Writers keep changing the store while `during` runs. Returns every batch under its sequence.
fn under_load<T>(store: &LoggedStore, during: impl FnOnce() -> T) -> (T, BTreeMap<u64, Batch>) {
    let (stop, written) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let outcome = std::thread::scope(|threads| {
        for writer in 0..3_u64 {
            let (stop, written) = (&stop, &written);
            threads.spawn(move || {
                for number in (writer..).step_by(3) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Locked for both, so that the sequence is that of this commit.
                    let mut written = written.lock();
                    if let Ok(sequence) = store.commit(change(number)) {
                        written.insert(sequence.0, change(number));
                    }
                    drop(written);
                    std::thread::yield_now();
                }
            });
        }
        let outcome = during();
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    (outcome, written.into_inner())
}

/// Waits for new commits during the first pieces, so that much is written meanwhile. Not during all pieces: what is
/// written meanwhile is copied too, and the copy would not end.
struct Slow<'a>(&'a mut Vec<u8>, &'a LoggedStore, u32);

impl io::Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(1_000)];
        self.0.extend_from_slice(piece);
        if self.2 > 0 {
            self.2 -= 1;
            let durable = *self.1.durable().borrow();
            while *self.1.durable().borrow() == durable {
                std::thread::yield_now();
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_copy_under_load_is_the_state_after_its_last_batch() {
    let home = tempfile::tempdir().unwrap();
    let store = LoggedStore::open(&home.path().join("data"), options()).unwrap();
    let logs = logs(home.path());
    let mut written = BTreeMap::new();
    for round in 0..3 {
        let mut bytes = Vec::new();
        let (before, out) = (store.handed_in(), Slow(&mut bytes, &store, 20));
        let (made, more) = under_load(&store, || make(&store, &logs, about(), out));
        let totals = made.unwrap();
        written.extend(more);
        assert!(totals.sequence >= before.0, "everything from before is in it");
        assert!(totals.batches > 0, "something was written meanwhile");

        let restored = home.path().join(format!("restored-{round}"));
        restore(bytes.as_slice(), &restored, 0, options()).unwrap();
        let copy = LoggedStore::open(&restored, options()).unwrap();
        assert_eq!(copy.handed_in().0, totals.sequence);
        let expected = MemoryStore::default();
        for sequence in 1..=totals.sequence {
            expected.commit(written[&sequence].clone()).unwrap();
        }
        assert!(all(&copy) == all(&expected), "round {round}");
        // The copy accepts changes like any store.
        copy.commit(change(1)).unwrap();
        expected.commit(change(1)).unwrap();
        copy.close();
        assert!(all(&copy) == all(&expected));
    }
}

#[test]
fn a_copy_of_an_idle_or_empty_store_has_no_batches() {
    let home = tempfile::tempdir().unwrap();
    let store = LoggedStore::open(&home.path().join("data"), options()).unwrap();
    for round in 0..2 {
        let mut bytes = Vec::new();
        let totals = make(&store, &logs(home.path()), about(), &mut bytes).unwrap();
        assert_eq!((totals.batches, totals.sequence), (0, store.handed_in().0));
        let path = home.path().join(format!("restored-{round}"));
        restore(bytes.as_slice(), &path, 0, options()).unwrap();
        let copy = LoggedStore::open(&path, options()).unwrap();
        assert!(all(&copy) == all(&store));
        (0..100).for_each(|number| store.commit_patiently(change(number)).unwrap());
        until_durable(&store);
    }
}

#[test]
fn the_log_is_kept_for_a_slow_copy_only_up_to_a_bound() {
    let home = tempfile::tempdir().unwrap();
    let bounded = Options { pinned_log_bytes: 12 << 20, ..options() };
    let store = LoggedStore::open(&home.path().join("data"), bounded).unwrap();
    // Segments of the log, without the reserve.
    let is_of_the_log = |name: &str| !name.starts_with("reserve");
    let segments = || {
        let names = std::fs::read_dir(home.path().join("data/log")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().is_some_and(is_of_the_log)).count()
    };
    let big = |key: usize| {
        let mut batch = Batch::default();
        batch.put(format!("big/{key:04}").into_bytes(), vec![7; 1 << 20]);
        store.commit_patiently(batch).unwrap();
    };
    big(0);
    let mut bytes = Vec::new();
    let mut number = 1;
    /// Calls a function, which changes the store, at each write.
    struct Writing<'a, F: FnMut()>(&'a mut Vec<u8>, F);
    impl<F: FnMut()> io::Write for Writing<'_, F> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            (self.1)();
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writing = Writing(&mut bytes, || {
        (0..4).for_each(|_| {
            big(number);
            number += 1;
        });
        // Waits until the applier has seen the log, which it checks after each piece that it writes.
        let handed_in = store.handed_in();
        while store.applied() < handed_in {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let refused = make(&store, &logs(home.path()), about(), writing).unwrap_err().to_string();
    assert!(refused.contains("more than 12 MiB of log were kept"), "{refused}");
    assert!(
        read(&bytes).map(|_| ()).unwrap_err().to_string().contains("was not finished by the server: it took too long")
    );
    big(number);
    store.close();
    assert!(segments() <= 3, "{} segments are left", segments());
}

#[test]
fn the_logs_of_deployments_come_along() {
    let home = tempfile::tempdir().unwrap();
    let store = LoggedStore::open(&home.path().join("data"), options()).unwrap();
    let logs = logs(home.path());
    let large: Vec<u8> = (0..600_000_u32).map(|byte| byte as u8).collect();
    let contents = [(1, large.as_slice()), (2, b""), (3, b"short")];
    for (number, content) in contents {
        std::fs::write(home.path().join("logs").join(format!("{}.log", deployment(number))), content).unwrap();
    }
    std::fs::write(home.path().join("logs/notes.txt"), "not a log").unwrap();
    let mut bytes = Vec::new();
    assert_eq!(make(&store, &logs, about(), &mut bytes).unwrap().logs, 3);
    let path = home.path().join("restored");
    restore(bytes.as_slice(), &path, 0, options()).unwrap();
    for (number, content) in contents {
        let restored = std::fs::read(path.join("logs").join(format!("{}.log", deployment(number)))).unwrap();
        assert!(restored == content, "{number}");
    }
    assert_eq!(std::fs::read_dir(path.join("logs")).unwrap().count(), 3);
}

#[test]
fn nothing_is_left_of_a_refused_restore() {
    let home = tempfile::tempdir().unwrap();
    let store = LoggedStore::open(&home.path().join("data"), options()).unwrap();
    (0..300).for_each(|number| store.commit_patiently(change(number)).unwrap());
    until_durable(&store);
    let mut whole = Vec::new();
    make(&store, &logs(home.path()), about(), &mut whole).unwrap();
    let path = home.path().join("restored");
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 1;
    for bytes in [&whole[..whole.len() - 1], &whole[..middle], &damaged, b"something else"] {
        assert!(restore(bytes, &path, 0, options()).is_err());
        assert!(!path.exists());
    }
    // A directory that is not empty is refused without reading it.
    let taken = restore(whole.as_slice(), &home.path().join("data"), 0, options()).map(|_| ());
    assert!(matches!(taken, Err(RestoreError::Open(OpenError::NotEmpty { .. }))));
    std::fs::create_dir(&path).unwrap();
    restore(whole.as_slice(), &path, 0, options()).unwrap();
    assert!(all(&LoggedStore::open(&path, options()).unwrap()) == all(&store));
}

#[test]
fn only_one_is_taken_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(LoggedStore::open(&home.path().join("data"), options()).unwrap());
    let backups = Backups::new(store, logs(home.path()), None);
    let begin = || backups.begin(String::new(), Vec::new());
    let first = begin().ok().unwrap();
    assert!(begin().is_err());
    first.write_to(io::sink()).unwrap();
    assert!(begin().is_ok());
}
