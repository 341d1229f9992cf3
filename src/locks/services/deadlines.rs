//! The deadline of each environment, in one ordered set. A deadline costs one entry; its environment need not be in
//! memory.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::Notify;

use ambient::backoff::{Backoff, Retries};
use domain::{EnvironmentKey, Tick};

/// The pauses before retrying an environment that could not be signalled or loaded because the store could not be read.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(20));

#[derive(Default)]
pub struct Deadlines {
    armed: Mutex<Armed>,
    /// Notified when the earliest deadline changes.
    moved: Notify,
}

#[derive(Default)]
struct Armed {
    in_order: BTreeSet<(Tick, EnvironmentKey)>,
    by_key: HashMap<EnvironmentKey, Tick, RandomState>,
    /// Kept per environment, so that a damaged one does not delay others.
    failing: HashMap<EnvironmentKey, Retries>,
}

impl Deadlines {
    /// Replaces the deadline of an environment.
    pub fn arm(&self, key: &EnvironmentKey, due: Option<Tick>) {
        let mut armed = self.armed.lock();
        let first = armed.first();
        let before = match due {
            Some(due) => armed.by_key.insert(key.clone(), due),
            None => armed.by_key.remove(key),
        };
        if let Some(before) = before {
            armed.in_order.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            armed.in_order.insert((due, key.clone()));
        }
        if armed.first() != first {
            self.moved.notify_one();
        }
    }

    /// Sets the deadline of an environment that could not be signalled or loaded, after a pause that grows until it has
    /// been loaded.
    pub fn arm_again(&self, key: &EnvironmentKey, now: Tick) {
        let new = || Retries::new(BACKOFF);
        let pause = self.armed.lock().failing.entry(key.clone()).or_insert_with(new).failed();
        self.arm(key, Some(now.after(pause)));
    }

    /// Resets the pause of an environment that was loaded or no longer exists.
    pub fn loaded(&self, key: &EnvironmentKey) {
        self.armed.lock().failing.remove(key);
    }

    /// Sets the deadline of an environment, unless it has an earlier one.
    pub fn arm_no_later(&self, key: &EnvironmentKey, due: Tick) {
        let armed = self.armed.lock().by_key.get(key).copied();
        if armed.is_none_or(|armed| due < armed) {
            self.arm(key, Some(due));
        }
    }

    /// Removes and returns deadlines that have passed, at most `at_most`.
    pub fn take_due(&self, now: Tick, at_most: usize) -> Vec<EnvironmentKey> {
        let mut armed = self.armed.lock();
        let mut due = Vec::new();
        while due.len() < at_most && armed.first().is_some_and(|first| first <= now) {
            let Some((_, key)) = armed.in_order.pop_first() else { break };
            armed.by_key.remove(&key);
            due.push(key);
        }
        due
    }

    /// Waits until the earliest deadline may have passed, or has changed; `tick` reads the clock.
    pub async fn next(&self, tick: impl Fn() -> Tick) {
        let moved = self.moved.notified();
        let first = self.armed.lock().first();
        match first {
            None => moved.await,
            Some(first) => {
                let millis = first.0.saturating_sub(tick().0).max(0);
                let left = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
                tokio::select! {
                    () = moved => {}
                    () = tokio::time::sleep(left) => {}
                }
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.armed.lock().by_key.len()
    }
}

impl Armed {
    fn first(&self) -> Option<Tick> {
        self.in_order.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{PipelineKey, samples};

    #[test]
    fn an_environment_that_cannot_be_loaded_delays_no_other() {
        let deadlines = Deadlines::default();
        let pipeline = PipelineKey { organization: samples::identifier("acme"), pipeline: samples::identifier("web") };
        let [damaged, other] = ["damaged", "other"]
            .map(|name| EnvironmentKey { pipeline: pipeline.clone(), name: samples::identifier(name) });
        for _ in 0..20 {
            deadlines.arm_again(&damaged, Tick(0));
        }
        deadlines.arm_again(&other, Tick(0));
        assert_eq!(deadlines.take_due(Tick(1_000), 10), [other]);
        deadlines.loaded(&damaged);
        deadlines.arm_again(&damaged, Tick(0));
        assert_eq!(deadlines.take_due(Tick(1_000), 10), [damaged]);
    }
}
