//! The order in which jobs run: a slot goes to the organization with the fewest running jobs, and within it to its
//! pipelines in turn, each first come, first served. So a thousand jobs of one organization or pipeline do not delay
//! the single job of another.

use std::collections::{HashMap, VecDeque};

use domain::{Identifier, PipelineKey};
use shares::{Capacity, Turns};

/// Each environment has at most one job, so the queue needs no limit of its own.
const QUEUE: Capacity = Capacity::turns(usize::MAX).among(1);

/// Waiting jobs `J`, and the slots of running ones.
pub(super) struct FairQueue<J> {
    /// Decides which organization is next; the jobs are below.
    turns: Turns<()>,
    /// The pipelines with waiting jobs by organization; the first is next.
    organizations: HashMap<Identifier, VecDeque<(Identifier, VecDeque<J>)>>,
}

impl<J> FairQueue<J> {
    pub fn new(slots: Capacity) -> Self {
        Self { turns: Turns::new(slots, QUEUE), organizations: HashMap::new() }
    }

    pub fn push(&mut self, key: &PipelineKey, job: J) {
        self.turns.wait(&key.organization, ()).expect("the queue is not bounded");
        let pipelines = self.organizations.entry(key.organization.clone()).or_default();
        match pipelines.iter_mut().find(|(pipeline, _)| *pipeline == key.pipeline) {
            Some((_, jobs)) => jobs.push_back(job),
            None => pipelines.push_back((key.pipeline.clone(), VecDeque::from([job]))),
        }
    }

    /// The next job, if a slot is free for it; it occupies the slot until [`FairQueue::free_slot`].
    pub fn next_job(&mut self) -> Option<J> {
        let (organization, ()) = self.turns.next_turn()?;
        let pipelines = self.organizations.get_mut(&organization)?;
        let (pipeline, mut jobs) = pipelines.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            pipelines.push_back((pipeline, jobs));
        }
        self.drop_if_empty(&organization);
        job
    }

    /// A job of the organization has ended.
    pub fn free_slot(&mut self, organization: &Identifier) {
        self.turns.done(organization);
    }

    /// Removes one waiting job.
    pub fn withdraw(&mut self, key: &PipelineKey, wanted: impl Fn(&J) -> bool) -> Option<J> {
        let pipelines = self.organizations.get_mut(&key.organization)?;
        let at = pipelines.iter().position(|(pipeline, _)| *pipeline == key.pipeline)?;
        let (_, jobs) = &mut pipelines[at];
        let job = jobs.remove(jobs.iter().position(wanted)?);
        if jobs.is_empty() {
            pipelines.remove(at);
        }
        self.turns.withdraw(&key.organization, |()| true);
        self.drop_if_empty(&key.organization);
        job
    }

    pub fn clear(&mut self) {
        self.turns.clear();
        self.organizations.clear();
    }

    pub fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// The number of running jobs of the organization.
    pub fn running_of(&self, organization: &Identifier) -> usize {
        self.turns.used_by(organization)
    }

    fn drop_if_empty(&mut self, organization: &Identifier) {
        if self.organizations.get(organization).is_some_and(VecDeque::is_empty) {
            self.organizations.remove(organization);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(organization: &str, pipeline: &str) -> PipelineKey {
        let id = |text| Identifier::parse(text).unwrap();
        PipelineKey { organization: id(organization), pipeline: id(pipeline) }
    }

    fn acme(pipeline: &str) -> PipelineKey {
        key("acme", pipeline)
    }

    /// On a server with two organizations.
    fn shared(slots: usize) -> FairQueue<u32> {
        FairQueue::new(Capacity::turns(slots).among(2))
    }

    fn order(queue: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.next_job()).collect()
    }

    #[test]
    fn pipelines_take_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::new(Capacity::turns(100));
        (0..5).for_each(|job| queue.push(&acme("busy"), job));
        queue.push(&acme("quiet"), 10);
        queue.push(&acme("third"), 20);
        queue.push(&acme("third"), 21);
        assert_eq!(order(&mut queue), [0, 10, 20, 1, 21, 2, 3, 4]);
    }

    #[test]
    fn a_late_pipeline_waits_for_at_most_one_job_of_each_other() {
        let mut queue = FairQueue::new(Capacity::turns(1));
        (0..1_000).for_each(|job| queue.push(&acme("busy"), job));
        assert_eq!(queue.next_job(), Some(0));
        queue.push(&acme("quiet"), 5_000);
        queue.free_slot(&acme("busy").organization);
        assert_eq!(queue.next_job(), Some(1));
        queue.free_slot(&acme("busy").organization);
        assert_eq!(queue.next_job(), Some(5_000));
    }

    #[test]
    fn a_hundred_deployments_of_one_organization_do_not_delay_another() {
        let mut queue = shared(8);
        // With many pipelines, which round robin between pipelines alone would favour.
        (0..100).for_each(|job| queue.push(&acme(&format!("pipeline-{job}")), job));
        assert_eq!(order(&mut queue).len(), 7, "one slot is kept for others");
        queue.push(&key("beta", "web"), 5_000);
        assert_eq!(order(&mut queue), [5_000], "at once");
        (5_001..5_004).for_each(|job| queue.push(&key("beta", "web"), job));
        let mut freed = Vec::new();
        for _ in 0..6 {
            queue.free_slot(&acme("web").organization);
            freed.extend(order(&mut queue));
        }
        assert!(freed.starts_with(&[5_001, 5_002, 5_003]), "those with fewer come first: {freed:?}");
    }

    #[test]
    fn no_more_jobs_run_than_there_are_slots() {
        let mut queue = FairQueue::new(Capacity::turns(2).among(1));
        (0..3).for_each(|job| queue.push(&acme("one"), job));
        assert_eq!(order(&mut queue), [0, 1]);
        assert_eq!((queue.waiting(), queue.running_of(&acme("one").organization)), (1, 2));
        queue.free_slot(&acme("one").organization);
        assert_eq!(order(&mut queue), [2]);
    }

    #[test]
    fn a_withdrawn_job_leaves_the_others_in_order() {
        let mut queue = FairQueue::new(Capacity::turns(9).among(1));
        (0..3).for_each(|job| queue.push(&acme("one"), job));
        queue.push(&acme("two"), 7);
        assert_eq!(queue.withdraw(&acme("one"), |job| *job == 1), Some(1));
        assert_eq!(queue.withdraw(&acme("two"), |job| *job == 7), Some(7));
        assert_eq!(queue.withdraw(&acme("two"), |_| true), None);
        assert_eq!(order(&mut queue), [0, 2]);
    }
}
