//! Records kept in memory in two states: the durable state, which readers see, and the state including all committed
//! batches, on which writers decide.
//!
//! A change is published once it is durable, in the order of the store, by whichever thread comes first: its writer,
//! another writer or a reader. So nobody sees a change that could still be lost, two writers cannot publish out of
//! order, and a change whose caller was cancelled is still published.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard};

use super::batch::{Batch, Sequence};
use super::contract::{Store, StoreError, for_each};
use super::ordered::{Committer, Ordered};

/// Records `V` under keys `K`, in groups `G`, such as the pipelines of each organization.
pub struct Published<G, K, V> {
    newest: Ordered<Newest<G, K, V>>,
    published: RwLock<Records<G, K, V>>,
    /// Number of unpublished changes, so that a reader takes the writers' lock only if there are any.
    unpublished: AtomicUsize,
}

#[derive(Clone)]
pub struct Records<G, K, V> {
    groups: HashMap<G, BTreeMap<K, Arc<V>>, RandomState>,
}

/// The state that a writer decides on: the newest records, durable or not.
pub struct Newest<G, K, V> {
    records: Records<G, K, V>,
    /// One rising sequence for all records, so that a recreated record never repeats an old revision of its key.
    last_revision: u64,
    /// Changes that are not published yet, in the order of the store.
    unpublished: VecDeque<(Sequence, RecordChange<G, K, V>)>,
}

/// A record with its new value; `None` deletes it.
#[derive(Clone)]
pub struct RecordChange<G, K, V> {
    pub group: G,
    pub key: K,
    pub value: Option<Arc<V>>,
}

impl<G: Hash + Eq + Clone, K: Ord + Clone, V: Clone> Published<G, K, V> {
    /// Loads the records of a prefix; `read` returns each with its revision.
    pub fn load(
        store: Arc<dyn Store>,
        prefix: &[u8],
        read: impl Fn(&[u8]) -> Result<(RecordChange<G, K, V>, u64), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut records = Records { groups: HashMap::default() };
        let mut last_revision = 0;
        for_each(&*store, prefix, |_, bytes| {
            let (record, revision) = read(bytes)?;
            last_revision = last_revision.max(revision);
            records.set(record);
            Ok(())
        })?;
        let published = RwLock::new(records.clone());
        let newest = Newest { records, last_revision, unpublished: VecDeque::new() };
        Ok(Self { newest: Ordered::new(store, newest), published, unpublished: AtomicUsize::new(0) })
    }

    pub fn store(&self) -> &dyn Store {
        self.newest.store()
    }

    /// The durable records.
    pub fn read(&self) -> RwLockReadGuard<'_, Records<G, K, V>> {
        if self.unpublished.load(Ordering::Acquire) > 0 {
            self.publish_durable();
        }
        self.published.read()
    }

    /// Reads the newest records, durable or not, to base another decision on them.
    pub fn with_newest<T>(&self, look: impl FnOnce(&Records<G, K, V>) -> T) -> T {
        self.newest.with_newest(|newest| look(&newest.records))
    }

    /// `decide` fills the batch and returns the changed record, if any. A batch that the store refuses changes nothing.
    /// Returns when the change is durable and published; a refusal waits too, as with [`Ordered::change`].
    pub async fn change<T, E: From<StoreError>>(
        &self,
        decide: impl FnOnce(&mut Newest<G, K, V>, &mut Batch) -> Result<(Option<RecordChange<G, K, V>>, T), E>,
    ) -> Result<T, E> {
        let outcome = self.newest.change(|newest, committer| self.hand_in(newest, committer, decide)).await;
        self.publish_durable();
        outcome
    }

    /// Like `change` without the wait; [`Published::settle`] waits and publishes.
    pub fn decide<T, E: From<StoreError>>(
        &self,
        decide: impl FnOnce(&mut Newest<G, K, V>, &mut Batch) -> Result<(Option<RecordChange<G, K, V>>, T), E>,
    ) -> Result<T, E> {
        self.newest.decide(|newest, committer| self.hand_in(newest, committer, decide)).0
    }

    /// Waits until everything committed so far, by any caller, is durable, and publishes it.
    pub async fn settle(&self) {
        self.newest.durable(self.store().handed_in()).await;
        self.publish_durable();
    }

    fn hand_in<T, E: From<StoreError>>(
        &self,
        newest: &mut Newest<G, K, V>,
        committer: &mut Committer<'_>,
        decide: impl FnOnce(&mut Newest<G, K, V>, &mut Batch) -> Result<(Option<RecordChange<G, K, V>>, T), E>,
    ) -> Result<T, E> {
        let mut batch = Batch::default();
        let (change, reply) = decide(newest, &mut batch)?;
        if batch.is_empty() && change.is_none() {
            return Ok(reply);
        }
        let sequence = committer.commit(batch)?;
        if let Some(change) = change {
            newest.records.set(change.clone());
            newest.unpublished.push_back((sequence, change));
            self.unpublished.store(newest.unpublished.len(), Ordering::Release);
        }
        Ok(reply)
    }

    fn publish_durable(&self) {
        self.newest.with_newest(|newest| {
            let durable = *self.store().durable().borrow();
            let mut published = self.published.write();
            while let Some((_, change)) = newest.unpublished.pop_front_if(|(sequence, _)| *sequence <= durable) {
                published.set(change);
            }
            self.unpublished.store(newest.unpublished.len(), Ordering::Release);
        });
    }
}

impl<G, K, V> Newest<G, K, V> {
    /// Higher than the revisions of records deleted before a restart too, unless the clock was set back.
    pub fn next_revision(&mut self, now_millis: i64) -> u64 {
        self.last_revision = (self.last_revision + 1).max(u64::try_from(now_millis).unwrap_or(0));
        self.last_revision
    }
}

impl<G, K, V> Deref for Newest<G, K, V> {
    type Target = Records<G, K, V>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl<G: Hash + Eq, K: Ord, V> Records<G, K, V> {
    pub fn get<Q: Ord + ?Sized>(&self, group: &G, key: &Q) -> Option<&Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.groups.get(group)?.get(key)
    }

    /// The records of a group, by key.
    pub fn of(&self, group: &G) -> impl Iterator<Item = &Arc<V>> + Clone {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    pub fn set(&mut self, RecordChange { group, key, value }: RecordChange<G, K, V>) {
        let group = self.groups.entry(group).or_default();
        match value {
            Some(value) => _ = group.insert(key, value),
            None => _ = group.remove(&key),
        }
    }
}
