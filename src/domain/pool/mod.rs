//! The waiters for any environment with certain labels, and the environments that are free for them.
//!
//! A free environment is offered to the waiters; its own decision takes one of them, in order, with [`Pool::take`]. So no
//! two environments can take the same waiter, and an offer binds nobody.

mod rules;

pub use rules::{ClaimAny, HungUp, Unserved};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Configuration, Identifier, Labels, Origin, Presence, SessionId, Ticket, Timestamp, Turn, UserId, Waiter};

/// Waiters per pipeline for any environment.
pub const POOL_LENGTH_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Pool {
    /// By the labels they want, then in order: an environment looks at the first of each set of labels that it has.
    waiting: BTreeMap<Arc<Labels>, BTreeMap<Turn, Arc<Waiter>>>,
    turns: HashMap<Ticket, (Turn, Arc<Labels>)>,
    /// How many each member has. Those without any are not in it.
    members: HashMap<UserId, usize>,
    /// Waiters that are answered as soon as no environment is on offer for them: see [`Pool::unserved`].
    undecided: BTreeSet<Ticket>,
    environments: HashMap<Identifier, Known>,
    /// Least recently used first.
    free: BTreeSet<Use>,
    /// Free as far as is known, and asked to take a waiter.
    offered: BTreeSet<Identifier>,
    free_by_label: BTreeMap<(Identifier, super::LabelValue), BTreeSet<Use>>,
}

type Use = (Option<Timestamp>, Identifier);

#[derive(Debug)]
struct Known {
    configuration: Arc<Configuration>,
    /// If it is free: when it was last used.
    free: Option<Use>,
}

/// Whether an environment can be given to a waiter.
#[derive(Debug, Clone)]
pub enum Availability {
    Free { configuration: Arc<Configuration>, last_used: Option<Timestamp> },
    Taken { configuration: Arc<Configuration> },
    Gone,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Arc<Waiter>> {
        let (turn, labels) = self.turns.get(&ticket)?;
        self.waiting.get(labels)?.get(turn)
    }

    /// The waiter under this session id.
    pub fn session(&self, id: SessionId) -> Option<&Arc<Waiter>> {
        let Origin::Queued(ticket) = id.origin else { return None };
        self.get(ticket).filter(|waiter| waiter.session.id == id)
    }

    pub fn labels(&self, ticket: Ticket) -> Option<&Arc<Labels>> {
        self.turns.get(&ticket).map(|(_, labels)| labels)
    }

    /// In no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.waiting.values().flat_map(BTreeMap::values)
    }

    /// The waiters that would take such an environment, in no particular order.
    pub fn waiting_for(&self, configuration: &Configuration) -> impl Iterator<Item = &Arc<Waiter>> {
        self.waiting.iter().filter(|(labels, _)| configuration.has_labels(labels)).flat_map(|(_, line)| line.values())
    }

    /// Among the waiters that want the same labels or fewer, from 1.
    pub fn position(&self, waiter: &Waiter) -> usize {
        let turn = waiter.turn();
        let Some(wanted) = self.labels(waiter.ticket) else { return 0 };
        let rivals = self.waiting.iter().filter(|(labels, _)| labels.iter().all(|(k, v)| wanted.get(k) == Some(v)));
        rivals.map(|(_, line)| line.range(..=turn).count()).sum()
    }

    /// Adds a waiter, or puts back one that could not be granted the lock: it has its old place.
    pub fn put_back(&mut self, waiter: Arc<Waiter>, labels: Arc<Labels>) {
        let turn = waiter.turn();
        if self.turns.insert(waiter.ticket, (turn, labels.clone())).is_none() {
            *self.members.entry(waiter.session.user.id).or_default() += 1;
        }
        self.waiting.entry(labels).or_default().insert(turn, waiter);
    }

    pub fn leave(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        self.undecided.remove(&ticket);
        let (turn, labels) = self.turns.remove(&ticket)?;
        let line = self.waiting.get_mut(&labels)?;
        let waiter = line.remove(&turn);
        if line.is_empty() {
            self.waiting.remove(&labels);
        }
        if let Some(waiter) = &waiter {
            let member = waiter.session.user.id;
            match self.of_member(member) {
                0 | 1 => _ = self.members.remove(&member),
                more => _ = self.members.insert(member, more - 1),
            }
        }
        waiter
    }

    /// How many places the member has.
    pub fn of_member(&self, member: UserId) -> usize {
        self.members.get(&member).copied().unwrap_or(0)
    }

    /// The client of a waiter is told the id of its session. Returns the waiter, if that was unknown to it before.
    pub fn make_known(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        let (turn, labels) = self.turns.get(&ticket)?;
        let waiter = self.waiting.get_mut(labels)?.get_mut(turn).filter(|waiter| !waiter.known)?;
        *waiter = waiter.made_known();
        Some(waiter.clone())
    }

    /// Takes out the first ready waiter that this environment would do for and that comes before `before`.
    #[cfg(test)]
    pub fn take(
        &mut self,
        configuration: &Configuration,
        before: Option<Turn>,
        presence: impl Fn(&Waiter) -> Presence,
    ) -> Option<Arc<Waiter>> {
        let first = self.first(configuration, before, presence)?;
        self.leave(first.ticket)
    }

    pub fn first(
        &self,
        configuration: &Configuration,
        before: Option<Turn>,
        presence: impl Fn(&Waiter) -> Presence,
    ) -> Option<Arc<Waiter>> {
        let first = self.first_for(configuration, presence)?;
        before.is_none_or(|before| first.turn() <= before).then_some(first)
    }

    /// Whether a ready waiter would take this environment.
    pub fn wants(&self, configuration: &Configuration, presence: impl Fn(&Waiter) -> Presence) -> bool {
        self.first_for(configuration, presence).is_some()
    }

    fn first_for(&self, configuration: &Configuration, presence: impl Fn(&Waiter) -> Presence) -> Option<Arc<Waiter>> {
        let lines = self.waiting.iter().filter(|(labels, _)| configuration.has_labels(labels));
        let ready = |line: &BTreeMap<Turn, Arc<Waiter>>| {
            line.values().find(|waiter| waiter.is_ready(presence(waiter))).cloned()
        };
        lines.filter_map(|(_, line)| ready(line)).min_by_key(|waiter| waiter.turn())
    }

    /// Notes whether an environment is free.
    pub fn report(&mut self, name: &Identifier, standing: Availability) {
        self.forget_free(name);
        self.offered.remove(name);
        let (configuration, free) = match standing {
            Availability::Gone => {
                self.environments.remove(name);
                return;
            }
            Availability::Taken { configuration } => (configuration, None),
            Availability::Free { configuration, last_used } => (configuration, Some((last_used, name.clone()))),
        };
        if let Some(since) = &free {
            self.free.insert(since.clone());
            for (key, value) in &configuration.labels {
                self.free_by_label.entry((key.clone(), value.clone())).or_default().insert(since.clone());
            }
        }
        self.environments.insert(name.clone(), Known { configuration, free });
    }

    /// Whether this environment has been reported.
    pub fn knows(&self, name: &Identifier) -> bool {
        self.environments.contains_key(name)
    }

    /// Whether any environment has these labels, free or not.
    pub fn has_match(&self, labels: &Labels) -> bool {
        self.waiting.contains_key(labels) || self.matching(labels).next().is_some()
    }

    /// Whether all environments with these labels are disabled.
    pub fn all_disabled(&self, labels: &Labels) -> bool {
        self.matching(labels).all(|configuration| configuration.disabled)
    }

    /// Environments with these labels that are neither free nor disabled, in no particular order.
    pub fn taken(&self, labels: &Labels) -> impl Iterator<Item = &Identifier> {
        let is_taken = |known: &Known| known.free.is_none() && !known.configuration.disabled;
        let fits = move |known: &Known| is_taken(known) && known.configuration.has_labels(labels);
        self.environments.iter().filter(move |(_, known)| fits(known)).map(|(name, _)| name)
    }

    fn matching(&self, labels: &Labels) -> impl Iterator<Item = &Configuration> {
        self.environments.values().map(|known| &*known.configuration).filter(|known| known.has_labels(labels))
    }

    /// The least recently used free environment with these labels. It counts as offered, not as free, until it is reported
    /// again.
    pub fn offer(&mut self, labels: &Labels) -> Option<Identifier> {
        // The rarest label leaves the fewest candidates.
        let narrowest = labels.iter().map(|(key, value)| self.free_by_label.get(&(key.clone(), value.clone())));
        let candidates = match narrowest.min_by_key(|set| set.map_or(0, BTreeSet::len)) {
            None => &self.free,
            Some(set) => set?,
        };
        let fits = |name: &Identifier| self.environments.get(name).is_some_and(|k| k.configuration.has_labels(labels));
        let name = candidates.iter().map(|(_, name)| name).find(|name| fits(name)).cloned()?;
        self.forget_free(&name);
        self.offered.insert(name.clone());
        Some(name)
    }

    /// Whether an environment with these labels is on offer, and not reported since.
    pub fn is_offered(&self, labels: &Labels) -> bool {
        let fits = |name: &Identifier| self.environments.get(name).is_some_and(|k| k.configuration.has_labels(labels));
        self.offered.iter().any(fits)
    }

    /// Offers for all waiters, as far as there are free environments.
    pub fn offers(&mut self, presence: impl Fn(&Waiter) -> Presence) -> Vec<Identifier> {
        if self.free.is_empty() {
            return Vec::new();
        }
        let wanted: Vec<_> = self
            .waiting
            .iter()
            .map(|(labels, line)| {
                let ready = line.values().filter(|waiter| waiter.is_ready(presence(waiter))).count();
                (labels.clone(), ready.min(self.free.len()))
            })
            .collect();
        let mut offers = Vec::new();
        for (labels, ready) in wanted {
            offers.extend(std::iter::from_fn(|| self.offer(&labels)).take(ready));
        }
        offers
    }

    fn forget_free(&mut self, name: &Identifier) {
        let Some(known) = self.environments.get_mut(name) else { return };
        let Some(since) = known.free.take() else { return };
        self.free.remove(&since);
        for (key, value) in &known.configuration.labels {
            let label = (key.clone(), value.clone());
            if let Some(set) = self.free_by_label.get_mut(&label) {
                set.remove(&since);
                if set.is_empty() {
                    self.free_by_label.remove(&label);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::samples::{at, claim, labels};

    #[test]
    fn a_place_counts_those_before_it_who_want_the_same_or_less() {
        let mut pool = Pool::default();
        let wants: [&[(&str, &str)]; 5] =
            [&[("os", "mac")], &[], &[("os", "linux"), ("size", "large")], &[("os", "linux")], &[("os", "linux")]];
        for (number, wants) in (1..).zip(wants) {
            pool.put_back(Arc::new(claim(number).into_waiter(at(0))), Arc::new(labels(wants)));
        }
        let position = |number| pool.position(pool.get(Ticket(number)).unwrap());
        assert_eq!([1, 2, 3, 4, 5].map(position), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn who_is_put_back_has_its_old_place() {
        let mut pool = Pool::default();
        let everybody_is_there = |_: &Waiter| Presence::Connected;
        let any = Arc::new(Labels::new());
        for number in 1..=2 {
            pool.put_back(Arc::new(claim(number).into_waiter(at(0))), any.clone());
        }
        let taken = pool.take(&Configuration::default(), None, everybody_is_there).unwrap();
        assert_eq!(taken.ticket, Ticket(1));
        pool.put_back(taken, any);
        assert_eq!(pool.take(&Configuration::default(), None, everybody_is_there).unwrap().ticket, Ticket(1));
    }
}
