//! The deliveries of one webhook, in memory: whose turn it is. The store has the deliveries themselves.

use std::collections::{BTreeSet, VecDeque};

use super::delivery::{Delivery, DeliveryStatus};
use crate::domain::{DeliveryId, IdSeed, Timestamp};

/// What is kept of deliveries that have ended, for those who look into why.
pub const FINISHED_KEPT: usize = 1_000;
/// To a receiver that works.
const AT_ONCE: usize = 4;
/// To one that does not: it would only keep what others could use.
const AT_ONCE_WHILE_FAILING: usize = 1;

#[derive(Debug, Default)]
pub struct Line {
    /// Not tried yet, in the order of their events, each with when it was made.
    fresh: VecDeque<(Timestamp, DeliveryId)>,
    /// By when they are due.
    retries: BTreeSet<(Timestamp, DeliveryId)>,
    /// Being sent, or otherwise worked on.
    taken: BTreeSet<DeliveryId>,
    finished: BTreeSet<DeliveryId>,
}

impl Line {
    /// As the store has it.
    pub fn load(mut deliveries: Vec<Delivery>) -> Self {
        deliveries.sort_unstable_by_key(|delivery| delivery.event.number);
        let mut line = Self::default();
        for delivery in &deliveries {
            line.put(delivery);
        }
        line
    }

    /// Where it belongs by how it stands.
    pub fn put(&mut self, delivery: &Delivery) {
        match (delivery.status, delivery.next_attempt_at) {
            (DeliveryStatus::Pending, None) => self.fresh.push_back((delivery.created_at, delivery.id)),
            (DeliveryStatus::Pending, Some(due)) => _ = self.retries.insert((due, delivery.id)),
            (DeliveryStatus::Delivered | DeliveryStatus::Failed, _) => _ = self.finished.insert(delivery.id),
        }
    }

    /// The next one whose time has come, which nobody else then takes.
    pub fn take_due(&mut self, now: Timestamp, failing: bool) -> Option<DeliveryId> {
        let bound = if failing { AT_ONCE_WHILE_FAILING } else { AT_ONCE };
        if self.taken.len() >= bound {
            return None;
        }
        let retry = self.retries.first().filter(|(due, _)| *due <= now);
        // Whichever has waited longer, so that neither keeps the other from its turn.
        let id = match (self.fresh.front(), retry) {
            (Some(fresh), Some(retry)) if retry < fresh => self.retries.pop_first()?.1,
            (Some(_), _) => self.fresh.pop_front()?.1,
            (None, Some(_)) => self.retries.pop_first()?.1,
            (None, None) => return None,
        };
        self.taken.insert(id);
        Some(id)
    }

    /// Those that are due later than any wait leads to: the clock has been set back since. How much of their wait is over
    /// nobody knows, so they are due now.
    pub fn call_up(&mut self, now: Timestamp, latest: Timestamp) {
        for (_, id) in self.retries.split_off(&(latest, DeliveryId(IdSeed([u8::MAX; 12])))) {
            self.retries.insert((now, id));
        }
    }

    /// This one, out of its turn; not if somebody else has it.
    pub fn take(&mut self, id: DeliveryId) -> bool {
        let is_free = self.taken.insert(id);
        if is_free {
            self.fresh.retain(|(_, known)| *known != id);
            self.retries.retain(|(_, known)| *known != id);
        }
        is_free
    }

    /// Whoever took it is done with it.
    pub fn give_back(&mut self, delivery: &Delivery) {
        self.taken.remove(&delivery.id);
        self.finished.remove(&delivery.id);
        self.put(delivery);
    }

    /// Whoever took it could do nothing with it: again at this time.
    pub fn postpone(&mut self, id: DeliveryId, until: Timestamp) {
        self.taken.remove(&id);
        if !self.finished.contains(&id) {
            self.retries.insert((until, id));
        }
    }

    /// Whoever took it out of its turn has changed nothing: where it still exists, it is due at this time.
    pub fn release(&mut self, id: DeliveryId, due: Option<Timestamp>) {
        match due {
            Some(due) => self.postpone(id, due),
            None => _ = self.taken.remove(&id),
        }
    }

    /// When the next retry is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.retries.first().map(|(due, _)| *due)
    }

    /// Those that one more which ends leaves no room for.
    pub fn surplus(&self) -> Vec<DeliveryId> {
        let surplus = (self.finished.len() + 1).saturating_sub(FINISHED_KEPT);
        self.finished.iter().take(surplus).copied().collect()
    }

    pub fn forget(&mut self, finished: &[DeliveryId]) {
        for id in finished {
            self.finished.remove(id);
        }
    }

    /// All there are.
    pub fn all(&self) -> impl Iterator<Item = DeliveryId> {
        let fresh = self.fresh.iter().map(|(_, id)| *id);
        let retries = self.retries.iter().map(|(_, id)| *id);
        let all: BTreeSet<DeliveryId> = fresh.chain(retries).chain(self.taken.iter().copied()).collect();
        all.into_iter().chain(self.finished.iter().copied())
    }
}
