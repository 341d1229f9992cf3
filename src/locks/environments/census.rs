//! Counts environments, and finds what has been going on longest: for operators.

use std::ops::ControlFlow;

use super::Environments;
use domain::{Environment, LockStatus, PipelineKey, Timestamp};
use store::StoreError;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// In the order of `LockStatus::ALL`.
    by_status: [u64; LockStatus::ALL.len()],
    /// Since when the oldest lock is held.
    pub oldest_lock: Option<Timestamp>,
    /// Since when the oldest claim waits, for an environment by name or for any.
    pub oldest_waiter: Option<Timestamp>,
}

impl Census {
    pub fn by_status(&self) -> impl Iterator<Item = (LockStatus, u64)> {
        LockStatus::ALL.into_iter().zip(self.by_status)
    }

    fn add(&mut self, environment: &Environment) {
        self.by_status[environment.lock_status() as usize] += 1;
        let held = environment.lock.as_ref().and_then(|session| session.claimed.as_ref()).map(|claimed| claimed.at);
        let waiting = environment.queue.iter().map(|waiter| waiter.session.created_at).min();
        self.oldest_lock = earlier(self.oldest_lock, held);
        self.oldest_waiter = earlier(self.oldest_waiter, waiting);
    }
}

impl Environments {
    /// Adds all environments of these pipelines. Reads all of them.
    pub fn add_to_census(
        &self,
        pipelines: impl IntoIterator<Item = PipelineKey>,
        census: &mut Census,
    ) -> Result<(), StoreError> {
        for pipeline in pipelines {
            self.each_environment(&pipeline, None, |_, environment| {
                census.add(&environment);
                ControlFlow::Continue(())
            })?;
        }
        for pool in self.directory.pools.active() {
            census.oldest_waiter = earlier(census.oldest_waiter, pool.oldest());
        }
        Ok(())
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
