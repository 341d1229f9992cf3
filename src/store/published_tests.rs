//! Tests on a store that can hold and refuse batches and falsely report durability.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::watch;

use super::{Batch, Committer, MemoryStore, Ordered, Pair, Published, RecordChange, Sequence, Store, StoreError};

type Names = Published<&'static str, u8, String>;

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Store(String),
    Taken,
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Store(error.to_string())
    }
}

#[tokio::test]
async fn no_reader_sees_what_a_crash_would_lose() {
    let store = Arc::new(MemoryStore::new());
    shows_only_what_is_durable(store.clone(), &store).unwrap();
}

/// Shows that the check above detects publishing before the log is durable.
#[tokio::test]
async fn publishing_too_early_is_found() {
    let store = Arc::new(MemoryStore::new());
    let seen = shows_only_what_is_durable(Arc::new(Boastful(store.clone())), &store);
    assert_eq!(seen, Err("shown before it is durable".to_owned()));
}

fn shows_only_what_is_durable(store: Arc<dyn Store>, disk: &MemoryStore) -> Result<(), String> {
    let names = empty(store);
    disk.hold();
    for name in ["one", "two", "three"] {
        let mut setting = pin!(set(&names, 1, name));
        let answered = setting.as_mut().now_or_never().is_some();
        let durable = disk.get(b"1").unwrap();
        if shown(&names, 1).map(String::into_bytes) != durable {
            return Err("shown before it is durable".to_owned());
        }
        if answered {
            return Err("answered before it is durable".to_owned());
        }
        disk.release_one();
        if shown(&names, 1).as_deref() != Some(name) {
            return Err("not shown although it is durable".to_owned());
        }
    }
    disk.release();
    Ok(())
}

#[tokio::test]
async fn changes_are_published_in_the_order_of_the_store_whoever_is_answered_first() {
    let (store, names) = open();
    store.hold();
    let mut first = pin!(set(&names, 1, "first"));
    let mut second = pin!(set(&names, 1, "second"));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    store.release_one();
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(shown(&names, 1).unwrap(), "first", "the first is durable, the second is not");
    store.release();
    second.await.unwrap();
    first.await.unwrap();
    assert_eq!(shown(&names, 1).unwrap(), "second", "the last to be answered does not win");
}

#[tokio::test]
async fn a_change_whose_caller_went_away_is_published_when_it_is_durable() {
    let (store, names) = open();
    store.hold();
    assert!(set(&names, 1, "one").now_or_never().is_none());
    assert_eq!(shown(&names, 1), None);
    store.release();
    assert_eq!(shown(&names, 1).unwrap(), "one");
}

#[tokio::test]
async fn a_writer_decides_on_changes_that_are_not_durable() {
    let (store, names) = open();
    store.hold();
    assert!(set(&names, 1, "one").now_or_never().is_none());
    assert_eq!(names.with_newest(|newest| newest.get(&"group", &1).unwrap().to_string()), "one");
    let mut refused = pin!(set_new(&names, 1, "two"));
    assert!(refused.as_mut().now_or_never().is_none(), "that the key is taken may still be lost");
    store.release();
    assert_eq!(refused.await, Err(Refusal::Taken));
}

#[tokio::test]
async fn a_batch_that_the_store_refuses_changes_nothing_and_is_reported_at_once() {
    let (store, names) = open();
    set(&names, 1, "one").await.unwrap();
    store.hold();
    assert!(set(&names, 2, "two").now_or_never().is_none());
    store.refuse_with(Some(StoreError::Overloaded));
    let refused = set(&names, 1, "three").now_or_never().unwrap();
    assert!(matches!(refused, Err(Refusal::Store(_))));
    assert!(matches!(set(&names, 3, "three").now_or_never(), Some(Err(Refusal::Store(_)))));
    store.refuse_with(None);
    store.release();
    let newest = |key| names.with_newest(|newest| newest.get(&"group", &key).map(|name| name.to_string()));
    for (key, expected) in [(1, Some("one")), (2, Some("two")), (3, None)] {
        assert_eq!((newest(key).as_deref(), shown(&names, key).as_deref()), (expected, expected), "{key}");
    }
}

#[tokio::test]
async fn a_batch_that_changes_no_record_is_committed_too() {
    let (store, names) = open();
    let kept = names.change(|_, batch| {
        batch.put(b"answer", Vec::new());
        Ok::<_, Refusal>((None, ()))
    });
    kept.await.unwrap();
    assert!(store.get(b"answer").unwrap().is_some());
    names.change(|_, _| Ok::<_, Refusal>((None, ()))).await.unwrap();
    assert_eq!(store.handed_in(), Sequence(1), "an empty batch is not");
}

#[tokio::test]
async fn a_decision_without_a_wait_is_published_by_settling() {
    let (store, names) = open();
    store.hold();
    decide(&names, 1, "one").unwrap();
    let mut settling = pin!(names.settle());
    assert!(settling.as_mut().now_or_never().is_none() && shown(&names, 1).is_none());
    store.release();
    settling.await;
    assert_eq!(shown(&names, 1).unwrap(), "one");
}

#[tokio::test]
async fn a_deleted_record_is_gone_once_that_is_durable_and_groups_are_apart() {
    let (store, names) = open();
    set(&names, 1, "one").await.unwrap();
    set(&names, 2, "two").await.unwrap();
    store.hold();
    let mut deleting = pin!(names.change(|_, batch| {
        batch.delete(vec![b'1']);
        Ok::<_, Refusal>((Some(RecordChange { group: "group", key: 1, value: None }), ()))
    }));
    assert!(deleting.as_mut().now_or_never().is_none());
    assert_eq!(names.read().of(&"group").count(), 2);
    store.release();
    deleting.await.unwrap();
    assert_eq!(names.read().of(&"group").map(|name| name.as_str()).collect::<Vec<_>>(), ["two"]);
    assert_eq!(names.read().of(&"another").count(), 0);
}

#[tokio::test]
async fn revisions_rise_whatever_the_clock_says() {
    let store = Arc::new(MemoryStore::new());
    let mut batch = Batch::default();
    batch.put(b"1", b"one");
    store.commit(batch).unwrap();
    let one = RecordChange { group: "group", key: 1, value: Some(Arc::new("one".to_owned())) };
    let names = Names::load(store, b"1", |_| Ok((one.clone(), 7))).unwrap();
    let mut given = Vec::new();
    for millis in [5, 5, 1_000, 1_000, 900, -1, i64::MIN] {
        let revision = names.change(|newest, _| Ok::<_, Refusal>((None, newest.next_revision(millis))));
        given.push(revision.await.unwrap());
    }
    assert_eq!(given, [8, 9, 1_000, 1_001, 1_002, 1_003, 1_004]);
}

#[tokio::test]
async fn an_ordered_state_waits_for_its_last_change_and_an_error_of_the_store_does_not() {
    let store = Arc::new(MemoryStore::new());
    let count = Ordered::new(store.clone(), 0);
    let add = |count: &mut i32, committer: &mut Committer<'_>| {
        let mut batch = Batch::default();
        batch.put(b"count", Vec::new());
        committer.commit(batch)?;
        *count += 1;
        Ok::<_, Refusal>(*count)
    };
    assert_eq!(count.change(add).await, Ok(1));
    store.hold();
    assert!(count.change(add).now_or_never().is_none(), "its caller goes away");
    let mut refused = pin!(count.change(|_, _| Err::<(), _>(Refusal::Taken)));
    assert!(refused.as_mut().now_or_never().is_none());
    let (read, sequence) = count.decide(|count, _| *count);
    assert_eq!((read, sequence), (2, Sequence(2)), "the caller that went away has changed it");
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(count.change(add).now_or_never(), Some(Err(Refusal::Store(_)))));
    assert_eq!(count.with_newest(|count| *count), 2);
    store.release();
    assert_eq!(refused.await, Err(Refusal::Taken));
}

fn open() -> (Arc<MemoryStore>, Names) {
    let store = Arc::new(MemoryStore::new());
    (store.clone(), empty(store))
}

fn empty(store: Arc<dyn Store>) -> Names {
    Names::load(store, b"no such prefix", |_| unreachable!()).unwrap()
}

fn shown(names: &Names, key: u8) -> Option<String> {
    names.read().get(&"group", &key).map(|name| name.to_string())
}

async fn set(names: &Names, key: u8, name: &str) -> Result<(), Refusal> {
    names.change(|_, batch| Ok((Some(put(batch, key, name)), ()))).await
}

async fn set_new(names: &Names, key: u8, name: &str) -> Result<(), Refusal> {
    let set = names.change(|newest, batch| match newest.get(&"group", &key) {
        Some(_) => Err(Refusal::Taken),
        None => Ok((Some(put(batch, key, name)), ())),
    });
    set.await
}

fn decide(names: &Names, key: u8, name: &str) -> Result<(), Refusal> {
    names.decide(|_, batch| Ok((Some(put(batch, key, name)), ())))
}

fn put(batch: &mut Batch, key: u8, name: &str) -> RecordChange<&'static str, u8, String> {
    batch.put(vec![b'0' + key], name.as_bytes());
    RecordChange { group: "group", key, value: Some(Arc::new(name.to_owned())) }
}

/// Reports every batch as durable as soon as it is committed.
struct Boastful(Arc<MemoryStore>);

impl Store for Boastful {
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError> {
        self.0.commit(batch)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        watch::Sender::new(self.handed_in()).subscribe()
    }

    fn handed_in(&self) -> Sequence {
        self.0.handed_in()
    }

    fn applied(&self) -> Sequence {
        self.0.applied()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.0.scan(from, to, limit)
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        self.0.refusing_writes()
    }
}
