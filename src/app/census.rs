//! Shows operators what their environments do: how many there are in each state, and what has been going on longest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::actors::Census;
use crate::domain::{Identifier, LockStatus, Timestamp};
use crate::http::Realm;
use crate::store::StoreError;

/// How often the gauges are updated.
const EVERY: Duration = Duration::from_secs(5);
/// All environments are read again after so many times as long as that took: a hundredth of a core, however many there are.
const PAUSE_FACTOR: u32 = 100;

/// Runs until it is aborted.
pub async fn run(realm: Arc<Realm>, organizations: Vec<Identifier>) {
    let gauges = Gauges::new();
    let mut durable = realm.events.durable();
    let mut census = Census::default();
    // Nothing has been read yet, or the last reading failed.
    let mut missing = true;
    let mut next = Instant::now();
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        // Readers see only durable changes.
        if (missing || durable.has_changed().unwrap_or(false)) && next <= Instant::now() {
            durable.mark_unchanged();
            let began = Instant::now();
            match read(&realm, &organizations).await {
                Ok(found) => (census, missing) = (found, false),
                Err(error) => {
                    if !missing {
                        tracing::warn!(%error, "cannot count the environments; trying again until it works");
                    }
                    missing = true;
                }
            }
            next = Instant::now() + began.elapsed() * PAUSE_FACTOR;
        }
        gauges.show(&census, (realm.clock)());
    }
}

/// On a thread that may wait for the disk.
async fn read(realm: &Arc<Realm>, organizations: &[Identifier]) -> Result<Census, StoreError> {
    let pipelines: Vec<_> = organizations.iter().flat_map(|organization| realm.pipelines.list(organization)).collect();
    let realm = realm.clone();
    let read = move || realm.environments.census(pipelines.iter().map(|pipeline| pipeline.key.clone()));
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
