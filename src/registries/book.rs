//! All registries in memory, twice: as they durably are, which readers see, and as they will be when everything handed in
//! is durable, which writers decide on.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use super::registry::Registry;
use super::stored;
use crate::domain::{Identifier, RegistryId, Timestamp};
use crate::store::{Batch, Sequence, Store, StoreError, end_of_prefix};

pub(super) struct Book {
    store: Arc<dyn Store>,
    published: RwLock<Known>,
    /// How many changes are handed in and not published, so that a reader need not look for them where there are none.
    unpublished: AtomicUsize,
    /// Held while both the store and this take a change, so that they agree on the order; never while waiting for the disk.
    changing: Mutex<Changing>,
}

struct Changing {
    newest: Known,
    /// In the order of the store.
    unpublished: VecDeque<Unpublished>,
}

struct Unpublished {
    sequence: Sequence,
    organization: Identifier,
    id: RegistryId,
    /// None if it was deleted.
    registry: Option<Arc<Registry>>,
}

#[derive(Clone, Default)]
pub(super) struct Known {
    by_organization: HashMap<Identifier, BTreeMap<RegistryId, Arc<Registry>>>,
    last_revision: u64,
}

/// What a decision makes of a registry.
pub(super) enum Becomes {
    Unchanged,
    Changed(Arc<Registry>),
    Deleted,
}

impl Book {
    pub fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut known = Known::default();
        for (_, record) in store.scan(stored::REGISTRIES, &end_of_prefix(stored::REGISTRIES), usize::MAX)? {
            let registry = stored::decode(&record).map_err(|unreadable| StoreError::Read(unreadable.to_string()))?;
            known.last_revision = known.last_revision.max(registry.revision);
            known.set(&registry.organization.clone(), registry.id, Some(Arc::new(registry)));
        }
        let changing = Changing { newest: known.clone(), unpublished: VecDeque::new() };
        let (published, changing) = (RwLock::new(known), Mutex::new(changing));
        Ok(Self { store, published, unpublished: AtomicUsize::new(0), changing })
    }

    /// A change whose caller went away before it was durable is published by the next reader.
    pub fn published(&self) -> RwLockReadGuard<'_, Known> {
        if self.unpublished.load(Ordering::Acquire) > 0 {
            self.publish_durable();
        }
        self.published.read()
    }

    pub fn newest(&self) -> MappedMutexGuard<'_, Known> {
        MutexGuard::map(self.changing.lock(), |changing| &mut changing.newest)
    }

    /// Hands in what `decide` makes of it, with what that adds to the batch. Nothing has changed if the store refuses.
    pub fn change<T, E: From<StoreError>>(
        &self,
        organization: &Identifier,
        id: RegistryId,
        decide: impl FnOnce(&mut Known, &mut Batch) -> Result<(Becomes, T), E>,
    ) -> Result<T, E> {
        let mut changing = self.changing.lock();
        let mut batch = Batch::default();
        let (becomes, reply) = decide(&mut changing.newest, &mut batch)?;
        let registry = match becomes {
            Becomes::Unchanged => return Ok(reply),
            Becomes::Changed(registry) => {
                batch.put(stored::key(organization, id), stored::encode(&registry));
                Some(registry)
            }
            Becomes::Deleted => {
                batch.delete(stored::key(organization, id));
                None
            }
        };
        let sequence = self.store.commit(batch)?;
        changing.newest.set(organization, id, registry.clone());
        changing.unpublished.push_back(Unpublished { sequence, organization: organization.clone(), id, registry });
        self.unpublished.store(changing.unpublished.len(), Ordering::Release);
        Ok(reply)
    }

    /// In the order of the store, whoever comes first.
    pub fn publish_durable(&self) {
        let mut changing = self.changing.lock();
        let durable = *self.store.durable().borrow();
        let mut published = self.published.write();
        while let Some(change) = changing.unpublished.pop_front_if(|change| change.sequence <= durable) {
            published.set(&change.organization, change.id, change.registry);
        }
        self.unpublished.store(changing.unpublished.len(), Ordering::Release);
    }
}

impl Known {
    pub fn get(&self, organization: &Identifier, id: RegistryId) -> Option<&Arc<Registry>> {
        self.by_organization.get(organization)?.get(&id)
    }

    pub fn of(&self, organization: &Identifier) -> impl Iterator<Item = &Arc<Registry>> {
        self.by_organization.get(organization).into_iter().flat_map(BTreeMap::values)
    }

    /// Beyond those of registries that were deleted before a restart, too, unless the clock was set back.
    pub fn next_revision(&mut self, now: Timestamp) -> u64 {
        self.last_revision = (self.last_revision + 1).max(u64::try_from(now.as_millis()).unwrap_or(0));
        self.last_revision
    }

    fn set(&mut self, organization: &Identifier, id: RegistryId, registry: Option<Arc<Registry>>) {
        let registries = self.by_organization.entry(organization.clone()).or_default();
        match registry {
            Some(registry) => _ = registries.insert(id, registry),
            None => _ = registries.remove(&id),
        }
    }
}
