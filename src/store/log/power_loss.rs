//! Tests recovery on a simulated disk that loses power at every point of the last write, and that flips bits.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod fuzz;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use super::Random;
use super::disk::Disk;
use super::format::{self, END_PAGE, PAGE, SECTOR};
use super::recovery::{Damage, Fault, OnDamage, Recovered, Tail, recover};
use crate::batch::{Batch, BatchRef};

/// Small, so that a crash point is cheap, and so that groups of all sizes reach the end of a segment.
const SEGMENT: usize = 16 * PAGE;
const MIN_CRASH_POINTS: usize = 2000;

/// The durable content. The log syncs after every write, so the test itself holds the one unsynced group.
#[derive(Clone, Default)]
struct SimDisk {
    files: RefCell<BTreeMap<u64, Vec<u8>>>,
    aside: RefCell<Vec<(u64, usize)>>,
    /// The ranges written by recovery.
    written: RefCell<Vec<(u64, std::ops::Range<usize>)>>,
}

impl Disk for SimDisk {
    fn segments(&self) -> io::Result<Vec<u64>> {
        Ok(self.files.borrow().keys().copied().collect())
    }

    fn read(&self, segment: u64) -> io::Result<Vec<u8>> {
        Ok(self.files.borrow()[&segment].clone())
    }

    fn write(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let range = offset..offset + bytes.len();
        self.files.borrow_mut().get_mut(&segment).unwrap()[range.clone()].copy_from_slice(bytes);
        self.written.borrow_mut().push((segment, range));
        Ok(())
    }

    fn end_at(&self, segment: u64, offset: usize) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        let file = files.get_mut(&segment).unwrap();
        file.truncate(offset);
        file.extend_from_slice(&END_PAGE);
        Ok(())
    }

    fn set_aside(&self, segment: u64, offset: usize, _: &[u8]) -> io::Result<()> {
        self.aside.borrow_mut().push((segment, offset));
        Ok(())
    }

    fn set_aside_whole(&self, segment: u64) -> io::Result<()> {
        self.files.borrow_mut().remove(&segment).unwrap();
        self.aside.borrow_mut().push((segment, 0));
        Ok(())
    }
}

/// A log written as the committer does: each group in one write, then a sync.
#[derive(Clone, Default)]
struct SimLog {
    disk: SimDisk,
    tail: Option<Tail>,
    /// Every batch in the log. Its position here is its sequence.
    batches: Vec<Batch>,
}

/// A group that was written but not synced.
struct Unsynced {
    at: Tail,
    pages: Vec<u8>,
    batches: Vec<Batch>,
}

impl SimLog {
    fn begin(&mut self, batches: Vec<Batch>) -> Unsynced {
        let mut payload = Vec::new();
        batches.iter().for_each(|batch| _ = batch.encode(&mut payload));
        let mut pages = vec![0; format::extent(payload.len())];
        let first = self.batches.len() as u64 + 1;
        format::seal(first, batches.len() as u32, &payload, &mut pages);
        let at = match self.tail {
            Some(tail) if tail.offset + pages.len() <= tail.room => tail,
            _ => {
                let mut file = vec![0; SEGMENT - PAGE];
                file.extend_from_slice(&END_PAGE);
                self.disk.files.borrow_mut().insert(first, file);
                Tail { segment: first, offset: 0, room: SEGMENT - PAGE }
            }
        };
        self.tail = Some(at);
        Unsynced { at, pages, batches }
    }

    fn write(&self, group: &Unsynced, range: std::ops::Range<usize>) {
        let mut files = self.disk.files.borrow_mut();
        let file = files.get_mut(&group.at.segment).unwrap();
        file[group.at.offset + range.start..group.at.offset + range.end].copy_from_slice(&group.pages[range]);
    }

    fn append(&mut self, batches: Vec<Batch>) {
        let group = self.begin(batches);
        self.write(&group, 0..group.pages.len());
        self.tail = Some(Tail { offset: group.at.offset + group.pages.len(), ..group.at });
        self.batches.extend(group.batches);
    }

    fn recover(&self) -> Result<(Recovered, Vec<Batch>), Damage> {
        self.recover_after(0, OnDamage::Refuse)
    }

    fn recover_after(&self, applied: u64, on_damage: OnDamage) -> Result<(Recovered, Vec<Batch>), Damage> {
        let mut found = Vec::new();
        let replay = |sequence, batch: BatchRef<'_>| {
            assert_eq!(sequence, applied + found.len() as u64 + 1);
            found.push(batch.to_owned());
        };
        match recover(&self.disk, applied, on_damage, replay) {
            Ok(recovered) => Ok((recovered, found)),
            Err(Fault::Damage(damage)) => Err(damage),
            Err(Fault::Gap { first, .. }) => {
                Err(Damage { segment: first, offset: 0, what: "the beginning is missing".to_owned() })
            }
            Err(Fault::Io { source, .. }) => panic!("the simulated disk failed: {source}"),
        }
    }

    /// Checks that everything synced is there, that the unsynced group is there completely or not at all, and that the
    /// log accepts more groups.
    fn check_crash(mut self, unsynced: &[Batch]) {
        let (recovered, found) = self.recover().unwrap();
        let synced = self.batches.len();
        assert!(found.starts_with(&self.batches), "a synced batch is lost or changed");
        let extra = &found[synced..];
        assert!(extra.is_empty() || extra == unsynced, "an unsynced group is there in part");
        assert_eq!(recovered.last, found.len() as u64);

        let (again, found_again) = self.recover().unwrap();
        assert_eq!(found_again, found);
        assert_eq!((again.last, again.tail, again.cut), (recovered.last, recovered.tail, 0));

        self.tail = again.tail;
        self.batches = found;
        self.append(vec![small_batch(1), small_batch(2)]);
        self.append(vec![small_batch(3)]);
        assert!(self.recover().unwrap().1 == self.batches, "what was appended after a recovery is lost");
    }
}

fn small_batch(n: u8) -> Batch {
    let mut batch = Batch::default();
    batch.put(vec![n], vec![n; 20]);
    batch
}

fn random_group(random: &mut Random, max_value: u64) -> Vec<Batch> {
    let batches = 1 + random.below(4);
    let mut group = Vec::new();
    for _ in 0..batches {
        let mut batch = Batch::default();
        for _ in 0..random.below(4) {
            let key = random.next().to_be_bytes().to_vec();
            let len = random.below(max_value) as usize;
            match random.below(4) {
                0 => batch.delete(key),
                // Long runs of zeros look like unwritten sectors.
                1 => batch.put(key, vec![0; len]),
                _ => batch.put(key, (0..len).map(|_| random.next() as u8).collect::<Vec<_>>()),
            }
        }
        group.push(batch);
    }
    group
}

fn random_log(random: &mut Random) -> SimLog {
    let mut log = SimLog::default();
    for _ in 0..random.below(9) {
        let max_value = [40, 900, 6000][random.below(3) as usize];
        log.append(random_group(random, max_value));
    }
    log
}

/// Runs the case for each seed, and prints the seed of a failure.
fn with_seeds(seeds: std::ops::Range<u64>, mut case: impl FnMut(&mut Random)) {
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| case(&mut Random::new(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("failed with seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn no_power_cut_loses_a_synced_batch_or_shows_part_of_a_group() {
    let mut points = 0;
    // Crashes at every byte of small writes.
    with_seeds(0..4, |random| {
        let mut log = random_log(random);
        let group = log.begin(random_group(random, 60));
        for written in 0..=group.pages.len() {
            let crashed = log.clone();
            crashed.write(&group, 0..written);
            crashed.check_crash(&group.batches);
            points += 1;
        }
    });
    // Writes random sets of sectors of larger groups, because a disk may write sectors in any order.
    with_seeds(100..400, |random| {
        let mut log = random_log(random);
        let group = log.begin(random_group(random, 8000));
        for _ in 0..8 {
            let crashed = log.clone();
            let likely = 1 + random.below(8);
            for sector in (0..group.pages.len()).step_by(SECTOR) {
                if random.below(8) < likely {
                    crashed.write(&group, sector..sector + SECTOR);
                }
            }
            crashed.check_crash(&group.batches);
            points += 1;
        }
    });
    println!("crash points: {points}");
    assert!(points >= MIN_CRASH_POINTS, "only {points} crash points");
}

#[test]
fn no_single_flipped_bit_goes_unseen() {
    let (mut detected, mut dead) = (0, 0);
    with_seeds(1000..1120, |random| {
        let mut log = random_log(random);
        log.append(random_group(random, 2000));
        for _ in 0..25 {
            let flipped = log.clone();
            let mut in_synced_data = true;
            {
                let mut files = flipped.disk.files.borrow_mut();
                let index = random.below(files.len() as u64) as usize;
                let (segment, bytes) = files.iter_mut().nth(index).unwrap();
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
                let tail = log.tail.unwrap();
                if *segment == tail.segment && (tail.offset..tail.room).contains(&at) {
                    in_synced_data = false;
                }
            }
            match flipped.recover() {
                Err(_) => detected += 1,
                Ok((_, found)) => {
                    assert!(!in_synced_data, "a flip in synced data was not seen");
                    assert!(found == log.batches, "a flip in room that was never used changed what was synced");
                    dead += 1;
                }
            }
        }
    });
    println!("flips: {detected} detected, {dead} in room that was never used");
    assert!(detected > 500 && dead > 100);
}

#[test]
fn every_bit_of_the_last_synced_group_is_covered() {
    let mut log = SimLog::default();
    let mut zeros = Batch::default();
    zeros.put(b"zeros", vec![0; 1500]);
    log.append(vec![small_batch(1)]);
    log.append(vec![zeros, small_batch(2)]);
    let tail = log.tail.unwrap();
    for at in 0..tail.offset {
        let flipped = log.clone();
        flipped.disk.files.borrow_mut().get_mut(&1).unwrap()[at] ^= 1 << (at % 8);
        assert!(flipped.recover().is_err(), "a flip at byte {at} was not seen");
    }
}

#[test]
fn a_last_group_that_may_be_in_the_page_cache_only_is_written_again() {
    let mut log = SimLog::default();
    (0..4).for_each(|n| log.append(vec![small_batch(n)]));
    let before = log.disk.files.borrow().clone();
    log.recover().unwrap();
    assert_eq!(*log.disk.written.borrow(), [(1, 3 * PAGE..4 * PAGE)]);
    assert!(*log.disk.files.borrow() == before);
}

#[test]
fn what_the_database_has_is_not_replayed() {
    with_seeds(2000..2030, |random| {
        let mut log = random_log(random);
        log.append(random_group(random, 900));
        let applied = random.below(log.batches.len() as u64 + 1);
        let (recovered, found) = log.recover_after(applied, OnDamage::Refuse).unwrap();
        assert!(found == log.batches[applied as usize..]);
        assert_eq!(recovered.last, log.batches.len() as u64);
    });
}

#[test]
fn a_log_that_does_not_meet_the_database_is_damage() {
    let mut log = SimLog::default();
    (0..40).for_each(|n| log.append(vec![small_batch(n)]));
    let segments = log.disk.segments().unwrap();
    assert!(segments.len() > 2);
    assert!(log.recover_after(41, OnDamage::Refuse).is_err(), "a log that ends before the database");
    let missing = log.clone();
    missing.disk.files.borrow_mut().remove(&segments[1]);
    assert!(missing.recover().is_err(), "a segment missing in the middle");
    let late = log.clone();
    late.disk.files.borrow_mut().remove(&segments[0]);
    assert!(late.recover().is_err(), "a log that begins after the database");
    assert!(late.recover_after(segments[1] - 1, OnDamage::Refuse).is_ok());
    log.disk.files.borrow_mut().clear();
    assert!(log.recover_after(40, OnDamage::Refuse).is_err(), "no log at all");
}

#[test]
fn an_unfinished_group_before_the_end_is_damage() {
    let mut log = SimLog::default();
    (0..4).for_each(|n| log.append(vec![small_batch(n)]));
    let torn = log.clone();
    torn.disk.write(1, PAGE, &[0; SECTOR]).unwrap();
    assert_eq!(torn.recover().unwrap_err().offset, PAGE);
    let lost = log.clone();
    lost.disk.write(1, PAGE, &[0; PAGE]).unwrap();
    assert_eq!(lost.recover().unwrap_err().offset, PAGE);
}

#[test]
fn what_no_unfinished_group_can_leave_is_damage() {
    let mut log = SimLog::default();
    log.append(vec![small_batch(1)]);
    let mut large = Batch::default();
    large.put(b"large", vec![7; 6000]);
    let group = log.begin(vec![large]);
    log.write(&group, 0..2 * SECTOR);
    assert!(log.clone().recover().is_ok());
    let beyond = log.clone();
    beyond.disk.write(1, 5 * PAGE + 9, b"?").unwrap();
    assert!(beyond.recover().is_err(), "bytes further on than the group reaches");
    let marked = log.clone();
    marked.disk.write(1, PAGE + 3 * SECTOR - 1, b"?").unwrap();
    assert!(marked.recover().is_err(), "a sector that ends in what is no mark");
}

#[test]
fn after_discarding_the_log_goes_on_and_recovers() {
    with_seeds(3000..3100, |random| {
        let mut log = random_log(random);
        log.append(random_group(random, 900));
        log.append(random_group(random, 900));
        let applied = random.below(log.batches.len() as u64 + 1);
        {
            let mut files = log.disk.files.borrow_mut();
            let index = random.below(files.len() as u64) as usize;
            let bytes = files.values_mut().nth(index).unwrap();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1;
        }
        let (recovered, found) = log.recover_after(applied, OnDamage::Discard).unwrap();
        let kept = &log.batches[applied as usize..][..found.len()];
        assert!(found == kept, "what is kept is not what was written");
        assert_eq!(recovered.last, applied + found.len() as u64);

        let untouched = log.batches.split_off(recovered.last as usize);
        assert!(recovered.discarded.is_some() || untouched.is_empty());
        log.tail = recovered.tail;
        log.append(vec![small_batch(9)]);
        let (again, found) = log.recover_after(applied, OnDamage::Refuse).unwrap();
        assert_eq!((again.last, again.discarded), (log.batches.len() as u64, None));
        assert!(found == log.batches[applied as usize..]);
    });
}
