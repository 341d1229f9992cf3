//! How much space the logs of each organization take, and whether they may take more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use domain::Identifier;
use shares::{Capacity, ShareMeter, level, may_grow};

/// The sizes at the last sweep, plus the bytes written since.
pub(super) struct Space {
    bytes_max: u64,
    total: AtomicU64,
    organizations: Mutex<HashMap<Identifier, Arc<AtomicU64>>>,
    /// Wakes the sweep: the logs use too much space.
    too_full: Notify,
    meter: ShareMeter,
}

/// The space of one organization.
#[derive(Clone)]
pub(super) struct OwnSpace {
    space: Arc<Space>,
    organization: Identifier,
    used: Arc<AtomicU64>,
}

impl Space {
    pub fn new(bytes_max: u64) -> Self {
        let meter = ShareMeter::new("log_bytes", Capacity::turns(bytes_max as usize).among(1));
        let (total, organizations) = (AtomicU64::new(0), Mutex::default());
        Self { bytes_max, total, organizations, too_full: Notify::new(), meter }
    }

    pub fn of(self: &Arc<Self>, organization: &Identifier) -> OwnSpace {
        let mut organizations = self.organizations.lock();
        let used = organizations.entry(organization.clone()).or_default().clone();
        OwnSpace { space: self.clone(), organization: organization.clone(), used }
    }

    /// The limit for each of these sizes, if others have taken `taken` bytes.
    pub fn level(&self, taken: u64, sizes: Vec<u64>) -> u64 {
        level(self.bytes_max.saturating_sub(taken), sizes)
    }

    /// Replaces the sizes by those of the logs that remain after a sweep.
    pub fn swept(&self, sizes: &HashMap<Identifier, u64>, of_others: u64) {
        let mut organizations = self.organizations.lock();
        organizations.retain(|organization, used| sizes.contains_key(organization) || Arc::strong_count(used) > 1);
        for (organization, used) in organizations.iter() {
            used.store(sizes.get(organization).copied().unwrap_or_default(), Ordering::Relaxed);
        }
        sizes.iter().for_each(|(organization, bytes)| self.meter.used(organization, *bytes as usize));
        for (organization, bytes) in sizes {
            organizations.entry(organization.clone()).or_insert_with(|| Arc::new(AtomicU64::new(*bytes)));
        }
        self.total.store(sizes.values().sum::<u64>() + of_others, Ordering::Relaxed);
    }

    pub async fn too_full(&self) {
        self.too_full.notified().await;
    }
}

impl OwnSpace {
    pub fn has_room(&self) -> bool {
        let space = &self.space;
        let total = space.total.load(Ordering::Relaxed);
        if total <= space.bytes_max {
            return true;
        }
        space.too_full.notify_one();
        let organizations = space.organizations.lock().len();
        may_grow(space.bytes_max, total, self.used.load(Ordering::Relaxed), organizations)
    }

    /// Called when output has been left out.
    pub fn refused(&self) {
        self.space.meter.refused(&self.organization);
    }

    pub fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.space.total.fetch_add(bytes, Ordering::Relaxed);
    }
}
