//! For any content of the log, recovery replays or refuses it, and gives the same result when repeated.

use super::*;
use testkit::fuzz::fuzz;

/// Separates the segments of an input.
const BREAK: &[u8] = b"|segment|";
/// At the end of a segment's input: the file ends there, without its end page.
const TORN: &[u8] = b"|torn|";

/// Logs as inputs: the applied sequence, then the segments without their unused room.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = vec![Vec::new()];
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut log = random_log(&mut random);
        if seed % 3 == 0 {
            let group = log.begin(random_group(&mut random, 900));
            let written = random.below(group.pages.len() as u64) as usize;
            log.write(&group, 0..written);
        }
        let files = log.disk.files.borrow();
        let used = files.values().map(|file| {
            let room = &file[..file.len() - PAGE];
            room[..room.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)].to_vec()
        });
        let applied = random.below(log.batches.len() as u64 + 1) as u8;
        samples.push([vec![applied], used.collect::<Vec<_>>().join(BREAK)].concat());
    }
    samples
}

/// The inverse of [`samples`]: a log from an input. A segment is named after its first batch.
fn log_of(input: &[u8]) -> (SimLog, u64) {
    let (applied, mut rest) = input.split_first().map_or((0, input), |(applied, rest)| (u64::from(*applied), rest));
    let log = SimLog::default();
    let mut name = 1;
    while !rest.is_empty() {
        let end = rest.windows(BREAK.len()).position(|window| window == BREAK);
        let (piece, after) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + BREAK.len()..]));
        let named = piece.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        name = named.filter(|named| *named > 0).unwrap_or(name + 1);
        log.disk.files.borrow_mut().insert(name, file_of(piece));
        rest = after;
    }
    (log, applied)
}

fn file_of(piece: &[u8]) -> Vec<u8> {
    if let Some(torn) = piece.strip_suffix(TORN) {
        return torn.to_vec();
    }
    let mut file = piece.to_vec();
    file.resize(file.len().max(SEGMENT - PAGE).next_multiple_of(PAGE), 0);
    file.extend_from_slice(&END_PAGE);
    file
}

#[test]
fn fuzzed_logs_are_replayed_or_refused_and_go_on() {
    let words = ["|segment|", "|torn|", "LKG1", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"];
    fuzz(samples(), &words, |input| {
        let (mut log, applied) = log_of(input);
        let discarding = log.clone();
        let strict = log.recover_after(applied, OnDamage::Refuse);
        let outcome = match &strict {
            Ok((recovered, found)) => {
                assert_eq!(recovered.last, applied + found.len() as u64);
                assert_eq!(recovered.discarded, None);
                let (again, found_again) = log.recover_after(applied, OnDamage::Refuse).unwrap();
                assert!(found_again == *found, "the second start finds something else");
                assert_eq!((again.last, again.tail, again.cut), (recovered.last, recovered.tail, 0));
                (found.len(), recovered.cut, String::new())
            }
            Err(damage) => (0, 0, damage.what.chars().filter(|c| !c.is_ascii_digit()).collect()),
        };
        // Discarding damage must keep what a strict start would have replayed before the damage.
        if let Ok((recovered, found)) = discarding.recover_after(applied, OnDamage::Discard) {
            assert_eq!(recovered.last, applied + found.len() as u64);
            if let Ok((_, all)) = &strict {
                assert!(found == *all);
            }
            log.disk = discarding.disk;
            log.tail = recovered.tail;
            // Only the number of batches matters here: it determines the next sequence.
            log.batches = vec![Batch::default(); recovered.last as usize];
            log.append(vec![small_batch(9)]);
            let (_, again) = log.recover_after(applied, OnDamage::Refuse).unwrap();
            assert!(again.len() == found.len() + 1 && again.starts_with(&found), "the log does not go on");
        }
        outcome
    });
}

#[test]
fn fuzzed_groups_with_sound_checksums_are_replayed_or_refused() {
    let sample = |seed| {
        let group = random_group(&mut Random::new(seed), 60);
        let mut payload = vec![group.len() as u8];
        group.iter().for_each(|batch| _ = batch.encode(&mut payload));
        payload
    };
    fuzz((0..24).map(sample), &["\0\0\0\0", "\x01\0\0\0", "journal"], |input| {
        let (count, payload) = input.split_first()?;
        let mut pages = vec![0; format::extent(payload.len())];
        format::seal(1, u32::from(*count), payload, &mut pages);
        let log = SimLog::default();
        log.disk.files.borrow_mut().insert(1, file_of(&pages));
        let (recovered, found) = log.recover().ok()?;
        let mut written = Vec::new();
        found.iter().for_each(|batch| _ = batch.encode(&mut written));
        assert!(written == payload, "it is read as something else than it was written as");
        Some((
            recovered.last,
            found.iter().map(|batch| (batch.changes().len(), batch.appends().count())).collect::<Vec<_>>(),
        ))
    });
}
