//! The conformance suite of all stores. Every new engine must pass it.

#![allow(clippy::unwrap_used)]

use super::journal::{self, Head, PAGE_ENTRIES, Page};
use super::{Batch, Sequence, Store, StoreError, end_of_prefix};

/// Opens a store, and reopens the same store after a restart.
pub trait Harness {
    type Store: Store;
    fn open(&mut self) -> Self::Store;
    /// The store after an orderly shutdown.
    fn reopen(&mut self, store: Self::Store) -> Self::Store;
    /// The store after a crash.
    fn crash(&mut self, store: Self::Store) -> Self::Store;
}

/// Runs every claim of the suite as a separate test.
macro_rules! conformance_tests {
    ($harness:expr; $($claim:ident)*) => {
        $(
            #[test]
            fn $claim() {
                crate::conformance::$claim(&mut $harness);
            }
        )*
    };
    ($harness:expr) => {
        crate::conformance::conformance_tests! { $harness;
            the_first_batch_has_sequence_one
            sequences_follow_the_order_of_the_calls
            after_an_orderly_end_the_log_is_not_needed
            what_is_durable_is_read
            a_later_change_wins
            a_later_change_in_one_batch_wins
            a_delete_hides_what_was_there
            an_empty_batch_has_its_place
            keys_and_values_are_any_bytes
            a_scan_is_ordered_bounded_and_half_open
            a_scan_by_prefix_finds_just_the_prefix
            a_batch_over_the_limit_is_refused_and_nothing_is_handed_in
            reopening_keeps_everything_and_the_order
            a_crash_keeps_what_was_durable
            a_scan_never_shows_half_a_batch
            a_long_history_reads_as_its_last_state
            a_journal_goes_on_where_it_ended
        }
    };
}
pub(crate) use conformance_tests;

pub fn wait_for(store: &impl Store, sequence: Sequence) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { store.durable().wait_for(|durable| *durable >= sequence).await.map(|_| ()) }).unwrap();
}

pub fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
    let mut batch = Batch::default();
    batch.put(key.as_ref(), value.as_ref());
    batch
}

fn delete(key: &str) -> Batch {
    let mut batch = Batch::default();
    batch.delete(key.as_bytes());
    batch
}

pub fn commit_durably(store: &impl Store, batch: Batch) -> Sequence {
    let sequence = store.commit(batch).unwrap();
    wait_for(store, sequence);
    sequence
}

fn keys(store: &impl Store, from: &str, to: &str, limit: usize) -> Vec<String> {
    let pairs = store.scan(from.as_bytes(), to.as_bytes(), limit).unwrap();
    pairs.into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

pub fn the_first_batch_has_sequence_one(harness: &mut impl Harness) {
    let store = harness.open();
    assert_eq!((*store.durable().borrow(), store.handed_in()), (Sequence(0), Sequence(0)));
    assert_eq!(store.commit(put("a", "1")).unwrap(), Sequence(1));
    assert_eq!(store.handed_in(), Sequence(1));
}

pub fn sequences_follow_the_order_of_the_calls(harness: &mut impl Harness) {
    let store = harness.open();
    for expected in 1..=100 {
        assert_eq!(store.commit(put("a", "1")).unwrap(), Sequence(expected));
    }
    wait_for(&store, Sequence(100));
    assert_eq!(*store.durable().borrow(), store.handed_in());
}

pub fn after_an_orderly_end_the_log_is_not_needed(harness: &mut impl Harness) {
    let store = harness.open();
    for n in 0..10u32 {
        let sequence = commit_durably(&store, put(n.to_be_bytes(), "1"));
        assert!(store.applied() <= sequence);
    }
    let store = harness.reopen(store);
    assert_eq!(store.applied(), store.handed_in());
}

pub fn what_is_durable_is_read(harness: &mut impl Harness) {
    let store = harness.open();
    for n in 0..50u32 {
        commit_durably(&store, put(n.to_be_bytes(), format!("value {n}")));
        assert_eq!(store.get(&n.to_be_bytes()).unwrap().unwrap(), format!("value {n}").into_bytes());
    }
    assert_eq!(store.get(b"unknown").unwrap(), None);
}

pub fn a_later_change_wins(harness: &mut impl Harness) {
    let store = harness.open();
    for n in 0..200 {
        store.commit(put("a", format!("{n}"))).unwrap();
    }
    wait_for(&store, store.handed_in());
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"199");
}

pub fn a_later_change_in_one_batch_wins(harness: &mut impl Harness) {
    let store = harness.open();
    let mut batch = put("a", "1");
    batch.put(b"a", b"2");
    batch.put(b"b", b"1");
    batch.delete(b"b");
    batch.delete(b"c");
    batch.put(b"c", b"1");
    commit_durably(&store, batch);
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"2");
    assert_eq!(keys(&store, "", "z", 9), ["a", "c"]);
}

pub fn a_delete_hides_what_was_there(harness: &mut impl Harness) {
    let store = harness.open();
    commit_durably(&store, put("a", "1"));
    commit_durably(&store, put("b", "1"));
    let store = harness.reopen(store);
    commit_durably(&store, delete("a"));
    assert_eq!(store.get(b"a").unwrap(), None);
    assert_eq!(keys(&store, "", "z", 9), ["b"]);
    let store = harness.reopen(store);
    assert_eq!(store.get(b"a").unwrap(), None);
    assert_eq!(keys(&store, "", "z", 9), ["b"]);
}

pub fn an_empty_batch_has_its_place(harness: &mut impl Harness) {
    let store = harness.open();
    assert_eq!(commit_durably(&store, Batch::default()), Sequence(1));
    assert_eq!(commit_durably(&store, put("a", "1")), Sequence(2));
    let store = harness.reopen(store);
    assert_eq!(commit_durably(&store, Batch::default()), Sequence(3));
}

pub fn keys_and_values_are_any_bytes(harness: &mut impl Harness) {
    let store = harness.open();
    let odd: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\xff", b"\xff\xff\xff", b"a\0b"];
    for key in odd {
        commit_durably(&store, put(key, vec![0; 1000]));
        commit_durably(&store, put(key, [key, b"\0"].concat()));
    }
    commit_durably(&store, put("empty", ""));
    let store = harness.reopen(store);
    for key in odd {
        assert_eq!(store.get(key).unwrap().unwrap(), [key, b"\0"].concat());
    }
    assert_eq!(store.get(b"empty").unwrap().unwrap(), b"");
    assert_eq!(store.scan(b"", &end_of_prefix(b""), 99).unwrap().len(), odd.len() + 1);
}

pub fn a_scan_is_ordered_bounded_and_half_open(harness: &mut impl Harness) {
    let mut store = harness.open();
    for key in ["d", "b", "a", "c", "ba"] {
        commit_durably(&store, put(key, "1"));
    }
    for _ in 0..2 {
        assert_eq!(keys(&store, "", "z", 99), ["a", "b", "ba", "c", "d"]);
        assert_eq!(keys(&store, "b", "d", 99), ["b", "ba", "c"]);
        assert_eq!(keys(&store, "b", "d", 2), ["b", "ba"]);
        assert_eq!(keys(&store, "aa", "b", 99), Vec::<String>::new());
        assert_eq!(keys(&store, "b", "b", 99), Vec::<String>::new());
        assert_eq!(keys(&store, "d", "a", 99), Vec::<String>::new());
        assert_eq!(keys(&store, "a", "z", 0), Vec::<String>::new());
        store = harness.reopen(store);
    }
}

pub fn a_scan_by_prefix_finds_just_the_prefix(harness: &mut impl Harness) {
    let store = harness.open();
    for key in [&b"e/1"[..], b"e/2", b"e0", b"e", b"\xff\xff", b"\xff\xff\x01", b"\xfe\xff"] {
        commit_durably(&store, put(key, "1"));
    }
    let found = |prefix: &[u8]| store.scan(prefix, &end_of_prefix(prefix), 99).unwrap().len();
    assert_eq!((found(b"e/"), found(b"e"), found(b"\xff\xff"), found(b"\xfe\xff")), (2, 4, 2, 1));
}

pub fn a_batch_over_the_limit_is_refused_and_nothing_is_handed_in(harness: &mut impl Harness) {
    let store = harness.open();
    let refused = store.commit(put("a", vec![1; 2000 * 1024])).unwrap_err();
    assert!(matches!(refused, StoreError::BatchTooLarge { bytes, limit } if bytes > limit), "{refused}");
    assert_eq!(store.handed_in(), Sequence(0));
    let large = vec![7; 1900 * 1024];
    assert_eq!(commit_durably(&store, put("a", &large)), Sequence(1));
    let store = harness.reopen(store);
    assert_eq!(store.get(b"a").unwrap().unwrap(), large);
}

pub fn reopening_keeps_everything_and_the_order(harness: &mut impl Harness) {
    let mut store = harness.open();
    for round in 0..4u64 {
        for n in 0..50u64 {
            assert_eq!(store.commit(put(n.to_be_bytes(), round.to_be_bytes())).unwrap(), Sequence(round * 50 + n + 1));
        }
        wait_for(&store, store.handed_in());
        store = harness.reopen(store);
        assert_eq!(*store.durable().borrow(), Sequence((round + 1) * 50));
        assert_eq!(store.handed_in(), Sequence((round + 1) * 50));
        let pairs = store.scan(b"", &end_of_prefix(b""), 99).unwrap();
        assert_eq!(pairs.len(), 50);
        assert!(pairs.iter().all(|(_, value)| *value == round.to_be_bytes()));
    }
}

pub fn a_crash_keeps_what_was_durable(harness: &mut impl Harness) {
    let mut store = harness.open();
    for round in 0..4u64 {
        for n in 0..50u64 {
            store.commit(put((round * 50 + n).to_be_bytes(), n.to_be_bytes())).unwrap();
        }
        let durable = store.handed_in();
        wait_for(&store, durable);
        store = harness.crash(store);
        assert_eq!(*store.durable().borrow(), durable);
        assert_eq!(store.scan(b"", &end_of_prefix(b""), 999).unwrap().len() as u64, (round + 1) * 50);
    }
}

pub fn a_scan_never_shows_half_a_batch(harness: &mut impl Harness) {
    let store = harness.open();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..300u32 {
                let mut batch = put("a", n.to_be_bytes());
                batch.put(b"b", n.to_be_bytes());
                batch.put(format!("c{n:04}").into_bytes(), n.to_be_bytes());
                commit_durably(&store, batch);
            }
        });
        while *store.durable().borrow() < Sequence(300) {
            let pairs = store.scan(b"a", b"z", 1000).unwrap();
            let Some((_, at_a)) = pairs.first() else { continue };
            assert_eq!(*at_a, pairs[1].1);
            assert_eq!(*at_a, pairs.last().unwrap().1);
            assert_eq!(pairs.len() as u32, u32::from_be_bytes(at_a.as_slice().try_into().unwrap()) + 3);
        }
    });
}

pub fn a_long_history_reads_as_its_last_state(harness: &mut impl Harness) {
    let mut store = harness.open();
    let mut model = std::collections::BTreeMap::new();
    let mut random = super::log::Random::new(7);
    for round in 0..6 {
        for n in 0..400u64 {
            let key = random.below(120).to_be_bytes().to_vec();
            let value = vec![n as u8; random.below(300) as usize];
            let mut batch = Batch::default();
            if random.below(4) == 0 {
                batch.delete(key.clone());
                model.remove(&key);
            } else {
                batch.put(key.clone(), value.clone());
                model.insert(key, value);
            }
            store.commit(batch).unwrap();
        }
        wait_for(&store, store.handed_in());
        store = if round % 2 == 0 { harness.crash(store) } else { harness.reopen(store) };
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(store.scan(b"", &end_of_prefix(b""), usize::MAX).unwrap(), expected);
        let middle = 60u64.to_be_bytes();
        let after: Vec<_> = model.range(middle.to_vec()..).take(7).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(store.scan(&middle, &end_of_prefix(b""), 7).unwrap(), after);
    }
}

pub fn a_journal_goes_on_where_it_ended(harness: &mut impl Harness) {
    const ENTRIES: u64 = 3 * PAGE_ENTRIES + 5;
    let mut store = harness.open();
    for number in 0..ENTRIES {
        let mut batch = put("a", "1");
        batch.append("acme", number.to_be_bytes());
        commit_durably(&store, batch);
        store = match number % 40 {
            11 => harness.reopen(store),
            29 => harness.crash(store),
            _ => store,
        };
    }
    let head = Head::decode(&store.get(&journal::head_key("acme")).unwrap().unwrap()).unwrap();
    let pages = journal::pages_of("acme");
    let pages = store.scan(&pages, &end_of_prefix(&pages), 10).unwrap();
    let pages = pages.iter().rev().map(|(_, page)| Page::decode(page).unwrap());
    let entries: Vec<_> = pages.flat_map(|page| page.entries).collect();
    assert_eq!((head.next, entries.len() as u64), (ENTRIES, ENTRIES));
    let mut before = journal::origin("acme");
    for (number, entry) in (0..).zip(entries) {
        before = journal::chained(&before, number, &entry.body);
        assert_eq!((entry.body, entry.hash), (u64::to_be_bytes(number).to_vec(), before));
    }
    assert_eq!(head.hash, before);
}
