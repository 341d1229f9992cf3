//! The order in which the deliveries of one webhook are sent. The store has the deliveries themselves.

use std::collections::{BTreeSet, VecDeque};

use super::delivery::{Delivery, DeliveryStatus};
use domain::{DeliveryId, IdSeed, Timestamp};

/// Ended deliveries that are kept for inspection.
pub const FINISHED_KEPT: usize = 1_000;
/// Concurrent deliveries to a receiver that works.
const CONCURRENT: usize = 4;
/// To a receiver that fails, which would only take up places that others could use.
const CONCURRENT_WHILE_FAILING: usize = 1;

#[derive(Debug, Default)]
pub struct DeliveryQueue {
    /// Not attempted yet, in the order of their events, each with its time of creation.
    fresh: VecDeque<(Timestamp, DeliveryId)>,
    /// By the time they are due.
    retries: BTreeSet<(Timestamp, DeliveryId)>,
    /// Being sent or changed.
    taken: BTreeSet<DeliveryId>,
    finished: BTreeSet<DeliveryId>,
}

impl DeliveryQueue {
    /// From the stored deliveries.
    pub fn load(mut deliveries: Vec<Delivery>) -> Self {
        deliveries.sort_unstable_by_key(|delivery| delivery.event.number);
        let mut queue = Self::default();
        for delivery in &deliveries {
            queue.put(delivery);
        }
        queue
    }

    /// Enqueues a delivery by its status.
    pub fn put(&mut self, delivery: &Delivery) {
        match (delivery.status, delivery.next_attempt_at) {
            (DeliveryStatus::Pending, None) => self.fresh.push_back((delivery.created_at, delivery.id)),
            (DeliveryStatus::Pending, Some(due)) => _ = self.retries.insert((due, delivery.id)),
            (DeliveryStatus::Delivered | DeliveryStatus::Failed, _) => _ = self.finished.insert(delivery.id),
        }
    }

    /// Takes the next due delivery; nobody else takes it until it is given back.
    pub fn take_due(&mut self, now: Timestamp, failing: bool) -> Option<DeliveryId> {
        let bound = if failing { CONCURRENT_WHILE_FAILING } else { CONCURRENT };
        if self.taken.len() >= bound {
            return None;
        }
        let retry = self.retries.first().filter(|(due, _)| *due <= now);
        // The one that has waited longer, so that neither kind starves the other.
        let id = match (self.fresh.front(), retry) {
            (Some(fresh), Some(retry)) if retry < fresh => self.retries.pop_first()?.1,
            (Some(_), _) => self.fresh.pop_front()?.1,
            (None, Some(_)) => self.retries.pop_first()?.1,
            (None, None) => return None,
        };
        self.taken.insert(id);
        Some(id)
    }

    /// Makes retries due now that are due later than any wait can lead to: the clock has been set back since, and how much
    /// of their wait is over is unknown.
    pub fn bring_forward(&mut self, now: Timestamp, latest: Timestamp) {
        for (_, id) in self.retries.split_off(&(latest, DeliveryId(IdSeed([u8::MAX; 12])))) {
            self.retries.insert((now, id));
        }
    }

    /// Takes this delivery out of turn; false if it is taken already.
    pub fn take(&mut self, id: DeliveryId) -> bool {
        let is_free = self.taken.insert(id);
        if is_free {
            self.fresh.retain(|(_, known)| *known != id);
            self.retries.retain(|(_, known)| *known != id);
        }
        is_free
    }

    /// Puts a taken delivery back, by its new status.
    pub fn give_back(&mut self, delivery: &Delivery) {
        self.taken.remove(&delivery.id);
        self.finished.remove(&delivery.id);
        self.put(delivery);
    }

    /// Puts a taken delivery back unchanged, due at this time.
    pub fn postpone(&mut self, id: DeliveryId, until: Timestamp) {
        self.taken.remove(&id);
        if !self.finished.contains(&id) {
            self.retries.insert((until, id));
        }
    }

    /// Puts back a delivery that was taken out of turn; `due` is none if it no longer exists.
    pub fn release(&mut self, id: DeliveryId, due: Option<Timestamp>) {
        match due {
            Some(due) => self.postpone(id, due),
            None => _ = self.taken.remove(&id),
        }
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.retries.first().map(|(due, _)| *due)
    }

    /// The oldest ended deliveries, as many as have to go when another one ends.
    pub fn surplus(&self) -> Vec<DeliveryId> {
        let surplus = (self.finished.len() + 1).saturating_sub(FINISHED_KEPT);
        self.finished.iter().take(surplus).copied().collect()
    }

    pub fn forget(&mut self, finished: &[DeliveryId]) {
        for id in finished {
            self.finished.remove(id);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = DeliveryId> {
        let fresh = self.fresh.iter().map(|(_, id)| *id);
        let retries = self.retries.iter().map(|(_, id)| *id);
        let all: BTreeSet<DeliveryId> = fresh.chain(retries).chain(self.taken.iter().copied()).collect();
        all.into_iter().chain(self.finished.iter().copied())
    }
}
