//! Whose turn it is to run: first come, first served within a pipeline, and the pipelines take turns, so that one with a
//! thousand jobs does not keep another's single one waiting.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Jobs `J` that wait, by what they belong to, and the places that are free.
pub(super) struct Turns<K, J> {
    free: usize,
    waiting: HashMap<K, VecDeque<J>>,
    /// Those who have somebody waiting; the first is next.
    round: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, J> Turns<K, J> {
    pub fn new(places: usize) -> Self {
        Self { free: places, waiting: HashMap::new(), round: VecDeque::new() }
    }

    pub fn join(&mut self, key: K, job: J) {
        let line = self.waiting.entry(key.clone()).or_default();
        if line.is_empty() {
            self.round.push_back(key);
        }
        line.push_back(job);
    }

    /// The next, if there is a place; it has the place until [`Turns::leave`].
    pub fn next(&mut self) -> Option<J> {
        if self.free == 0 {
            return None;
        }
        let key = self.round.pop_front()?;
        let line = self.waiting.get_mut(&key)?;
        let job = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.round.push_back(key);
        }
        self.free -= 1;
        Some(job)
    }

    pub fn leave(&mut self) {
        self.free += 1;
    }

    /// Takes one out of its line.
    pub fn withdraw(&mut self, key: &K, wanted: impl Fn(&J) -> bool) -> Option<J> {
        let line = self.waiting.get_mut(key)?;
        let place = line.iter().position(wanted)?;
        let job = line.remove(place);
        if line.is_empty() {
            self.waiting.remove(key);
            self.round.retain(|other| other != key);
        }
        job
    }

    pub fn withdraw_all(&mut self) {
        self.waiting.clear();
        self.round.clear();
    }

    pub fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &mut Turns<&'static str, u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn pipelines_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new(100);
        (0..5).for_each(|job| turns.join("busy", job));
        turns.join("quiet", 10);
        turns.join("third", 20);
        turns.join("third", 21);
        assert_eq!(order(&mut turns), [0, 10, 20, 1, 21, 2, 3, 4]);
    }

    #[test]
    fn who_comes_late_is_next_but_for_those_whose_turn_is_due() {
        let mut turns = Turns::new(1);
        (0..1_000).for_each(|job| turns.join("busy", job));
        assert_eq!(turns.next(), Some(0));
        turns.join("quiet", 5_000);
        turns.leave();
        assert_eq!(turns.next(), Some(1));
        turns.leave();
        assert_eq!(turns.next(), Some(5_000));
    }

    #[test]
    fn no_more_run_than_there_are_places() {
        let mut turns = Turns::new(2);
        (0..3).for_each(|job| turns.join("one", job));
        assert_eq!(order(&mut turns), [0, 1]);
        assert_eq!(turns.waiting(), 1);
        turns.leave();
        assert_eq!(order(&mut turns), [2]);
    }

    #[test]
    fn who_withdraws_leaves_the_others_in_order() {
        let mut turns = Turns::new(9);
        (0..3).for_each(|job| turns.join("one", job));
        turns.join("two", 7);
        assert_eq!(turns.withdraw(&"one", |job| *job == 1), Some(1));
        assert_eq!(turns.withdraw(&"two", |job| *job == 7), Some(7));
        assert_eq!(turns.withdraw(&"two", |_| true), None);
        assert_eq!(order(&mut turns), [0, 2]);
    }
}
