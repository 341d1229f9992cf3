//! Shows operators what their environments do: how many there are in each state, and what has been going on longest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::opening::{RealmsHere, wall_clock};
use crate::http::Realm;
use domain::{Identifier, LockStatus, Timestamp};
use locks::Census;
use store::{Sequence, StoreError};

/// How often the gauges are updated.
const EVERY: Duration = Duration::from_secs(5);
/// All environments are read again after so many times as long as that took: a hundredth of a core, however many there are.
const PAUSE_FACTOR: u32 = 100;

/// Runs until it is aborted.
pub async fn run(realms: RealmsHere, organizations: Vec<Identifier>) {
    let gauges = Gauges::new();
    let mut census = Census::default();
    // As of the last census; none if there was none, or it failed.
    let mut counted: Option<Vec<Sequence>> = None;
    let mut fails = false;
    let mut next = Instant::now();
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let here = realms();
        // Readers see only durable changes.
        let durable: Vec<_> = here.iter().map(|realm| *realm.store.durable().borrow()).collect();
        if counted.as_ref() != Some(&durable) && next <= Instant::now() {
            let began = Instant::now();
            match read(here, &organizations).await {
                Ok(found) => (census, counted, fails) = (found, Some(durable), false),
                Err(error) => {
                    if !fails {
                        tracing::warn!(%error, "cannot count the environments; trying again until it works");
                    }
                    (counted, fails) = (None, true);
                }
            }
            next = Instant::now() + began.elapsed() * PAUSE_FACTOR;
        }
        gauges.show(&census, wall_clock()());
    }
}

/// On a thread that may wait for the disk.
async fn read(realms: Vec<Arc<Realm>>, organizations: &[Identifier]) -> Result<Census, StoreError> {
    let pipelines = |realm: Arc<Realm>| {
        let keys = organizations.iter().flat_map(|organization| realm.pipelines.list(organization));
        let keys: Vec<_> = keys.map(|pipeline| pipeline.key.clone()).collect();
        (realm, keys)
    };
    let all: Vec<_> = realms.into_iter().map(pipelines).collect();
    let read = move || {
        let mut census = Census::default();
        all.into_iter().try_for_each(|(realm, pipelines)| realm.environments.add_to_census(pipelines, &mut census))?;
        Ok(census)
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(StoreError::Read(error.to_string())))
}

struct Gauges {
    by_status: Vec<metrics::Gauge>,
    oldest_lock: metrics::Gauge,
    oldest_waiter: metrics::Gauge,
}

impl Gauges {
    fn new() -> Self {
        let by_status =
            LockStatus::ALL.map(|status| metrics::gauge!("lockkeeper_environments", "status" => status.as_str()));
        Self {
            by_status: by_status.into(),
            oldest_lock: metrics::gauge!("lockkeeper_oldest_lock_age_seconds"),
            oldest_waiter: metrics::gauge!("lockkeeper_oldest_waiter_age_seconds"),
        }
    }

    fn show(&self, census: &Census, now: Timestamp) {
        for (gauge, (_, count)) in self.by_status.iter().zip(census.by_status()) {
            gauge.set(count as f64);
        }
        let age = |since: Option<Timestamp>| since.map_or(0.0, |since| now.since(since).as_secs_f64());
        self.oldest_lock.set(age(census.oldest_lock));
        self.oldest_waiter.set(age(census.oldest_waiter));
    }
}
