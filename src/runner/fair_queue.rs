//! The order in which jobs run: first come, first served within a pipeline, and the pipelines take turns, so that a
//! thousand jobs of one pipeline do not delay the single job of another.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Waiting jobs `J` by key `K`, and the number of free slots.
pub(super) struct FairQueue<K, J> {
    free: usize,
    waiting: HashMap<K, VecDeque<J>>,
    /// The keys with waiting jobs; the first one is next.
    round: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, J> FairQueue<K, J> {
    pub fn new(slots: usize) -> Self {
        Self { free: slots, waiting: HashMap::new(), round: VecDeque::new() }
    }

    pub fn push(&mut self, key: K, job: J) {
        let jobs = self.waiting.entry(key.clone()).or_default();
        if jobs.is_empty() {
            self.round.push_back(key);
        }
        jobs.push_back(job);
    }

    /// The next job, if a slot is free; it occupies the slot until [`FairQueue::free_slot`].
    pub fn next(&mut self) -> Option<J> {
        if self.free == 0 {
            return None;
        }
        let key = self.round.pop_front()?;
        let jobs = self.waiting.get_mut(&key)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.round.push_back(key);
        }
        self.free -= 1;
        Some(job)
    }

    pub fn free_slot(&mut self) {
        self.free += 1;
    }

    /// Removes one waiting job.
    pub fn withdraw(&mut self, key: &K, wanted: impl Fn(&J) -> bool) -> Option<J> {
        let jobs = self.waiting.get_mut(key)?;
        let index = jobs.iter().position(wanted)?;
        let job = jobs.remove(index);
        if jobs.is_empty() {
            self.waiting.remove(key);
            self.round.retain(|other| other != key);
        }
        job
    }

    pub fn clear(&mut self) {
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

    fn order(queue: &mut FairQueue<&'static str, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn pipelines_take_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::new(100);
        (0..5).for_each(|job| queue.push("busy", job));
        queue.push("quiet", 10);
        queue.push("third", 20);
        queue.push("third", 21);
        assert_eq!(order(&mut queue), [0, 10, 20, 1, 21, 2, 3, 4]);
    }

    #[test]
    fn a_late_pipeline_waits_for_at_most_one_job_of_each_other() {
        let mut queue = FairQueue::new(1);
        (0..1_000).for_each(|job| queue.push("busy", job));
        assert_eq!(queue.next(), Some(0));
        queue.push("quiet", 5_000);
        queue.free_slot();
        assert_eq!(queue.next(), Some(1));
        queue.free_slot();
        assert_eq!(queue.next(), Some(5_000));
    }

    #[test]
    fn no_more_jobs_run_than_there_are_slots() {
        let mut queue = FairQueue::new(2);
        (0..3).for_each(|job| queue.push("one", job));
        assert_eq!(order(&mut queue), [0, 1]);
        assert_eq!(queue.waiting(), 1);
        queue.free_slot();
        assert_eq!(order(&mut queue), [2]);
    }

    #[test]
    fn a_withdrawn_job_leaves_the_others_in_order() {
        let mut queue = FairQueue::new(9);
        (0..3).for_each(|job| queue.push("one", job));
        queue.push("two", 7);
        assert_eq!(queue.withdraw(&"one", |job| *job == 1), Some(1));
        assert_eq!(queue.withdraw(&"two", |job| *job == 7), Some(7));
        assert_eq!(queue.withdraw(&"two", |_| true), None);
        assert_eq!(order(&mut queue), [0, 2]);
    }
}
