//! The order of waiters: organizations take turns, regardless of the length of their queues.
//!
//! A free place goes to the organization with the fewest places, then to the one that has waited longest for its turn;
//! within an organization, in order of arrival. So a waiting organization without places is served after at most one
//! place for each other waiting organization.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::capacity::{Capacity, ShareError};
use domain::Identifier;

/// Holders and waiters (`T`) by organization. Pure: the caller has the lock, and calls [`Turns::next`] after each
/// change until it returns `None`.
#[derive(Debug)]
pub struct Turns<T> {
    places: Capacity,
    queue: Capacity,
    used: usize,
    waiting: usize,
    organizations: HashMap<Identifier, Standing<T>>,
    /// The organizations with waiters: how many places each has, and since when it has waited for another one.
    order: BTreeMap<(usize, u64), Identifier>,
    /// Rises with every event, so that no two organizations have waited since the same moment.
    moment: u64,
}

/// The state of an organization, removed when it has neither places nor waiters.
#[derive(Debug)]
struct Standing<T> {
    own: usize,
    since: u64,
    /// Holders that gave their place to another organization; they come before the organization's other waiters.
    paused: VecDeque<T>,
    waiting: VecDeque<T>,
}

impl<T> Turns<T> {
    /// `places` limits the concurrent holders, `queue` the waiters.
    pub fn new(places: Capacity, queue: Capacity) -> Self {
        let (organizations, order) = (HashMap::new(), BTreeMap::new());
        Self { places, queue, used: 0, waiting: 0, organizations, order, moment: 0 }
    }

    /// Adds a waiter for a place; refused if too many wait already.
    pub fn wait(&mut self, organization: &Identifier, waiter: T) -> Result<(), ShareError> {
        let own = self.organizations.get(organization).map_or(0, |standing| standing.waiting.len());
        self.queue.check(own, self.waiting)?;
        self.change(organization, |standing| standing.waiting.push_back(waiter));
        self.waiting += 1;
        Ok(())
    }

    /// Gives a free place to the next waiter. Its organization has it until [`Turns::done`].
    pub fn next_turn(&mut self) -> Option<(Identifier, T)> {
        let ((own, _), organization) = self.order.first_key_value()?;
        // If the organization with the fewest places may not have another one, none may.
        self.places.check(*own, self.used).ok()?;
        let organization = organization.clone();
        let mut paused = false;
        let waiter = self.change(&organization, |standing| {
            paused = !standing.paused.is_empty();
            let waiter = standing.paused.pop_front().or_else(|| standing.waiting.pop_front())?;
            standing.own += 1;
            Some(waiter)
        })?;
        self.used += 1;
        self.waiting -= usize::from(!paused);
        Some((organization, waiter))
    }

    /// The number of places that the organization may have now, and the number it has: for the share of a member.
    pub fn share_of(&self, organization: &Identifier) -> (usize, usize) {
        let own = self.used_by(organization);
        (self.places.most_beside(self.used - own), own)
    }

    /// Like [`Turns::share_of`], for places in the queue.
    pub fn queue_of(&self, organization: &Identifier) -> (usize, usize) {
        let own = self.organizations.get(organization).map_or(0, |standing| standing.waiting.len());
        (self.queue.most_beside(self.waiting - own), own)
    }

    /// Takes a place immediately, without waiting.
    pub fn take(&mut self, organization: &Identifier) -> Result<(), ShareError> {
        self.places.check(self.used_by(organization), self.used)?;
        self.change(organization, |standing| standing.own += 1);
        self.used += 1;
        Ok(())
    }

    /// Returns a place of the organization.
    pub fn done(&mut self, organization: &Identifier) {
        if self.used_by(organization) > 0 {
            self.change(organization, |standing| standing.own -= 1);
            self.used -= 1;
        }
    }

    /// Whether another organization would get the place if this one returned it.
    pub fn should_give_way(&self, organization: &Identifier) -> bool {
        let Some(((own, _), first)) = self.order.first_key_value() else { return false };
        let is_behind = first != organization && *own < self.used_by(organization);
        is_behind && self.places.check(*own, self.used - 1).is_ok()
    }

    /// After [`Turns::should_give_way`]: returns a place of the organization, and waits for another one ahead of its
    /// own queue.
    pub fn give_way(&mut self, organization: &Identifier, waiter: T) {
        self.change(organization, |standing| {
            standing.own -= 1;
            standing.paused.push_back(waiter);
        });
        self.used -= 1;
    }

    /// Removes one waiter.
    pub fn withdraw(&mut self, organization: &Identifier, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let index = self.organizations.get(organization)?.waiting.iter().position(wanted)?;
        let waiter = self.change(organization, |standing| standing.waiting.remove(index))?;
        self.waiting -= 1;
        Some(waiter)
    }

    /// Removes all waiters; holders keep their places.
    pub fn clear(&mut self) {
        self.organizations.retain(|_, standing| {
            standing.paused.clear();
            standing.waiting.clear();
            standing.own > 0
        });
        self.order.clear();
        self.waiting = 0;
    }

    /// The number of taken places.
    pub fn used(&self) -> usize {
        self.used
    }

    pub fn used_by(&self, organization: &Identifier) -> usize {
        self.organizations.get(organization).map_or(0, |standing| standing.own)
    }

    /// The number of waiters for a first place.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Changes the state of an organization, and its position in the order.
    fn change<R>(&mut self, organization: &Identifier, change: impl FnOnce(&mut Standing<T>) -> R) -> R {
        let mut standing = self.organizations.remove(organization).unwrap_or_else(Standing::new);
        self.order.remove(&standing.turn());
        let (own, waited) = (standing.own, standing.waits());
        let changed = change(&mut standing);
        // The wait for another place begins when the organization got or returned one, or when its queue was empty. If
        // it began earlier, an organization that comes and goes would always be first.
        if standing.own != own || !waited {
            self.moment += 1;
            standing.since = self.moment;
        }
        if standing.waits() {
            self.order.insert(standing.turn(), organization.clone());
        }
        if standing.own > 0 || standing.waits() {
            self.organizations.insert(organization.clone(), standing);
        }
        changed
    }
}

impl<T> Standing<T> {
    fn new() -> Self {
        Self { own: 0, since: 0, paused: VecDeque::new(), waiting: VecDeque::new() }
    }

    fn waits(&self) -> bool {
        !(self.paused.is_empty() && self.waiting.is_empty())
    }

    fn turn(&self) -> (usize, u64) {
        (self.own, self.since)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn organization(number: usize) -> Identifier {
        Identifier::parse(&format!("org-{number}")).unwrap()
    }

    /// An unlimited queue: no waiter is refused.
    fn turns(places: usize) -> Turns<u32> {
        Turns::new(Capacity::turns(places), Capacity::turns(usize::MAX))
    }

    /// Gives out all free places. Returns the organization and the number of each served waiter.
    fn served(turns: &mut Turns<u32>) -> Vec<(String, u32)> {
        let next = || turns.next_turn().map(|(organization, waiter)| (organization.to_string(), waiter));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_free_place_goes_to_the_organization_with_the_fewest_and_not_to_the_longest_queue() {
        let (busy, quiet) = (organization(0), organization(1));
        let mut turns = turns(4);
        (0..1_000).for_each(|waiter| turns.wait(&busy, waiter).unwrap());
        assert_eq!(served(&mut turns).len(), 3, "one place is kept for others");
        turns.wait(&quiet, 7).unwrap();
        assert_eq!(served(&mut turns), [("org-1".to_owned(), 7)], "at once");
        turns.wait(&quiet, 8).unwrap();
        assert_eq!(served(&mut turns), [], "all are taken");
        turns.done(&busy);
        assert_eq!(served(&mut turns), [], "the last place is for an organization that has none");
        turns.done(&busy);
        assert_eq!(served(&mut turns), [("org-1".to_owned(), 8)]);
    }

    #[test]
    fn organizations_with_as_many_places_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new(Capacity::turns(1), Capacity::turns(usize::MAX));
        for (number, waiters) in [(0, 0..3), (1, 10..12), (2, 20..21)] {
            waiters.for_each(|waiter| turns.wait(&organization(number), waiter).unwrap());
        }
        let mut order = Vec::new();
        while let Some((organization, waiter)) = turns.next_turn() {
            order.push(waiter);
            turns.done(&organization);
        }
        assert_eq!(order, [0, 10, 20, 1, 11, 2]);
    }

    #[test]
    fn an_organization_that_comes_and_goes_does_not_overtake_one_that_waits() {
        let (waits, first, second) = (organization(0), organization(1), organization(2));
        let mut turns = turns(1);
        turns.wait(&first, 1).unwrap();
        assert_eq!(served(&mut turns).len(), 1);
        turns.wait(&waits, 2).unwrap();
        turns.wait(&second, 3).unwrap();
        turns.done(&first);
        assert_eq!(served(&mut turns), [("org-0".to_owned(), 2)]);
    }

    #[test]
    fn who_gives_way_goes_on_before_its_own_organization_and_after_the_other() {
        let (long, short) = (organization(0), organization(1));
        let mut turns = turns(1);
        turns.wait(&long, 1).unwrap();
        turns.wait(&long, 2).unwrap();
        assert_eq!(served(&mut turns), [("org-0".to_owned(), 1)]);
        assert!(!turns.should_give_way(&long), "not to its own queue");
        turns.wait(&short, 7).unwrap();
        assert!(turns.should_give_way(&long));
        turns.give_way(&long, 1);
        assert_eq!(served(&mut turns), [("org-1".to_owned(), 7)]);
        assert!(turns.should_give_way(&short), "and the other way round");
        turns.done(&short);
        assert_eq!(served(&mut turns), [("org-0".to_owned(), 1)]);
        assert_eq!(turns.waiting(), 1);
    }

    #[test]
    fn the_queue_has_a_share_for_each_organization_too() {
        let mut turns = Turns::new(Capacity::turns(1), Capacity::turns(4));
        (0..3).for_each(|waiter| turns.wait(&organization(0), waiter).unwrap());
        assert_eq!(turns.wait(&organization(0), 3), Err(ShareError::Share { own: 3 }));
        assert_eq!(turns.wait(&organization(1), 4), Ok(()));
        assert_eq!(turns.wait(&organization(2), 5), Err(ShareError::Full { total: 4 }));
    }

    #[test]
    fn a_withdrawn_waiter_leaves_the_others_in_order_and_an_idle_organization_no_trace() {
        let mut turns = turns(1);
        let one = organization(0);
        (0..3).for_each(|waiter| turns.wait(&one, waiter).unwrap());
        assert_eq!(turns.withdraw(&one, |waiter| *waiter == 1), Some(1));
        assert_eq!(turns.withdraw(&one, |waiter| *waiter == 1), None);
        assert_eq!(turns.next_turn().map(|(_, waiter)| waiter), Some(0));
        turns.done(&one);
        assert_eq!(turns.next_turn().map(|(_, waiter)| waiter), Some(2));
        turns.done(&one);
        turns.done(&one);
        assert!(turns.organizations.is_empty() && turns.order.is_empty());
        assert_eq!((turns.used(), turns.waiting()), (0, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Wait(usize),
        Take(usize),
        /// Returns any one of the places.
        Done(usize),
        GiveWay(usize),
        Withdraw(usize, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..5_usize).prop_map(Step::Wait),
            1 => (0..5_usize).prop_map(Step::Take),
            3 => any::<usize>().prop_map(Step::Done),
            1 => any::<usize>().prop_map(Step::GiveWay),
            1 => (0..5_usize, 0..200_u32).prop_map(|(organization, waiter)| Step::Withdraw(organization, waiter)),
        ]
    }

    proptest! {
        /// For any sequence of events: the limits hold, every waiter is served or withdrawn, an organization without a
        /// place is served after at most one turn of each other organization, and nothing is left.
        #[test]
        fn the_bounds_hold_and_nobody_starves(
            places in 1..9_usize,
            queue in 1..40_usize,
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let (places, queue) = (Capacity::turns(places), Capacity::turns(queue));
            let mut turns = Turns::new(places, queue);
            let mut holders: Vec<Identifier> = Vec::new();
            let mut admitted = 0_usize;
            let mut ended = 0_usize;
            // For each organization without a place: how many turns of others it has seen since it began to wait.
            let mut passed: HashMap<Identifier, usize> = HashMap::new();
            for (number, step) in (0_u32..).zip(steps) {
                match step {
                    Step::Wait(of) => admitted += usize::from(turns.wait(&organization(of), number).is_ok()),
                    Step::Take(of) => {
                        if turns.take(&organization(of)).is_ok() {
                            holders.push(organization(of));
                            admitted += 1;
                        }
                    }
                    Step::Done(which) if !holders.is_empty() => {
                        turns.done(&holders.swap_remove(which % holders.len()));
                        ended += 1;
                    }
                    Step::GiveWay(which) if !holders.is_empty() => {
                        let which = which % holders.len();
                        if turns.should_give_way(&holders[which]) {
                            let holder = holders.swap_remove(which);
                            turns.give_way(&holder, number);
                            let next = turns.next_turn();
                            prop_assert!(next.as_ref().is_some_and(|(other, _)| *other != holder), "gave way for nothing");
                            holders.extend(next.map(|(other, _)| other));
                        }
                    }
                    Step::Done(_) | Step::GiveWay(_) => {}
                    Step::Withdraw(of, waiter) => {
                        ended += usize::from(turns.withdraw(&organization(of), |known| *known == waiter).is_some());
                    }
                }
                let waits = |turns: &Turns<u32>, of: &Identifier| {
                    turns.organizations.get(of).is_some_and(|standing| standing.own == 0 && standing.waits())
                };
                passed.retain(|of, _| waits(&turns, of));
                for of in (0..5).map(organization).filter(|of| waits(&turns, of)) {
                    passed.entry(of).or_insert(0);
                }
                while let Some((next, _)) = turns.next_turn() {
                    passed.remove(&next);
                    for (of, count) in &mut passed {
                        *count += 1;
                        prop_assert!(*count < 5, "{of} starves");
                    }
                    holders.push(next);
                }
                prop_assert_eq!(turns.used(), holders.len());
                prop_assert!(turns.used() <= places.total && turns.waiting() <= queue.total);
                for of in (0..5).map(organization) {
                    let own = holders.iter().filter(|holder| **holder == of).count();
                    prop_assert_eq!(turns.used_by(&of), own);
                    prop_assert!(own <= places.most());
                }
                if turns.used() < places.total {
                    prop_assert!(!turns.organizations.values().any(|standing| standing.own == 0), "a place, and a waiter");
                }
            }
            // If all places are returned, in any order, all waiters are served.
            while let Some(holder) = holders.pop() {
                turns.done(&holder);
                ended += 1;
                holders.extend(std::iter::from_fn(|| turns.next_turn()).map(|(next, _)| next));
            }
            prop_assert_eq!(ended, admitted);
            prop_assert!(turns.organizations.is_empty() && turns.order.is_empty() && turns.waiting() == 0);
        }
    }
}
